"""A pipeline as it is on the cluster: its versions, its recurring runs, and who made them.

What apply makes says so in its description, a line `drivetrain: {...}`, which nothing but making it anew changes.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.targets.kubeflow.compile.checks import task_name
from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.rest import Api
from drivetrain.targets.kubeflow.deploy.service import part, seconds

Json = dict[str, Any]
_MARK = re.compile(r"^drivetrain: (\{.*\})$", re.MULTILINE)
_VERSION = re.compile(r"([1-9][0-9]{0,8})-[0-9a-f]{12}")


def marked(text: str, **said: Any) -> str:
    """A description with the mark of what apply makes."""
    mark = f"drivetrain: {json.dumps(said, sort_keys=True)}"
    return f"{text}\n{mark}" if text else mark


def mark_of(resource: Mapping[str, Any]) -> Json | None:
    """Read the mark of a resource; None where others made it."""
    found = _MARK.search(str(resource.get("description") or ""))
    if found is None:
        return None
    try:
        said: Any = json.loads(found[1])
    except ValueError:
        return None
    return cast("Json", said) if isinstance(said, dict) else None


@dataclass(frozen=True)
class Version:
    """A version of the pipeline. `sha256` is that of the IR's text where apply made it; None where others did."""

    id: str
    name: str
    created: float | None
    sha256: str | None
    spec: Mapping[str, Any]
    root: str | None = None
    """The folder of the storage that apply wrote its files to; None of versions of others."""
    project: str | None = None
    """The project that applied it; None for versions of others, and for versions older than projects."""

    @property
    def number(self) -> int:
        """The number in the name of a version that apply made; 0 of others."""
        found = _VERSION.fullmatch(self.name)
        return int(found[1]) if found and self.sha256 else 0


@dataclass(frozen=True)
class RecurringRun:
    """A recurring run of the pipeline, as it is there."""

    id: str
    name: str
    said: Json
    """The API's answer about it."""

    @property
    def trigger(self) -> str | None:
        """The schedule that apply made it for; None where others made it."""
        mark = mark_of(self.said)
        return None if mark is None else str(mark.get("trigger"))

    @property
    def version_id(self) -> str:
        return str(part(self.said, "pipeline_version_reference").get("pipeline_version_id") or "")

    @property
    def is_on(self) -> bool:
        return self.body["mode"] == "ENABLE"

    @property
    def body(self) -> Json:
        """The fields that a schedule says, as `Recurring.body` spells them."""
        return body_of(self.said)


def body_of(said: Mapping[str, Any]) -> Json:
    """The fields of a recurring run that a schedule says, spelled in one way.

    Servers add defaults. A service account counts as a default if the mark of the recurring run says that the user set
    none.
    """
    trigger: Json = {}
    for name, fields in (
        ("cron_schedule", ("cron", "start_time", "end_time")),
        ("periodic_schedule", ("interval_second", "start_time", "end_time")),
    ):
        there: Json = part(said, "trigger").get(name) or {}
        if kept := {field: _spelled(field, there[field]) for field in fields if there.get(field)}:
            trigger[name] = kept
    config: Json = part(said, "runtime_config")
    off = said.get("status") == "DISABLED" or said.get("mode") == "DISABLE"
    found: Json = {
        "trigger": trigger,
        "mode": "DISABLE" if off else "ENABLE",
        "runtime_config": {
            "parameters": config.get("parameters") or {},
            "pipeline_root": config.get("pipeline_root") or "",
        },
        "max_concurrency": str(said.get("max_concurrency") or ""),
        "no_catchup": bool(said.get("no_catchup")),
    }
    mark = mark_of(said)
    if said.get("service_account") and (mark is None or mark.get("service_account")):
        found["service_account"] = said["service_account"]
    return found


def _spelled(field: str, value: Any) -> Any:
    return seconds(value) if field.endswith("_time") else str(value)


def digest(body: Mapping[str, Any]) -> str:
    """Hash a recurring run's fields. Its mark has the hash, so that changes by others are seen."""
    return hashlib.sha256(json.dumps(body_of(body), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Deployed:
    """A pipeline on the cluster."""

    id: str
    name: str
    said: Json
    newest: Version | None
    applied: Version | None
    """The latest version that apply made."""
    recurring: tuple[RecurringRun, ...]

    @property
    def ids(self) -> dict[str, str]:
        """Its names for scripts."""
        return {"id": self.id}

    @property
    def number(self) -> int:
        """The number of the latest version that apply made; 0 without one."""
        return 0 if self.applied is None else self.applied.number

    @property
    def is_ours(self) -> bool:
        """True where apply made it, or has taken it over with a version."""
        return mark_of(self.said) is not None or self.number > 0

    def other(self, root: str, project: str | None) -> str | None:
        """Describe the owner if the pipeline belongs to another `root` or `project`, else None. A `project` of None
        accepts any."""
        mark = mark_of(self.said) or {}
        there = (self.applied.root, self.applied.project) if self.applied else (mark.get("root"), mark.get("project"))
        if there[0] not in (None, root):
            return f"other settings, with the folder {there[0]}; these settings say {root}"
        if there[1] in (None, project) or project is None:
            return None
        return f"project {there[1]!r}" if there[1] else "a project without a name"

    def refuse_other(self, root: str, project: str | None, instead: str) -> None:
        """
        Raises:
            UserError: it is not of these (`other`).
        """
        if (other := self.other(root, project)) is not None:
            raise UserError(f"Pipeline {self.name!r} there is not this project's: it belongs to {other}. {instead}")


NOTHING = "nothing"


def fingerprint(deployed: Deployed | None) -> str:
    """The fingerprint of the state that a plan is made of."""
    if deployed is None:
        return NOTHING
    recurring = [[each.id, each.version_id, digest(each.said)] for each in deployed.recurring]
    said = [deployed.id, deployed.newest and deployed.newest.id, recurring]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def read(api: Api, name: str, *, recurring: bool = True) -> Deployed | None:
    """Read a pipeline from the cluster; None if it is missing.

    Args:
        recurring: whether its recurring runs are asked for, too.

    Raises:
        ApiError: the API cannot be asked, or refuses.
        UserError: it has the name of another pipeline there.
    """
    said = service.find_pipeline(api, task_name(name))
    if said is None:
        return None
    owner = (mark_of(said) or {}).get("pipeline", name)
    if owner != name:
        raise UserError(
            f"Pipeline {name!r} is called {task_name(name)!r} there, and so is pipeline {owner!r}, which is deployed "
            f"in namespace {api.namespace!r}. Give one of them another name."
        )
    id = str(said["pipeline_id"])
    newest, applied = _versions(api, id, name)
    runs = [
        RecurringRun(str(each["recurring_run_id"]), str(each.get("display_name") or ""), each)
        for each in (service.recurring_runs(api) if recurring else ())
        if part(each, "pipeline_version_reference").get("pipeline_id") == id
    ]
    for each in runs:
        check_namespace(api, each.said)
    return Deployed(id, str(said.get("display_name") or name), said, newest, applied, tuple(runs))


def check_namespace(api: Api, said: Mapping[str, Any]) -> None:
    """Refuse settings if the server ignores their namespace: its answer about a recurring run shows the true one.

    Raises:
        UserError: as above.
    """
    true = said.get("namespace")
    if true and true != api.namespace:
        raise UserError(
            f"{api.endpoint} is installed for a single user and runs everything in its own namespace, {true!r}; the "
            f"settings say {api.namespace!r}. Set deployment.targets.kubeflow.namespace={true}."
        )


def _versions(api: Api, id: str, name: str) -> tuple[Version | None, Version | None]:
    """The newest version, and the latest that apply made. Times are in whole seconds, so that of two of one second the
    higher number is the newer."""
    newest: Version | None = None
    applied: Version | None = None
    for each in service.versions(api, id, name):
        found = version(each)
        if newest is None or (found.created == newest.created and found.number > newest.number):
            newest = found
        if found.number > (0 if applied is None else applied.number):
            applied = found
        if applied is not None and found.created != newest.created:
            break
    return newest, applied


def version(said: Mapping[str, Any]) -> Version:
    """A version as the API says it."""
    mark = mark_of(said) or {}
    sha256, root, project = mark.get("sha256"), mark.get("root"), mark.get("project")
    return Version(
        id=str(said["pipeline_version_id"]),
        name=str(said.get("name") or said.get("display_name") or ""),
        created=seconds(said.get("created_at")),
        sha256=sha256 if isinstance(sha256, str) else None,
        spec=said.get("pipeline_spec") or {},
        root=root if isinstance(root, str) else None,
        project=project if isinstance(project, str) else None,
    )
