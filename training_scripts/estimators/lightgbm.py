"""Gradient-boosted trees of LightGBM (https://lightgbm.readthedocs.io), on one host.

LightGBM learns one quantile a model, so `quantiles` are three models, whose texts stand in one file. Its boosting
"dart" is left out: there later rounds change earlier trees, so the model of the best round cannot be had.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.bounds import Bounds
from drivetrain.base.errors import InputError
from drivetrain.training import estimator
from drivetrain.training.estimator import Columns, Features, Fit, Round, Rows, answers_of, choose_objective, library
from drivetrain.training.task import Task

NEEDS = ("lightgbm>=4.7,<4.8",)
MOST_PROCESSES = 1
WEIGHTS = "model.txt"
_NUMBERS = "regression regression_l1 huber fair poisson mape gamma tweedie"
_OBJECTIVES = {"binary": ("binary",), "multiclass": ("multiclass", "multiclassova"), "regression": _NUMBERS.split()}
_SHARE = Bounds(above=0, most=1)
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Options(estimator.Options):
    """Names and defaults are LightGBM's (https://lightgbm.readthedocs.io/en/stable/Parameters.html)."""

    learning_rate: Annotated[float, Bounds(above=0)] = 0.1
    num_leaves: Annotated[int, Bounds(2, most=131072)] = 31
    max_depth: int = -1
    min_data_in_leaf: Annotated[int, Bounds(0)] = 20
    min_sum_hessian_in_leaf: Annotated[float, Bounds(0)] = 1e-3
    min_gain_to_split: Annotated[float, Bounds(0)] = 0.0
    lambda_l1: Annotated[float, Bounds(0)] = 0.0
    lambda_l2: Annotated[float, Bounds(0)] = 0.0
    max_delta_step: Annotated[float, Bounds(0)] = 0.0
    path_smooth: Annotated[float, Bounds(0)] = 0.0
    max_bin: Annotated[int, Bounds(2)] = 255
    min_data_in_bin: Annotated[int, Bounds(1)] = 3
    bagging_fraction: Annotated[float, _SHARE] = 1.0
    bagging_freq: Annotated[int, Bounds(0)] = 0
    """Rounds after which the rows of bagging_fraction are drawn anew; 0: none are."""
    feature_fraction: Annotated[float, _SHARE] = 1.0
    feature_fraction_bynode: Annotated[float, _SHARE] = 1.0
    extra_trees: bool = False
    data_sample_strategy: Literal["bagging", "goss"] = "bagging"
    top_rate: Annotated[float, Bounds(0, most=1)] = 0.2
    other_rate: Annotated[float, Bounds(0, most=1)] = 0.1
    cat_l2: Annotated[float, Bounds(0)] = 10.0
    cat_smooth: Annotated[float, Bounds(0)] = 10.0
    max_cat_threshold: Annotated[int, Bounds(1)] = 32
    max_cat_to_onehot: Annotated[int, Bounds(1)] = 4
    min_data_per_group: Annotated[int, Bounds(1)] = 100
    objective: str = ""
    """The loss; empty: log loss, squared error, or that of the quantiles."""
    alpha: Annotated[float, Bounds(above=0)] = 0.9
    """For the objective huber."""
    fair_c: Annotated[float, Bounds(above=0)] = 1.0
    poisson_max_delta_step: Annotated[float, Bounds(above=0)] = 0.7
    tweedie_variance_power: Annotated[float, Bounds(1, most=1.999)] = 1.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bagging_fraction < 1 and not self.bagging_freq:
            raise ValueError("bagging_fraction draws no rows while bagging_freq is 0: give bagging_freq, such as 1.")

    @property
    def draws(self) -> bool:
        """Return True if random numbers decide on rows, columns or splits."""
        shares = (self.bagging_fraction, self.feature_fraction, self.feature_fraction_bynode)
        return min(shares) < 1 or self.extra_trees or self.data_sample_strategy == "goss"

    @property
    def counts_rounds(self) -> bool:
        """Return True if LightGBM counts rounds since its start, and draws by that number."""
        return self.bagging_freq > 1 or self.data_sample_strategy == "goss"


def _parameters(fit: Fit) -> list[dict[str, Any]]:
    """LightGBM's parameters of each model, but for the seed."""
    options: Options = fit.options
    allowed = {**_OBJECTIVES, "regression": ("quantile",)} if options.quantiles else _OBJECTIVES
    ours = {*vars(estimator.Options()), "objective"}
    ways = fit.features.ways(options.monotone)
    shared = {
        **{name: value for name, value in vars(options).items() if name not in ours},
        "objective": choose_objective(options.objective, allowed, fit.task),
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": fit.threads,
        "data_random_seed": fit.seed,  # of the rows that cuts are made of, which are the same in each round
        "verbosity": -1,
        **({"num_class": fit.task.num_classes} if fit.task.kind == "multiclass" else {}),
        **({"monotone_constraints": ways} if ways else {}),
    }
    return [{**shared, "alpha": alpha} for alpha in options.quantiles] or [shared]


def rounds(fit: Fit) -> Iterator[Round]:
    """Learn one round after the other.

    Raises:
        InputError: an option that the columns or the task do not have; a label that the objective does not take.
    """
    starts = _split(fit.start) if fit.start is not None else None
    growing = [_Growing(fit, each, starts[at] if starts else "") for at, each in enumerate(_parameters(fit))]
    for number in range(fit.first, fit.total):
        for each in growing:
            _asked(each.grow, number)
        found = {name: [each.loss(name) for each in growing] for name in fit.measures(number + 1)}
        losses = {name: sum(values) / len(values) for name, values in found.items()}
        yield Round(number + 1, losses, lambda: _joined([each.text for each in growing]))


class _Growing:
    """A model that learns."""

    def __init__(self, fit: Fit, parameters: dict[str, Any], start: str) -> None:
        lightgbm = library("lightgbm")
        self.fit, self.parameters, self.start = fit, parameters, start
        self.booster: Any = None
        self.ended = False

        def data(rows: Rows, like: Any = None) -> Any:
            given: Any = {"categorical_feature": fit.features.categories, "params": parameters}
            # The raw rows stay: a model that is read back is asked for them.
            return lightgbm.Dataset(
                rows.matrix, rows.targets, weight=rows.weights, reference=like, free_raw_data=False, **given
            )

        self.sets = {"train": data(fit.train)}
        if fit.validation is not None:
            self.sets["validation"] = data(fit.validation, self.sets["train"])

    def grow(self, number: int) -> None:
        """Learn the round after the first `number` ones."""
        lightgbm, fit, options = library("lightgbm"), self.fit, self.fit.options
        anew = options.draws and number % fit.save_every == 0
        seed = (fit.seed + number) % 2**31 if options.draws else fit.seed  # which stands in the model's text
        if self.booster is not None and not (anew and options.counts_rounds):
            if anew:
                # LightGBM begins the random numbers of bagging anew if another share of the rows is wanted.
                if options.bagging_fraction < 1:
                    self.booster.reset_parameter({"bagging_fraction": (1 + options.bagging_fraction) / 2})
                again = {"seed": seed, "data_random_seed": fit.seed, "bagging_fraction": options.bagging_fraction}
                self.booster.reset_parameter(again)
            self.ended = self.ended or self.booster.update()
            return
        if self.booster is not None:
            self.start = self.text
        before = _read(self.start) if self.start else None
        done = before.current_iteration() if before else 0
        sets: Any = {"valid_sets": list(self.sets.values()), "valid_names": list(self.sets)}
        self.booster = lightgbm.train(
            {**self.parameters, "seed": seed},
            self.sets["train"],
            1,
            init_model=before,
            keep_training_booster=True,
            **sets,
        )
        # After a round that added no tree, since no leaf could be split, none adds one: a tree's number is its round.
        # (Of other rows LightGBM may make one here.)
        if done < number and self.booster.current_iteration() > done:
            self.booster.rollback_one_iter()
        self.ended = self.booster.current_iteration() <= number

    def loss(self, name: str) -> float:
        return float(self.booster.eval(self.sets[name], name)[0][2])

    @property
    def text(self) -> str:
        return self.booster.model_to_string(num_iteration=-1)


def _asked(function: Callable[..., T], *given: Any) -> T:
    """Call LightGBM.

    Raises:
        InputError: it refuses an option or a label.
    """
    lightgbm = library("lightgbm")
    try:
        return function(*given)
    except lightgbm.basic.LightGBMError as error:
        raise InputError(f"LightGBM refuses it: {' '.join(str(error).split()):.300}") from error


def _read(text: str) -> Any:
    return library("lightgbm").Booster(model_str=text)


def _split(saved: bytes) -> list[str]:
    """The models of a file: the text of each begins with a line `tree`."""
    return re.split(r"(?m)^(?=tree$)", saved.decode())[1:]


def _joined(texts: Sequence[str]) -> bytes:
    return "".join(f"{text.rstrip()}\n" for text in texts).encode()


def until(saved: bytes, rounds: int) -> bytes:
    """The model of the first rounds."""
    return _joined([_read(text).model_to_string(num_iteration=rounds) for text in _split(saved)])


def importance(saved: bytes, features: int) -> Sequence[float]:
    """The total gain of each feature's splits; they sum to 1 where there are splits."""
    found = np.sum([_read(text).feature_importance("gain") for text in _split(saved)], axis=0)
    return (found / (found.sum() or 1.0)).tolist()


def explain(saved: bytes, matrix: NDArray[np.float32], features: Features) -> NDArray[Any]:
    """The contributions of features to answers by TreeSHAP, [rows, outputs, features + 1]."""
    found = [_read(text).predict(matrix, pred_contrib=True) for text in _split(saved)]
    return np.concatenate(found, axis=1).reshape(len(matrix), -1, len(features.all) + 1)


class Model(NamedTuple):
    """A loaded model."""

    boosters: list[Any]
    features: Features
    task: Task


def load(folder: Path) -> Model:
    """The model of a model folder."""
    features, task, _ = Features.read(folder)
    return Model([_read(text) for text in _split((folder / WEIGHTS).read_bytes())], features, task)


def predict(model: Model, columns: Columns) -> dict[str, NDArray[Any]]:
    """The answers to rows, as the columns of a table of answers.

    Raises:
        InputError: a column is missing, or has text where numbers are read.
    """
    matrix, raw = model.features.matrix(columns), model.task.kind != "regression"
    found = [np.asarray(booster.predict(matrix, raw_score=raw)) for booster in model.boosters]
    return answers_of(model.task, found[0] if len(found) == 1 else np.stack(found, axis=1))
