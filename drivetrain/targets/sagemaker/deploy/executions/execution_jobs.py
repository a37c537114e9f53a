"""The jobs behind an execution's steps: machines, billed time, metrics, as the describe calls tell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.steps import fresh_token
from drivetrain.targets.sagemaker.account import Account, members
from drivetrain.targets.sagemaker.deploy.executions.executions import StepRun
from drivetrain.targets.sagemaker.document.step_types import JOBS_OF_METADATA

INTERRUPTED = "Interrupted"


@dataclass(frozen=True)
class JobFacts:
    """A training, processing or transform job. Seconds are those of one host."""

    kind: str
    """Training, Processing or Transform."""
    name: str
    status: str
    instance_type: str | None = None
    count: int | None = None
    seconds: float | None = None
    """How long it ran: of a training, TrainingTimeInSeconds."""
    billable: float | None = None
    """What is billed of it, on one host."""
    spot: bool = False
    interruptions: int = 0
    """How often its spot machines were taken away."""
    phase: str | None = None
    """What a training does now: Downloading, Training, Interrupted, ..."""
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    fresh: bool = False
    """True where it was started with --fresh."""

    @property
    def saving(self) -> float | None:
        """The share that spot machines saved, as the service counts it: 1 - billable / training time."""
        if not self.spot or not self.seconds or self.billable is None:
            return None
        return 1 - self.billable / self.seconds


def job_of(account: Account, step: StepRun) -> JobFacts | None:
    """What is known of the step's job; None where it has none.

    Raises:
        ServiceError: AWS refuses.
    """
    job = JOBS_OF_METADATA.get(step.type)
    if job is None or step.job_name is None:
        return None
    kind = str(job.price)
    about = f"job {step.job_name!r}"
    said = account.call("sagemaker", job.describe, about=about, **{job.name_member: step.job_name})
    if kind == "Training":
        return _training(step.job_name, said)
    if kind == "Processing":
        cluster = members(members(said.get("ProcessingResources")).get("ClusterConfig"))
        begin, end = said.get("ProcessingStartTime"), said.get("ProcessingEndTime")
    else:
        cluster = members(said.get("TransformResources"))
        begin, end = said.get("TransformStartTime"), said.get("TransformEndTime")
    seconds = None if begin is None or end is None else (end - begin).total_seconds()
    return JobFacts(
        kind=kind,
        name=step.job_name,
        status=str(said.get(f"{kind}JobStatus", "")),
        instance_type=cluster.get("InstanceType"),
        count=cluster.get("InstanceCount"),
        seconds=seconds,
        billable=seconds,  # these run on demand
        fresh=_is_fresh(said),
    )


def _training(name: str, said: Mapping[str, Any]) -> JobFacts:
    resources = members(said.get("ResourceConfig"))
    groups: list[Mapping[str, Any]] = resources.get("InstanceGroups") or [resources]
    types = [group.get("InstanceType") for group in groups]
    counts = [group.get("InstanceCount") for group in groups]
    transitions = said.get("SecondaryStatusTransitions") or ()
    return JobFacts(
        kind="Training",
        name=name,
        status=str(said.get("TrainingJobStatus", "")),
        instance_type=types[0] if len(set(types)) == 1 else None,
        count=None if None in counts else sum(int(number or 0) for number in counts),
        seconds=said.get("TrainingTimeInSeconds"),
        billable=said.get("BillableTimeInSeconds"),
        spot=bool(said.get("EnableManagedSpotTraining")),
        interruptions=sum(item.get("Status") == INTERRUPTED for item in transitions),
        phase=said.get("SecondaryStatus"),
        metrics={str(item["MetricName"]): float(item["Value"]) for item in said.get("FinalMetricDataList") or ()},
        fresh=_is_fresh(said),
    )


def _is_fresh(said: Mapping[str, Any]) -> bool:
    return fresh_token(members(said.get("Environment"))) != ""
