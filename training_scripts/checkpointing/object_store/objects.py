"""What S3 can do with objects: put (also on a condition), get in parts at once, list, copy, and end what was left.

Every write carries a mark of its own, drawn anew, in the object's metadata. A request whose answer was lost is sent
again; if that is then refused because the condition no longer holds, or because the upload is no longer there, the mark
tells whether the object is the one that this very call has written.
"""

from __future__ import annotations

import base64
import secrets
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote
from xml.sax.saxutils import escape

from drivetrain.training_scripts.checkpointing.manifest import DamagedError
from drivetrain.training_scripts.checkpointing.object_store.replies import (
    Listed,
    Upload,
    parse,
    read_listing,
    read_uploads,
    text,
)
from drivetrain.training_scripts.checkpointing.object_store.requests import (
    NotThereError,
    Patience,
    Requests,
    ServiceError,
)

PART = 16 << 20
_CONNECTIONS = 8
_MOST_PARTS = 9_000  # 10,000 are allowed
_LARGEST_COPY = 5 << 30  # in one request
_MARK = "x-amz-meta-drivetrain-write"
_CONDITION_FAILED = 412


class Objects:
    """The objects of one bucket. Threads may share it; each process opens its own."""

    def __init__(self, bucket: str, *, patience: Patience | None = None, part: int = PART) -> None:
        self.requests = Requests(bucket, patience or Patience())
        self.bucket = bucket
        self.part = part

    def put(self, key: str, data: memoryview | bytes, *, condition: Mapping[str, str] | None = None) -> str:
        """Write an object in one request; gives its entity tag.

        Args:
            condition: {"If-None-Match": "*"} where there must be none, {"If-Match": tag} where it must be that one.

        Raises:
            FileExistsError: the condition does not hold, and the object is not what this call has written.
        """
        mark = secrets.token_hex(16)
        headers = {_MARK: mark, "x-amz-checksum-crc32": _encoded(zlib.crc32(data)), **(condition or {})}
        try:
            reply = self.requests.send("PUT", key, doing="write", headers=headers, body=data)
        except ServiceError as error:
            if isinstance(error, NotThereError) and condition:  # If-Match, and nothing is there
                raise FileExistsError(f"s3://{self.bucket}/{key} is not there any more") from error
            if error.status != _CONDITION_FAILED:
                raise
            if error.sent > 1 and (tag := self._tag_of(key, mark)):
                return tag
            raise FileExistsError(f"s3://{self.bucket}/{key} was written by somebody else") from error
        return reply.headers["ETag"]

    def upload(self, key: str, data: memoryview) -> int:
        """Write an object of any size, its parts at the same time and from where they lie; gives its CRC-32."""
        view = data.cast("B")
        if len(view) <= self.part:
            self.put(key, view)
            return zlib.crc32(view)

        def send(id: str, number: int, start: int, end: int) -> str:
            checksum = _encoded(zlib.crc32(view[start:end]))
            reply = self.requests.send(
                "PUT",
                key,
                doing=f"take part {number} of",
                query={"partNumber": str(number), "uploadId": id},
                headers={"x-amz-checksum-crc32": checksum},
                body=view[start:end],
            )
            return f"<ETag>{escape(reply.headers['ETag'])}</ETag><ChecksumCRC32>{checksum}</ChecksumCRC32>"

        return self._in_parts(key, len(view), send, lambda: zlib.crc32(view), {"x-amz-checksum-algorithm": "CRC32"})

    def get(self, key: str) -> tuple[bytes, str]:
        """A small object whole, with its entity tag."""
        reply = self.requests.send("GET", key, doing="read")
        if len(reply.body) != reply.size:
            raise ServiceError(f"s3://{self.bucket}/{key} ended after {len(reply.body)} of {reply.size} bytes")
        return reply.body, reply.headers["ETag"]

    def look(self, key: str) -> tuple[int, str]:
        """Size and entity tag."""
        reply = self.requests.send("HEAD", key, doing="read")
        return reply.size, reply.headers["ETag"]

    def get_into(self, key: str, buffer: memoryview, *, start: int = 0, tag: str) -> int:
        """Fill the buffer with the bytes from `start` on, in parts at the same time; gives the CRC-32 of them.

        Raises:
            DamagedError: the object is not the one with that tag any more.
        """
        view = buffer.cast("B")

        def fetch(first: int) -> memoryview:
            piece = view[first : first + self.part]
            asked = f"bytes={start + first}-{start + first + len(piece) - 1}"
            self.requests.send("GET", key, doing="read", headers={"range": asked, "if-match": tag}, into=piece)
            return piece

        checksum = 0
        try:
            with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="s3") as pool:
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
        listed: list[Listed] = []
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix}
        while True:
            reply = self.requests.send("GET", doing="list", query=query)
            page, token = read_listing(reply.body)
            listed += page
            if not token:
                return listed, parsedate_to_datetime(reply.headers["Date"])
            query["continuation-token"] = token

    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is fine."""
        self.requests.send("DELETE", key, doing="remove")

    def copy(self, key: str, size: int, to: str) -> None:
        """Copy an object within the service."""
        source = quote(f"/{self.bucket}/{key}", safe="/~")
        if size <= _LARGEST_COPY:
            headers = {"x-amz-copy-source": source}
            self.requests.send("PUT", to, doing=f"copy {key} to", headers=headers)
            return

        def send(id: str, number: int, start: int, end: int) -> str:
            reply = self.requests.send(
                "PUT",
                to,
                doing=f"copy part {number} to",
                query={"partNumber": str(number), "uploadId": id},
                headers={"x-amz-copy-source": source, "x-amz-copy-source-range": f"bytes={start}-{end - 1}"},
            )
            return f"<ETag>{escape(text(parse(reply.body), 'ETag'))}</ETag>"

        self._in_parts(to, size, send, lambda: 0, {})

    def uploads(self, prefix: str) -> list[Upload]:
        """The multipart uploads that were begun and not completed."""
        uploads: list[Upload] = []
        query = {"uploads": "", "encoding-type": "url", "prefix": prefix}
        while True:
            page, more = read_uploads(self.requests.send("GET", doing="list uploads to", query=query).body)
            uploads += page
            if not more:
                return uploads
            query |= more

    def end(self, upload: Upload) -> None:
        """End a multipart upload and free what it holds; one that is not there is fine."""
        try:
            self.requests.send("DELETE", upload.key, doing="end an upload to", query={"uploadId": upload.id})
        except FileNotFoundError:
            return

    def _in_parts(
        self,
        key: str,
        size: int,
        send: Callable[[str, int, int, int], str],
        meanwhile: Callable[[], int],
        headers: Mapping[str, str],
    ) -> int:
        """Send an object in parts; gives what `meanwhile` gives, which is called while they are under way."""
        mark = secrets.token_hex(16)
        begun = self.requests.send("POST", key, doing="begin", query={"uploads": ""}, headers={_MARK: mark, **headers})
        id = text(parse(begun.body), "UploadId")
        length = max(self.part, -(-size // _MOST_PARTS))
        starts = range(0, size, length)
        try:
            if begun.sent > 1:  # an earlier request may have begun one, too, whose id nobody has been told
                for upload in self.uploads(key):
                    if upload.key == key and upload.id != id:
                        self.end(upload)
            with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="s3") as pool:
                try:
                    futures = [
                        pool.submit(send, id, number, start, min(start + length, size))
                        for number, start in enumerate(starts, 1)
                    ]
                    result = meanwhile()
                    sent = [future.result() for future in futures]
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
            listed = "".join(f"<Part><PartNumber>{n}</PartNumber>{part}</Part>" for n, part in enumerate(sent, 1))
            xmlns = "http://s3.amazonaws.com/doc/2006-03-01/"
            body = f'<CompleteMultipartUpload xmlns="{xmlns}">{listed}</CompleteMultipartUpload>'.encode()
            try:
                self.requests.send("POST", key, doing="complete", query={"uploadId": id}, body=body)
            except NotThereError as error:
                if error.sent < 2 or not self._tag_of(key, mark):
                    raise
        except BaseException as error:
            self._give_up(Upload(key, id), error)
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
            reply = self.requests.send("HEAD", key, doing="read")
        except FileNotFoundError:
            return ""
        return reply.headers["ETag"] if reply.headers.get(_MARK) == mark else ""


def _encoded(checksum: int) -> str:
    """As S3 takes and gives a CRC-32."""
    return base64.b64encode(checksum.to_bytes(4, "big")).decode()
