"""An account in a region: every call to AWS goes through here.

    account = Account("eu-west-1")
    account.call("sagemaker", "describe_pipeline", about="pipeline 'retraining'", PipelineName="retraining")

botocore is imported with the first call and a service's client is made when it is first used: loading one costs up to
0.1 s. Needs boto3 (pip install 'drivetrain[s3]').
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from drivetrain.aws.session import ATTEMPTS, botocore_session, collecting_later, settings
from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.targets.deployer import FOLLOWING_PAUSE_SECONDS, FOLLOWING_SECONDS, say_unanswered
from drivetrain.targets.sagemaker.refusals import AbsentError, ServiceError, foreign, passes, refused, unanswered

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d+")

Json = dict[str, Any]


class Account:
    """AWS as one region shows it, with the credentials that boto3 finds."""

    def __init__(self, region: str) -> None:
        self.region = region
        self._clients: dict[str, Any] = {}
        self._pause: Callable[[float], object] | None = None

    def call(self, service: str, operation: str, *, about: str, **arguments: Any) -> Json:
        """Do one call; throttled and interrupted ones are tried again.

        Args:
            service: boto3's name of it, such as `sagemaker`.
            operation: boto3's name of it, such as `describe_pipeline`.
            about: what it is about, for messages: `pipeline 'retraining'`.

        Raises:
            AbsentError: what it is about does not exist.
            ConditionError: a conditional write found the object there.
            ServiceError: anything else that AWS refuses, or no answer; the message says what to do.
        """
        since: float | None = None
        while True:
            try:
                return self._called(service, operation, about, arguments)
            except ServiceError as error:
                now = time.monotonic()
                if self._pause is None or not passes(error) or now - (since or now) > FOLLOWING_SECONDS:
                    raise
                if since is None:
                    since = now
                    say_unanswered(str(error))
                self._pause(FOLLOWING_PAUSE_SECONDS)

    @contextmanager
    def followed(self, pause: Callable[[float], object] = time.sleep) -> Generator[None]:
        """Within it, a call that gets no answer is done again for some minutes: for who follows an execution, and only
        reads."""
        self._pause = pause
        try:
            yield
        finally:
            self._pause = None

    def _called(self, service: str, operation: str, about: str, arguments: Json) -> Json:
        client_error, no_answer = self._errors
        try:
            return getattr(self._client(service), operation)(**arguments)
        except Exception as error:
            if isinstance(error, client_error):
                name = getattr(error, "operation_name", "") or operation
                raise refused(error, service, str(name), about, self.region) from None
            if isinstance(error, no_answer):
                raise unanswered(error, about, self.region) from None
            if isinstance(error, KeyError):  # botocore's reader of XML, of a page
                raise foreign(about, f"a text without {error}") from None
            raise

    def body(self, stream: Any, *, about: str) -> bytes:
        """The bytes of an object that `call` gave.

        Raises:
            ServiceError: the connection was lost on the way.
        """
        _, no_answer = self._errors
        try:
            return stream.read()
        except no_answer as error:
            raise unanswered(error, about, self.region) from None

    def find(self, service: str, operation: str, *, about: str, **arguments: Any) -> Json | None:
        """As `call`; None where it does not exist."""
        try:
            return self.call(service, operation, about=about, **arguments)
        except AbsentError as error:
            if error.code == "NoSuchBucket":
                raise
            return None

    def pages(self, service: str, operation: str, items: str, *, about: str, **arguments: Any) -> Iterator[Any]:
        """Every item of a list that comes in pages, fetched as they are asked for."""
        asked, said = ("ContinuationToken", "NextContinuationToken") if service == "s3" else ("NextToken", "NextToken")
        if service == "logs":
            asked = said = "nextToken"
        token: str | None = None
        while True:
            more = {} if token is None else {asked: token}
            page = self.call(service, operation, about=about, **arguments, **more)
            yield from page.get(items) or ()
            token = page.get(said)
            if not token:
                return

    @property
    def number(self) -> str:
        """The account's twelve digits, of the credentials in use."""
        return str(self._identity["Account"])

    @property
    def where(self) -> str:
        """In words."""
        return f"account {self.number}, {self.region}"

    @property
    def caller(self) -> str:
        """The ARN of the user or the role's session whose credentials are in use."""
        return str(self._identity["Arn"])

    @cached_property
    def _identity(self) -> Json:
        return self.call("sts", "get_caller_identity", about="the credentials")

    @cached_property
    def partition(self) -> str:
        """`aws`, `aws-cn`, `aws-us-gov`: how ARNs of the region begin."""
        return str(self._session.get_partition_for_region(self.region))

    def arn(self, service: str, resource: str) -> str:
        """The ARN of something in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.number}:{resource}"

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            config = settings(attempts=ATTEMPTS)
            with collecting_later():
                try:
                    self._clients[service] = self._session.create_client(service, config=config)
                except ValueError as error:
                    said = str(error).rstrip(".")
                    raise ServiceError(f"{service} cannot be reached: {said}. Is AWS_ENDPOINT_URL right?") from None
        return self._clients[service]

    @cached_property
    def _session(self) -> Any:
        session = _botocore().get_session()
        session.set_config_variable("region", self.region)
        return session

    @cached_property
    def _errors(self) -> tuple[type[Exception], type[Exception]]:
        _botocore()
        exceptions: Any = importlib.import_module("botocore.exceptions")
        return exceptions.ClientError, exceptions.BotoCoreError


def is_of_aws(arn: str) -> bool:
    """Return True if an ARN is of a resource that AWS manages in an account: it has `aws` in the account's place."""
    return arn.split(":")[4:5] == ["aws"]


def region_or_default(given: str | None) -> str:
    """The given region, or the region of the environment or the profile.

    Raises:
        UserError: neither does, or what it names can be no region.
    """
    region = given or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        session, exceptions = _botocore(), importlib.import_module("botocore.exceptions")
        try:
            region = session.get_session().get_config_variable("region")
        except exceptions.BotoCoreError as error:
            raise unanswered(error, "the profile's region", "of the profile") from None
    if region is None:
        raise ServiceError("No AWS region is given. Give one: --region eu-west-1, or set AWS_REGION.")
    return checked_region(str(region))


def checked_region(region: str) -> str:
    """The region, where it is written as regions are: AWS has new ones before botocore knows them.

    Raises:
        UserError: it is not; with those that botocore knows.
    """
    if not _REGION.fullmatch(region):
        session = _botocore().get_session()
        known = {
            name
            for partition in session.get_available_partitions()
            for name in session.get_available_regions("sagemaker", partition)
        }
        raise UserError(f"{region!r:.60} is no AWS region. {did_you_mean(region.lower(), known)}")
    return region


def _botocore() -> Any:
    return botocore_session("SageMaker needs", UserError)
