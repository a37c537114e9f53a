"""The steps of an execution and the jobs behind them: machines, billed time, metrics, as the service tells them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.base.json_text import object_in
from drivetrain.deploying.runs import RemoteStep
from drivetrain.run_store.changes import INTERRUPTED
from drivetrain.run_store.model import Job
from drivetrain.steps import fresh_token
from drivetrain.targets.sagemaker.account import Account
from drivetrain.targets.sagemaker.document.step_types import JOBS_OF_METADATA


@dataclass(frozen=True, kw_only=True)
class JobFacts(Job):
    """A training, processing or transform job. Seconds are those of one host."""

    kind: str
    """Training, Processing or Transform."""
    name: str
    instance_type: str | None = None
    count: int | None = None
    seconds: float | None = None
    """How long it ran: of a training, TrainingTimeInSeconds."""
    billable: float | None = None
    """The billed seconds, on one host."""
    spot: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict[str, float])
    fresh: bool = False
    """True where it was started with --fresh."""
    starts: str = ""
    """The start of a training in its own words; or that its log may not be read."""
    cost: float | None = None
    """The cost of the billed machine time, without volumes; None if the price or the time is not known."""
    on_demand_cost: float | None = None
    """The cost that it would have had on demand."""

    @property
    def saving(self) -> float | None:
        """The share that spot machines saved, as the service counts it: 1 - billable / training time."""
        if not self.spot or not self.seconds or self.billable is None:
            return None
        return 1 - self.billable / self.seconds


@dataclass(frozen=True, kw_only=True)
class JobStep(RemoteStep):
    """One step as ListPipelineExecutionSteps tells it. `type` is the service's word for what it did (`TrainingJob`,
    `Condition`, ...)."""

    arn: str | None = None
    """The ARN of its job, model or function."""
    body_step: str | None = None
    """The step in the body of a ForEach that it is one iteration of."""
    job: JobFacts | None = None

    @property
    def job_name(self) -> str | None:
        return None if self.arn is None else self.arn.rpartition("/")[2]

    @property
    def log_group(self) -> str | None:
        if self.type == "Lambda" and self.arn is not None:
            return f"/aws/lambda/{self.arn.rpartition(':function:')[2].partition(':')[0]}"
        job = JOBS_OF_METADATA.get(self.type)
        return job.logs if job is not None and self.arn is not None and self.cache_of is None else None

    @property
    def unhealthy(self) -> str:
        """`train` logs healthy=0 where a health rule failed its model, which is a metric of its job."""
        failed = self.status == "Succeeded" and self.job is not None and self.job.metrics.get("healthy") == 0
        return "a health rule failed its model: its log says which, and what to do" if failed else ""

    @property
    def shown_status(self) -> str:
        return "Unhealthy" if self.unhealthy else self.status


def job_of(account: Account, step: JobStep) -> JobFacts | None:
    """Read the facts of the step's job; None if it has none, or if another run paid for its result.

    Raises:
        ServiceError: AWS refuses.
    """
    job = JOBS_OF_METADATA.get(step.type)
    if job is None or step.job_name is None or step.cache_of:
        return None
    kind = str(job.price)
    about = f"job {step.job_name!r}"
    said = account.call("sagemaker", job.describe, about=about, **{job.name_member: step.job_name})
    if kind == "Training":
        return _training(step.job_name, said)
    if kind == "Processing":
        cluster = object_in(object_in(said, "ProcessingResources"), "ClusterConfig")
        begin, end = said.get("ProcessingStartTime"), said.get("ProcessingEndTime")
    else:
        cluster = object_in(said, "TransformResources")
        begin, end = said.get("TransformStartTime"), said.get("TransformEndTime")
    seconds = None if begin is None or end is None else (end - begin).total_seconds()
    return JobFacts(
        kind=kind,
        name=step.job_name,
        instance_type=cluster.get("InstanceType"),
        count=cluster.get("InstanceCount"),
        seconds=seconds,
        billable=seconds,  # these run on demand
        fresh=_is_fresh(said),
    )


def _training(name: str, said: Mapping[str, Any]) -> JobFacts:
    resources = object_in(said, "ResourceConfig")
    groups: list[Mapping[str, Any]] = resources.get("InstanceGroups") or [resources]
    types = [group.get("InstanceType") for group in groups]
    counts = [group.get("InstanceCount") for group in groups]
    transitions = said.get("SecondaryStatusTransitions") or ()
    interruptions = sum(item.get("Status") == INTERRUPTED for item in transitions)
    return JobFacts(
        kind="Training",
        name=name,
        instance_type=types[0] if len(set(types)) == 1 else None,
        count=None if None in counts else sum(int(number or 0) for number in counts),
        seconds=said.get("TrainingTimeInSeconds"),
        billable=said.get("BillableTimeInSeconds"),
        spot=bool(said.get("EnableManagedSpotTraining")),
        interruptions=max(interruptions, int(said.get("SecondaryStatus") == INTERRUPTED)),
        phase=said.get("SecondaryStatus"),
        metrics={str(item["MetricName"]): float(item["Value"]) for item in said.get("FinalMetricDataList") or ()},
        fresh=_is_fresh(said),
    )


def _is_fresh(said: Mapping[str, Any]) -> bool:
    return fresh_token(object_in(said, "Environment")) != ""
