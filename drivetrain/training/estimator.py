"""The contract of an estimator: one file a library that learns a table of numbers and categories, round by round.

A file `estimators/<name>.py`, or a module of the user's own, has

    NEEDS = ("xgboost-cpu>=3.2,<3.3",)   distributions that it imports; of "-cpu" the one without will do, too
    MOST_PROCESSES = 1                   only where the library learns on one host, by threads
    WEIGHTS = "model.ubj"                the name of the model's file
    class Options(estimator.Options)     a frozen dataclass of plain values
    def rounds(fit) -> Iterator[Round]   learns; goes on from the bytes of an earlier round
    def until(saved, rounds) -> bytes    the model of the first rounds
    def importance(saved) -> Sequence    a number for each feature: how much it improved the loss
    def explain(saved, matrix, features) -> contributions      (optional) how far each feature moves each answer
    def load(folder) -> model            } the model folder's answers: serving and evaluation call these two
    def predict(model, columns)          } (drivetrain/training/answers: columns in, the columns of a table of answers)

What the random numbers of a library did is in no file. So after each `save_every` rounds `rounds` goes on as if it had
read its model from its own bytes, with the seed `seed + rounds so far`, also when nothing interrupts it. A training
that was interrupted then gives the same model. Where nothing is drawn it need not.

This file travels with a model, so it imports little.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.training.calibration import sigmoid
from drivetrain.training.task import Task

if TYPE_CHECKING:
    from drivetrain.training.process import Process

Columns = Mapping[str, NDArray[Any]]
TABLE = "table"
"""The key of model.json under which the features, options and importance of an estimator are."""
_TASK = "task"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that every estimator has."""

    categories: tuple[str, ...] = ()
    """Columns of texts or numbers whose values have no order. A value that the training never saw counts as missing."""
    ignore: tuple[str, ...] = ()
    """Columns that are left out. The label, the key and the weights always are."""
    class_weights: Literal["none", "balanced"] = "none"
    """balanced: each class counts as much as any other in the training, however often it occurs."""
    quantiles: tuple[float, ...] = ()
    """Three rising numbers between 0 and 1, such as [0.05, 0.5, 0.95]: a regression answers low, predicted and high."""
    monotone: Mapping[str, int] = field(default_factory=dict[str, int])
    """1 for columns that may only raise the answer, -1 for those that may only lower it."""

    def __post_init__(self) -> None:
        ways: Any = self.monotone
        if not isinstance(ways, dict) or not all(way in (1, -1) for way in ways.values()):
            raise ValueError('monotone names columns, each with 1 or -1, such as {"age": 1}.')
        given: Any = self.quantiles
        numbers = isinstance(given, tuple) and all(isinstance(each, float) and 0 < each < 1 for each in given)
        if given != () and not (numbers and len(given) == 3 and list(given) == sorted(set(given))):
            raise ValueError("quantiles are three rising numbers between 0 and 1, such as [0.05, 0.5, 0.95].")


class Feature(NamedTuple):
    """A column that the model reads; `levels` are the values of a category, None for a number."""

    name: str
    levels: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Features:
    """The columns that a model reads, in the order in which it numbers them."""

    all: tuple[Feature, ...]
    _codes: dict[str, dict[Any, int]] = field(default_factory=dict[str, dict[Any, int]], repr=False, compare=False)

    @property
    def names(self) -> list[str]:
        return [feature.name for feature in self.all]

    @property
    def categories(self) -> list[int]:
        """The numbers of the columns that are categories."""
        return [number for number, feature in enumerate(self.all) if feature.levels is not None]

    def ways(self, monotone: Mapping[str, int]) -> list[int]:
        """1, -1 or 0 for each column, as libraries take monotone constraints; empty where there are none.

        Raises:
            InputError: no such column, or a category, whose values have no order.
        """
        for name in monotone:
            if name not in self.names:
                raise InputError(f"monotone: there is no column {name!r}. {did_you_mean(name, self.names)}")
            if self.all[self.names.index(name)].levels is not None:
                raise InputError(f"monotone: {name!r} is a category, whose values have no order. Leave it out.")
        return [monotone.get(name, 0) for name in self.names] if monotone else []

    def matrix(self, columns: Columns) -> NDArray[np.float32]:
        """The columns side by side, float32 [rows, features].

        Missing values are NaN; a category is the number of its value, and NaN where the training never saw it.

        Args:
            columns: arrays of shape [rows]: numbers, and texts for categories.

        Raises:
            InputError: a column that is not there, or that has text where the model reads numbers.
        """
        for feature in self.all:
            if feature.name not in columns:
                raise InputError(f"there is no column {feature.name!r}, which the model reads. Give it.")
        rows = len(columns[self.all[0].name])
        made = np.empty((rows, len(self.all)), dtype=np.float32)
        for number, feature in enumerate(self.all):
            made[:, number] = self._column(feature, columns[feature.name])
        return made

    def _column(self, feature: Feature, values: NDArray[Any]) -> NDArray[Any]:
        if feature.levels is not None:
            if feature.name not in self._codes:
                self._codes[feature.name] = {level: number for number, level in enumerate(feature.levels)}
            codes = self._codes[feature.name]
            _refuse_other_kind(feature, values)
            return np.array([codes.get(value, np.nan) for value in values.tolist()], dtype=np.float32)
        if values.ndim == 1 and values.dtype.kind in "iufb":
            return values
        try:  # numbers among empty cells, as JSON and CSV bring them
            return np.array([np.nan if value is None else float(value) for value in values.tolist()])
        except (TypeError, ValueError):
            raise InputError(_no_number(feature.name, values)) from None

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"name": each.name, **({} if each.levels is None else {"levels": list(each.levels)})} for each in self.all
        ]

    @classmethod
    def read(cls, folder: Path) -> tuple[Features, Task, Mapping[str, Any]]:
        """The features of a model folder, its task and the options that it was trained with."""
        described = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        table, task = described[TABLE], described[_TASK]
        features = [
            Feature(each["name"], tuple(each["levels"]) if "levels" in each else None) for each in table["features"]
        ]
        known = Task(task["kind"], task["num_classes"], tuple(task["class_names"]), task.get("threshold", 0.5))
        return cls(tuple(features)), known, table["options"]


def _refuse_other_kind(feature: Feature, values: NDArray[Any]) -> None:
    """
    Raises:
        InputError: 7 where the categories are texts such as "7", or the other way round: none of them would be found.
    """
    first = next(iter(feature.levels or ()), None)
    is_text = isinstance(first, str)
    given = values.tolist() if first is not None and (values.dtype.kind == "O" or is_text) else ()
    wrong = (each for each in given if each is not None and each == each and isinstance(each, str) != is_text)
    for each in wrong:
        raise InputError(
            f"column {feature.name!r} holds {each!r:.60}, and its categories are values such as {first!r:.60}. "
            "Write them as the training data have them."
        )


def _no_number(name: str, values: NDArray[Any]) -> str:
    if values.ndim > 1:
        return f"column {name!r} holds lists; allowed is a number a row. Leave it out: ignore=[{name!r}]."
    first = next((each for each in values.tolist() if not isinstance(each, int | float | None)), "")
    return (
        f"column {name!r} holds {first!r:.60}, where numbers are read. Name the column in the option categories, leave "
        "it out by the option ignore, or write numbers into the data."
    )


def find_features(columns: Columns, options: Options) -> Features:
    """The features of the training data.

    Args:
        columns: the columns of the data that may be features.

    Raises:
        InputError: a column that an option names and the data lack, or one that is neither numbers nor a category.
    """
    for option in ("categories", "ignore"):
        for name in getattr(options, option):
            if name not in columns:
                known = ", ".join(columns)
                raise InputError(f"{option}: the data have no column {name!r} to learn from; there are {known:.300}.")
    found: list[Feature] = []
    for name, values in columns.items():
        if name in options.ignore:
            continue
        if name in options.categories:
            found.append(Feature(name, levels_of(values)))
        elif values.ndim > 1 or values.dtype.kind not in "iufb":
            raise InputError(_no_number(name, values))
        else:
            found.append(Feature(name))
    if not found:
        raise InputError("the data have no column to learn from besides the label, the key and the weights.")
    return Features(tuple(found))


def levels_of(values: NDArray[Any]) -> tuple[Any, ...]:
    """The different values of a column, sorted, without missing ones."""
    present = {value for value in values.tolist() if value is not None and value == value}
    return tuple(sorted(present))


class Rows(NamedTuple):
    """Rows to learn from or to measure on: float32 [rows, features], targets and weights [rows]."""

    matrix: NDArray[np.float32]
    targets: NDArray[np.float32]
    weights: NDArray[np.float32] | None = None


@dataclass(frozen=True, kw_only=True)
class Fit:
    """All that `rounds` goes by.

    Attributes:
        train, validation: this process's part of the rows.
        sample: rows for the cuts of features, the same on any number of processes; None: all rows.
        total: the last round.
        save_every: rounds after which the model is read back from its bytes.
        threads: 0 for as many as the library takes.
        start, first: the bytes of the model of the first rounds, and how many they are.
        measures: the data sets whose loss is wanted after a round.
        timeout: seconds that a process waits for the others.
        address: of the host of the first process, as the others reach it.
    """

    options: Any
    task: Task
    features: Features
    train: Rows
    validation: Rows | None
    sample: Rows | None
    total: int
    save_every: int
    seed: int
    threads: int
    start: bytes | None
    first: int
    measures: Callable[[int], Sequence[Literal["train", "validation"]]]
    process: Process
    timeout: float
    address: str = ""


class Round(NamedTuple):
    """The losses after a round (counted from 1) of the data sets that were measured; `save` gives the model's bytes."""

    number: int
    losses: Mapping[str, float]
    save: Callable[[], bytes]


Explain = Callable[[bytes, NDArray[np.float32], Features], NDArray[Any]]
"""The contributions of features to answers before the link function, [rows, outputs, features + 1]: their sum is the
answer, and the last one is the same in all rows (SHAP values: Lundberg and Lee, 2017)."""


class Estimator(Protocol):
    """An estimator's file; see the module. `explain` may be missing."""

    NEEDS: Sequence[str]
    WEIGHTS: str
    Options: type[Options]

    @staticmethod
    def rounds(fit: Fit) -> Iterator[Round]: ...

    @staticmethod
    def until(saved: bytes, rounds: int) -> bytes: ...

    @staticmethod
    def importance(saved: bytes, features: int) -> Sequence[float]: ...

    @staticmethod
    def load(folder: Path) -> Any: ...

    @staticmethod
    def predict(model: Any, columns: Columns) -> Mapping[str, NDArray[Any]]: ...


def library(name: str) -> Any:
    """A library, imported as where scikit-learn is missing.

    XGBoost and LightGBM import scikit-learn where they find it, for classes that are not used here; that takes longer
    than their own import.
    """
    hides = name not in sys.modules and "sklearn" not in sys.modules
    if hides:
        sys.modules["sklearn"] = None  # type: ignore[assignment] - as an import system has a module that is missing
    try:
        return importlib.import_module(name)
    finally:
        if hides:
            del sys.modules["sklearn"]


def choose_objective(given: str, allowed: Mapping[str, Sequence[str]], task: Task) -> str:
    """The objective of a task: the given one, or the task's first.

    Raises:
        InputError: another task has it.
    """
    if given and given not in allowed[task.kind]:
        raise InputError(f"no objective {given!r} of {task.kind}. Allowed: {', '.join(allowed[task.kind])}.")
    return given or allowed[task.kind][0]


def answers_of(task: Task, margins: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """The columns of a table of answers from numbers before the link function.

    Args:
        margins: [rows] log-odds of class 1, or [rows, classes] log-probabilities up to a constant; of a regression
            the predictions [rows], or [rows, 3]: its lower end, the prediction and its upper end.
    """
    margins = margins.astype(np.float64)
    if task.kind == "binary":
        return {"score": sigmoid(margins), "margin": margins}
    if task.kind == "multiclass":
        powers = np.exp(margins - margins.max(axis=1, keepdims=True))
        scores = powers / powers.sum(axis=1, keepdims=True)
        return {f"score_{number}": scores[:, number] for number in range(task.num_classes)}
    if margins.ndim == 1:
        return {"predicted": margins}
    # Trees of different quantiles may cross (Chernozhukov et al. 2010, "Quantile and probability curves without
    # crossing"): in order they are never worse.
    low, predicted, high = np.sort(margins, axis=1).T
    return {"predicted": predicted, "low": low, "high": high}
