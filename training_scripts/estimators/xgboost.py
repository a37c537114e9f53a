"""Gradient-boosted trees of XGBoost (https://xgboost.readthedocs.io), by histograms on the CPU.

Several processes learn one model by XGBoost's own collective. Each one bins its rows by the same cuts, made from one
sample of all rows, so that the trees are those of one process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training import estimator
from drivetrain.training.errors import LostRanksError
from drivetrain.training.estimator import Columns, Features, Fit, Round, Rows, answers_of, choose_objective, library
from drivetrain.training.task import Task

NEEDS = ("xgboost-cpu>=3.2,<3.3",)
WEIGHTS = "model.ubj"
_NUMBERS = "reg:squarederror reg:absoluteerror reg:pseudohubererror count:poisson reg:gamma reg:tweedie"
_OBJECTIVES = {
    "binary": ("binary:logistic",),
    "multiclass": ("multi:softprob",),
    "regression": tuple(_NUMBERS.split()),
}
_QUANTILES = "reg:quantileerror"
_SHARE = Bounds(above=0, most=1)


@dataclass(frozen=True, kw_only=True)
class Options(estimator.Options):
    """Names and defaults are XGBoost's (https://xgboost.readthedocs.io/en/stable/parameter.html)."""

    learning_rate: Annotated[float, Bounds(above=0)] = 0.3
    max_depth: Annotated[int, Bounds(0)] = 6
    max_leaves: Annotated[int, Bounds(0)] = 0
    grow_policy: Literal["depthwise", "lossguide"] = "depthwise"
    min_child_weight: Annotated[float, Bounds(0)] = 1.0
    gamma: Annotated[float, Bounds(0)] = 0.0
    reg_lambda: Annotated[float, Bounds(0)] = 1.0
    reg_alpha: Annotated[float, Bounds(0)] = 0.0
    max_delta_step: Annotated[float, Bounds(0)] = 0.0
    max_bin: Annotated[int, Bounds(2)] = 256
    max_cat_to_onehot: Annotated[int, Bounds(1)] = 4
    max_cat_threshold: Annotated[int, Bounds(1)] = 64
    subsample: Annotated[float, _SHARE] = 1.0
    colsample_bytree: Annotated[float, _SHARE] = 1.0
    colsample_bylevel: Annotated[float, _SHARE] = 1.0
    colsample_bynode: Annotated[float, _SHARE] = 1.0
    objective: str = ""
    """The loss of a regression; empty: squared error, or that of the quantiles."""

    @property
    def draws(self) -> bool:
        """Return True if random numbers decide on rows or columns."""
        return any(share < 1 for name, share in vars(self).items() if name.startswith(("subsample", "colsample")))


def _parameters(fit: Fit) -> dict[str, Any]:
    """XGBoost's parameters, but for the seed."""
    options: Options = fit.options
    allowed = {**_OBJECTIVES, "regression": (_QUANTILES,)} if options.quantiles else _OBJECTIVES
    ours = {*vars(estimator.Options()), "objective"}
    ways = fit.features.ways(options.monotone)
    return {
        **{name: value for name, value in vars(options).items() if name not in ours},
        "objective": choose_objective(options.objective, allowed, fit.task),
        "tree_method": "hist",
        "device": "cpu",
        "validate_parameters": True,
        "verbosity": 1,
        **({"nthread": fit.threads} if fit.threads else {}),
        **({"num_class": fit.task.num_classes} if fit.task.kind == "multiclass" else {}),
        **({"quantile_alpha": list(options.quantiles)} if options.quantiles else {}),
        **({"monotone_constraints": tuple(ways)} if ways else {}),
    }


def rounds(fit: Fit) -> Iterator[Round]:
    """Learn one round after the other.

    Raises:
        InputError: an option that the columns or the task do not have; a label that the objective does not take.
    """
    xgboost = library("xgboost")
    options: Options = fit.options
    parameters = _parameters(fit)
    own = {"feature_types": _types(fit.features), "enable_categorical": True, "nthread": fit.threads or None}

    def cut(rows: Rows, like: Any = None) -> Any:
        given = {**own, "weight": rows.weights, "ref": like, "max_bin": options.max_bin}
        return xgboost.QuantileDMatrix(rows.matrix, rows.targets, **given)

    def seed(number: int) -> dict[str, int]:
        return {"seed": (fit.seed + number) % 2**31}

    # Made alone: in the collective XGBoost would make other cuts for each number of processes.
    like = cut(fit.sample) if fit.sample is not None else None
    with _together(fit):
        train = cut(fit.train, like)
        measured = {"train": train}
        if fit.validation is not None:
            rows = fit.validation
            measured["validation"] = xgboost.DMatrix(rows.matrix, rows.targets, weight=rows.weights, **own)
        try:
            start = bytearray(fit.start) if fit.start is not None else None
            booster = xgboost.Booster({**parameters, **seed(fit.first)}, list(measured.values()), model_file=start)
            for number in range(fit.first, fit.total):
                if options.draws and number % fit.save_every == 0 and number != fit.first:
                    # As if the trees were read back from their bytes, without predicting all rows anew.
                    booster.load_config(booster.save_config())
                    booster.set_param(seed(number))
                booster.update(train, number)
                wanted = [(measured[name], name) for name in fit.measures(number + 1)]
                said = booster.eval_set(wanted, number) if wanted else ""
                yield Round(number + 1, _losses(said), partial(_bytes, booster))
        except xgboost.core.XGBoostError as error:
            raise _refused(error, fit) from error


def _types(features: Features) -> list[str]:
    return ["q" if each.levels is None else "c" for each in features.all]


def _refused(error: Exception, fit: Fit) -> Exception:
    """The error for people, of one of XGBoost's: `[08:57:10] file.cu:83: Check failed: reason`, then a trace."""
    said = " ".join(str(error).partition("Stack trace")[0].split())
    if fit.process.world_size > 1 and "collective" in said:
        return LostRanksError([], f"XGBoost's collective failed: {said:.300}", timed_out=False)
    _, found, reason = said.partition(": ")
    if not found or "alloc" in said:
        return error
    return InputError(f"XGBoost refuses it: {reason.removeprefix('Check failed: '):.300}")


@contextmanager
def _together(fit: Fit) -> Iterator[None]:
    """Meet the other processes by XGBoost's collective, whose tracker is on rank 0."""
    process = fit.process
    if process.world_size == 1:
        yield
        return
    from xgboost.collective import CommunicatorContext
    from xgboost.tracker import RabitTracker

    tracker, seconds = None, max(1, round(fit.timeout))
    if process.is_main:
        tracker = RabitTracker(process.world_size, host_ip=fit.address, sortby="task", timeout=seconds)
        tracker.start()
    told = process.broadcast_bytes(json.dumps(tracker.worker_args()).encode() if tracker else None)
    # Ranks are given by the names of the tasks.
    with CommunicatorContext(**json.loads(told), dmlc_task_id=f"{process.rank:06d}", dmlc_timeout=seconds):
        yield
    if tracker is not None:
        tracker.wait_for(seconds)


def _bytes(booster: Any) -> bytes:
    return bytes(booster.save_raw("ubj"))


def _losses(said: str) -> dict[str, float]:
    """`[3]\\ttrain-rmse:0.25\\tvalidation-rmse:0.5`; of squared errors the mean, as elsewhere."""
    found = {}
    for word in said.split()[1:]:
        name, _, value = word.rpartition(":")
        data, _, metric = name.partition("-")
        found[data] = float(value) ** 2 if metric == "rmse" else float(value)
    return found


def _read(saved: bytes, **parameters: Any) -> Any:
    return library("xgboost").Booster(parameters, model_file=bytearray(saved))


def until(saved: bytes, rounds: int) -> bytes:
    """The model of the first rounds."""
    booster = _read(saved)
    return saved if booster.num_boosted_rounds() <= rounds else _bytes(booster[:rounds])


def importance(saved: bytes, features: int) -> Sequence[float]:
    """The total gain of each feature's splits; they sum to 1 where there are splits."""
    gains = _read(saved).get_score(importance_type="total_gain")
    found = [float(gains.get(f"f{number}", 0.0)) for number in range(features)]
    return [gain / (sum(found) or 1.0) for gain in found]


def explain(saved: bytes, matrix: NDArray[np.float32], features: Features) -> NDArray[Any]:
    """The contributions of features to answers by TreeSHAP, [rows, outputs, features + 1]."""
    data = library("xgboost").DMatrix(matrix, feature_types=_types(features), enable_categorical=True)
    found = _read(saved).predict(data, pred_contribs=True)
    return found if found.ndim == 3 else found[:, np.newaxis]


class Model(NamedTuple):
    """A loaded model."""

    booster: Any
    features: Features
    task: Task


def load(folder: Path) -> Model:
    """The model of a model folder."""
    features, task, _ = Features.read(folder)
    return Model(_read((folder / WEIGHTS).read_bytes()), features, task)


def predict(model: Model, columns: Columns) -> dict[str, NDArray[Any]]:
    """The answers to rows, as the columns of a table of answers.

    Raises:
        InputError: a column is missing, or has text where numbers are read.
    """
    matrix = model.features.matrix(columns)
    kind = "value" if model.task.kind == "regression" else "margin"
    found: NDArray[Any] = model.booster.inplace_predict(matrix, predict_type=kind, validate_features=False)
    return answers_of(model.task, np.asarray(found))
