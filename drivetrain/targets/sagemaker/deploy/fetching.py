"""A deployed pipeline, found by its name or its ARN, which may be of another account that shares it."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from drivetrain.base.errors import UserError, nearest
from drivetrain.targets.sagemaker.account import Account, region_or_default
from drivetrain.targets.sagemaker.deploy.deployed import Deployed, read_pipeline
from drivetrain.targets.sagemaker.refusals import DeniedError

_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
_ARN = re.compile(rf"arn:aws[a-z-]*:sagemaker:([a-z0-9-]+):(\d{{12}}|aws):pipeline/({_NAME.pattern})")
_MOST_NAMES = 1_000


def is_name(text: str) -> bool:
    """Return True if the text is a valid name of a pipeline, or an ARN."""
    return text.startswith("arn:") or _NAME.fullmatch(text) is not None


def fetch(what: str, region: str | None = None) -> tuple[Deployed, str]:
    """The pipeline of that name or ARN without its tags and triggers, and its region.

    Raises:
        UserError: no such pipeline; an ARN of something else, or of another region.
        ServiceError: AWS refuses.
    """
    arn = _ARN.fullmatch(what)
    if arn is None and what.startswith("arn:"):
        raise UserError(f"{what} is no ARN of a pipeline. Allowed: arn:aws:sagemaker:REGION:ACCOUNT:pipeline/NAME.")
    if arn is not None and region not in (None, arn[1]):
        raise UserError(f"--region is {region}, and the ARN is of {arn[1]}. Leave --region out.")
    account = Account(region_or_default(arn[1] if arn else region))
    there = read_pipeline(account, what)
    if there is None:
        raise UserError(_absent(account, what, arn))
    return replace(there, name=what if arn is None else arn[3]), account.region


def _absent(account: Account, what: str, arn: re.Match[str] | None) -> str:
    if arn is not None and arn[2] != account.number:
        return (
            f"There is no pipeline {arn[3]!r} in account {arn[2]}, {account.region}, or that account does not share it "
            f"with {account.number}. Its owner can share it by AWS RAM."
        )
    name = what if arn is None else arn[3]
    listed = account.pages("sagemaker", "list_pipelines", "PipelineSummaries", about="the pipelines", MaxResults=100)
    with suppress(DeniedError):  # who may not list them is told the rest
        near = nearest(name, [str(each["PipelineName"]) for each in islice(listed, _MOST_NAMES)])
        meant = "" if near is None else f" Did you mean {near!r}?"
        return (
            f"There is no pipeline {name!r} in account {account.number}, {account.region}.{meant} All that are there: "
            f"drivetrain list --deployed --region {account.region}"
        )
    return f"There is no pipeline {name!r} in account {account.number}, {account.region}."
