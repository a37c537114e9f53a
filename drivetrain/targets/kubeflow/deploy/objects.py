"""Objects in S3-compatible storage: code and data, named by the hash of their content.

The address is $AWS_ENDPOINT_URL_S3 of this machine, else that of the settings, which pods use; AWS without either.
No conditional writes and no checksum headers, which not every store knows: what is written twice is the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, cast

from drivetrain.assets.assets import Asset
from drivetrain.base.addresses import ALLOWED, address_problem
from drivetrain.base.errors import UserError

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL_S3"
# What one PUT takes: https://docs.aws.amazon.com/AmazonS3/latest/userguide/upload-objects.html
MAX_SINGLE_PUT = 5 * 1024**3
ATTEMPTS = 6
CONNECT_SECONDS, ANSWER_SECONDS = 5, 60
_VERBS = {"list_objects_v2": "list", "get_object": "read", "put_object": "write", "delete_object": "delete"}
Json = dict[str, Any]


def split(uri: str) -> tuple[str, str]:
    """Bucket and key of an s3:// URI."""
    bucket, _, key = uri.removeprefix("s3://").partition("/")
    return bucket, key


def size_of(asset: Asset) -> int:
    """Bytes of an asset."""
    return len(asset.content) if isinstance(asset.content, bytes) else asset.content.stat().st_size


class Objects:
    """The storage. Nothing is asked when it is made.

    Args:
        attempts: how often a request is tried.

    Raises:
        UserError: the variable holds no address.
    """

    def __init__(self, endpoint: str | None, attempts: int = ATTEMPTS) -> None:
        given = os.environ.get(ENDPOINT_VARIABLE)
        if given and (problem := address_problem(given)):
            shown = "" if "@" in given else f" ({given!r:.120})"
            raise UserError(f"${ENDPOINT_VARIABLE}{shown} is no address of storage: {problem}. Allowed: {ALLOWED}.")
        self.endpoint = given or endpoint
        self._attempts = attempts

    def missing(self, assets: Sequence[Asset]) -> tuple[Asset, ...]:
        """Those that are not there, or have another size."""
        folders = dict.fromkeys("/".join(asset.uri.split("/")[:-1]) + "/" for asset in assets)
        sizes: dict[str, int] = {}
        for folder in folders:
            if not any(folder != other and folder.startswith(other) for other in folders):
                sizes |= self.listed(folder)
        return tuple(asset for asset in assets if sizes.get(asset.uri) != size_of(asset))

    def listed(self, folder: str) -> dict[str, int]:
        """URI -> size in bytes of each object below a folder's URI."""
        bucket, prefix = split(folder)
        found: dict[str, int] = {}
        more: Json = {}
        while True:
            said = self._call("list_objects_v2", folder, Bucket=bucket, Prefix=prefix, **more)
            found |= {f"s3://{bucket}/{item['Key']}": int(item["Size"]) for item in said.get("Contents", ())}
            if not said.get("IsTruncated"):
                return found
            more = {"ContinuationToken": said["NextContinuationToken"]}

    def put(self, asset: Asset) -> None:
        """Write an object; the store itself compares the bytes with their hash."""
        content = asset.content
        if size_of(asset) > MAX_SINGLE_PUT:
            raise UserError(
                f"{content} has {size_of(asset):,} bytes; {MAX_SINGLE_PUT:,} at most go up with a pipeline. Put it "
                "into the storage yourself, and give its s3:// URI in the settings."
            )
        if isinstance(content, bytes):
            self.write(asset.uri, content)
            return
        with content.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).digest()
            file.seek(0)
            self._put(asset.uri, file, digest)

    def write(self, uri: str, content: bytes) -> None:
        """Write an object."""
        self._put(uri, content, hashlib.md5(content, usedforsecurity=False).digest())

    def read(self, uri: str) -> bytes | None:
        """An object's bytes; None where there is none."""
        bucket, key = split(uri)
        try:
            return cast(bytes, self._call("get_object", uri, Bucket=bucket, Key=key)["Body"].read())
        except _AbsentError:
            return None

    def head(self, uri: str, most: int) -> bytes | None:
        """The first bytes of an object, at most so many; None where there is none."""
        return self._part(uri, f"0-{most - 1}")

    def tail(self, uri: str, most: int) -> bytes | None:
        """The last bytes of an object, at most so many; None where there is none."""
        return self._part(uri, f"-{most}")

    def _part(self, uri: str, span: str) -> bytes | None:
        bucket, key = split(uri)
        try:
            return cast(
                bytes, self._call("get_object", uri, Bucket=bucket, Key=key, Range=f"bytes={span}")["Body"].read()
            )
        except _AbsentError:
            return None

    def delete(self, uris: Iterable[str]) -> None:
        """Take objects away, one by one: the request for many wants a checksum that not every store knows."""
        for uri in uris:
            bucket, key = split(uri)
            self._call("delete_object", uri, Bucket=bucket, Key=key)

    def _put(self, uri: str, body: Any, md5: bytes) -> None:
        bucket, key = split(uri)
        given = {"Bucket": bucket, "Key": key, "Body": body, "ContentMD5": base64.b64encode(md5).decode()}
        self._call("put_object", uri, **given)

    def _call(self, operation: str, about: str, **given: Any) -> Json:
        exceptions: Any = importlib.import_module("botocore.exceptions")
        client = self._client
        where = self.endpoint or "AWS S3"
        try:
            return getattr(client, operation)(**given)
        except exceptions.ClientError as error:
            said = error.response.get("Error", {})
            status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            code, message = said.get("Code", ""), " ".join(str(said.get("Message", "")).split()).rstrip(".")
            if operation == "get_object" and (status == 404 or code == "NoSuchKey"):
                raise _AbsentError(f"There is no {about}.") from None
            if operation == "get_object" and status == 416:  # an empty object has no first and no last byte
                return {"Body": io.BytesIO()}
            raise UserError(
                f"{where} refuses to {_VERBS[operation]} {about}: {status} {code} {message}. Check "
                "deployment.targets.kubeflow.root, and AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY on this machine."
            ) from None
        except (exceptions.BotoCoreError, OSError) as error:
            raise UserError(
                f"{where} cannot be used ({about}): {' '.join(str(error).split())[:200]}. Check the address "
                f"(deployment.targets.kubeflow.s3_endpoint; ${ENDPOINT_VARIABLE} where this machine reaches it by "
                "another), AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
            ) from None

    @cached_property
    def _client(self) -> Any:
        try:
            session: Any = importlib.import_module("botocore.session")
            config: Any = importlib.import_module("botocore.config")
        except ModuleNotFoundError:
            raise UserError("Uploading code needs boto3. Install it: pip install 'drivetrain[s3]'.") from None
        return session.get_session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
            config=config.Config(
                retries={"mode": "standard", "total_max_attempts": self._attempts},
                connect_timeout=CONNECT_SECONDS,
                read_timeout=ANSWER_SECONDS,
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                # Stores on a host of their own have no names for buckets.
                s3={"addressing_style": "path"} if self.endpoint else None,
            ),
        )


class _AbsentError(UserError):
    pass
