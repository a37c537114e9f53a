"""Checkpoints in S3, or in what speaks its protocol: `s3://bucket/prefix`.

Why nothing is lost or torn (https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel): an
object appears whole or not at all, and is durable when the service has answered; who lists or reads afterwards sees it.

* `write`: one request, or a multipart upload, whose parts come into being as one object when it is completed.
* `create`: If-None-Match, so that of several writers one succeeds.
* What a killed writer leaves is a multipart upload that was not completed. It is no object, but costs as one does:
  `names` lists it as a leftover (`<name>.<id>.partial`), and `remove` ends it.
* `move` copies; the manifest is the first to go from the old name.
* There are no locks. Who reads a folder keeps an object under `.readers/` and writes it anew every few seconds; whether
  it is recent is told by the service's own clock, from one listing.

The endpoint, the region and the credentials are found as AWS's tools find them (AWS_ENDPOINT_URL_S3, AWS_REGION, ...).
"""

from __future__ import annotations

import errno
import hashlib
import re
import secrets
import threading
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from drivetrain.aws.s3 import Patience
from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places._s3_objects import PART, Objects, Upload
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, check_name, check_size

_READERS = ".readers"
_RETIRING = "retiring"
_BEAT_SECONDS = 10.0
_GONE_SECONDS = 60.0  # a reader or retirer without a sign of life for so long counts as gone
_WINDOW = 4 * PART
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def open_uri(uri: str) -> S3Place:
    """The place at `s3://bucket/prefix`.

    Raises:
        InputError: it names no bucket, or a prefix that is no plain path; or boto3 is not installed.
    """
    return S3Place(uri)


class S3Place:
    """places.Place documents the methods; here a path `a/b` is the key `prefix/a/b`."""

    def __init__(
        self, uri: str, *, patience: Patience | None = None, part: int = PART, beat_seconds: float = _BEAT_SECONDS
    ) -> None:
        bucket, _, prefix = uri.removeprefix("s3://").partition("/")
        prefix = "/".join(part for part in prefix.split("/") if part)  # often given with a "/" at its end
        if not _BUCKET.fullmatch(bucket):
            raise InputError(f"{uri!r} names no bucket: give s3://BUCKET/PREFIX")
        if prefix:
            try:
                check_name(prefix)
            except ValueError as problem:
                raise InputError(f"{uri!r} is no place for checkpoints: {problem}. Give s3://BUCKET/PREFIX") from None
        self._prefix = f"{prefix}/" if prefix else ""
        self._objects = Objects(bucket, patience=patience, part=part)
        self._beat_seconds = beat_seconds
        self.uri = f"s3://{bucket}/{self._prefix}".rstrip("/")

    def names(self, below: str = "") -> dict[str, int]:
        prefix = self._key(below) + "/" if below else self._prefix
        listed, _ = self._objects.list(prefix)
        found = {entry.key.removeprefix(self._prefix): entry.size for entry in listed}
        found |= {self._leftover(upload): 0 for upload in self._objects.uploads(prefix)}
        return {name: size for name, size in sorted(found.items()) if _is_name(name) and not _is_marker(name)}

    def write(self, name: str, data: memoryview | bytes) -> int:
        return self._objects.upload(self._key(name), memoryview(data))

    def create(self, name: str, data: bytes) -> None:
        self._objects.put(self._key(name), data, condition={"IfNoneMatch": "*"})

    def replace(self, name: str, data: bytes) -> None:
        self._objects.put(self._key(name), data)

    def read(self, name: str) -> bytes:
        return self._objects.get(self._key(name))[0]

    def swap(self, name: str, expected: bytes, data: bytes) -> bool:
        key = self._key(name)
        try:
            content, tag = self._objects.get(key)
            if content != expected:
                return False
            self._objects.put(key, data, condition={"IfMatch": tag})
        except (FileNotFoundError, FileExistsError):  # gone, or another's by now
            return False
        return True

    def mark(self, name: str) -> str:
        key = self._key(name)
        try:
            self._objects.look(key)
        except FileNotFoundError:
            return ""
        return f"s3://{self._objects.bucket}/{key}"

    def read_into(self, name: str, buffer: memoryview) -> int:
        size, tag = self._objects.look(self._key(name))
        check_size(name, buffer.nbytes, size)
        return self._objects.get_into(self._key(name), buffer, tag=tag)

    def read_part(self, name: str, start: int, length: int) -> bytes:
        size, tag = self._objects.look(self._key(name))
        part = bytearray(max(0, min(length, size - start)))
        if part:
            self._objects.get_into(self._key(name), memoryview(part), start=start, tag=tag)
        return bytes(part)

    def arrived_at(self, folder: str) -> dict[str, float]:
        """When each file of a folder ("": of the place) came to be there, in seconds since the epoch, by the service's
        clock."""
        listed, _ = self._objects.list(f"{self._key(folder)}/" if folder else self._prefix)
        return {entry.key.removeprefix(self._prefix): entry.modified.timestamp() for entry in listed}

    def checksum(self, name: str) -> tuple[int, int]:
        size, tag = self._objects.look(self._key(name))
        window = memoryview(bytearray(min(size, _WINDOW)))
        checksum = 0
        for start in range(0, size, _WINDOW):
            piece = window[: min(_WINDOW, size - start)]
            self._objects.get_into(self._key(name), piece, start=start, tag=tag)
            checksum = zlib.crc32(piece, checksum)
        return size, checksum

    def remove(self, names: Sequence[str]) -> None:
        keys = [self._key(name) for name in names]
        for name, key in zip(names, keys, strict=True):
            if name.endswith(".partial"):
                for upload in self._objects.uploads(key.rpartition(".")[0].rpartition(".")[0]):
                    if self._leftover(upload) == name:
                        self._objects.end(upload)
            self._objects.delete(key)

    def retire(self, folder: str) -> bool:
        # The reader writes its mark, then looks for ours; we write ours, then look for readers'. The later one sees the
        # other, so never do both go on.
        mark = self._key(f"{_READERS}/{folder}/{_RETIRING}")
        self._objects.put(mark, b"")
        try:
            if self._readers(folder):
                return False
            self._objects.delete(self._key(f"{folder}/{MANIFEST_FILE}"))
            return True
        finally:
            self._objects.delete(mark)

    def move(self, folder: str, to: str) -> None:
        source, target = f"{self._key(folder)}/", f"{self._key(to)}/"
        if self._objects.list(target)[0]:
            raise FileExistsError(errno.EEXIST, "it is there already", f"{self.uri}/{to}")
        listed, _ = self._objects.list(source)
        if not listed:
            raise FileNotFoundError(errno.ENOENT, "nothing is there", f"{self.uri}/{folder}")
        manifest = source + MANIFEST_FILE
        for entry in sorted(listed, key=lambda entry: entry.key == manifest):
            self._objects.copy(entry.key, entry.size, target + entry.key.removeprefix(source))
        for entry in sorted(listed, key=lambda entry: entry.key != manifest):
            self._objects.delete(entry.key)

    @contextmanager
    def reading(self, folder: str) -> Generator[None]:
        key = self._key(f"{_READERS}/{folder}/{secrets.token_hex(8)}")
        self._objects.put(key, b"")
        ended = threading.Event()
        beat = threading.Thread(target=self._keep, args=(key, ended), name="s3-reader", daemon=True)
        try:
            if self._is_retired(folder):
                raise FileNotFoundError(errno.ENOENT, "it is being removed", f"{self.uri}/{folder}")
            self._objects.look(self._key(f"{folder}/{MANIFEST_FILE}"))
            beat.start()
            yield
        finally:
            ended.set()
            if beat.ident is not None:
                beat.join()
            self._objects.delete(key)

    def _keep(self, key: str, ended: threading.Event) -> None:
        while not ended.wait(self._beat_seconds):
            try:
                self._objects.put(key, b"")
            except OSError:
                # Tried again with the next beat. Should the mark grow old meanwhile, the reader may find files gone,
                # which it has to reckon with anyhow, and never finds others in their place.
                continue

    def _is_retired(self, folder: str) -> bool:
        return _RETIRING in self._marks(folder)

    def _readers(self, folder: str) -> set[str]:
        return self._marks(folder) - {_RETIRING}

    def _marks(self, folder: str) -> set[str]:
        prefix = self._key(f"{_READERS}/{folder}") + "/"
        listed, now = self._objects.list(prefix)
        return {
            entry.key.removeprefix(prefix) for entry in listed if (now - entry.modified).total_seconds() < _GONE_SECONDS
        }

    def _key(self, name: str) -> str:
        return self._prefix + check_name(name)

    def _leftover(self, upload: Upload) -> str:
        short = hashlib.sha256(upload.id.encode()).hexdigest()[:16]
        return f"{upload.key.removeprefix(self._prefix)}.{short}.partial"


def _is_name(name: str) -> bool:
    """Not one of another program's that no manifest could hold (such as the empty object that stands for a folder)."""
    try:
        check_name(name)
    except ValueError:
        return False
    return True


def _is_marker(name: str) -> bool:
    return name.startswith(f"{_READERS}/")
