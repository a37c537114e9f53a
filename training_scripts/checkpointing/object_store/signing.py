"""Who asks: requests to S3 are signed with the credentials that AWS's own runtime finds on this machine.

awscrt is what AWS's SDKs and command line share for this: the environment, profiles, the container's and the instance's
role, web identities, each renewed before it expires. It brings no other package along and pins none. (aiobotocore, and
s3fs on top of it, allow three patch versions of botocore, none of which is the one that boto3 wants beside them;
obstore cannot list the multipart uploads that a killed writer left behind.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from drivetrain.training_scripts.errors import InputError

# Looking for credentials may ask the instance's metadata service, which answers at once where there is one.
_SECONDS = 20.0


class CredentialsError(PermissionError):
    """There are no credentials, or they cannot be renewed."""


class Signer:
    """Signs requests (AWS Signature Version 4). Threads may share it; a fork may not use it further.

    Raises:
        InputError: awscrt is not installed.
    """

    def __init__(self) -> None:
        try:
            from awscrt import auth, http
        except ModuleNotFoundError:
            raise InputError(
                "checkpoints at s3:// need the package awscrt, which is not installed. "
                "Install it with: pip install 'drivetrain[s3]' (or: pip install awscrt)"
            ) from None
        self._auth: Any = auth
        self._http: Any = http
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._provider: Any = None

    def sign(
        self, method: str, target: str, headers: Mapping[str, str], *, region: str, body_hash: str
    ) -> list[tuple[str, str]]:
        """All headers of the signed request.

        Args:
            target: path and query, percent-encoded.
            body_hash: SHA-256 of the body in hex, or UNSIGNED-PAYLOAD.

        Raises:
            CredentialsError: see there.
        """
        if os.getpid() != self._process:  # its threads did not come along; the answer would never come
            raise RuntimeError("S3 was used before this process was forked; open the place after the fork")
        auth = self._auth
        with self._lock:
            if self._provider is None:
                self._provider = auth.AwsCredentialsProvider.new_default_chain()
        self._check(self._provider.get_credentials())
        request = self._http.HttpRequest(method, target, self._http.HttpHeaders(list(headers.items())))
        config = auth.AwsSigningConfig(
            credentials_provider=self._provider,
            region=region,
            service="s3",
            use_double_uri_encode=False,
            should_normalize_uri_path=False,
            signed_body_value=body_hash,
            signed_body_header_type=auth.AwsSignedBodyHeaderType.X_AMZ_CONTENT_SHA_256,
        )
        self._check(auth.aws_sign_request(request, config))
        return list(request.headers)

    def _check(self, future: Future[Any]) -> None:
        try:
            future.result(_SECONDS)
        except Exception as error:  # of awscrt's own kinds, one a source of credentials
            raise CredentialsError(
                f"no credentials for S3: {error or type(error).__name__}. Give this machine a role that may read and "
                "write the bucket, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN too, where "
                "there is one), or AWS_PROFILE."
            ) from error
