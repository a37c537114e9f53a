"""A pipeline as the code says: the version to be deployed, its recurring runs, and the objects that it names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
from drivetrain.deploying.project import project_of
from drivetrain.spec.pipeline import Schedule
from drivetrain.targets.kubeflow.compile.checks import task_name
from drivetrain.targets.kubeflow.compile.compile import Compiled
from drivetrain.targets.kubeflow.deploy.differences import whole
from drivetrain.targets.kubeflow.deploy.executions.steps import planned
from drivetrain.targets.kubeflow.deploy.objects import Owner
from drivetrain.targets.kubeflow.deploy.service import part
from drivetrain.targets.kubeflow.schedules import trigger_of
from drivetrain.targets.kubeflow.settings import Settings, settings_of
from drivetrain.triggers.looking import refuse_data_that_never_change

Json = dict[str, Any]
MAX_NAME = 100
MAX_RUN_NAME = 128
"""Characters of an execution's name: a bound of this package, the same as an experiment's in the settings."""


@dataclass(frozen=True)
class Recurring:
    """A schedule as a recurring run, without the ids that only the cluster knows."""

    trigger: str
    """The name of the schedule."""
    body: Mapping[str, Any]
    """`trigger`, `mode`, `runtime_config`, `service_account`, `max_concurrency`, `no_catchup`."""


def when(body: Mapping[str, Any]) -> str:
    """When a recurring run starts, for people."""
    trigger = part(body, "trigger")
    cron, periodic = part(trigger, "cron_schedule"), part(trigger, "periodic_schedule")
    said = f"cron {cron.get('cron')}" if cron else f"every {periodic.get('interval_second')} s"
    bounds = cron or periodic
    said += "".join(f", {word} {bounds[name]}" for word, name in (("from", "start_time"), ("to", "end_time"))
                    if bounds.get(name))  # fmt: skip
    return said + ("" if body.get("mode", "ENABLE") == "ENABLE" else ", switched off")


@dataclass(frozen=True)
class Desired:
    """The pipeline that is to be deployed."""

    name: str
    settings: Settings
    text: str
    spec: Mapping[str, Any]
    description: str
    recurring: tuple[Recurring, ...]
    assets: tuple[Asset, ...]
    notes: tuple[str, ...]
    project: str = ""

    @property
    def api_name(self) -> str:
        """The name that the platform takes: lower case, unique in the namespace."""
        return task_name(self.name)

    @property
    def root(self) -> str:
        return f"{self.settings.root}/{self.name}"

    @property
    def owner(self) -> Owner:
        return owner(self.settings, self.name, self.project)

    @property
    def experiment(self) -> str:
        return self.settings.experiment or self.name

    @cached_property
    def sha256(self) -> str:
        """The hash of the IR's text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def fingerprint(self) -> str:
        """The hash of all that applying writes."""
        said = [self.name, self.settings.endpoint, self.settings.namespace, self.experiment, self.root, self.sha256]
        said += [self.project, self.description, [[each.trigger, each.body] for each in self.recurring]]
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    @property
    def num_steps(self) -> int:
        return len(planned(self.spec))

    @property
    def num_parameters(self) -> int:
        ir: Json = dict(self.spec.get("pipeline_spec", self.spec))
        return len(ir.get("root", {}).get("inputDefinitions", {}).get("parameters", {}))


def owner(settings: Settings, name: str, project: str) -> Owner:
    """The owner of the pipeline's own folder in the storage."""
    return Owner(settings.endpoint.rstrip("/"), settings.namespace, name, project)


def pipeline_root(root: str) -> str:
    """Below which executions of a pipeline write, in words of a run's `runtime_config`."""
    return f"{root}/runs"


def desired(compiled: Compiled) -> Desired:
    """
    Raises:
        UserError: the settings name no place, or a name is too long.
    """
    pipeline = compiled.pipeline
    settings = settings_of(pipeline.deployment)
    check_place(settings)
    refuse_data_that_never_change(pipeline)
    if len(pipeline.name) > MAX_NAME:
        raise UserError(f"Pipeline {pipeline.name!r:.60}: {len(pipeline.name)} characters; at most {MAX_NAME} there.")
    root = f"{settings.root}/{pipeline.name}"
    types = {parameter.name: parameter.type for parameter in pipeline.parameters}
    recurring: list[Recurring] = []
    for trigger in pipeline.triggers:
        if isinstance(trigger, Schedule):
            values = {
                name: float(value) if types.get(name) == "Float" and isinstance(value, int) else value
                for name, value in sorted(trigger.parameters.items())
            }
            body: Json = {
                "trigger": trigger_of(trigger),
                "mode": "ENABLE" if trigger.enabled else "DISABLE",
                "runtime_config": {"parameters": values, "pipeline_root": pipeline_root(root)},
                # One at a time, and none for a time that has passed: as schedules elsewhere.
                "max_concurrency": "1",
                "no_catchup": True,
            }
            if settings.service_account:
                body["service_account"] = settings.service_account
            recurring.append(Recurring(trigger.name, body))
    project = project_of(pipeline.deployment)
    return Desired(
        name=pipeline.name,
        settings=settings,
        text=compiled.text,
        spec=whole(compiled.ir, compiled.platform),
        description=pipeline.description or "",
        recurring=tuple(recurring),
        # The record comes first: what an apply that is cut short has uploaded has an owner, too.
        assets=(owner(settings, pipeline.name, project).record(root), *compiled.assets),
        notes=tuple(compiled.notes),
        project=project,
    )


def check_place(settings: Settings, *, storage: bool = True) -> None:
    """Refuse the defaults, which name no cluster and no storage.

    Raises:
        UserError: naming the setting to give.
    """
    for name in ("endpoint", "root") if storage else ("endpoint",):
        given = getattr(settings, name)
        if given == getattr(Settings(), name):
            raise UserError(
                f"deployment.targets.kubeflow.{name} is not set. Say where the pipeline lives, in the settings file "
                f"or with --set deployment.targets.kubeflow.{name}=... (docs/kubeflow.md)."
            )
