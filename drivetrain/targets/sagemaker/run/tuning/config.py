"""A tuning step's arguments, read and checked: what is searched, by which strategy, and when it is enough.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_HyperParameterTuningJobConfig.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import object_in
from drivetrain.catalog.quotas import DEFAULT_TUNED_JOBS
from drivetrain.targets.sagemaker.document import shown
from drivetrain.targets.sagemaker.run.jobs.job_data import entries, member
from drivetrain.targets.sagemaker.run.tuning.space import Categorical, Range, read_ranges, settings

# What the service tells a training of what it is measured by.
OBJECTIVE_PARAMETER = "_tuning_objective_metric"
_EPOCHS = ("epochs", "numepochs", "n-epochs", "n_epochs", "num_epochs")


@cache
def known_strategies() -> tuple[str, ...]:
    """The strategies' names, as HyperParameterTuningJobConfig has them."""
    files = (Path(__file__).parent / "strategies").glob("*.py")
    return tuple(sorted(path.stem.capitalize() for path in files if not path.stem.startswith("_")))


@dataclass(frozen=True)
class Objective:
    """The metric that decides which training is better."""

    metric: str
    maximize: bool

    @property
    def type(self) -> str:
        return "Maximize" if self.maximize else "Minimize"

    def better(self, one: float, other: float) -> bool:
        return one > other if self.maximize else one < other


@dataclass(frozen=True, kw_only=True)
class JobDefinition:
    """The definition of one kind of training: `arguments` are TrainingJobDefinition's, `name` is None where there is
    only one of them and it has none."""

    name: str | None
    arguments: Mapping[str, Any]
    ranges: tuple[Range, ...]
    static: Mapping[str, str]
    objective: Objective


@dataclass(frozen=True, kw_only=True)
class TuningConfig:
    """A tuning. `num_trainings` bounds how many there are, `max_parallel` how many at a time. Of what ends it before,
    each is None where it is not asked for: `max_seconds` of wall time, `target` of the objective, `patience` trainings
    in a row that were not better than the best by 1 %. `resources` are Hyperband's least and most epochs."""

    strategy: str
    definitions: tuple[JobDefinition, ...]
    num_trainings: int
    max_parallel: int
    early_stopping: bool = False
    seed: int | None = None
    max_seconds: int | None = None
    target: float | None = None
    patience: int | None = None
    resources: tuple[int, int] | None = None
    notes: tuple[str, ...] = ()

    @property
    def objective(self) -> Objective:
        """That of the first definition; all of them maximize, or all minimize."""
        return self.definitions[0].objective

    def definition(self, name: str | None) -> JobDefinition:
        """The definition of that name."""
        return next(one for one in self.definitions if one.name == name)

    def most(self, definition: JobDefinition) -> int:
        """How many trainings a definition may have."""
        return num_combinations(definition) if self.strategy == "Grid" else self.num_trainings


def read_config(arguments: Mapping[str, Any]) -> TuningConfig:
    """The tuning of resolved arguments.

    Raises:
        UserError: something is missing, contradicts itself, or cannot be done on this machine.
    """
    _refuse(arguments)
    config = member(arguments, "HyperParameterTuningJobConfig")
    if config is None:
        raise UserError("the step has no HyperParameterTuningJobConfig.")
    strategy = config.get("Strategy")
    if strategy not in known_strategies():
        raise UserError(f"Strategy is {strategy!r:.80}. {did_you_mean(str(strategy), known_strategies())}")
    definitions = _definitions(arguments, config)
    limits = object_in(config, "ResourceLimits")
    early = config.get("TrainingJobEarlyStoppingType", "Off")
    if early not in ("Off", "Auto"):
        raise UserError(f"TrainingJobEarlyStoppingType is {early!r:.80}. Allowed: Off, Auto.")
    criteria = object_in(config, "TuningJobCompletionCriteria")
    found = TuningConfig(
        strategy=strategy,
        definitions=definitions,
        num_trainings=_num_trainings(
            strategy,
            definitions,
            limits,
            ends_otherwise=bool(criteria) or limits.get("MaxRuntimeInSeconds") is not None,
        ),
        max_parallel=_whole(limits, "MaxParallelTrainingJobs", 1) or 1,
        early_stopping=early == "Auto",
        seed=_whole(config, "RandomSeed", 0),
        max_seconds=_whole(limits, "MaxRuntimeInSeconds", 1),
        target=_number(criteria, "TargetObjectiveMetricValue"),
        patience=_whole(object_in(criteria, "BestObjectiveNotImproving"), "MaxNumberOfTrainingJobsNotImproving", 1),
        resources=_resources(config, definitions) if strategy == "Hyperband" else None,
        notes=_notes(criteria),
    )
    if strategy == "Hyperband" and found.early_stopping:
        raise UserError(
            "Hyperband stops trainings by rules of its own. Set TrainingJobEarlyStoppingType to Off, or take another "
            "Strategy."
        )
    return found


def _refuse(arguments: Mapping[str, Any]) -> None:
    if arguments.get("WarmStartConfig"):
        raise UserError(
            "WarmStartConfig goes on from tuning jobs of the service, whose trainings are not on this machine. Remove "
            "it to run here."
        )
    if object_in(arguments, "Autotune").get("Mode") == "Enabled":
        raise UserError(
            "Autotune lets the service choose ranges, by rules that it does not publish. Give ParameterRanges and "
            "ResourceLimits, and remove Autotune."
        )


def _definitions(arguments: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[JobDefinition, ...]:
    several = entries(arguments, "TrainingJobDefinitions")
    single = member(arguments, "TrainingJobDefinition")
    if (single is None) == (not several):
        raise UserError("the step needs either TrainingJobDefinition or TrainingJobDefinitions.")
    found = tuple(_definition(given, config, named=bool(several)) for given in several or [single or {}])
    names = [one.name for one in found]
    if len(set(names)) < len(names):
        raise UserError(f"two TrainingJobDefinitions have one DefinitionName ({', '.join(map(str, names))}).")
    if len({one.objective.maximize for one in found}) > 1:
        raise UserError("some TrainingJobDefinitions maximize their objective and others minimize it: nothing is best.")
    return found


def _definition(given: Mapping[str, Any], config: Mapping[str, Any], *, named: bool) -> JobDefinition:
    name = given.get("DefinitionName")
    if named and (not isinstance(name, str) or not name):
        raise UserError("each of TrainingJobDefinitions needs a DefinitionName.")
    where = f"TrainingJobDefinition {name!r}: " if named else ""
    objective = member(given, "TuningObjective") or member(config, "HyperParameterTuningJobObjective")
    if objective is None:
        raise UserError(f"{where}no objective is given: HyperParameterTuningJobObjective with MetricName and Type.")
    metric, kind = objective.get("MetricName"), objective.get("Type")
    if not isinstance(metric, str) or not metric:
        raise UserError(f"{where}the objective's MetricName is {metric!r:.80}. Allowed: the name of a metric.")
    if kind not in ("Maximize", "Minimize"):
        raise UserError(f"{where}the objective's Type is {kind!r:.80}. Allowed: Maximize, Minimize.")
    try:
        ranges = read_ranges(member(given, "HyperParameterRanges") or object_in(config, "ParameterRanges"))
        static = settings(given)
        if not ranges:
            raise UserError("nothing is searched: ParameterRanges has no range.")
        for one in ranges:
            if one.name in static:
                raise UserError(f"{one.name!r} has a range and is in StaticHyperParameters. Remove one of the two.")
    except UserError as error:
        raise UserError(f"{where}{error}") from None
    return JobDefinition(
        name=name if isinstance(name, str) else None,
        arguments=given,
        ranges=ranges,
        static=static,
        objective=Objective(metric, kind == "Maximize"),
    )


def _num_trainings(
    strategy: str, definitions: tuple[JobDefinition, ...], limits: Mapping[str, Any], *, ends_otherwise: bool
) -> int:
    given = _whole(limits, "MaxNumberOfTrainingJobs", 1)
    if strategy != "Grid":
        if given is not None and given > DEFAULT_TUNED_JOBS:
            raise UserError(f"MaxNumberOfTrainingJobs is {given:,}. Allowed: at most {DEFAULT_TUNED_JOBS}.")
        if given is None and not ends_otherwise:
            raise UserError(
                "ResourceLimits has no MaxNumberOfTrainingJobs, and nothing else ends the tuning. Give it, "
                "MaxRuntimeInSeconds or TuningJobCompletionCriteria."
            )
        return given or DEFAULT_TUNED_JOBS
    total = sum(map(num_combinations, definitions))
    if total > DEFAULT_TUNED_JOBS:
        raise UserError(f"the grid has {total:,} combinations. Allowed: {DEFAULT_TUNED_JOBS}. List fewer values.")
    if given is not None and given != total:
        raise UserError(
            f"Grid runs each combination once, which makes {total} trainings, and MaxNumberOfTrainingJobs is {given}. "
            "Leave it out, or give that number."
        )
    return total


def num_combinations(definition: JobDefinition) -> int:
    """How many trainings a grid has.

    Raises:
        UserError: a range that is no list of values.
    """
    found = 1
    for one in definition.ranges:
        if not isinstance(one, Categorical):
            raise UserError(f"Grid searches categories alone, and {one.name!r} has another range. List its values.")
        found *= len(one.values)
    return found


def _resources(config: Mapping[str, Any], definitions: tuple[JobDefinition, ...]) -> tuple[int, int]:
    """Hyperband's least and most epochs; the most may stand among the static hyperparameters."""
    given = object_in(object_in(config, "StrategyConfig"), "HyperbandStrategyConfig")
    least, most = _whole(given, "MinResource", 1) or 1, _whole(given, "MaxResource", 1)
    if most is None:
        told = [definition.static[name] for definition in definitions for name in _EPOCHS if name in definition.static]
        numbers = [int(text.strip('"')) for text in told if text.strip('"').isdigit()]
        most = max(numbers, default=0)
    if most < 1:
        raise UserError(
            "Hyperband needs to know the most epochs of a training. Give HyperbandStrategyConfig.MaxResource, or one "
            f"of the static hyperparameters {', '.join(_EPOCHS)}."
        )
    if least > most:
        raise UserError(f"Hyperband's MinResource {least} is above its MaxResource {most}.")
    return least, most


def _notes(criteria: Mapping[str, Any]) -> tuple[str, ...]:
    if object_in(criteria, "ConvergenceDetected").get("CompleteOnConvergence") == "Enabled":
        return (
            "CompleteOnConvergence: how the service detects convergence is not published; here the tuning runs all its "
            "trainings.",
        )
    return ()


def _whole(given: Mapping[str, Any], key: str, least: int) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UserError(f"{key} is {value!r:.80}. Allowed: a whole number from {least}.")
    return value


def _number(given: Mapping[str, Any], key: str) -> float | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UserError(f"{key} is {value!r:.80}. Allowed: a number.")
    try:
        return float(value)
    except OverflowError:
        raise UserError(f"{key} is {shown(value)}. Allowed: a number below 1.8e308.") from None
