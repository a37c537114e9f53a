"""Find the earlier model that a training goes on from: the approved version of a group, a version by its number or by
the run that registered it, or none.

    python -m drivetrain.components.find_previous --group retraining

A pipeline need not name it: `continue_from="previous"` of a training step puts it, and fetch_previous, before the
training. It runs in each execution, and its answer is a parameter of fetch_previous, so that the cache knows it: the
same version is a hit, another one is fetched and trained from.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypedDict

from drivetrain.base.errors import InputError
from drivetrain.steps.declaration import component

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion

NONE, RUN = "none", "run:"


class Found(TypedDict):
    """The version's number and the hash of its files; both are the word `none` where the training starts anew."""

    version: str
    content_hash: str


@component(cached=False, needs=("boto3",))
def find_previous(group: str, which: str = "previous", registry: str = "auto") -> Found:
    """Find out which registered version a training goes on from.

    Args:
        group: the model's name in the registry.
        which: previous for the newest approved version, if there is one; the number of a version; or run:ID, the
            version that a run has registered: its id or ARN, or as much of the beginning as names one.
        registry: KIND:LOCATION, or auto for the registry of the platform.

    Raises:
        InputError: no such version, a run that registered none or several, a rejected version, one without a content
            hash; a registry that cannot be asked.
    """
    import os

    from drivetrain.registry.registry import checked_group, open_registry
    from drivetrain.steps import fresh_token

    checked_group(group)
    if fresh_token(os.environ):
        return _anew("--fresh")
    opened = open_registry(registry)
    if which == "previous":
        version = opened.champion(group)
        if version is None:
            return _anew(f"{group} has no approved version")
    elif which.isdecimal() or which.startswith(RUN):
        number = int(which) if which.isdecimal() else _of_run(opened.versions(group), group, which.removeprefix(RUN))
        version = opened.version(group, number)
        if version.status == "Rejected":
            raise InputError(
                f"{group} version {number} is rejected, so nothing goes on from it. Approve it (drivetrain models "
                f"approve {group} {number}), or give another version, or previous for the approved one."
            )
    else:
        raise InputError(f"which is {which!r}. Allowed: previous, the number of a version of {group}, or run:ID.")
    if not version.content_hash:
        raise InputError(
            f"{group} version {version.version} was registered without the hash of its content, so it is unknown "
            "whether its files were changed. Register it again with drivetrain, or give another version."
        )
    print(f"continues {group} version {version.version} (content {version.content_hash[:12]})", flush=True)
    return {"version": str(version.version), "content_hash": version.content_hash}


def _of_run(versions: Iterable[ModelVersion], group: str, run: str) -> int:
    """The number of the version that a run has registered."""
    made: dict[str, list[int]] = {}
    for version in versions:
        for execution in (version.lineage.get("execution") or "", *version.repeated_by):
            if run and (execution.startswith(run) or execution.rpartition("/")[2].startswith(run)):
                made.setdefault(execution, []).append(version.version)
    if not made:
        raise InputError(
            f"no run {run!r} has registered a version of {group}. drivetrain models show {group} has "
            "the runs of its versions. Of a model that was not registered give its path or URI to continue_from."
        )
    if len(made) > 1:
        raise InputError(f"{run!r} is the beginning of several runs: {', '.join(sorted(made))}. Give all of one's id.")
    ((execution, numbers),) = made.items()
    if len(numbers) > 1:
        raise InputError(
            f"run {run!r} has registered versions {', '.join(map(str, sorted(numbers)))} of {group}. Give one's number."
        )
    return numbers[0]


def _anew(why: str) -> Found:
    print(f"starts anew: {why}", flush=True)
    return {"version": NONE, "content_hash": NONE}


if __name__ == "__main__":
    find_previous.main()
