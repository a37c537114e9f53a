"""Take away all that apply made.

In the order in which a crash leaves least: first what starts the pipeline, then the pipeline, then what it was made of.
Destroying again goes on where it stopped. What executions wrote (models, checkpoints, reports) stays: registered
versions live there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.sagemaker.deploying.account import Account
from drivetrain.pipelines.targets.sagemaker.deploying.deployed import Deployed, read
from drivetrain.pipelines.targets.sagemaker.deploying.objects import delete, get_text, listed
from drivetrain.pipelines.targets.sagemaker.deploying.triggers import Trigger, remove, stray_triggers

RUNNING = ("Executing", "Stopping")
_RECORD = re.compile(r"/(?P<pipeline>[^/]+)/applied/[0-9a-f]{64}\.json$")


@dataclass(frozen=True)
class Remains:
    """What is there of a pipeline: all that destroying takes away."""

    name: str
    root: str
    deployed: Deployed | None
    triggers: tuple[Trigger, ...]
    records: tuple[str, ...]
    """URIs of the records of applied definitions."""
    objects: tuple[str, ...]
    """URIs of code and data that no other pipeline's record names."""

    @property
    def is_empty(self) -> bool:
        return self.deployed is None and not (self.triggers or self.records or self.objects)

    def lines(self) -> list[str]:
        """What goes, for people."""
        found = [trigger.described for trigger in self.triggers]
        if self.deployed is not None:
            found.append(f"pipeline {self.name!r}")
        if self.records:
            found.append(f"{len(self.records)} records of applied definitions")
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
        triggers = stray_triggers(account, name)
    records, objects = _objects(account, name, root)
    return Remains(name, root, there, triggers, records, objects)


def _check_idle(account: Account, name: str) -> None:
    going = [
        str(item["PipelineExecutionArn"]).rpartition("/")[2]
        for item in account.pages(
            "sagemaker",
            "list_pipeline_executions",
            "PipelineExecutionSummaries",
            about=f"executions of pipeline {name!r}",
            PipelineName=name,
        )
        if item.get("PipelineExecutionStatus") in RUNNING
    ]
    if going:
        raise UserError(
            f"Pipeline {name!r} is executing ({', '.join(going[:3])}), and the service deletes none that is. Wait, or "
            f"stop it: drivetrain stop {name} {going[0]}"
        )


def _objects(account: Account, name: str, root: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The pipeline's records, and the objects that they name and no other pipeline's records do."""
    own = tuple(listed(account, f"{root}/{name}/applied/"))
    if not own:
        return (), ()
    named = _folders(_texts(account, own), root)
    others = [uri for uri in _records_of_all(account, root) if uri not in own]
    kept = _folders(_texts(account, others), root) if named else set[str]()
    objects = [uri for folder in sorted(named - kept) for uri in listed(account, folder)]
    return own, tuple(objects)


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


def destroy(account: Account, what: Remains, *, tell: Callable[[str], None] = lambda line: None) -> None:
    """Take it away.

    Raises:
        ServiceError: AWS refuses; what went before is gone, and destroying again goes on.
    """
    for trigger in what.triggers:
        remove(account, trigger)
        tell(f"deleted {trigger.described}")
    if what.deployed is not None:
        about = f"pipeline {what.name!r}"
        account.find("sagemaker", "delete_pipeline", about=about, PipelineName=what.name)
        tell(f"deleted {about}")
    # The records last: they say which objects are the pipeline's, should this be cut short.
    for uris, words in ((what.objects, "objects of code and data"), (what.records, "records")):
        if uris:
            delete(account, uris)
            tell(f"deleted {len(uris)} {words}")
