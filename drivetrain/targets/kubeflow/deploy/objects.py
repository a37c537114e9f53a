"""Objects in S3-compatible storage: code and data, named by the hash of their content, and a record of their owner.

The address is $AWS_ENDPOINT_URL_S3 of this machine, else that of the settings, which pods use; AWS without either.
No conditional writes and no checksum headers, which not every store knows: what is written twice is the same bytes.

Two namespaces or clusters can be given one root by mistake. Without the record of the owner, destroying the pipeline of
one would delete the code that the other's executions fetch.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import IO

from drivetrain.assets.assets import Asset
from drivetrain.assets.uploads import missing, refuse_too_large
from drivetrain.aws.refusals import NotThereError, ServiceError, UnusableError
from drivetrain.aws.s3 import Client, Patience, split
from drivetrain.base.addresses import ALLOWED, address_problem
from drivetrain.base.errors import UserError

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_S3"
PATIENCE = Patience(seconds=30.0, stall_seconds=60.0)
OWNER_FOLDER = "owner"
"""Below the pipeline's own folder."""
ROOT = "deployment.targets.kubeflow.root"


class Objects:
    """The storage. Nothing is asked when it is made.

    Args:
        patience: how long a request is tried; PATIENCE where it is not given.

    Raises:
        UserError: the variable holds no address.
    """

    def __init__(self, endpoint: str | None, patience: Patience | None = None) -> None:
        given = os.environ.get(ENDPOINT_VARIABLE)
        if given and (problem := address_problem(given)):
            shown = "" if "@" in given else f" ({given!r:.120})"
            raise UserError(f"${ENDPOINT_VARIABLE}{shown} is no address of storage: {problem}. Allowed: {ALLOWED}.")
        self.endpoint = given or endpoint
        self._patience = patience or PATIENCE
        self._clients: dict[str, Client] = {}

    def missing(self, assets: Sequence[Asset]) -> tuple[Asset, ...]:
        """Those that are not there, or have another size."""
        return missing(assets, self.listed)

    def listed(self, folder: str) -> dict[str, int]:
        """URI -> size in bytes of each object below a folder's URI."""
        with self._storage(folder, "list") as (client, prefix):
            found = client.listed(prefix)
            return {f"s3://{client.bucket}/{item['Key']}": int(item["Size"]) for item in found}

    def put(self, asset: Asset) -> None:
        """Write an object; the store itself compares the bytes with their hash."""
        content = asset.content
        refuse_too_large(content)
        if isinstance(content, bytes):
            self.write(asset.uri, content)
            return
        with content.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
            self._put(asset.uri, file, digest)

    def write(self, uri: str, content: bytes) -> None:
        """Write an object."""
        self._put(uri, content, hashlib.md5(content, usedforsecurity=False).digest())

    def read(self, uri: str) -> bytes | None:
        """An object's bytes; None if it is missing."""
        with self._storage(uri, "read") as (client, key):
            return client.read(key)

    def part(self, uri: str, most: int, *, first: bool = False) -> bytes | None:
        """The last bytes of an object, or its first, at most so many; None if it is missing."""
        span = f"0-{most - 1}" if first else f"-{most}"
        with self._storage(uri, "read") as (client, key):
            try:
                return bytes(client.fetch(key, Range=f"bytes={span}")[0])
            except NotThereError:
                return None
            except ServiceError as error:
                if error.status == 416:  # an empty object has no first and no last byte
                    return b""
                raise

    def delete(self, uris: Iterable[str]) -> None:
        """Take objects away, one by one: the request for many wants a checksum that not every store knows."""
        for uri in uris:
            with self._storage(uri, "delete") as (client, key):
                client.delete(key)

    def _put(self, uri: str, body: bytes | IO[bytes], md5: bytes) -> None:
        with self._storage(uri, "write") as (client, key):
            client.call("put_object", "write", Key=key, Body=body, ContentMD5=base64.b64encode(md5).decode())

    @contextmanager
    def _storage(self, uri: str, doing: str) -> Generator[tuple[Client, str]]:
        """The client of a URI's bucket, and the key; errors say which of the settings to check."""
        bucket, key = split(uri)
        where = self.endpoint or "AWS S3"
        try:
            if bucket not in self._clients:
                self._clients[bucket] = Client(bucket, self._patience, purpose="objects", endpoint=self.endpoint)
            yield self._clients[bucket], key
        except (ServiceError, UnusableError) as error:
            reason = " ".join(error.reason.split())[:200].rstrip(".")
            if error.status:
                raise UserError(
                    f"{where} refuses to {doing} {uri}: {reason}. Check deployment.targets.kubeflow.root, and "
                    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY on this machine."
                ) from None
            raise UserError(
                f"{where} cannot be used ({uri}): {reason}. Check the address "
                f"(deployment.targets.kubeflow.s3_endpoint; ${ENDPOINT_VARIABLE} where this machine reaches it by "
                "another), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            ) from None


@dataclass(frozen=True)
class Owner:
    """A pipeline in a namespace at an address of the Pipelines API."""

    endpoint: str
    namespace: str
    pipeline: str
    project: str = ""
    """See deploying/project.py; records from before there were projects have none."""

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r} in namespace {self.namespace!r} at {self.endpoint}"

    def record(self, root: str) -> Asset:
        """The object that apply uploads to the pipeline's own folder."""
        said = {name: value for name, value in asdict(self).items() if value}
        content = json.dumps(said, sort_keys=True).encode()
        return Asset(uri_of(root), hashlib.sha256(content).hexdigest(), content)

    def recorded(self, objects: Objects, root: str) -> Owner | None:
        """Read the folder's owner, perhaps of another project; None where there is no record.

        Raises:
            UserError: it is of another namespace or pipeline, or the record cannot be read.
        """
        uri = uri_of(root)
        content = objects.read(uri)
        if content is None:
            return None
        try:
            there = Owner(**json.loads(content))
        except (ValueError, TypeError):
            raise UserError(f"{uri} does not say whose folder it is. Find out, then delete that object.") from None
        if replace(there, project=self.project) != self:
            raise UserError(
                f"{root}/ belongs to {there}; this is {self}. Set another {ROOT}, which no other namespace has. Where "
                f"only the address or the name of the owner has changed, delete {uri} first."
            )
        return there

    def other(self, there: Owner | None) -> str | None:
        """The other project of a record, in words; None where it is this one's, or says nothing of it."""
        is_other = there is not None and there.project and there.project != self.project
        return f"project {there.project!r}" if there is not None and is_other else None


def uri_of(root: str) -> str:
    """The URI of the record in a pipeline's own folder."""
    return f"{root}/{OWNER_FOLDER}/owner.json"
