"""The subject of an evaluation: a model, which is asked here, or answers that it gave before."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more
from drivetrain.data.manifest import MANIFEST_FILE
from drivetrain.training import plugins, trees
from drivetrain.training.calibration import CALIBRATION, COSTS, Calibration
from drivetrain.training.evaluation.progress import Progress
from drivetrain.training.evaluation.run import evaluate, probe
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.framework import Framework
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.prepared import PreparedData
from drivetrain.training.metric import Ints, Metric, Samples, load_metrics, usual_metrics
from drivetrain.training.metric_states.result import Bootstrap, Evaluation
from drivetrain.training.metric_states.slices import CROSS, MISSING, SliceColumn, cross
from drivetrain.training.metrics.cost import Metric as CostMetric
from drivetrain.training.metrics.rates import Metric as RatesMetric
from drivetrain.training.metrics.threshold import Metric as ThresholdMetric
from drivetrain.training.model_folder import framework_of
from drivetrain.training.outputs import task_of
from drivetrain.training.process import Process
from drivetrain.training.reader import Reader
from drivetrain.training.recipe import any_rows
from drivetrain.training.task import Task

if TYPE_CHECKING:
    from drivetrain.training.answers.asking import AnswersOfRows

# Decoded rows that are kept in memory; if there are more, only those in use.
MOST_HELD_ROWS = 2_000_000
# Columns of a worst row that are shown, where no model says which it reads.
SHOWN_COLUMNS = 30


@dataclass(frozen=True, kw_only=True)
class Count:
    """The measures of an evaluation besides the subject's metrics, and who is told of each batch."""

    slices: Sequence[SliceColumn]
    bootstrap: Bootstrap | None
    exact: bool
    on_batch: Callable[[Ints, Samples], None] | None
    progress: Progress


class Subject(Protocol):
    """A model or its answers, opened."""

    dataset: Dataset
    task: Task
    metrics: dict[str, Metric]
    """The metrics to measure, by the names of their results; the loss and the subject's own come on top."""
    model: dict[str, Any]
    """The model in evaluation.json, but for its content's hash."""
    trained_on: Mapping[str, Any]
    """The training data, as model.json describes it."""
    loss: str
    """The name of the loss; "" for the recipe's own."""
    has_losses: bool
    """True where each row has a loss."""

    def image(self, rows: Ints) -> NDArray[Any] | None:
        """The model's inputs for some rows, where they may be images, shape [n, ...]."""
        ...

    def kept(self, rows: Ints) -> dict[str, NDArray[Any]]:
        """Columns of a table of answers that samples do not have: texts, the ends of intervals."""
        ...

    def count(self, given: Count) -> AbstractContextManager[Evaluation]:
        """Count all rows, on all ranks together. The ranks stay together while the block runs."""
        ...


class AskedModel:
    """A model folder whose model answers here.

    Raises:
        InputError: a folder that is not what it should be, or a setting that cannot be.
    """

    loss, has_losses = "", True

    def __init__(self, folder: Path, data: Path, process: Process, settings: Settings) -> None:
        if settings.task:
            raise InputError(f"task={settings.task!r} is of answers in a table; a model says its own. Leave task out.")
        self._framework: Framework = plugins.load_framework(framework_of(folder))
        self._process, self._settings = process, settings
        recipe, self._loaded, description = self._framework.load_model(folder)
        task = task_of(recipe, description)
        self.metrics = metrics_of(settings, task, task.calibration)
        self.task = replace(task, threshold=settings.threshold or task.threshold)
        self.trained_on = description.get("data", {})
        self.model: dict[str, Any] = {"recipe": description["recipe"], "step": description.get("step")}
        reader = self.trained_on.get("reader", "auto")
        own = getattr(recipe, "reader", "auto") if reader == "auto" else reader
        self.dataset = Dataset(
            data,
            recipe,
            process,
            reader=reader,
            reader_options=self.trained_on.get("reader_options", {}),
            split="test",
            fitted=self.trained_on.get("fitted"),
            shuffle_window=_window(data, own, settings.batch_size),
            columns=settings.columns,
            key=True,
        )
        self._values = probe(self._framework, recipe, self._loaded, self.dataset, task)
        self._precision = self._framework.precision_of(self._loaded)

    def image(self, rows: Ints) -> NDArray[Any] | None:
        inputs = self.dataset.batch(rows).inputs
        return self._framework.array(inputs) if trees.is_tensor(inputs) else None

    def kept(self, rows: Ints) -> dict[str, NDArray[Any]]:
        return {}

    @contextmanager
    def count(self, given: Count) -> Generator[Evaluation]:
        settings, framework = self._settings, self._framework
        with (
            framework.computing_threads(settings.threads),
            framework.placed(
                self.dataset.recipe,
                self._loaded,
                self._process,
                strategy=settings.strategy,
                strategy_options=settings.strategy_options,
            ) as (forward, layout),
        ):

            def watched(inputs: Any) -> Any:
                outputs = forward(inputs)
                given.progress.add(settings.batch_size * layout.data_size)
                return outputs

            yield evaluate(
                watched,
                self.dataset,
                layout,
                framework=framework,
                batch_size=settings.batch_size,
                precision=self._precision,
                task=self.task,
                metrics=self.metrics,
                slices=given.slices,
                bootstrap=given.bootstrap,
                exact=given.exact,
                values=self._values,
                on_batch=given.on_batch,
                on_counted=given.progress.stop,
            )


class _Answers:
    """Answers of a table, or of a model that is asked, held against the data (drivetrain/training/answers)."""

    dataset: Dataset
    task: Task
    metrics: dict[str, Metric]
    model: dict[str, Any]
    has_losses: bool
    loss: str

    def __init__(
        self, answers: AnswersOfRows, process: Process, settings: Settings, calibration: Calibration | None = None
    ) -> None:
        from drivetrain.training.answers.samples import LOSSES

        self._answers, self._process, self._settings = answers, process, settings
        self.dataset, self.task = answers.dataset, answers.task
        self.metrics = metrics_of(settings, self.task, calibration)
        self.has_losses = answers.has_losses
        self.loss = LOSSES[answers.name] if self.has_losses else "none"

    def image(self, rows: Ints) -> NDArray[Any] | None:
        return None

    def kept(self, rows: Ints) -> dict[str, NDArray[Any]]:
        return self._answers.kept(rows)

    @contextmanager
    def count(self, given: Count) -> Generator[Evaluation]:
        from drivetrain.training.answers.counting import count_answers

        def watched(rows: Ints, samples: Samples) -> None:
            if given.on_batch is not None:
                given.on_batch(rows, samples)
            given.progress.add(len(rows) * self._process.world_size)

        yield count_answers(
            self._answers,
            self._process,
            batch_size=self._settings.batch_size,
            metrics=self.metrics,
            slices=given.slices,
            bootstrap=given.bootstrap,
            exact=given.exact,
            on_batch=watched,
            on_counted=given.progress.stop,
        )


def _check_placed(settings: Settings, what: str) -> None:
    """Refuse settings of a model that is placed on several processes."""
    for name, default in (("strategy", "ddp"), ("strategy_options", "{}")):
        if (value := getattr(settings, name)) != default:
            raise InputError(f"{name}={value!r} is for a model of a framework that is asked; {what}, leave it out.")


class GivenAnswers(_Answers):
    """Answers in a table.

    Raises:
        InputError: as `read_answers`; data without labels; a setting that is for a model.
    """

    trained_on: Mapping[str, Any] = {}

    def __init__(self, table: Path, data: Path, process: Process, settings: Settings) -> None:
        from drivetrain.training.answers.samples import read_answers
        from drivetrain.training.answers.table import described_task

        _check_placed(settings, "with answers")
        shown, missing = _shown(data, settings)
        dataset = Dataset(
            data,
            any_rows(),
            process,
            reader_options={"missing": missing} if missing else {},
            split="test",
            shuffle_window=_window(data, "auto", settings.batch_size),
            columns=list(dict.fromkeys([*settings.columns, *shown])),
            key=True,
        )
        answers = read_answers(table, dataset, settings.task, settings.threshold)
        # (batch_predict's manifest hands the costs of a calibrated model on.)
        costs = described_task(table).get("costs")
        calibration = Calibration.of({CALIBRATION: {"costs": costs}}) if costs else None
        super().__init__(answers, process, settings, calibration)
        self.model = {
            **{"recipe": None, "step": None},
            **{"answers": answers.content_hash, "task": answers.name},
        }


class AskedFunctions(_Answers):
    """A model folder that answers by functions of its own (drivetrain/training/serving/functions.py).

    Raises:
        InputError: a folder that is not what it should be, or a setting that cannot be.
    """

    def __init__(self, folder: Path, data: Path, process: Process, settings: Settings) -> None:
        from drivetrain.training.answers.asking import AskedAnswers, open_data
        from drivetrain.training.model_folder import read_description
        from drivetrain.training.serving.functions import ServedModel
        from drivetrain.training.serving.inputs import inputs_of

        if settings.task:
            raise InputError(f"task={settings.task!r} is of answers in a table; a model says its own. Leave task out.")
        _check_placed(settings, "with this model")
        description = read_description(folder)
        self.trained_on: Mapping[str, Any] = description.get("data", {})
        shown, missing = _shown(data, settings, inputs_of(folder, description).names)
        dataset = open_data(
            data,
            description,
            process,
            columns=list(dict.fromkeys([*settings.columns, *shown])),
            missing=missing,
            shuffle_window=_window(data, "auto", settings.batch_size),
        )
        model = ServedModel.load(folder)
        super().__init__(AskedAnswers(model, dataset, settings.threshold), process, settings, model.calibration)
        self.model = {"recipe": None, "step": None, "task": model.name}


def _shown(data: Path, settings: Settings, taken: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The columns of prepared data to show of the worst rows, none where they would take much memory; and those of
    them, and of slices, that may have empty cells: an answer may be right though the row is not whole.

    Args:
        taken: the columns that the model takes.
    """
    if not (data / MANIFEST_FILE).is_file():
        return [], []
    prepared = PreparedData(data)
    used = {*taken, prepared.label, prepared.key}
    sliced = [name for name in settings.columns if name not in used and _lacks(prepared.statistics.get(name))]
    if not settings.worst or prepared.rows > MOST_HELD_ROWS:
        return [], sliced
    shown = prepared.column_names[:SHOWN_COLUMNS]
    return shown, sliced + prepared.may_lack([name for name in shown if name not in {*used, *settings.columns}])


def _lacks(statistics: Any) -> bool:
    """True for a column with empty cells."""
    return bool((statistics or {}).get("nulls"))


def metrics_of(settings: Settings, task: Task, calibration: Calibration | None = None) -> dict[str, Metric]:
    """The metrics to measure, besides the loss and the recipe's own.

    Args:
        calibration: the model's; its costs hold where the settings say none.

    Raises:
        InputError: an impossible metric, or a setting of a binary model's threshold for a model without one.
    """
    given = (settings.false_positive_cost, settings.false_negative_cost)
    told = given if given != (1.0, 1.0) else (calibration and calibration.costs) or given
    costs: dict[str, Any] = dict(zip(COSTS, told, strict=True))
    scoring = settings.scoring
    if not scoring.strip() and task.kind == "binary" and told != (1.0, 1.0):
        scoring = ", ".join([*usual_metrics(task), "cost"])
    metrics = load_metrics(scoring, task, {"threshold": costs, "cost": costs})
    if settings.groups:
        if task.kind != "binary":
            raise InputError(f"fairness={settings.fairness!r} is for binary models, and this one is {task.kind}.")
        metrics.setdefault("rates", RatesMetric())
    if settings.threshold and task.kind != "binary":
        raise InputError(f"threshold={settings.threshold:g} is for binary models, and this one is {task.kind}.")
    if given != (1.0, 1.0) and not any(isinstance(metric, ThresholdMetric | CostMetric) for metric in metrics.values()):
        raise InputError(
            "false_positive_cost and false_negative_cost are for the metric threshold of a binary model, and for cost; "
            "neither is measured here. Leave them out, or name one in scoring."
        )
    return metrics


def costs_of(metrics: Mapping[str, Metric]) -> dict[str, float] | None:
    """The costs that metrics go by, for an evaluation that is compared with this one; None for the usual ones."""
    for metric in metrics.values():
        if isinstance(metric, ThresholdMetric | CostMetric):
            found = dict[str, float](zip(COSTS, (metric.false_positive_cost, metric.false_negative_cost), strict=True))
            return found if set(found.values()) != {1.0} else None
    return None


def _window(data: Path, reader: str, batch_size: int) -> int:
    """How many rows are held at once: 0, which is all of them, or a batch (and two row groups) where they are many.

    Each rank then decodes all rows: memory that does not grow with the data is worth that only where there is much.
    """
    is_prepared = reader in ("auto", "prepared") and (data / MANIFEST_FILE).is_file()
    return batch_size if is_prepared and PreparedData(data).rows > MOST_HELD_ROWS else 0


def slice_columns(reader: Reader, names: Sequence[str]) -> list[SliceColumn]:
    """Columns with their values, in the order of the names.

    Raises:
        InputError: a column without listed values.
    """
    listed = {
        name: _values(entry)
        for name, entry in reader.statistics.items()
        if isinstance(entry, Mapping) and entry.get("values")
    }
    parts = [[part.strip() for part in name.split(CROSS)] for name in names]
    unlisted = next((part for each in parts for part in each if part not in listed), None)
    if unlisted is not None:
        raise InputError(
            f"slices: {reader.folder} lists no values of column {unlisted!r}. A column to slice by has whole numbers, "
            f"bools or text, and at most 256 values; data that an earlier version prepared has to be prepared again. "
            f"Columns with values: {and_more(sorted(listed), 20) or 'none'}."
        )
    columns = [[SliceColumn(part, listed[part]) for part in each] for each in parts]
    return [each[0] if len(each) == 1 else cross(each) for each in columns]


def _values(statistics: Mapping[str, Any]) -> tuple[Any, ...]:
    """The values of a column, and `missing` if it has empty cells."""
    values = [entry["value"] for entry in statistics["values"]]
    return (*values, *([MISSING] if _lacks(statistics) and MISSING not in values else []))
