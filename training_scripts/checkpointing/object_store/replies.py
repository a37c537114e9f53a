"""What S3 answers, read out of its XML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote
from xml.etree import ElementTree


@dataclass(frozen=True)
class Refusal:
    """Why S3 did not do something, in its own words."""

    code: str
    message: str

    def __str__(self) -> str:
        return f"{self.code} ({self.message})" if self.message else self.code or "without a reason"


@dataclass(frozen=True)
class Listed:
    """An object in a listing; `modified` is by the service's clock."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Upload:
    """A multipart upload that was begun and neither completed nor ended."""

    key: str
    id: str


def read_refusal(status: int, body: bytes) -> Refusal | None:
    """None where it was done. A copy and the completion of an upload may fail after a status of 200 was sent."""
    if status < 300 and b"<Error>" not in body[:512]:
        return None
    try:
        root = parse(body)
    except ValueError:
        return Refusal("", "")
    return Refusal(text(root, "Code"), text(root, "Message"))


def read_listing(body: bytes) -> tuple[list[Listed], str]:
    """The objects of a page, and the token of the next page, empty after the last."""
    root = parse(body)
    listed = [
        Listed(
            unquote(text(entry, "Key")),
            int(text(entry, "Size")),
            datetime.fromisoformat(text(entry, "LastModified").replace("Z", "+00:00")),
        )
        for entry in _all(root, "Contents")
    ]
    return listed, text(root, "NextContinuationToken")


def read_uploads(body: bytes) -> tuple[list[Upload], dict[str, str]]:
    """The uploads of a page, and the query of the next page, empty after the last."""
    root = parse(body)
    uploads = [Upload(unquote(text(entry, "Key")), text(entry, "UploadId")) for entry in _all(root, "Upload")]
    if text(root, "IsTruncated") != "true":
        return uploads, {}
    markers = {"key-marker": unquote(text(root, "NextKeyMarker")), "upload-id-marker": text(root, "NextUploadIdMarker")}
    return uploads, markers


def parse(body: bytes) -> ElementTree.Element:
    """An XML document without its namespaces.

    Raises:
        ValueError: it is none, or one with declarations of its own, which no answer of S3 has.
    """
    if b"<!" in body:
        raise ValueError("an answer with declarations in it")
    try:
        root = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise ValueError(f"an answer that is no XML: {error}") from None
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def text(root: ElementTree.Element, tag: str) -> str:
    """What the first element of that name says; empty without one."""
    return next((element.text or "" for element in root.iter(tag)), "")


def _all(root: ElementTree.Element, tag: str) -> Iterable[ElementTree.Element]:
    return root.iterfind(tag)
