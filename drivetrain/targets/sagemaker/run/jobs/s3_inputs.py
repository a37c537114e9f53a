"""Copy the S3 objects that a run reads to the home, with the caller's credentials (`run --read-s3`).

`has` lists a URI while the definition is checked, and `bring` copies what was listed and lets the store read it there.
An object lies in the cache once a version (by its entity tag): a later run copies what has changed. What the URI held
is a view, a folder of links to the cache, named by a hash of the listing, which nobody changes any more; so a run that
goes on after another one has copied newer objects reads what it began with.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from drivetrain.aws.s3 import Client, Patience, ServiceError
from drivetrain.aws.session import client, open_session
from drivetrain.base.errors import UserError
from drivetrain.base.formatting import count, size
from drivetrain.base.records import dataclass
from drivetrain.run_store.durable import no_space, parse
from drivetrain.run_store.objects import ObjectStore

_MOST_OBJECTS = 100_000
_RANGE = 16 << 20
_TELL_EVERY_S = 5.0
_PATIENCE = Patience(seconds=30.0)


@dataclass(frozen=True)
class _Object:
    bucket: str
    key: str
    size: int
    tag: str

    @property
    def cached(self) -> str:
        """Its name in the cache."""
        return hashlib.sha256(json.dumps([self.bucket, self.key, self.size, self.tag]).encode()).hexdigest()


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class S3Inputs:
    """The inputs of one run.

    Args:
        folder: the cache.
        store: asks `has` from now on, and reads what was brought.
        views: URI -> the view that the run began with, of one that goes on, empty where S3 had none; S3 is not asked
            for them again.

    Raises:
        UserError: such a view was removed.
    """

    def __init__(
        self, folder: Path, store: ObjectStore, views: Mapping[str, str], tell: Callable[[str], None] = _to_stderr
    ) -> None:
        self._folder = folder
        self._store = store
        self.views = dict(views)
        store.in_s3 = self.has
        for uri in self.views:
            self._provide(uri)
        self._tell = tell
        self._clients: dict[str, Client] = {}
        self._listed: dict[str, list[_Object]] = {}
        self._refused: dict[str, UserError] = {}

    def has(self, uri: str, is_here: bool) -> bool:
        """True where S3, or else the home (`is_here`), has an object whose key begins as the URI's does. Each URI is
        asked for once, and no bucket any more that cannot be read.

        Raises:
            UserError: no access, no answer, or more objects than are copied, and nothing is here.
        """
        if uri in self.views:
            return is_here
        if uri not in self._listed:
            bucket, _ = parse(uri)
            try:
                if bucket in self._refused:
                    raise self._refused[bucket]
                self._listed[uri] = list(self._objects(uri))
            except (UserError, ServiceError) as refused:
                error = UserError(f"--read-s3: {refused}") if isinstance(refused, ServiceError) else refused
                if not is_here:
                    raise error from None
                if bucket not in self._refused:
                    self._tell(f"note: {error} What lies in this home is read.")
                self._refused[bucket] = error
                self._listed[uri] = []
        return is_here or bool(self._listed[uri])

    def bring(self) -> None:
        """Copy what was listed, and have the store read it from there; says first what it is, then how far it is.

        Raises:
            UserError: an object was replaced meanwhile, no access or answer, no space.
        """
        wanted = {item.cached: item for items in self._listed.values() for item in items}
        missing = [item for item in wanted.values() if not self._is_cached(item)]
        if missing:
            self._say(missing, len(wanted))
            with no_space(str(self._folder), "run it again"):
                self._copy(missing)
        # `s3://b/in` after `s3://b/in/`, which it includes: they are one place in the store.
        for uri, items in sorted(self._listed.items(), key=lambda listed: not listed[0].endswith("/")):
            self.views[uri] = self._view(items) if items else ""
            self._provide(uri)

    def _provide(self, uri: str) -> None:
        if not self.views[uri]:
            return
        view = self._folder / "views" / self.views[uri]
        if not view.is_dir():
            raise UserError(f"{view}, the copy of {uri} that this run began with, was removed. Start a new run.")
        bucket, segments = parse(uri)
        self._store.provide(uri, view.joinpath(bucket, *segments))

    def _objects(self, uri: str) -> Iterator[_Object]:
        bucket, _ = parse(uri)
        prefix = uri.removeprefix(f"s3://{bucket}").removeprefix("/")
        seen: dict[str, str] = {}
        for entry in self._client(bucket).listed(prefix):
            key = str(entry["Key"])
            if key.endswith("/"):  # how consoles make a folder, which brings nothing
                continue
            name = "/".join(parse(f"s3://{bucket}/{key}")[1])
            if seen.setdefault(name, key) != key:
                raise UserError(f"s3://{bucket}/{key} and {seen[name]} would be one file here. Rename one of them.")
            if len(seen) > _MOST_OBJECTS:
                raise UserError(
                    f"{uri} holds more than {_MOST_OBJECTS:,} objects. Copy what the run needs, and give it with "
                    f"--data {uri}=FOLDER."
                )
            yield _Object(bucket, key, int(entry["Size"]), str(entry["ETag"]))

    def _client(self, bucket: str) -> Client:
        if bucket not in self._clients:
            needs = ("s3:ListBucket", "s3:GetObject")
            self._clients[bucket] = Client(bucket, _PATIENCE, purpose="data", permissions=needs)
        return self._clients[bucket]

    def _say(self, missing: list[_Object], num_wanted: int) -> None:
        num_bytes = sum(item.size for item in missing)
        free = shutil.disk_usage(self._folder.parent).free
        if num_bytes > free:
            raise UserError(
                f"--read-s3: {size(num_bytes)} are to be copied, and {self._folder.parent} has {size(free)} free. Free "
                "some space, or give a home on another disk (--home)."
            )
        kept = f"; {count(num_wanted - len(missing), 'other')} of the cache" if num_wanted > len(missing) else ""
        buckets = ", ".join(f"s3://{bucket}" for bucket in sorted({item.bucket for item in missing}))
        self._tell(f"S3: copies {count(len(missing), 'object')}, {size(num_bytes)}, from {buckets} {_caller()}{kept}")

    def _copy(self, missing: list[_Object]) -> None:
        total, done, told = sum(item.size for item in missing), 0, time.monotonic()
        (self._folder / "objects").mkdir(mode=0o700, parents=True, exist_ok=True)
        for number, item in enumerate(missing):
            incoming = self._folder / f".{item.cached}.{os.getpid()}"
            descriptor = os.open(incoming, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                with open(descriptor, "wb") as file:
                    for start in range(0, item.size, _RANGE):
                        file.write(self._range(item, start, min(start + _RANGE, item.size)))
                        done = done + min(start + _RANGE, item.size) - start
                        if time.monotonic() - told > _TELL_EVERY_S:
                            told = time.monotonic()
                            self._tell(f"S3: {size(done)} of {size(total)}, {number} of {len(missing)} objects")
                os.replace(incoming, self._cache(item))
            finally:
                incoming.unlink(missing_ok=True)

    def _range(self, item: _Object, start: int, end: int) -> memoryview:
        try:
            buffer = memoryview(bytearray(end - start))
            given = {"Range": f"bytes={start}-{end - 1}", "IfMatch": item.tag}
            return self._client(item.bucket).fetch(item.key, buffer, **given)[0]
        except ServiceError as error:
            if error.status in (404, 412):
                raise UserError(f"s3://{item.bucket}/{item.key} changed while it was copied. Run it again.") from error
            raise UserError(f"--read-s3: {error}") from error

    def _cache(self, item: _Object) -> Path:
        return self._folder / "objects" / item.cached

    def _is_cached(self, item: _Object) -> bool:
        path = self._cache(item)
        return path.is_file() and path.stat().st_size == item.size

    def _view(self, items: list[_Object]) -> str:
        """The name of a folder in which the objects lie below their buckets' names."""
        name = hashlib.sha256("".join(item.cached for item in items).encode()).hexdigest()[:32]
        view = self._folder / "views" / name
        if view.is_dir():
            return name
        incoming = self._folder / f".{name}.{os.getpid()}"
        for item in items:
            path = incoming.joinpath(item.bucket, *parse(f"s3://{item.bucket}/{item.key}")[1])
            try:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.link(self._cache(item), path)
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                shutil.rmtree(incoming)
                raise UserError(
                    f"s3://{item.bucket}/{item.key} is a file where another key needs a folder, which no disk can "
                    "hold. Rename one of them."
                ) from None
        view.parent.mkdir(mode=0o700, exist_ok=True)
        try:
            incoming.rename(view)
        except OSError:  # another run has just made it
            shutil.rmtree(incoming)
            if not view.is_dir():
                raise
        return name


def _caller() -> str:
    """Name the caller with account and region, or else the endpoint, for a message."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
    if endpoint and not os.environ.get("AWS_ENDPOINT_URL_STS"):
        return f"at {endpoint}"  # another service than AWS's: nobody else knows these credentials
    exceptions = importlib.import_module("botocore.exceptions")
    try:
        sts = client(open_session("--read-s3 needs"), "sts", attempts=2, connect_seconds=5, answer_seconds=5)
        caller = sts.get_caller_identity()
    except (exceptions.BotoCoreError, exceptions.ClientError) as error:
        return f"(whose credentials these are is not known: {error})"
    return f"as {caller['Arn']} (account {caller['Account']}, region {sts.meta.region_name})"
