"""The words for a tuning: many trainings, with hyperparameters that a search chooses.

search = tune(
    step(train, name="search", train=data["train"], validation=data["validation"], epochs=5),
    objective="validation_accuracy",
    learning_rate=between(1e-4, 1e-1),
    schedule=one_of("cosine", "linear"),
    max_trainings=20,
    max_parallel=4,
)
register(model=search["model"], group="digits")
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from drivetrain.authoring.binding import declared_parameter, dependencies, refuse_beyond
from drivetrain.base.errors import SpecError, did_you_mean, nearest, shown
from drivetrain.base.json_options import parse_options
from drivetrain.spec.steps import BaseStep, Dependency, TrainingStep, TuningStep
from drivetrain.spec.training_options import Between, OneOf, Range, Scale, Search
from drivetrain.spec.values import Reference, as_value

# Words of the names of metrics.
_LESS = """
loss losses error errors err mae mape smape mase mse msle rmse rmsle nll nrmse wape wer cer mer ter brier logloss
perplexity ppl bpb bpc entropy crossentropy divergence kl deviance distance residual regret cost fid hinge huber
latency time seconds ms ece
"""
_MORE = """
accuracy acc auc auroc auprc prauc rocauc ap map f1 fbeta fscore score precision recall sensitivity specificity r2
iou miou dice jaccard bleu rouge meteor chrf ndcg mrr hit hits kappa mcc likelihood reward return returns psnr ssim
similarity correlation pearson spearman throughput
"""
# A parameter that holds options as a JSON object -> the one that names the plug-in that they are for.
_OPTIONS = {"estimator_options": "estimator", "recipe_options": "recipe"}
LESS_IS_BETTER, MORE_IS_BETTER = frozenset(_LESS.split()), frozenset(_MORE.split())
_WORDS = re.compile(r"[A-Z]+[0-9]*(?![a-z])|[A-Z]?[a-z]+[0-9]*")
Strategy = Literal["Bayesian", "Random", "Grid", "Hyperband"]


def tune(
    training: Any,
    /,
    *,
    objective: str,
    maximize: bool | None = None,
    strategy: Strategy = "Bayesian",
    max_trainings: Any = None,
    max_parallel: Any = 1,
    early_stopping: bool = False,
    seed: int | None = None,
    target: float | None = None,
    patience: int | None = None,
    max_seconds: int | None = None,
    hyperband_epochs: tuple[int, int] | None = None,
    after: Sequence[BaseStep | Dependency] = (),
    **ranges: Range,
) -> TuningStep:
    """Search the hyperparameters of a training step; the tuning takes its place and its name.

    Args:
        training: what `step` gave for a training component; it is not put into the pipeline itself.
        objective: one of the metrics that it logs.
        maximize: whether more of it is better; unless given, it is told by the objective's name where that has a word
            of `LESS_IS_BETTER` or of `MORE_IS_BETTER`.
        max_trainings: trainings in all; a grid has as many as there are combinations.
        max_parallel: trainings at a time.
        early_stopping: stop trainings that fall behind the median of those before them.
        seed: makes the search repeatable.
        target: the value of the objective that is enough.
        patience: trainings in a row, at least 3, that were not better than the best by 1 %.
        max_seconds: wall time of the whole search.
        hyperband_epochs: the least and the most epochs of a training, for Hyperband.
        after: steps that must have ended before; they are added to those of the training.
        ranges: a hyperparameter's name = `between(low, high)` or `one_of(values)`; also an option of the estimator of
            train_table or of the recipe of train.

    Raises:
        SpecError: no training step, an unknown hyperparameter, values of another type than it takes, an objective
            whose name does not say which way it goes.
    """
    if not isinstance(training, TrainingStep) or isinstance(training, TuningStep):
        raise SpecError(f"tune({shown(training, 60)}): give a training step, as step(train, ...) makes one.")
    if not isinstance(objective, str):  # type: ignore[reportUnnecessaryIsInstance]
        raise SpecError(f"tune(..., objective={shown(objective, 60)}): give the name of a metric that it logs.")
    ranges = {_placed(training, name): given for name, given in ranges.items()}
    for name, given in ranges.items():
        _check(training, name, given)
    if maximize is None:
        maximize = _direction(objective, training)
    fields = {name: getattr(training, name) for name in TrainingStep.model_fields if name != "kind"}
    fields["depends_on"] = tuple(dict.fromkeys((*training.depends_on, *dependencies(after))))
    fields["parameters"] = {name: value for name, value in training.parameters.items() if name not in ranges}
    search = Search(
        objective=objective,
        maximize=maximize,
        ranges=ranges,
        strategy=strategy,
        max_trainings=_limit("max_trainings", max_trainings),
        max_parallel=_limit("max_parallel", max_parallel),
        early_stopping=early_stopping,
        seed=seed,
        target=target,
        patience=patience,
        max_seconds=max_seconds,
        epochs=hyperband_epochs,
    )
    return TuningStep(**fields, search=search)


def between(low: float, high: float, *, scale: Scale = "Auto") -> Between:
    """A number from `low` to `high`, whole where both are.

    Raises:
        SpecError: bounds the wrong way round, or a scale that they do not allow.
    """
    return Between(low=low, high=high, scale=scale)


def one_of(*values: Any) -> OneOf:
    """One of some values.

    Raises:
        SpecError: none, or more than the service takes.
    """
    try:
        return OneOf(values=values)
    except SpecError as error:
        raise SpecError(f"one_of{shown(values)}: {error}") from None


def _placed(training: TrainingStep, name: str) -> str:
    """A hyperparameter's place: a parameter, or an option in the JSON object of one, as `estimator_options.max_depth`.

    Raises:
        SpecError: the plug-in whose options these are has no such option, or the JSON object gives it a value.
    """
    field = next((each for each in _OPTIONS if each in training.parameters), None)
    if name in training.parameters or field is None:
        return name
    plugin = training.parameters.get(_OPTIONS[field])
    known = _options_of(field, plugin) if isinstance(plugin, str) else None
    option = name.removeprefix(f"{field}.")
    if known is not None and option.partition(".")[0] not in known:
        every = [*training.parameters, *known]
        raise SpecError(f"Step {training.name!r} has no hyperparameter {name!r}. {did_you_mean(option, every)}")
    text = training.parameters[field]
    if isinstance(text, str) and option in parse_options(text, field):
        raise SpecError(
            f"Step {training.name!r}: {name!r} has a range here and a value in {field}. Remove one of the two."
        )
    return f"{field}.{option}"


def _options_of(field: str, plugin: str) -> Sequence[str] | None:
    from drivetrain.catalog import strategies

    if field == "estimator_options":
        return strategies.options_of_estimator(plugin)
    path = strategies.importable_recipe(plugin)
    return None if path is None else strategies.options_of_recipe(path)


def _check(training: TrainingStep, name: str, given: Any) -> None:
    if not isinstance(given, Between | OneOf):
        raise SpecError(
            f"tune(..., {name}={shown(given, 40)}): a range is between(low, high) or one_of(values). A fixed value "
            "belongs to the training step."
        )
    if name.partition(".")[0] in _OPTIONS:
        return  # the plug-in itself says which values it takes
    if name not in training.parameters:
        raise SpecError(
            f"Step {training.name!r} has no hyperparameter {name!r}. {did_you_mean(name, training.parameters)}"
        )
    now = training.parameters[name]
    if isinstance(now, Reference):
        raise SpecError(f"Step {training.name!r}: {name!r} is {now.described()}. Leave that out to search it.")
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    values = given.values if isinstance(given, OneOf) else (given.low, given.high)
    for value in values:
        fits = isinstance(value, type(now)) or (isinstance(now, float) and isinstance(value, int))
        if not fits or (isinstance(value, bool) and not isinstance(now, bool)):
            raise SpecError(f"Step {training.name!r}: {name!r} takes {kinds[type(now)]}, not {value!r}.")
        if declared := declared_parameter(training.program.target, name):
            refuse_beyond(f"Step {training.name!r}", declared, value)


def _direction(objective: str, training: TrainingStep) -> bool:
    """Return True if more of an objective is better, told by the words of its name; a word that says less wins: what
    is bad of an accuracy (`accuracy_loss`) is bad."""
    words = {word.lower() for word in _WORDS.findall(objective)}
    words |= {word.rstrip("0123456789") for word in words}
    # Some names have them in one word: logloss, merror.
    if words & LESS_IS_BETTER or any(word.endswith(("loss", "error")) for word in words):
        return False
    if words & MORE_IS_BETTER:
        return True
    if objective not in training.logs and nearest(objective, training.logs) is not None:
        known = did_you_mean(objective, training.logs)
        raise SpecError(f"tune(..., objective={objective!r}): step {training.name!r} logs no such metric. {known}")
    raise SpecError(
        f"tune(..., objective={objective!r}): the name does not say whether more of it is better. Give maximize=True "
        "or maximize=False."
    )


def _limit(name: str, given: Any) -> Any:
    value = None if given is None else as_value(given)
    if isinstance(value, bool | float | str):
        raise SpecError(f"tune(..., {name}={shown(given, 40)}): give a whole number, or an Integer parameter.")
    return value
