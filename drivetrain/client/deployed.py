"""Runs of a deployed pipeline, where it is deployed: on SageMaker, on Kubeflow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, shown
from drivetrain.base.formatting import duration
from drivetrain.base.masking import without_secrets
from drivetrain.client.arguments import PLACE, checked, checked_limit, checked_lines
from drivetrain.client.frames import Named, table
from drivetrain.operations.deployment import deployer_of, refuse_in_vain
from drivetrain.operations.running import new_progress

if TYPE_CHECKING:
    from drivetrain.deploying.runs import Report
    from drivetrain.targets.deployer import Deployer, Handle

_ENDED = ("Succeeded", "CompletedWithFailures", "Failed", "Stopped")
MOST = 20


class Deployed:
    """A deployed pipeline.

        pipeline = dt.Deployed("retraining", config="production.yaml")
        run = pipeline.start(MinAccuracy=0.98)
        run.wait().status, run.steps["train"].seconds

    Args:
        pipeline: its name, a ready pipeline, or FILE.py[:FUNCTION].
        target: `sagemaker` or `kubeflow`; that of the settings unless given.
        config: the settings file with which it was deployed; it says where.
        region: of AWS, where no settings say it.
        settings: further settings, such as `{"deployment.targets.sagemaker.region": "eu-west-1"}`.

    Raises:
        UserError: wrong settings, such as change neither which pipeline it is nor where (a deployed one runs as it was
            applied), or nothing says where it is. Nothing is asked of the place yet.
    """

    def __init__(
        self,
        pipeline: str,
        *,
        target: str | None = None,
        config: str | Path | None = None,
        region: str | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        from drivetrain.operations.operands import as_overrides

        if not isinstance(pipeline, str):  # type: ignore[reportUnnecessaryIsInstance]
            raise UserError(f"Deployed({shown(pipeline)}): give the name of a pipeline, or FILE.py[:FUNCTION].")
        checked("Deployed", PLACE, config=config)
        checked("Deployed", str | None, target=target, region=region)
        checked("Deployed", Mapping | None, settings=settings)
        overrides = as_overrides(settings or {})
        place = None if config is None else Path(config)
        refuse_in_vain(pipeline, place, overrides, parameter="start(NAME=value)")
        self._deployer, self.name = deployer_of(pipeline, place, overrides, region, target)

    @property
    def where(self) -> str:
        """`account 123456789012, us-east-1`, or the server and namespace."""
        return self._deployer.where

    def start(self, *, name: str | None = None, fresh: bool = False, **parameters: Any) -> DeployedRun:
        """Start it there; comes back at once.

        Args:
            name: what the run is called.
            fresh: use nothing of earlier runs: no cached result, no checkpoint.
            parameters: of the pipeline; the rest are defaults.

        Raises:
            UserError: no such parameter, a wrong value, or it is not deployed.
        """
        from drivetrain.targets.deployer import StartRequest

        checked("start", str | None, name=name)
        checked("start", bool, fresh=fresh)
        given = {key: value if isinstance(value, str) else _text(key, value) for key, value in parameters.items()}
        handle = self._deployer.start(self.name, StartRequest(parameters=given, name=name, fresh=fresh))
        return DeployedRun(self._deployer, handle)

    def run(self, id: str = "latest") -> DeployedRun:
        """One of its runs, by its id, the beginning of it, its name, or `latest`.

        Raises:
            UserError: there is no such run.
        """
        checked("run", str, id=id)
        return DeployedRun(self._deployer, self._deployer.find(self.name, id))

    def runs(self, limit: int = MOST) -> list[DeployedRun]:
        """The newest first.

        Raises:
            UserError: `limit` is no number of runs.
        """
        checked_limit("runs", limit, MOST)
        found = self._deployer.executions(self.name, limit)
        return [DeployedRun(self._deployer, self._deployer.handle(run)) for run in found]

    def __repr__(self) -> str:
        return f"Deployed({self.name!r}, {self.where})"


@dataclass(frozen=True)
class DeployedStep:
    """A step of a deployed run. `status` is as of local runs, what came from a cache is `Cached`; `seconds` is None
    where it never ran; `facts` is what the target says of it beside these."""

    name: str
    status: str
    seconds: float | None
    reason: str | None
    facts: Mapping[str, str]


class DeployedRun:
    """A run where it is deployed. Of one that goes on each question is asked anew there."""

    def __init__(self, deployer: Deployer, handle: Handle) -> None:
        self._deployer, self._handle = deployer, handle
        self._kept: Report | None = None
        self.id = handle.id

    @property
    def _report(self) -> Report:
        if self._kept is not None:
            return self._kept
        report = self._deployer.report(self._handle)
        if report.execution.status in _ENDED:
            self._kept = report
        return report

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""
        return self._handle.pipeline

    @property
    def address(self) -> str:
        """The ARN of the execution, or its URL."""
        return self._handle.address

    @property
    def status(self) -> str:
        """Executing, Stopping, Succeeded, CompletedWithFailures, Failed or Stopped."""
        return self._report.execution.status

    @property
    def succeeded(self) -> bool:
        """True if it has ended, and all of its steps that had to run succeeded."""
        return self.status == "Succeeded"

    @property
    def reason(self) -> str | None:
        """Why it failed."""
        return self._report.execution.reason

    @property
    def started(self) -> datetime | None:
        """When it was started (UTC)."""
        started = self._report.execution.started
        return datetime.fromtimestamp(started, UTC) if started else None

    @property
    def seconds(self) -> float | None:
        """Wall time until its end, or until now."""
        execution = self._report.execution
        if not execution.started:
            return None
        return (execution.ended or datetime.now(UTC).timestamp()) - execution.started

    @property
    def steps(self) -> Mapping[str, DeployedStep]:
        """The steps by name, in the order in which they are reported."""
        report = self._report
        found: dict[str, DeployedStep] = {}
        for step, _, cells, remark, _ in report.rows:
            facts = {name: text for name, text in zip(report.columns, cells, strict=True) if text}
            facts |= {"remark": remark} if remark else {}
            found[step.name] = DeployedStep(step.name, step.shown_status, step.seconds, step.reason, facts)
        return Named("step", found)

    @property
    def facts(self) -> dict[str, Any]:
        """All that the target says of it, as `drivetrain runs show --on TARGET --json` prints it."""
        return self._report.to_json()

    def wait(self, *, quiet: bool = False) -> DeployedRun:
        """Come back when it has ended; shows its progress unless `quiet`, as a local run does."""
        checked("wait", bool, quiet=quiet)
        with new_progress(as_json=False, quiet=quiet) as progress:
            self._kept = self._deployer.follow(self._handle, progress)
        return self

    def log(self, step: str | None = None, lines: int | None = None) -> str:
        """The output of a step's program, without secrets: of the failed, running or last one unless a step is named.

        Raises:
            UserError: no such step, or one without a log; `lines` is no number of lines.
        """
        checked("log", str | None, step=step)
        found: list[str] = []
        most = checked_lines(lines)
        self._deployer.read_log(self._handle, step, lambda line: found.append(line.text), num_lines=most)
        return without_secrets("\n".join(found))

    def stop(self) -> None:
        """Ask it to end.

        Raises:
            UserError: it has ended.
        """
        self._deployer.stop(self._handle)

    def __repr__(self) -> str:
        took = "" if self.seconds is None else f" after {duration(self.seconds)}"
        return f"DeployedRun({self.id!r}, {self.pipeline} in {self._deployer.place}: {self.status}{took})"

    def _repr_html_(self) -> str:
        rows = [
            {"step": one.name, "status": one.status, "seconds": one.seconds, "reason": one.reason or "", **one.facts}
            for one in self.steps.values()
        ]
        return table([{"run": self.id, "status": self.status, "reason": self.reason or ""}]) + table(rows)


def _text(name: str, value: Any) -> str:
    import json

    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        raise UserError(f"start({name}={shown(value)}): give a text, a number, True or False.") from None
