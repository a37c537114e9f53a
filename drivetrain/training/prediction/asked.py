"""A model folder as batch prediction asks it: rows in, the columns of a table of answers out."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import plugins
from drivetrain.training.answers import HIGH, LOW, TEXT
from drivetrain.training.answers.written import described_task, table_columns
from drivetrain.training.framework import Framework
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.metric_states.numbers.finite import EXTREME, Where, check_finite
from drivetrain.training.model_folder import FUNCTIONS, framework_of, read_description
from drivetrain.training.outputs import by_name, task_of
from drivetrain.training.prediction.settings import Settings
from drivetrain.training.process import Process
from drivetrain.training.recipe import Recipe, any_rows
from drivetrain.training.serving.predictions import predictions_of

Columns = dict[str, NDArray[Any]]
# (first row, end, counts) -> the answers; None on a rank whose replica another rank speaks for.
Answer = Callable[[int, int, bool], Columns | None]


class Shares(NamedTuple):
    """This replica, of how many."""

    replica: int
    replicas: int


class Asked(Protocol):
    """A model that is asked for rows."""

    recipe: Recipe
    """The columns that it takes."""

    @property
    def description(self) -> Mapping[str, Any]:
        """The content of model.json."""
        ...

    @property
    def version(self) -> tuple[str, str]:
        """The library that computes, and its version."""
        ...

    @property
    def described(self) -> Mapping[str, Any]:
        """The task for the manifest (`described_task`)."""
        ...

    def device_kind(self, process: Process) -> str:
        """ "cpu" or "cuda": the two round differently."""
        ...

    def placed(
        self, process: Process, dataset: Dataset, settings: Settings
    ) -> AbstractContextManager[tuple[Answer, Shares]]:
        """Ready to answer, on all processes together, while the block runs."""
        ...


def model_of(folder: Path) -> Asked:
    """
    Raises:
        InputError: no model folder.
    """
    return FunctionsModel(folder) if framework_of(folder) == FUNCTIONS else RecipeModel(folder)


class RecipeModel:
    """A model of one of the frameworks."""

    def __init__(self, folder: Path) -> None:
        self._framework: Framework = plugins.load_framework(framework_of(folder))
        self.recipe, self._model, self.description = self._framework.load_model(folder)
        self._task = task_of(self.recipe, self.description)
        self.version = next(iter(self._framework.versions().items()))

    @property
    def described(self) -> Mapping[str, Any]:
        return described_task(self._task, self._task.calibration)

    def device_kind(self, process: Process) -> str:
        return self._framework.device_kind(process.device)

    @contextmanager
    def placed(self, process: Process, dataset: Dataset, settings: Settings) -> Generator[tuple[Answer, Shares]]:
        framework, recipe = self._framework, self.recipe
        with (
            framework.computing_threads(settings.threads),
            framework.placed(
                recipe, self._model, process, strategy=settings.strategy, strategy_options=settings.strategy_options
            ) as (forward, layout),
        ):
            precision = framework.precision_of(self._model)

            def answer(start: int, stop: int, counts: bool) -> Columns | None:
                batch = framework.on_device(dataset.batch(slice(start, stop)), process.device, precision)
                with framework.without_gradients():
                    outputs = forward(batch.inputs)
                if outputs is None or not counts:
                    return None
                answers = predictions_of(framework, recipe, self._task, outputs)
                where = Where(np.arange(start, stop), dataset.reader.locate)
                for what, values in (
                    ("score", answers.scores),
                    ("prediction", answers.predicted),
                    ("output", answers.margins),
                ):
                    if values is not None and values.dtype.kind == "f":
                        check_finite(what, values, where, EXTREME)
                predicted = by_name(self._task, answers.predicted)
                columns = table_columns(self._task, predicted, answers.scores, answers.margins)
                return {**columns, **answers.ends}

            yield answer, Shares(layout.data_rank, layout.data_size)


class FunctionsModel:
    """A model that answers by functions of its own; each process asks it for shards of its own."""

    def __init__(self, folder: Path) -> None:
        from drivetrain.training.serving.functions import ServedModel

        self.description = read_description(folder)
        self._model = ServedModel.load(folder)
        self.recipe = any_rows(self._model.inputs.names)
        self.version = next(iter(self.description.get("needs", {}).items()), ("functions", ""))

    @property
    def described(self) -> Mapping[str, Any]:
        return {**described_task(self._model.task, self._model.calibration), "kind": self._model.name}

    def device_kind(self, process: Process) -> str:
        return "cpu"

    @contextmanager
    def placed(self, process: Process, dataset: Dataset, settings: Settings) -> Generator[tuple[Answer, Shares]]:
        for name, default in (("strategy", "ddp"), ("strategy_options", "{}")):
            if (value := getattr(settings, name)) != default:
                raise InputError(f"{name}={value!r} is for a model of a framework. This one needs none: leave it out.")

        def answer(start: int, stop: int, counts: bool) -> Columns | None:
            columns = dataset.reader.read(slice(start, stop), self._model.inputs.names)
            said = self._model.said(columns)
            where = Where(np.arange(start, stop), dataset.reader.locate)
            if said.name == "text":
                assert said.predicted is not None
                return {TEXT: said.predicted}
            predicted = by_name(said.task, self._model.answers_of(said).predicted)
            found = table_columns(said.task, predicted, said.scores, said.margins)
            found |= {} if said.ends is None else dict(zip((LOW, HIGH), said.ends, strict=True))
            for name, values in found.items():
                if values.dtype.kind == "f":
                    check_finite(name, values, where, "correct the model's own code")
            return found

        yield answer, Shares(process.rank, process.world_size)
