"""Objects in S3: what checkpoints need and boto3 does not do by itself.

* Conditional writes with a lost answer: every write carries a random mark of its own in the object's metadata. A
  repeated request may be refused because the first one was carried out; the mark shows that.
* Parts that are sent at the same time from the memory where they lie, and fetched straight into a buffer.
* The end of uploads that will never be completed.

(boto3's own transfers copy what they send, and take their upload's lost completion for a failure.)
"""

from __future__ import annotations

import base64
import io
import os
import secrets
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any

from drivetrain.aws.s3 import (
    CONNECTIONS,
    Client,
    NotThereError,
    Patience,
    ServiceError,
)
from drivetrain.training.checkpointing.store.manifest import DamagedError

PART = 16 << 20
_MOST_PARTS = 9_000  # 10,000 are allowed
_LARGEST_COPY = 5 << 30  # in one request
_MARK = "drivetrain-write"
_CONDITION_FAILED = 412


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


class Objects:
    """The objects of one bucket. Threads may share it; each process opens its own."""

    def __init__(self, bucket: str, *, patience: Patience | None = None, part: int = PART) -> None:
        self.client = Client(bucket, patience)
        self.bucket = bucket
        self.part = part

    def put(self, key: str, data: memoryview | bytes, *, condition: Mapping[str, str] | None = None) -> str:
        """Write an object in one request; gives its entity tag.

        Args:
            condition: {"IfNoneMatch": "*"} where there must be none, {"IfMatch": tag} where it must be that one.

        Raises:
            FileExistsError: the condition does not hold, and the object is not what this call has written.
        """
        mark = secrets.token_hex(16)
        body = {"Body": _Memory(memoryview(data)), "ChecksumCRC32": _encoded(zlib.crc32(data))}
        try:
            answer = self.client.call(
                "put_object", "write", Key=key, Metadata={_MARK: mark}, **body, **(condition or {})
            )
        except ServiceError as error:
            if isinstance(error, NotThereError) and condition:  # IfMatch, and nothing is there
                raise FileExistsError(f"s3://{self.bucket}/{key} is not there any more") from error
            if error.status != _CONDITION_FAILED:
                raise
            if tag := self._tag_of(key, mark):
                return tag
            raise FileExistsError(f"s3://{self.bucket}/{key} was written by another process") from error
        return answer["ETag"]

    def upload(self, key: str, data: memoryview) -> int:
        """Write an object of any size, its parts at the same time and from where they lie; gives its CRC-32."""
        view = data.cast("B")
        if len(view) <= self.part:
            self.put(key, view)
            return zlib.crc32(view)

        def send(id: str, number: int, start: int, end: int) -> dict[str, str]:
            piece = view[start:end]
            given = {"Key": key, "UploadId": id, "PartNumber": number, "ChecksumCRC32": _encoded(zlib.crc32(piece))}
            answer = self.client.call("upload_part", f"take part {number} of", **given, Body=_Memory(piece))
            return {"ETag": answer["ETag"], "ChecksumCRC32": given["ChecksumCRC32"]}

        return self._in_parts(key, len(view), send, lambda: zlib.crc32(view), {"ChecksumAlgorithm": "CRC32"})

    def get(self, key: str) -> tuple[bytes, str]:
        """A small object whole, with its entity tag."""
        content, tag = self.client.fetch(key)
        return bytes(content), tag

    def look(self, key: str) -> tuple[int, str]:
        """Size and entity tag."""
        answer = self.client.call("head_object", "read", Key=key)
        return answer["ContentLength"], answer["ETag"]

    def get_into(self, key: str, buffer: memoryview, *, start: int = 0, tag: str) -> int:
        """Fill the buffer with the bytes from `start` on, in parts at the same time; gives the CRC-32 of them.

        Raises:
            DamagedError: the object is not the one with that tag any more.
        """
        view = buffer.cast("B")

        def fetch(first: int) -> memoryview:
            piece = view[first : first + self.part]
            asked = f"bytes={start + first}-{start + first + len(piece) - 1}"
            return self.client.fetch(key, piece, Range=asked, IfMatch=tag)[0]

        checksum = 0
        try:
            with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="s3") as pool:
                for piece in pool.map(fetch, range(0, len(view), self.part)):
                    checksum = zlib.crc32(piece, checksum)
        except ServiceError as error:
            if error.status != _CONDITION_FAILED:
                raise
            raise DamagedError(
                f"s3://{self.bucket}/{key} was replaced while it was read", file=key, expected=tag, found="another one"
            ) from error
        return checksum

    def list(self, prefix: str) -> tuple[list[Listed], datetime]:
        """All objects with that prefix, and the time by the service's clock."""
        pages = list(self.client.pages(prefix))
        entries = (entry for page in pages for entry in page.get("Contents", ()))
        now = parsedate_to_datetime(pages[-1]["ResponseMetadata"]["HTTPHeaders"]["date"])
        return [Listed(entry["Key"], entry["Size"], entry["LastModified"]) for entry in entries], now

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        self.client.delete(key)

    def copy(self, key: str, size: int, to: str) -> None:
        """Copy an object within the service."""
        source = {"CopySource": {"Bucket": self.bucket, "Key": key}}
        if size <= _LARGEST_COPY:
            self.client.call("copy_object", f"copy {key} to", Key=to, **source)
            return

        def send(id: str, number: int, start: int, end: int) -> dict[str, str]:
            given = {"Key": to, "UploadId": id, "PartNumber": number, "CopySourceRange": f"bytes={start}-{end - 1}"}
            answer = self.client.call("upload_part_copy", f"copy part {number} to", **given, **source)
            return {"ETag": answer["CopyPartResult"]["ETag"]}

        self._in_parts(to, size, send, lambda: 0, {})

    def uploads(self, prefix: str) -> list[Upload]:
        """The multipart uploads that were begun and not completed."""
        uploads: list[Upload] = []
        more: dict[str, str] = {}
        while True:
            page = self.client.call("list_multipart_uploads", "list uploads to", Prefix=prefix, **more)
            uploads += [Upload(one["Key"], one["UploadId"]) for one in page.get("Uploads", ())]
            if not page.get("IsTruncated"):
                return uploads
            more = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}

    def begin(self, key: str, mark: str, **given: str) -> tuple[Upload, bool]:
        """Begin a multipart upload; and whether it was asked for more than once, so that there may be two."""
        answer = self.client.call("create_multipart_upload", "begin", Key=key, Metadata={_MARK: mark}, **given)
        return Upload(key, answer["UploadId"]), answer["ResponseMetadata"]["RetryAttempts"] > 0

    def end(self, upload: Upload) -> None:
        """End a multipart upload and free what it holds; one that is not there is fine."""
        try:
            self.client.call("abort_multipart_upload", "end an upload to", Key=upload.key, UploadId=upload.id)
        except FileNotFoundError:
            return

    def _in_parts(
        self,
        key: str,
        size: int,
        send: Callable[[str, int, int, int], dict[str, str]],
        meanwhile: Callable[[], int],
        given: Mapping[str, str],
    ) -> int:
        """Send an object in parts; gives what `meanwhile` gives, which is called while they are under way."""
        mark = secrets.token_hex(16)
        begun, again = self.begin(key, mark, **given)
        length = max(self.part, -(-size // _MOST_PARTS))
        try:
            if again:  # nobody has been told the id of the other one
                for upload in self.uploads(key):
                    if upload.key == key and upload.id != begun.id:
                        self.end(upload)
            with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="s3") as pool:
                try:
                    futures = [
                        pool.submit(send, begun.id, number, start, min(start + length, size))
                        for number, start in enumerate(range(0, size, length), 1)
                    ]
                    result = meanwhile()
                    parts = [{"PartNumber": number, **future.result()} for number, future in enumerate(futures, 1)]
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
            try:
                sent = {"Parts": parts}
                self.client.call(
                    "complete_multipart_upload", "complete", Key=key, UploadId=begun.id, MultipartUpload=sent
                )
            except NotThereError:  # completed by a request whose answer was lost?
                if not self._tag_of(key, mark):
                    raise
        except BaseException as error:
            self._give_up(begun, error)
            raise
        return result

    def _give_up(self, upload: Upload, why: BaseException) -> None:
        try:
            self.end(upload)
        except OSError as error:  # the next start ends it
            why.add_note(f"Its upload could not be ended, either: {error}")

    def _tag_of(self, key: str, mark: str) -> str:
        """The entity tag of the object, if it carries the mark; empty otherwise."""
        try:
            answer = self.client.call("head_object", "read", Key=key)
        except FileNotFoundError:
            return ""
        return answer["ETag"] if answer["Metadata"].get(_MARK) == mark else ""


class _Memory(io.RawIOBase):
    """Memory as the file that boto3 wants to send; what is read of it is no copy."""

    def __init__(self, view: memoryview) -> None:
        self._view = view.cast("B")
        self._at = 0

    def __len__(self) -> int:
        return len(self._view)

    def read(self, size: int = -1) -> memoryview:  # type: ignore[override]  # as good as bytes for who sends it
        piece = self._view[self._at :] if size < 0 else self._view[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: len(self._view)}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _encoded(checksum: int) -> str:
    """As S3 takes and gives a CRC-32."""
    return base64.b64encode(checksum.to_bytes(4, "big")).decode()
