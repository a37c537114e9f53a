"""Models of scikit-learn (https://scikit-learn.org), on one host, with what prepares their columns (encoding.py)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.training import estimator
from drivetrain.training.encoding import encoder, owners_of
from drivetrain.training.estimator import Columns, Features, Fit, Round, Rows, answers_of
from drivetrain.training.skops_file import from_bytes, to_bytes
from drivetrain.training.task import Task

NEEDS = ("scikit-learn>=1.9,<1.10", "skops>=0.16")
MOST_PROCESSES = 1
WEIGHTS = "model.skops"
# Model -> its module, its classes for classes and for numbers, its option that counts rounds ("": it learns at once).
BOOSTED, _LINEAR = "hist_gradient_boosting", "linear_model"
MODELS = {
    BOOSTED: ("ensemble", "HistGradientBoostingClassifier", "HistGradientBoostingRegressor", "max_iter"),
    "random_forest": ("ensemble", "RandomForestClassifier", "RandomForestRegressor", "n_estimators"),
    "extra_trees": ("ensemble", "ExtraTreesClassifier", "ExtraTreesRegressor", "n_estimators"),
    "decision_tree": ("tree", "DecisionTreeClassifier", "DecisionTreeRegressor", ""),
    "logistic_regression": (_LINEAR, "LogisticRegression", "", ""),
    "ridge": (_LINEAR, "", "Ridge", ""),
    "elastic_net": (_LINEAR, "", "ElasticNet", ""),
}
# What decides options of the library.
_DECIDED = {
    "max_iter": "the setting rounds",
    "n_estimators": "the setting rounds",
    "random_state": "the setting seed",
    "n_jobs": "the setting threads",
    "early_stopping": "the setting early_stopping",
    "class_weight": "the option class_weights",
    "categorical_features": "the option categories",
    "monotonic_cst": "the option monotone",
    "quantile": "the option quantiles",
    "warm_start": "train_table, which goes on by it",
}


@dataclass(frozen=True, kw_only=True)
class Options(estimator.Options):
    """The model, and its own options by the library's names."""

    model: str = BOOSTED
    model_options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Such as {"max_leaf_nodes": 15}."""

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.model_options
        if self.model not in MODELS:
            raise ValueError(f"there is no model {self.model!r}. {did_you_mean(self.model, MODELS)}")
        if not isinstance(given, dict):
            raise ValueError('model_options is an object of the model\'s own options, such as {"max_leaf_nodes": 15}.')


def _unfitted(fit: Fit, quantile: float | None, owners: Sequence[int]) -> Any:
    """The model before it learns.

    Raises:
        InputError: the model does not have the task or an option.
    """
    options: Options = fit.options
    which = 2 if fit.task.kind == "regression" else 1
    module, name, counted = MODELS[options.model][0], MODELS[options.model][which], MODELS[options.model][3]
    if not name:
        able = ", ".join(each for each, names in MODELS.items() if names[which])
        raise InputError(f"model {options.model!r} does not learn {fit.task.kind}. Allowed: {able}.")
    if quantile is not None and options.model != BOOSTED:
        raise InputError(f"model {options.model!r} learns no quantiles. Leave them out, or give model={BOOSTED!r}.")
    make = getattr(import_module(f"sklearn.{module}"), name)
    known, ways = make().get_params(), fit.features.ways(options.monotone)
    if ways and "monotonic_cst" not in known:
        raise InputError(f"model {options.model!r} takes no monotone constraints. Leave the option monotone out.")
    decided = {each: by for each, by in _DECIDED.items() if each != "max_iter" or counted == each}
    for each in options.model_options:
        if each in decided and each in known:
            raise InputError(f"model_options: {each!r} is decided by {decided[each]}. Leave it out.")
        if each not in known:
            advice = did_you_mean(each, known.keys() - decided)
            raise InputError(f"model_options: {options.model!r} has no {each!r}. {advice}")
    given = {
        "random_state": fit.seed,
        "early_stopping": False,
        "warm_start": bool(counted),
        "categorical_features": list(range(len(fit.features.categories))) or None,
        "monotonic_cst": [ways[number] for number in owners] if ways else None,
        **({} if quantile is None else {"loss": "quantile", "quantile": quantile}),
        **options.model_options,
    }
    return make(**{each: value for each, value in given.items() if each in known})


def rounds(fit: Fit) -> Iterator[Round]:
    """Learn `save_every` rounds at a time, then give the losses of each; a model that learns at once gives the last.

    Raises:
        InputError: an option or a value of it that the model does not have; labels that it does not take.
    """
    try:
        yield from _rounds(fit)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"scikit-learn refuses it: {' '.join(str(error).split()):.300}") from error


def _rounds(fit: Fit) -> Iterator[Round]:
    from sklearn.pipeline import Pipeline
    from threadpoolctl import threadpool_limits

    options: Options = fit.options
    counted = MODELS[options.model][3]
    quantiles = options.quantiles or (None,)
    columns = encoder(fit.features, one_hot=options.model != BOOSTED, scaled=MODELS[options.model][0] == _LINEAR)
    data = {"train": (columns.fit_transform(fit.train.matrix.astype(np.float64)), fit.train)}
    if fit.validation is not None:
        data["validation"] = (columns.transform(fit.validation.matrix.astype(np.float64)), fit.validation)
    models = [_unfitted(fit, each, owners_of(columns)) for each in quantiles]
    if fit.start is not None:
        models = [pipeline["model"] for pipeline in from_bytes(fit.start, "the checkpoint")]
    matrix, rows = data["train"]
    targets = rows.targets.astype(np.float64 if fit.task.kind == "regression" else np.int64)
    threads = fit.threads or int(os.environ.get("OMP_NUM_THREADS", "0")) or None

    def save() -> bytes:
        return to_bytes([Pipeline([("columns", columns), ("model", model)]) for model in models])

    step = fit.save_every if counted else fit.total
    for first in range(fit.first, fit.total, step):
        last = min(first + step, fit.total)
        numbers = range(first + 1, last + 1) if counted else (last,)
        with threadpool_limits(threads):
            for model in models:
                model.set_params(**({counted: last} if counted else {}))
                many = {"n_jobs": threads} if counted == "n_estimators" else {}
                model.set_params(**many).fit(matrix, targets, sample_weight=rows.weights)
                model.set_params(**dict.fromkeys(many))  # equal models have equal bytes on any machine
            losses: list[dict[str, float]] = [{} for _ in numbers]
            for name, (made, of) in data.items():
                staged = zip(*(_stages(model, made, first) for model in models), strict=True)
                for number, known, found in zip(numbers, losses, staged, strict=True):
                    if name in fit.measures(number):
                        known[name] = _loss(found, of, fit.task, quantiles)
        for number, known in zip(numbers, losses, strict=True):
            yield Round(number, known, save)


def _stages(model: Any, matrix: NDArray[np.float64], first: int) -> Iterator[NDArray[Any]]:
    """The predictions after each round from `first` on: [rows, classes] of probabilities, or [rows] of numbers."""
    name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    if hasattr(model, "staged_predict"):
        return islice(getattr(model, f"staged_{name}")(matrix), first, None)
    if hasattr(model, "estimators_"):
        sums = accumulate(getattr(each, name)(matrix) for each in model.estimators_)
        return islice((total / number for number, total in enumerate(sums, 1)), first, None)
    return iter([getattr(model, name)(matrix)])


def _loss(found: Sequence[NDArray[Any]], rows: Rows, task: Task, quantiles: Sequence[float | None]) -> float:
    """The log loss of classes, the mean pinball loss of quantiles, else the mean squared error."""
    if task.kind != "regression":
        right = found[0][np.arange(len(rows.targets)), rows.targets.astype(np.int64)]
        errors = -np.log(np.clip(right, np.finfo(np.float64).eps, 1))
    elif quantiles[0] is None:
        errors = (found[0] - rows.targets) ** 2
    else:
        gaps = rows.targets - np.stack(found)
        share: NDArray[Any] = np.array(quantiles)[:, None]
        errors = np.maximum(share * gaps, (share - 1) * gaps).mean(axis=0)
    return float(np.average(errors, weights=rows.weights))


def until(saved: bytes, rounds: int) -> bytes:
    """The model of the first rounds."""
    pipelines = from_bytes(saved, WEIGHTS)
    for model in (pipeline["model"] for pipeline in pipelines):
        name = "_predictors" if hasattr(model, "_predictors") else "estimators_"
        if len(getattr(model, name, ())) <= rounds:
            return saved
        setattr(model, name, getattr(model, name)[:rounds])
        model.set_params(**{"max_iter" if name == "_predictors" else "n_estimators": rounds})
    return to_bytes(pipelines)


def importance(saved: bytes, features: int) -> Sequence[float]:
    """How much each feature's splits improved the loss, or the sizes of its scaled coefficients; they sum to 1."""
    found = np.zeros(features)
    for pipeline in from_bytes(saved, WEIGHTS):
        owners = owners_of(pipeline["columns"])
        np.add.at(found, owners, _gains(pipeline["model"], len(owners)))
    return (found / (found.sum() or 1.0)).tolist()


def _gains(model: Any, columns: int) -> NDArray[Any]:
    if hasattr(model, "coef_"):
        return np.abs(np.atleast_2d(model.coef_)).sum(axis=0)
    if hasattr(model, "feature_importances_"):
        return model.feature_importances_
    gains = np.zeros(columns)
    for nodes in (tree.nodes for trees in model._predictors for tree in trees):
        splits = nodes[nodes["is_leaf"] == 0]
        np.add.at(gains, splits["feature_idx"], splits["gain"])
    return gains


class Model(NamedTuple):
    """A loaded model: a Pipeline, or one for each quantile."""

    pipelines: list[Any]
    features: Features
    task: Task


def load(folder: Path) -> Model:
    """The model of a model folder.

    Raises:
        InputError: its file was changed.
    """
    features, task, _ = Features.read(folder)
    return Model(from_bytes((folder / WEIGHTS).read_bytes(), WEIGHTS), features, task)


def predict(model: Model, columns: Columns) -> dict[str, NDArray[Any]]:
    """The answers to rows, as the columns of a table of answers; errors are those of `Features.matrix`."""
    matrix, first = model.features.matrix(columns).astype(np.float64), model.pipelines[0]
    if model.task.kind == "regression":
        found = [pipeline.predict(matrix) for pipeline in model.pipelines]
        return answers_of(model.task, np.stack(found, axis=1) if len(found) > 1 else found[0])
    if hasattr(first, "decision_function"):
        return answers_of(model.task, first.decision_function(matrix))
    scores = first.predict_proba(matrix)
    if model.task.kind == "binary":
        return {"score": scores[:, 1]}
    return {f"score_{number}": scores[:, number] for number in range(model.task.num_classes)}
