"""Pipelines of an account: listed with their states and last executions, or one found by its name or its ARN, which
may be of another account that shares it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from drivetrain.base.errors import UserError, nearest
from drivetrain.deploying.runs import Listed
from drivetrain.targets.sagemaker.account import Account, is_of_aws, region_or_default
from drivetrain.targets.sagemaker.deploy.deployed import (
    APPLIED,
    APPLYING,
    OURS,
    OWNER,
    Deployed,
    LostError,
    base_of,
    read_pipeline,
    read_tags,
)
from drivetrain.targets.sagemaker.deploy.executions.executions import executions
from drivetrain.targets.sagemaker.deploy.wire import digest_of
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.refusals import AbsentError, DeniedError

PAGE = 100
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,255}")
_ARN = re.compile(rf"arn:aws[a-z-]*:sagemaker:([a-z0-9-]+):(\d{{12}}|aws):pipeline/({_NAME.pattern})")
_MOST_NAMES = 1_000


def deployed_pipelines(account: Account, limit: int | None = None) -> Iterator[Listed]:
    """The pipelines of the account in its region, by name, as they are read: three calls for each.

    Those that AWS manages are left out, and one that is deleted meanwhile.

    Raises:
        ServiceError: AWS refuses the list.
    """
    found = account.pages(
        "sagemaker",
        "list_pipelines",
        "PipelineSummaries",
        about=f"the pipelines in {account.region}",
        SortBy="Name",
        SortOrder="Ascending",
        MaxResults=min(limit or PAGE, PAGE),
    )
    for summary in islice((each for each in found if not is_of_aws(str(each["PipelineArn"]))), limit):
        name, arn, modified = str(summary["PipelineName"]), str(summary["PipelineArn"]), summary.get("LastModifiedTime")
        seconds = None if modified is None else float(modified.timestamp())
        try:
            yield _listed(account, name, arn, seconds)
        except AbsentError:
            continue
        except DeniedError:
            yield Listed(name, {"arn": arn}, "not readable", seconds)


def _listed(account: Account, name: str, arn: str, modified: float | None) -> Listed:
    tags = read_tags(account, name, arn)
    last = next(
        (
            {"execution": each.id, "arn": each.arn, "status": each.status, "started": each.started or None}
            for each in executions(account, name, 1)
        ),
        None,
    )
    return Listed(name, {"arn": arn}, _state(account, name, tags), modified, tags.get(APPLIED), last)


def _state(account: Account, name: str, tags: dict[str, str]) -> str:
    if not any(tag in tags for tag in OURS):
        return "not ours"
    if APPLYING in tags:
        return "being applied"
    there = read_pipeline(account, name)
    if there is None:
        raise AbsentError(f"There is no pipeline {name!r} any more.")
    if digest_of(there.text) == tags[APPLIED]:
        return "as applied"
    root = tags.get(OWNER, "").partition(" ")[0]  # of its owner, in whose bucket the record is
    with suppress(LostError, DeniedError):
        base = base_of(account, replace(there, tags=tags), root) if root else None
        if base is not None and not differences(base, there.definition):
            return "as applied"  # written in another way, with the same meaning: taken over, say
    return "edited"


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
