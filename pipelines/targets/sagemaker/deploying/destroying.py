"""Take away all that apply made.

In the order in which a crash leaves least: first what starts the pipeline, then the pipeline, then what it was made of.
Destroying again goes on where it stopped. What executions wrote (models, checkpoints, reports) stays: registered
versions live there.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.sagemaker.deploying.account import Account
from drivetrain.pipelines.targets.sagemaker.deploying.deployed import (
    APPLIED,
    Deployed,
    applied_uri,
    read,
    read_pipeline,
)
from drivetrain.pipelines.targets.sagemaker.deploying.executions import executions
from drivetrain.pipelines.targets.sagemaker.deploying.lock import alone, lock_uri
from drivetrain.pipelines.targets.sagemaker.deploying.objects import delete, get_text, listed
from drivetrain.pipelines.targets.sagemaker.deploying.refusals import ServiceError
from drivetrain.pipelines.targets.sagemaker.deploying.triggers import AccountTrigger, read_triggers, remove

_FOLDER = re.compile(r"(?P<root>s3://[^\s\"\\\\]+?)/(?:code|data)/[0-9a-f]{64}/")
_RECORD = re.compile(r"/(?P<pipeline>[^/]+)/applied/[0-9a-f]{64}\.json$")


@dataclass(frozen=True)
class Remains:
    """What is there of a pipeline: all that destroying takes away."""

    name: str
    root: str
    deployed: Deployed | None
    triggers: tuple[AccountTrigger, ...]
    records: tuple[str, ...]
    """URIs of the records of what was applied, the lock among them."""
    objects: tuple[str, ...]
    """URIs of code and data that no other pipeline uses."""
    kept: tuple[str, ...] = ()
    """What stays though apply made it, and why: a line each."""

    @property
    def is_empty(self) -> bool:
        return self.deployed is None and not (self.triggers or self.records or self.objects)

    def lines(self) -> list[str]:
        """What goes, for people."""
        found = [trigger.described for trigger in self.triggers]
        if self.deployed is not None:
            found.append(f"pipeline {self.name!r}")
        if self.records:
            found.append(f"{len(self.records)} records of what was applied")
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


def remains(account: Account, name: str, root: str, *, foreign: bool = False) -> Remains:
    """What there is to destroy.

    Args:
        foreign: also a pipeline that apply did not make.

    Raises:
        UserError: the pipeline was not made by apply, or executions are going on.
    """
    there = read(account, name)
    if there is not None:
        if not there.is_ours and not foreign:
            raise UserError(
                f"Pipeline {name!r} was not made by `drivetrain apply`. To delete it all the same: --foreign"
            )
        _check_idle(account, name)
        triggers = there.triggers
    else:
        triggers = read_triggers(account, name, account.arn("sagemaker", f"pipeline/{name}"))
    arn = account.arn("sagemaker", f"pipeline/{name}") if there is None else there.arn
    turned = [
        f"{trigger.described} stays: somebody has made it start {trigger.arguments['Target'].get('Arn')}, which is not "
        "this pipeline. Delete it yourself where nobody needs it."
        for trigger in triggers
        if not trigger.starts(arn)
    ]
    triggers = tuple(trigger for trigger in triggers if trigger.starts(arn))
    found = _objects(account, name, root)
    elsewhere = () if there is None else _elsewhere(there, root, found.seen)
    return Remains(name, root, there, triggers, found.records, found.objects, (*turned, *found.kept, *elsewhere))


def _elsewhere(there: Deployed, root: str, records: tuple[str, ...]) -> Iterator[str]:
    """Words about what apply wrote under another bucket or prefix than the one that is given now."""
    digest = there.tags.get(APPLIED)
    if digest is None or applied_uri(root, there.name, digest) in records:
        return
    others = sorted({match["root"] for match in _FOLDER.finditer(there.text) if match["root"] != root})
    where = f"It names code or data in {', '.join(others)}. " if others else ""
    yield (
        f"The record of what apply wrote last is not in {root}/{there.name}/applied/: it was deployed with another "
        f"bucket or prefix, or its record was deleted. {where}What lies there stays, until `drivetrain destroy` is "
        "called with that bucket and prefix (--set deployment.bucket=... --set deployment.prefix=...)."
    )


def _check_idle(account: Account, name: str) -> None:
    going = [execution.id for execution in executions(account, name) if execution.is_going]
    if going:
        raise UserError(
            f"Pipeline {name!r} is executing ({', '.join(going[:3])}), and the service deletes none that is. Wait, or "
            f"stop it: drivetrain stop {name} {going[0]}"
        )


@dataclass(frozen=True)
class _Objects:
    seen: tuple[str, ...]
    """All records of the pipeline."""
    records: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


def _objects(account: Account, name: str, root: str) -> _Objects:
    """The pipeline's records, and the objects that they name and no other pipeline uses."""
    own = tuple(listed(account, f"{root}/{name}/applied/"))
    named = _folders(_texts(account, own), root)
    if not named:
        return _Objects(own, own)
    others = [uri for uri in _records_of_all(account, root) if uri not in own]
    used = named & _folders(_texts(account, others), root)
    kept: list[str] = []
    if left := named - used:
        try:
            users = _users(account, name, left)
        except ServiceError as error:
            # The records say which objects they are, so they stay with them.
            kept = [
                f"{len(own)} records, and the code and data that they name, stay in {root}: whether another pipeline "
                f"of the account uses them, such as a copy made in Studio, cannot be seen. {error}"
            ]
            return _Objects(own, kept=tuple(kept))
        for pipeline, folders in users.items():
            kept.append(f"code and data that pipeline {pipeline!r} uses stay: {', '.join(sorted(folders))}")
            used |= folders
    objects = [uri for folder in sorted(named - used) for uri in listed(account, folder)]
    return _Objects(own, own, tuple(objects), tuple(kept))


def _users(account: Account, name: str, folders: set[str]) -> dict[str, set[str]]:
    """Other pipeline of the account -> those of the folders that its definition names, by their hashes: the beginning
    may be joined to them.

    Raises:
        ServiceError: not all of them may be read.
    """
    found: dict[str, set[str]] = {}
    about = "the account's pipelines"
    for summary in account.pages("sagemaker", "list_pipelines", "PipelineSummaries", about=about):
        other = str(summary["PipelineName"])
        there = read_pipeline(account, other) if other.lower() != name.lower() else None
        if there is not None and (used := {folder for folder in folders if folder.split("/")[-2] in there.text}):
            found[other] = used
    return found


def _records_of_all(account: Account, root: str) -> list[str]:
    """The records of every pipeline below the root: folders are listed, not what executions wrote into them."""
    bucket, _, prefix = root.removeprefix("s3://").partition("/")
    found: list[str] = []
    folders = account.pages(
        "s3",
        "list_objects_v2",
        "CommonPrefixes",
        about=root,
        Bucket=bucket,
        Prefix=f"{prefix}/",
        Delimiter="/",
    )
    for folder in folders:
        found += [uri for uri in listed(account, f"s3://{bucket}/{folder['Prefix']}applied/") if _RECORD.search(uri)]
    return found


def _texts(account: Account, uris: Iterable[str]) -> Iterable[str]:
    for uri in uris:
        text = get_text(account, uri)
        if text is not None:
            yield text


def _folders(texts: Iterable[str], root: str) -> set[str]:
    """The folders named by a hash that definitions mention: `{root}/code/<hash>/`, `{root}/data/<hash>/`."""
    pattern = re.compile(re.escape(root) + r"/(?:code|data)/[0-9a-f]{64}/")
    return {found for text in texts for found in pattern.findall(text)}


def destroy(
    account: Account,
    what: Remains,
    *,
    tell: Callable[[str], None] = lambda line: None,
    pause: Callable[[float], None] = time.sleep,
) -> Remains:
    """Take it away. Of objects only what still nobody else uses: a person may have looked at `what` for an hour, and
    somebody deployed the same code meanwhile. Gives what was taken away, and what stays.

    Raises:
        UserError: somebody applies it, and went on doing so while this waited.
        ServiceError: AWS refuses; what went before is gone, and destroying again goes on.
    """
    with alone(account, what.root, what.name, doing="destroying the pipeline", tell=tell, pause=pause) as lock:
        gone = _destroy(account, what, tell)
        lock.ends = "gone"
    return gone


def _destroy(account: Account, what: Remains, tell: Callable[[str], None]) -> Remains:
    for trigger in what.triggers:
        remove(account, trigger)
        tell(f"deleted {trigger.described}")
    if what.deployed is not None:
        about = f"pipeline {what.name!r}"
        account.find("sagemaker", "delete_pipeline", about=about, PipelineName=what.name)
        tell(f"deleted {about}")
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
            tell(f"deleted {len(uris)} {words}")
    return replace(what, objects=objects, records=records, kept=(*what.kept, *since))
