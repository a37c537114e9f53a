"""Turn errors of SageMaker, or of the way to it, into words that say what to do."""

from __future__ import annotations

import importlib
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from drivetrain.aws.refusals import DENIED, EXPIRED, UNKNOWN_KEYS
from drivetrain.aws.session import ATTEMPTS
from drivetrain.base.errors import InputError
from drivetrain.registry.backends._backend import without_header
from drivetrain.registry.registry import NotAllowedError, RegistryError

# In these words the service says, with 400, that a group or version is not there; others may use them, too: a role that
# "does not exist", a proxy that has "not found" its server.
_ABSENT_CODES = ("ValidationException", "ResourceNotFound", "ResourceNotFoundException")
_ABSENT = re.compile(r"does not exist|not found|could not find|cannot find", re.IGNORECASE)


@contextmanager
def told(name: str, doing: str, *, absent: bool = False, there: bool = False) -> Generator[None]:
    """Raise errors of the service, or of the way to it, in words that say what to do.

    Args:
        name: of the registry, for people.
        absent: whether it is fine that the thing is not there.
        there: whether it is fine that the thing is there already.
    """
    try:
        errors: Any = importlib.import_module("botocore.exceptions")
    except ModuleNotFoundError:
        yield
        return
    try:
        yield
    except InputError:
        raise  # told already
    except (KeyError, TypeError, AttributeError, ValueError) as error:  # of the answer: nothing else is read within
        raise RegistryError(
            f"{name} did not answer as SageMaker does, {doing} ({type(error).__name__}: {str(error)[:80]}). "
            "Check the endpoint."
        ) from None
    except errors.ClientError as error:
        said, code, status = _answer(error.response)
        if absent and status == 400 and code in _ABSENT_CODES and _ABSENT.search(str(error)):
            return
        if there and (code in ("ConflictException", "ResourceInUse") or "already exists" in str(error)):
            return
        raise _refused(name, doing, said, code, status) from None
    except errors.ParamValidationError as error:
        raise InputError(f"the model package cannot be registered: {_line(error)}") from None
    except (
        errors.NoCredentialsError,
        errors.PartialCredentialsError,
        errors.CredentialRetrievalError,
        errors.TokenRetrievalError,
        errors.SSOError,
    ) as error:
        raise RegistryError(
            f"{name} cannot be asked: {_line(error)} Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, or give the job a role."
        ) from None
    except errors.NoRegionError:
        raise RegistryError(
            "SageMaker cannot be asked: no region. Write sagemaker:REGION, or set AWS_DEFAULT_REGION."
        ) from None
    except errors.BotoCoreError as error:
        raise RegistryError(
            f"{name} cannot be reached, {doing}, in {ATTEMPTS} attempts: {_line(error)} Check the network "
            "and the region, and try again."
        ) from None


def _refused(name: str, doing: str, said: str, code: str, status: int) -> InputError:
    if code in DENIED | EXPIRED | UNKNOWN_KEYS or status in (401, 403):
        return NotAllowedError(
            f"{name} refuses, {doing}: {said} ({code}). Allow the role the actions on model "
            "packages and their groups (sagemaker:CreateModelPackage, AddTags, ListTags, ...)."
        )
    if status == 404:  # which the service itself says of nothing
        return RegistryError(
            f"{name} did not answer as SageMaker does, {doing}: {said} ({status}). Check the endpoint."
        )
    if status >= 500 or status == 429 or "Throttling" in code:
        return RegistryError(f"{name} failed, {doing}, in {ATTEMPTS} attempts: {said} ({code}). Try again later.")
    return InputError(f"{name} does not take it, {doing}: {said} ({code}).")


def _answer(response: Mapping[str, Any]) -> tuple[str, str, int]:
    error = response.get("Error", {})
    message = " ".join(str(error.get("Message") or "no reason given").split())[:160].rstrip(".")
    return message, str(error.get("Code", "")), int(response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _line(error: Exception) -> str:
    return without_header(" ".join(str(error).split()))[:200].rstrip(".") + "."
