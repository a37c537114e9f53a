"""Take away all that apply made.

In the order in which a crash leaves least: first what starts the pipeline, then the pipeline, then what it was made of.
Destroying again goes on where it stopped. What executions wrote (models, checkpoints, reports) stays: registered
versions live there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import count
from drivetrain.targets.deployer import runs_command
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.deploy.deployed import (
    APPLIED,
    OWNER,
    Deployed,
    applied_uri,
    fingerprint,
    read,
    read_pipeline,
    read_tags,
)
from drivetrain.targets.sagemaker.deploy.executions.executions import executions
from drivetrain.targets.sagemaker.deploy.lock import alone, lock_uri
from drivetrain.targets.sagemaker.deploy.objects import delete, listed
from drivetrain.targets.sagemaker.deploy.ownership import NOBODY, Owner, claim
from drivetrain.targets.sagemaker.deploy.planning.triggers import AccountTrigger, read_triggers, remove
from drivetrain.targets.sagemaker.refusals import ServiceError
from drivetrain.targets.sagemaker.settings import NAME

_FOLDER = re.compile(r"(?P<own>s3://[^\s\"\\\\]+?)/(?:code|data)/(?P<hash>[0-9a-f]{64})/")


@dataclass(frozen=True)
class Remains:
    """All that destroying a pipeline takes away."""

    name: str
    root: str
    deployed: Deployed | None
    triggers: tuple[AccountTrigger, ...]
    records: tuple[str, ...]
    """URIs of the records of what was applied, the lock among them."""
    objects: tuple[str, ...]
    """URIs of code and data that no other pipeline uses."""
    kept: tuple[str, ...] = ()
    """Lines about what stays though apply made it, and why."""
    owner: Owner | None = None
    """The owner that it must still be of; None where it may be another one's."""

    @property
    def is_empty(self) -> bool:
        return self.deployed is None and not (self.triggers or self.records or self.objects)

    def lines(self) -> list[str]:
        """Lines for people about what goes."""
        found = [trigger.described for trigger in self.triggers]
        if self.deployed is not None:
            found.append(f"pipeline {self.name!r}")
        # The lock is given up rather than deleted with them.
        if records := sum(uri not in _not_counted(self.root, self.name) for uri in self.records):
            found.append(f"{count(records, 'record')} of what was applied")
        if self.objects:
            found.append(f"{len(self.objects)} objects of code and data")
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.name,
            "deployed": self.deployed is not None,
            "triggers": [{"kind": trigger.kind, "name": trigger.name} for trigger in self.triggers],
            "records": list(self.records),
            "objects": list(self.objects),
            "kept": list(self.kept),
        }


def _not_counted(root: str, name: str) -> tuple[str, str]:
    """URIs of objects beside the records that are no records."""
    return lock_uri(root, name), Owner(root).uri(name)


def remains(account: Account, name: str, owner: Owner, *, foreign: bool = False) -> Remains:
    """Find what there is to destroy.

    Args:
        owner: who destroys it.
        foreign: also a pipeline that apply did not make, or another owner's.

    Raises:
        UserError: the pipeline was not made by apply, or is another owner's, or executions are going on.
    """
    root = owner.root
    there = read(account, name)
    claimed = claim(account, name, owner, there)
    if there is not None:
        if not there.is_ours and not foreign:
            raise UserError(
                f"Pipeline {name!r} was not made by `drivetrain apply`. To delete it all the same: --foreign"
            )
        if claimed.other is None or foreign:
            _check_idle(account, name)
        triggers = there.triggers
    else:
        triggers = read_triggers(account, name, account.arn("sagemaker", f"pipeline/{name}"))
    arn = account.arn("sagemaker", f"pipeline/{name}") if there is None else there.arn
    turned = [
        f"{trigger.described} stays: it was changed to start {trigger.arguments['Target'].get('Arn')}, which is not "
        "this pipeline. Delete it yourself if it is not needed."
        for trigger in triggers
        if not trigger.starts(arn)
    ]
    triggers = tuple(trigger for trigger in triggers if trigger.starts(arn))
    other = claimed.other or (NOBODY if there is None and triggers and not claimed.is_known else None)
    if other is not None and not foreign:
        going = ", ".join([*(trigger.described for trigger in triggers), *(() if there is None else ("the pipeline",))])
        raise UserError(
            f"Pipeline {name!r} in this account is not this project's: it belongs to {other}. Destroy it with the "
            f"settings of its owner. To delete it all the same ({going or 'its code and records'}): --foreign"
        )
    found = _objects(account, name, root)
    elsewhere = () if there is None else _elsewhere(there, root, found.seen)
    kept = (*turned, *found.kept, *elsewhere)
    return Remains(name, root, there, triggers, found.records, found.objects, kept, owner=None if foreign else owner)


def _elsewhere(there: Deployed, root: str, records: tuple[str, ...]) -> Iterator[str]:
    """Messages about files that apply wrote under another bucket or prefix than the given one."""
    digest = there.tags.get(APPLIED)
    if digest is None or applied_uri(root, there.name, digest) in records:
        return
    own = f"{root}/{there.name}"
    others = sorted({match["own"] for match in _FOLDER.finditer(there.text) if match["own"] != own})
    where = f"It names code or data in {', '.join(others)}. " if others else ""
    yield (
        f"The record of what apply wrote last is not in {own}/applied/: it was deployed with another "
        f"bucket or prefix, or its record was deleted. {where}The objects there stay until `drivetrain destroy` is "
        "called with that bucket and prefix (--set deployment.targets.sagemaker.bucket=... "
        "--set deployment.targets.sagemaker.prefix=...)."
    )


def _check_idle(account: Account, name: str) -> None:
    going = [execution.id for execution in executions(account, name) if execution.is_going]
    if going:
        stop = runs_command("stop", (going[0],), NAME, name, ("--region", account.region))
        raise UserError(
            f"Pipeline {name!r} is executing ({', '.join(going[:3])}), and the service deletes none that is. Wait, or "
            f"stop it: {stop}"
        )


@dataclass(frozen=True)
class _Objects:
    seen: tuple[str, ...]
    """All records of the pipeline."""
    records: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def _objects(account: Account, name: str, root: str) -> _Objects:
    """The pipeline's records, code and data; without the code and data that other pipelines use."""
    own = tuple(listed(account, f"{root}/{name}/applied/"))
    folders = [listed(account, f"{root}/{name}/{folder}/") for folder in ("code", "data")]
    there = {uri: found for folder in folders for uri in folder if (found := _hash(uri))}
    if not there:
        return _Objects(own, own)
    try:
        users = _users(account, name, set(there.values()), f"{root}/{name}")
    except ServiceError as error:
        # The records say what was deployed with them, so they stay, too.
        kept = (
            f"{len(own)} records, and the code and data beside them, stay in {root}/{name}/: whether another pipeline "
            f"of the account uses them, such as a copy made in Studio, cannot be seen. {error}"
        )
        return _Objects(own, kept=(kept,))
    lines: list[str] = []
    used: set[str] = set()
    for pipeline, hashes in users.items():
        theirs = sorted({uri.partition(found)[0] + found + "/" for uri, found in there.items() if found in hashes})
        lines.append(f"code and data that pipeline {pipeline!r} uses stay: {', '.join(theirs)}")
        used |= hashes
    return _Objects(own, own, tuple(uri for uri, found in there.items() if found not in used), tuple(lines))


def _hash(uri: str) -> str:
    """The one by which an object of code or data lies: `<root>/<pipeline>/code/<hash>/...`; "" for others' objects."""
    found = _FOLDER.match(uri)
    return "" if found is None else found["hash"]


def _users(account: Account, name: str, hashes: set[str], own: str) -> dict[str, set[str]]:
    """Other pipeline of the account -> those of the hashes that its definition names, and not in a folder other than
    `own`: the beginning of the folder may be joined to them.

    Raises:
        ServiceError: not all of them may be read.
    """
    found: dict[str, set[str]] = {}
    about = "the account's pipelines"
    for summary in account.pages("sagemaker", "list_pipelines", "PipelineSummaries", about=about):
        other = str(summary["PipelineName"])
        there = read_pipeline(account, other) if other.lower() != name.lower() else None
        if there is not None:
            elsewhere = [match["hash"] for match in _FOLDER.finditer(there.text) if match["own"] != own]
            if used := {each for each in hashes if there.text.count(each) > elsewhere.count(each)}:
                found[other] = used
    return found


def destroy(
    account: Account,
    what: Remains,
    *,
    tell: Callable[[str], None] = lambda line: None,
    pause: Callable[[float], None] = time.sleep,
) -> Remains:
    """Remove it. Objects are removed only if nothing else uses them now: the user may have looked at `what` for an hour
    while the same code was deployed again. Gives what was removed, and what stays.

    Raises:
        UserError: another user applies it, and went on while this waited.
        ServiceError: AWS refuses; what went before is gone, and destroying again goes on.
    """
    with alone(account, what.root, what.name, doing="destroying the pipeline", tell=tell, pause=pause) as lock:
        _check_same(account, what)
        for trigger in what.triggers:
            remove(account, trigger)
            tell(f"deleted {trigger.described}")
        if what.deployed is not None:
            about = f"pipeline {what.name!r}"
            _check_owner(account, what.deployed)
            account.find("sagemaker", "delete_pipeline", about=about, PipelineName=what.name)
            tell(f"deleted {about}")
        gone = _delete_objects(account, what, tell)
        lock.ends = "gone"
    return gone


def _check_same(account: Account, what: Remains) -> None:
    """
    Raises:
        UserError: the pipeline was made, changed or taken over since it was looked at.
    """
    now = read(account, what.name)
    if now is not None and fingerprint(now) != fingerprint(what.deployed):
        raise UserError(
            f"Pipeline {what.name!r} was changed since it was looked at; nothing was deleted. Look again: drivetrain "
            f"destroy {what.name}"
        )
    if what.owner is not None and (other := claim(account, what.name, what.owner, now).other):
        raise UserError(f"Pipeline {what.name!r} belongs to {other} by now; nothing was deleted.")


def _check_owner(account: Account, there: Deployed) -> None:
    """Just before the pipeline goes: taking it over needs none of the rules and schedules that went before.

    Raises:
        UserError: another owner has.
    """
    now = read_pipeline(account, there.name)
    if now is not None and read_tags(account, there.name, now.arn).get(OWNER) != there.tags.get(OWNER):
        raise UserError(f"Pipeline {there.name!r} was taken over by another owner meanwhile; it was not deleted.")


def _delete_objects(account: Account, what: Remains, tell: Callable[[str], None]) -> Remains:
    """Delete the objects that are still unused, and the records; gives what went and what stays."""
    now = _objects(account, what.name, what.root)
    unused = {*now.objects, *now.records}
    objects, records = (tuple(uri for uri in shown if uri in unused) for shown in (what.objects, what.records))
    since = [line for line in now.kept if line not in what.kept]
    if left := len(what.objects) - len(objects):
        since.append(
            f"{left} objects of code and data were left: others have come to use them, or they are gone already"
        )
    for line in since:
        tell(f"note: {line}")
    # The records last: they say which objects are the pipeline's, should this be cut short. The lock is still held.
    other = tuple(uri for uri in records if uri != lock_uri(what.root, what.name))
    for uris, words in ((objects, "objects of code and data"), (other, "records")):
        if uris:
            delete(account, uris)
            tell(f"deleted {sum(uri not in _not_counted(what.root, what.name) for uri in uris)} {words}")
    return replace(what, objects=objects, records=records, kept=(*what.kept, *since))
