"""boto3, which is imported when a service is asked: its session, the region, and how often a request is made."""

# botocore has no types of its own.
# pyright: basic

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from drivetrain.base.errors import InputError, UserError

ATTEMPTS = 5
"""Attempts at a request that fails with 5xx, throttling or a lost connection, with growing pauses (botocore's
"standard")."""


def botocore_session(who_needs: str, error: type[UserError] = InputError) -> Any:
    """The module botocore.session: all that is needed of boto3, at two thirds of its import time.

    Args:
        who_needs: begins the message, like "checkpoints at s3:// need".
        error: raised where the package is not installed.
    """
    try:
        with collecting_later():
            return importlib.import_module("botocore.session")
    except ModuleNotFoundError:
        raise error(
            f"{who_needs} the package boto3, which is not installed. "
            "Install it with: pip install 'drivetrain[s3]' (or: pip install boto3)"
        ) from None


def region_of_job() -> str | None:
    """The region that SageMaker tells its jobs in AWS_REGION, which botocore does not read."""
    return os.environ.get("AWS_REGION") or None


def settings(*, attempts: float = ATTEMPTS, connect_seconds: float = 10, answer_seconds: float = 60) -> Any:
    """A client's, for requests that botocore itself makes again."""
    config: Any = importlib.import_module("botocore.config")
    return config.Config(
        retries={"mode": "standard", "total_max_attempts": int(attempts)},
        connect_timeout=connect_seconds,
        read_timeout=answer_seconds,
    )


def open_session(who_needs: str, error: type[UserError] = InputError) -> Any:
    """A session, whose clients share their credentials: a profile with a second factor asks for it once.

    Args:
        who_needs, error: as of `botocore_session`.
    """
    return botocore_session(who_needs, error).get_session()


def client(session: Any, service: str, *, region: str | None = None, **patience: float) -> Any:
    """botocore's client of a service. Threads make those of one session one after the other.

    Args:
        region: that of the job or of the profile where none is given.
        patience: as of `settings`.
    """
    return session.create_client(service, region_name=region or region_of_job(), config=settings(**patience))


@contextmanager
def collecting_later() -> Generator[None]:
    """Without garbage collection: a service's model is many objects that all stay, and looking through them again and
    again while they are read takes as long as reading them (0.12 s against 0.07 s for SageMaker)."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
