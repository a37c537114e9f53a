"""One training of a tuning, in a thread of its own: the arguments of its job, and how its metrics are heard."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.run.execution import JOB_INTERNAL_ERROR, StepFailedError
from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.jobs.job_data import entries, member
from drivetrain.targets.sagemaker.run.step_types import training
from drivetrain.targets.sagemaker.run.tuning.config import OBJECTIVE_PARAMETER, JobDefinition
from drivetrain.targets.sagemaker.run.tuning.trials import Trial, Trials

if TYPE_CHECKING:
    from drivetrain.processes import ProcessRecord
    from drivetrain.targets.sagemaker.run.jobs.logged_metrics import Logged

# Of TrainingJobDefinition, what only the tuning has a use for.
_NOT_OF_A_JOB = frozenset(
    (
        "DefinitionName",
        "HyperParameterRanges",
        "HyperParameterTuningResourceConfig",
        "StaticHyperParameters",
        "TuningObjective",
    )
)


def job_arguments(definition: JobDefinition, parameters: Mapping[str, str], job: str | None = None) -> dict[str, Any]:
    """The arguments of CreateTrainingJob for one training; without `job`, those that all of them share."""
    given = definition.arguments
    found = {name: value for name, value in given.items() if name not in _NOT_OF_A_JOB}
    if (resources := member(given, "HyperParameterTuningResourceConfig")) is not None:
        # The service takes the first kind of machine that it has; here they are all the same.
        preferred = entries(resources, "InstanceConfigs")[:1] or [resources]
        found["ResourceConfig"] = {
            name: value
            for name, value in {**resources, **preferred[0]}.items()
            if name not in ("InstanceConfigs", "AllocationStrategy")
        }
    metric = definition.objective.metric
    algorithm = dict(object_in(given, "AlgorithmSpecification"))
    if not entries(algorithm, "MetricDefinitions"):
        algorithm["MetricDefinitions"] = [{"Name": metric, "Regex": built_in_expression(metric)}]
    found["AlgorithmSpecification"] = algorithm
    found["HyperParameters"] = {**definition.static, **parameters, OBJECTIVE_PARAMETER: metric}
    checkpoints = member(given, "CheckpointConfig")
    if checkpoints is not None and job is not None and isinstance(checkpoints.get("S3Uri"), str):
        # One folder a training: they would go on from each other's states.
        found["CheckpointConfig"] = {**checkpoints, "S3Uri": f"{checkpoints['S3Uri'].rstrip('/')}/{job}/"}
    return found


def built_in_expression(metric: str) -> str:
    """How the service's own algorithms log a metric, for jobs without MetricDefinitions (the service allows none for
    them): `validation:auc` as `validation-auc:0.93`, `validation:auc=0.93`, `validation_auc 0.93`, ..."""
    name = "[:_-]".join(re.escape(part) for part in re.split(r"[:_-]", metric))
    # `#011` is how logs write the tab that stands between metrics.
    return rf"(?:(?<![\w:-])|(?<=#011)){name}\s*[\"']?\s*[:=\s]\s*([-+]?(?:[0-9]*\.)?[0-9]+(?:[eE][-+]?[0-9]+)?)"


class Processes:
    """The supervisors of all trainings at work, which the ledger has in one list an attempt."""

    def __init__(self, record: Callable[[Sequence[ProcessRecord]], None]) -> None:
        self._record = record
        self._of: dict[int, tuple[ProcessRecord, ...]] = {}
        self._guard = threading.Lock()

    def started(self, number: int, processes: Sequence[ProcessRecord]) -> None:
        with self._guard:
            self._of[number] = tuple(processes)
            self._record([one for each in self._of.values() for one in each])

    def ended(self, number: int) -> None:
        with self._guard:
            self._of.pop(number, None)


@dataclass(frozen=True, kw_only=True)
class TrialContext(StepContext):
    """The attempt at the step, as one of its trainings sees it."""

    trial: Trial
    metric: str
    processes: Processes

    def record_processes(self, processes: Sequence[ProcessRecord]) -> None:
        self.processes.started(self.trial.number, processes)

    def enter_metrics(self, found: Sequence[Logged]) -> None:
        """Enter them under the training's name: `accuracy` of the third is `003 accuracy`. Nobody is told: what is
        said of a tuning is said of all its trainings."""
        values = [(f"{self.trial.label} {one.name}", one.seconds, one.value) for one in found]
        self.ledger.log_metrics(self.facts.id, self.step.name, self.attempt, values)
        self.trial.values += [(one.seconds, one.value) for one in found if one.name == self.metric]


def run_trial(
    context: StepContext,
    definition: JobDefinition,
    trial: Trial,
    trials: Trials,
    processes: Processes,
    *,
    stop_early: Callable[[], bool],
    is_kept: Callable[[], bool],
) -> None:
    """Run a training to its end, and enter in `trial` how it went: a failure of its program is a result like others,
    and at its time limit it is stopped with what it has (status Stopped, MaxRuntimeExceeded on the service).
    `stop_early` is asked whether it shall end now; one that `is_kept` denies counts for nothing, and is run again.

    Raises:
        StepStoppedError: the user stopped the run.
        UserError: the step cannot run at all.
    """
    arguments = job_arguments(definition, trial.parameters, trial.job)
    retries = int(object_in(arguments, "RetryStrategy").get("MaximumRetryAttempts") or 0)
    trial.created, trial.status, trial.reason = time.time(), "InProgress", None
    while True:
        trial.values.clear()
        trial.started = time.time()
        trials.save(trial)
        own = _own(context, definition, trial, trials, processes, arguments)
        own.folder.mkdir(parents=True)
        try:
            result = training.train(own, trial.job, stop_early=stop_early)
            if not is_kept():
                return
            assert result.publication is not None
            trials.stage(trial, result.publication)
        except StepFailedError as error:
            if error.error_type == JOB_INTERNAL_ERROR and retries > 0:
                retries -= 1
                continue
            trial.status, trial.reason = "Failed", context.ledger.masking.message(error.reason)
        else:
            trial.status = "Stopped" if result.response["TrainingJobStatus"] == "Stopped" else "Completed"
            trial.reason = trial.reason or result.value  # the limit at which it was stopped
            trial.started = result.response["TrainingStartTime"]
            trial.inputs = list(result.inputs)
            trial.objective = trial.values[-1][1] if trial.values else None
        finally:
            processes.ended(trial.number)
        trial.ended = time.time()
        trials.save(trial)
        trials.publish(trial)
        return


def _own(
    context: StepContext,
    definition: JobDefinition,
    trial: Trial,
    trials: Trials,
    processes: Processes,
    arguments: Mapping[str, Any],
) -> TrialContext:
    home = trials.home(trial)
    earlier = len(list(home.glob("job-*")))  # tries of this attempt
    own: dict[str, Any] = {
        "arguments": arguments,
        "folder": home / f"job-{earlier + 1}",
        "logs": context.logs / (trial.label if not earlier else f"{trial.label}-{earlier + 1}"),
    }
    return TrialContext(
        **{**vars(context), **own}, trial=trial, metric=definition.objective.metric, processes=processes
    )
