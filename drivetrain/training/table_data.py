"""The rows of prepared data as an estimator learns them: numbers side by side, targets, weights."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more, did_you_mean
from drivetrain.training.class_weights import balanced
from drivetrain.training.estimator import Features, Fit, Options, Rows, find_features, levels_of
from drivetrain.training.input_pipeline.choice import load_reader
from drivetrain.training.input_pipeline.prepared import PreparedData
from drivetrain.training.launch.cluster import LOCALHOST
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader
from drivetrain.training.table_config import TableConfig, TableFolders
from drivetrain.training.task import Task

# Rows that the cuts of features are made of, so that all processes make the same.
_SAMPLED_ROWS = 1 << 19
# Reports of a training: more lines say no more.
_REPORTS = 50
_MOST_CLASSES = 1_000


@dataclass(frozen=True, kw_only=True)
class Data:
    """The data of a training: what of its columns is learnt from, and what is to be learnt.

    Attributes:
        classes: the labels of the classes, in their order; empty for a regression.
    """

    train: Reader
    validation: Reader | None
    features: Features
    label: str
    weight_column: str
    task: Task
    classes: tuple[Any, ...]
    _codes: dict[Any, int] = field(default_factory=dict[Any, int])

    def fit(
        self,
        config: TableConfig,
        options: Options,
        process: Process,
        start: bytes | None,
        first: int,
    ) -> Fit:
        every = max(1, config.rounds // _REPORTS)

        def measures(number: int) -> Sequence[Literal["train", "validation"]]:
            reports = number % every == 0 or number == config.rounds
            measured = self.validation is not None and (reports or config.early_stopping > 0)
            return [*(["train"] if reports else []), *(["validation"] if measured else [])]  # type: ignore[list-item]

        if options.quantiles and self.task.kind != "regression":
            raise InputError(f"quantiles are of a regression, and the task is {self.task.kind}. Leave them out.")
        weights = np.ones(0)
        if options.class_weights == "balanced":
            if not self.classes:
                raise InputError("class_weights='balanced': a regression has no classes. Leave it out.")
            targets = self._targets(self.train, slice(0, len(self.train)))
            weights = balanced(np.bincount(targets.astype(np.int64), minlength=len(self.classes)))
        sample, total = None, len(self.train)
        if process.world_size > 1 or total > _SAMPLED_ROWS:
            chosen = np.arange(total)
            if total > _SAMPLED_ROWS:
                chosen = np.sort(np.random.default_rng(config.seed).choice(total, _SAMPLED_ROWS, replace=False))
            sample = self.rows(self.train, chosen, weights)
        return Fit(
            options=options,
            task=self.task,
            features=self.features,
            train=self.rows(self.train, _share(self.train, process), weights),
            validation=self.rows(self.validation, _share(self.validation, process)) if self.validation else None,
            sample=sample,
            total=config.rounds,
            save_every=config.rounds_between_saves,
            seed=config.seed,
            threads=config.threads,
            start=start,
            first=first,
            measures=measures,
            process=process,
            timeout=config.collective_timeout,
            address=socket.gethostbyname(os.environ.get("MASTER_ADDR", LOCALHOST)),
        )

    def rows(self, reader: Reader, which: Any, class_weights: NDArray[Any] | None = None) -> Rows:
        """Some rows of a data set.

        Args:
            which: a slice or row numbers.
            class_weights: a number for each class; empty or None: all count the same.
        """
        targets = self._targets(reader, which)
        weights = None
        if self.weight_column:
            weights = _weights(reader, self.weight_column, which)
        if class_weights is not None and len(class_weights):
            own = class_weights[targets.astype(np.int64)].astype(np.float32)
            weights = own if weights is None else weights * own
        matrix = self.features.matrix(reader.read(which, self.features.names))
        return Rows(matrix, targets, weights)

    def _targets(self, reader: Reader, which: Any) -> NDArray[np.float32]:
        """The labels as numbers, float32 [rows]: of classes their numbers."""
        values = reader.read(which, [self.label])[self.label]
        if not self.classes:
            if values.dtype.kind not in "iufb":
                raise InputError(f"task=regression: label {self.label!r} holds {values[0]!r:.60}, which is no number.")
            found = values.astype(np.float32)
            _refuse_first(~np.isfinite(found), reader, which, f"label {self.label!r} is empty or not finite")
            return found
        if not self._codes:
            self._codes.update((each, number) for number, each in enumerate(self.classes))
        found = np.array([self._codes.get(value, -1) for value in values.tolist()], dtype=np.float32)
        known = and_more(map(repr, self.classes), 8)
        _refuse_first(found < 0, reader, which, f"label {self.label!r} is none of the training's classes ({known})")
        return found


def _share(reader: Reader, process: Process) -> slice:
    """This rank's rows.

    Raises:
        InputError: fewer rows than processes.
    """
    total, size = len(reader), process.world_size
    if total < size:
        raise InputError(f"{reader.folder} has {total} rows for {size} processes. Take fewer processes.")
    return slice(total * process.rank // size, total * (process.rank + 1) // size)


def _weights(reader: Reader, name: str, which: Any) -> NDArray[np.float32]:
    values = reader.read(which, [name])[name]
    if values.ndim != 1 or values.dtype.kind not in "iufb":
        raise InputError(f"weight_column={name!r} holds {values[:1].tolist()!r:.60}; allowed are numbers from 0.")
    found = values.astype(np.float32)
    wrong = ~(np.isfinite(found) & (found >= 0))
    _refuse_first(wrong, reader, which, f"weight_column={name!r} is no finite number from 0")
    return found


def _refuse_first(wrong: NDArray[np.bool_], reader: Reader, which: Any, why: str) -> None:
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        row = which.start + place if isinstance(which, slice) else int(which[place])
        raise InputError(f"{reader.locate(row)}: {why}; {int(wrong.sum()):,} such rows. Correct the data.")


def open_data(config: TableConfig, folders: TableFolders, options: Options, process: Process) -> Data:
    """The data with the columns that are needed.

    Raises:
        InputError: no label; a column that is named and not there; labels that the task does not have.
    """
    given: dict[str, Any] = {}
    probe = load_reader("auto", folders.train, given, process)
    label, beside = probe.label or "", (config.weight_column, probe.key)
    names = [name for name in probe.column_names if name not in (label, *beside)]
    if config.weight_column and config.weight_column not in probe.column_names:
        known = did_you_mean(config.weight_column, probe.column_names)
        raise InputError(f"weight_column: {folders.train} has no column {config.weight_column!r}. {known}")
    prepared = getattr(probe, "data", None)
    if isinstance(prepared, PreparedData):
        given = {"missing": prepared.may_lack(names)}
    train = load_reader("auto", folders.train, given, process)
    wanted = [*names, label, *([config.weight_column] if config.weight_column else [])]
    train.open(wanted)
    columns = train.read(slice(0, len(train)), names)
    features = find_features(columns, options)
    task, classes = find_task(config.task, label, train.read(slice(0, len(train)), [label])[label], str(train.folder))
    validation = None
    if folders.validation is not None:
        read_as = {"split": "test", "fitted": dict(train.fitted)}
        validation = load_reader("auto", folders.validation, given, process, defaults=read_as)
        validation.open([*features.names, *wanted[len(names) :]])
    return Data(
        train=train,
        validation=validation,
        features=features,
        label=label,
        weight_column=config.weight_column,
        task=task,
        classes=classes,
    )


def find_task(asked: str, label: str, values: NDArray[Any], where: str) -> tuple[Task, tuple[Any, ...]]:
    """The task of a label, and the labels of its classes in their order.

    Args:
        asked: the setting `task`.

    Raises:
        InputError: the label is empty in some rows, or not what the task asks for.
    """
    if values.ndim > 1:
        raise InputError(f"label {label!r} of {where} holds lists; allowed is a value a row.")
    is_text = values.dtype.kind not in "iufb"
    kind, found = asked, levels_of(values)
    if asked == "auto":
        is_class = is_text or values.dtype.kind == "b" or set(found) <= {0, 1}
        kind = "regression" if not is_class else "binary" if len(found) <= 2 else "multiclass"
    if kind == "regression":
        return Task("regression", 1), ()
    numbered = () if is_text else tuple(range(2 if kind == "binary" else len(found)))
    if not is_text and not set(found) <= set(numbered):
        raise InputError(
            f"label {label!r} of {where} holds {and_more(found, 8)}; classes of task={kind} are texts, or whole "
            f"numbers from 0. For other numbers say task=regression."
        )
    least, most = (2, 2) if kind == "binary" else (2, _MOST_CLASSES)
    if not least <= len(found) <= most:
        allowed = "2" if most == least else f"{least} to {most:,}"
        raise InputError(
            f"label {label!r} of {where} has {len(found):,} classes ({and_more(map(repr, found), 4)}); task={kind} "
            f"takes {allowed}."
        )
    names = tuple(map(str, found)) if is_text else ()
    return Task(kind, len(found), names), found if is_text else numbered  # type: ignore[arg-type]
