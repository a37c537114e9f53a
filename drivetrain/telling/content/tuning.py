"""Facts of a tuning for the page, from its description or, while it has none, from the files of its trainings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drivetrain.base.json_text import as_list, as_object, list_in, object_in
from drivetrain.base.masking import Masking
from drivetrain.run_store.reasons import in_a_line
from drivetrain.targets.sagemaker.run.tuning.trials import read_trials
from drivetrain.telling.content.untrusted_json import drawable, objects, text, texts, whole

# More than the service runs in one tuning.
MAX_TRAININGS = 1_000
MAX_PARAMETERS = 30
MAX_VALUES = 200


@dataclass(frozen=True, kw_only=True)
class TrainingFacts:
    """One training. `status` is Completed, Stopped (early), Failed or InProgress; `values` are its objective epoch by
    epoch, as far as that is known; `reason` says why it failed or was stopped."""

    number: int
    status: str
    parameters: Mapping[str, str]
    definition: str = ""
    objective: float | None = None
    seconds: float | None = None
    reason: str = ""
    values: tuple[float, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.number:03d}"


@dataclass(frozen=True, kw_only=True)
class TuningFacts:
    """A tuning; `trainings` are in the order in which they were started, `most` is how many there may be."""

    step: str
    strategy: str
    metric: str
    maximize: bool
    trainings: tuple[TrainingFacts, ...]
    most: int | None = None
    early_stopping: bool = False
    seed: int | None = None
    over: str = ""
    notes: tuple[str, ...] = field(default=())

    def better(self, one: float, other: float) -> bool:
        return one > other if self.maximize else one < other

    def ranked(self) -> list[TrainingFacts]:
        """Those with an objective, the best first."""
        sign = -1.0 if self.maximize else 1.0
        found = [one for one in self.trainings if one.objective is not None]
        return sorted(found, key=lambda one: (sign * (one.objective or 0.0), one.number))

    @property
    def best(self) -> TrainingFacts | None:
        """The best that ran to its end; where none did, the best of those that were stopped."""
        found = self.ranked()
        return next((one for one in found if one.status == "Completed"), found[0] if found else None)

    def best_so_far(self) -> list[tuple[int, float]]:
        """The best objective so far, by training, where it changed."""
        found: list[tuple[int, float]] = []
        for one in self.trainings:
            if one.objective is not None and (not found or self.better(one.objective, found[-1][1])):
                found.append((one.number, one.objective))
        return found


def tuning_facts(
    step: str, arguments: Mapping[str, Any], response: Mapping[str, Any], folder: Path | None = None
) -> TuningFacts | None:
    """The facts of a Tuning step; None of one that has not begun, or whose description is a stub's.

    Args:
        folder: the step's, for one that has no description (yet): it runs, failed, or was stopped.
    """
    config = object_in(response, "HyperParameterTuningJobConfig") or as_object(
        arguments.get("HyperParameterTuningJobConfig")
    )
    told = object_in(response, "Drivetrain")
    trainings = tuple(_described(response, told)) or (tuple(_kept(folder)) if folder is not None else ())
    if not trainings:
        return None
    objective = _objective(config, arguments, response)
    return TuningFacts(
        step=step,
        strategy=text(config.get("Strategy")),
        metric=text(objective.get("MetricName")) or "objective",
        maximize=objective.get("Type") == "Maximize",
        trainings=tuple(sorted(_by_short_names(trainings), key=lambda one: one.number)),
        most=whole(object_in(config, "ResourceLimits").get("MaxNumberOfTrainingJobs")),
        early_stopping=config.get("TrainingJobEarlyStoppingType") == "Auto",
        seed=whole(told.get("seed")),
        over=text(told.get("over")),
        notes=tuple(filter(None, map(text, list_in(told, "notes")))),
    )


def _by_short_names(trainings: Sequence[TrainingFacts]) -> Iterator[TrainingFacts]:
    """`max_depth` for `estimator_options.max_depth`, unless that is the name of another one."""
    names = {name for one in trainings for name in one.parameters}
    short = {name: name.partition("_options.")[2] or name for name in names}
    if len({*short.values()}) < len(names):
        short = {name: name for name in names}
    for one in trainings:
        yield replace(one, parameters={short[name]: value for name, value in one.parameters.items()})


def _reason(value: object) -> str:
    """The line of a reason that says what happened; looked for before a long one is cut."""
    return text(in_a_line(value)) if isinstance(value, str) and value else ""


def _objective(config: Mapping[str, Any], *sources: Mapping[str, Any]) -> dict[str, Any]:
    found = object_in(config, "HyperParameterTuningJobObjective")
    for source in sources:
        for definition in objects(source.get("TrainingJobDefinitions"), MAX_PARAMETERS):
            found = found or object_in(definition, "TuningObjective")
        found = found or as_object(object_in(source, "TrainingJobDefinition").get("TuningObjective"))
    return found


def _described(response: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[TrainingFacts]:
    more = {text(one.get("job")): one for one in objects(told.get("trainings"), MAX_TRAININGS)}
    summaries = list(objects(response.get("TrainingJobSummaries"), MAX_TRAININGS))
    summaries.sort(key=lambda one: drawable(one.get("CreationTime")) or 0.0)
    for place, one in enumerate(summaries, 1):
        extra = more.get(text(one.get("TrainingJobName")), {})
        started, ended = drawable(one.get("TrainingStartTime")), drawable(one.get("TrainingEndTime"))
        metric = object_in(one, "FinalHyperParameterTuningJobObjectiveMetric")
        yield TrainingFacts(
            number=whole(extra.get("number")) or place,
            status=text(one.get("TrainingJobStatus")),
            parameters=texts(object_in(one, "TunedHyperParameters"), MAX_PARAMETERS),
            definition=text(one.get("TrainingJobDefinitionName")),
            objective=drawable(metric.get("Value")),
            seconds=None if started is None or ended is None else max(ended - started, 0.0),
            reason=_reason(extra.get("reason")) or _reason(one.get("FailureReason")),
            values=_values(extra.get("values")),
        )


def _kept(folder: Path) -> Iterator[TrainingFacts]:
    for trial in read_trials(folder)[:MAX_TRAININGS]:
        ended = trial.ended if trial.status != "InProgress" else None
        yield TrainingFacts(
            number=trial.number,
            status=trial.status,
            parameters=texts(Masking()(trial.parameters), MAX_PARAMETERS),
            definition=trial.definition or "",
            objective=drawable(trial.objective),
            seconds=None if ended is None or trial.started is None else max(ended - trial.started, 0.0),
            reason=_reason(trial.reason),
            values=_values(trial.series),
        )


def _values(given: Any) -> tuple[float, ...]:
    found = map(drawable, as_list(given)[:MAX_VALUES])
    return tuple(value for value in found if value is not None)
