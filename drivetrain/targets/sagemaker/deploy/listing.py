"""List the pipelines of an account: each with its state and its last execution."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice

from drivetrain.deploying.listing import Listed
from drivetrain.targets.sagemaker.account import Account, is_of_aws
from drivetrain.targets.sagemaker.deploy.deployed import (
    APPLIED,
    APPLYING,
    OURS,
    OWNER,
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
