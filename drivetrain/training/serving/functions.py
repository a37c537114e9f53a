"""A model that answers by functions, of any library: columns in, the columns of a table of answers out.

    load(folder) -> model                     once
    predict(model, columns) -> columns        {"score": array}, and what else drivetrain/training/answers names

They stand in a module that model.json names as `answers`: a file of the user's own in code/own/, or an estimator of
ours. A module without them may have the four functions of SageMaker's inference toolkits (`style` "toolkit"): then
rows go to input_fn as CSV without a header, and numbers come back from output_fn as CSV or JSON.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import json
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError, and_more
from drivetrain.training.answers import HIGH, LOW, PREDICTED, SCORE
from drivetrain.training.answers.columns import KINDS, Said, decided, read_columns
from drivetrain.training.calibration import Calibration
from drivetrain.training.model_folder import OWN, no_description, read_description, read_weights
from drivetrain.training.outputs import Answers, calibrated
from drivetrain.training.reader import Columns
from drivetrain.training.serving.inputs import Inputs, inputs_of
from drivetrain.training.serving.predictions import Answering, Predictions
from drivetrain.training.task import Task

FUNCTIONS, TOOLKIT = ("load", "predict"), ("model_fn", "predict_fn")
CSV_TYPE = "text/csv"
# Our modules are imported as they are; the others lie in the model's folder.
_OURS = "drivetrain."
_MOST_CHARACTERS = 300


@dataclass(frozen=True)
class ArrayColumns:
    """Columns that are arrays, of shape [rows] or [rows, length]."""

    source: object
    columns: Mapping[str, NDArray[Any]]

    def is_text(self, name: str) -> bool:
        values = self.columns[name]
        return values.dtype.kind == "U" or (values.dtype.kind == "O" and len(values) > 0 and isinstance(values[0], str))

    def numbers(self, name: str) -> NDArray[Any]:
        values = self.columns[name]
        if values.dtype.kind not in "iufb":
            raise InputError(f"{name} of {self.source} is {values[:1].tolist()!r:.60}, where numbers are expected.")
        return values

    def texts(self, name: str) -> NDArray[np.object_]:
        values = self.columns[name].astype(object)
        wrong = next((each for each in values.tolist() if not isinstance(each, str)), None)
        if wrong is not None or values.ndim != 1:
            raise InputError(f"{name} of {self.source} is {wrong!r:.60}, where a text a row is expected.")
        return values


@dataclass(frozen=True)
class ServedModel(Answering):
    """`ask` gives the columns that the model's own code answers to columns."""

    name: str
    """The task as a user writes it."""
    told: Mapping[str, Any]
    """The task in model.json."""
    task: Task
    inputs: Inputs
    ask: Callable[[Columns], Mapping[str, Any]]
    calibration: Calibration | None = None

    @classmethod
    def load(cls, folder: Path) -> ServedModel:
        """
        Raises:
            InputError: no model of functions; its libraries are of other versions; its own code fails.
        """
        description = read_description(folder)
        try:
            told, module, style = description["task"], str(description["answers"]), str(description.get("style", ""))
            name = str(told["kind"])
            kind = KINDS[name]
            classes = tuple(map(str, told.get("class_names", ())))
            size, threshold = int(told.get("num_classes", 0)), float(told.get("threshold", 0.5))
            if classes and size and len(classes) != size:
                raise ValueError(f"{len(classes)} class_names for num_classes={size}")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise no_description(folder, error) from None
        inputs = inputs_of(folder, description)
        check_libraries(folder, description.get("needs", {}))
        if "file" in description.get("weights", {}):  # a library may end the process on a damaged one
            read_weights(folder, description)
        ask = asking(folder, module, style, inputs, name, classes)
        return cls(name, told, Task(kind, size, classes, threshold), inputs, ask, Calibration.of(description))

    def said(self, columns: Columns) -> Said:
        """The answers for these rows, as a table of answers would have them, calibrated.

        Raises:
            InputError: the model's code fails, or answers what the task does not have.
        """
        num_rows = len(next(iter(columns.values())))
        # Copies: the model's code may change them, and what is held is read again.
        answered = checked(self.ask({name: values.copy() for name, values in columns.items()}), num_rows)
        found = read_columns(ArrayColumns("the model's answer", answered), self.name, told=self.told)
        if found.task.kind != "values" and self.task.num_classes not in (0, found.task.num_classes):
            raise InputError(
                f"the model's answer has {found.task.num_classes} values a row, and its description says "
                f"{self.task.num_classes}."
            )
        if self.calibration is None:
            return found
        raw = Answers(found.scores, found.predicted, found.margins, found.ends)
        scores, predicted, margins, ends = calibrated(self.calibration, self.task, raw)
        ranked_by = "probabilities" if margins is None else "logits"
        task = replace(found.task, ranked_by=ranked_by)
        return replace(found, task=task, scores=scores, predicted=predicted, margins=margins, ends=ends)

    def answers(self, columns: Columns) -> Predictions:
        return self.answers_of(self.said(columns))

    def answers_of(self, said: Said) -> Predictions:
        """The answers with what follows from scores: the likeliest class, or the side of the threshold."""
        scores = said.margins if said.scores is None else said.scores
        predicted = said.predicted
        if predicted is None:
            assert scores is not None
            predicted = decided(self.task, scores)
        ends = {} if said.ends is None else {LOW: said.ends[0], HIGH: said.ends[1]}
        return Predictions(replace(self.task, ranked_by=said.task.ranked_by), predicted, scores, ends)


def asking(
    folder: Path, module: str, style: str, inputs: Inputs, name: str, classes: tuple[str, ...]
) -> Callable[[Columns], Mapping[str, Any]]:
    """Load the model by its own code; gives the function that asks it.

    Args:
        style: "functions", or "toolkit" for the four of SageMaker's toolkits.
        name: the task, by which numbers of the toolkit's answers become columns.

    Raises:
        InputError: its own code is not there or fails.
    """
    functions = own_module(folder, module)
    if style != "toolkit":
        model = called(f"load of {module}", functions.load, folder)
        return lambda columns: called(f"predict of {module}", functions.predict, model, columns)
    model = called(f"model_fn of {module}", functions.model_fn, str(folder))

    def ask(columns: Columns) -> Mapping[str, Any]:
        body = _csv(columns, inputs)
        read = getattr(functions, "input_fn", _numbers_of_csv)
        given = called(f"input_fn of {module}", read, body, CSV_TYPE)
        answer = called(f"predict_fn of {module}", functions.predict_fn, given, model)
        write = getattr(functions, "output_fn", None)
        if write is not None:
            answer = called(f"output_fn of {module}", write, answer, CSV_TYPE)
        return _columns_of(answer, name, classes)

    return ask


def own_module(folder: Path, name: str) -> ModuleType:
    """The module that answers: one of ours, or a file in the folder's code/own/.

    Raises:
        InputError: it is not there, cannot be imported, or has not the functions.
    """
    if name.startswith(_OURS):
        return importlib.import_module(name)
    own = (folder / "code" / OWN).resolve()
    path = module_file(own, name)
    if path is None:
        raise InputError(f"{folder} has no module {name!r} in code/{OWN}/, which model.json says answers.")
    sys.dont_write_bytecode = True  # the folder's content has a name, its hash, and is to keep it
    if str(own) not in sys.path:
        sys.path.insert(0, str(own))  # for the modules beside it
    found = sys.modules.get(name)
    if found is None:
        found = called(f"the import of {name}", importlib.import_module, name)
    if Path(str(found.__file__)).resolve() == path:
        return found
    # Another module of this name is there, such as the server's entry point.
    spec = importlib.util.spec_from_file_location(f"_{name}_of_the_model", path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where its dataclasses look for it
    called(f"the import of {name}", spec.loader.exec_module, module)
    return module


def module_file(folder: Path, name: str) -> Path | None:
    """The file of a module or of a package; None where there is none."""
    path = folder.joinpath(*name.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.is_file()), None)


def style_of(module: ModuleType, name: str) -> str:
    """The functions that a module has.

    Raises:
        InputError: neither load and predict, nor those of the toolkit.
    """
    for style, functions in (("functions", FUNCTIONS), ("toolkit", TOOLKIT)):
        if all(callable(getattr(module, each, None)) for each in functions):
            return style
    raise InputError(
        f"module {name!r} has neither load(folder) and predict(model, columns), nor model_fn and predict_fn of "
        "SageMaker's toolkit. Write the first two."
    )


def called(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Call a function of the model's own code.

    Raises:
        InputError: with its own error, and the line where it was raised.
    """
    try:
        return function(*given)
    except (Exception, SystemExit) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        advice = ""
        if "Can't get attribute" in said:  # of a pickle
            advice = " Its class stood in the script that trained: move it to a module beside the one that answers."
        raise InputError(f"{what} failed{_place(error)}: {said:.{_MOST_CHARACTERS}}{advice}") from error


def _place(error: BaseException) -> str:
    """The file and line of an error in the model's own modules, in parentheses: libraries' lines say nothing."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    own = [each for each in traceback.extract_tb(error.__traceback__) if OWN in Path(each.filename).parts]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def checked(answer: Any, num_rows: int) -> dict[str, NDArray[Any]]:
    """An answer as arrays, a value for each row.

    Raises:
        InputError: no mapping of names to a value a row.
    """
    if not isinstance(answer, Mapping) or not all(isinstance(name, str) for name in answer):
        raise InputError(
            f"the model answered with {type(answer).__name__}; allowed is a dict of columns, such as "
            '{"score": an array with a number for each row}.'
        )
    found: dict[str, NDArray[Any]] = {}
    for name, values in cast("Mapping[str, Any]", answer).items():
        try:
            array = np.asarray(values)
        except ValueError:
            raise InputError(f"{name} of the model's answer has rows of different lengths.") from None
        if array.ndim == 2 and array.shape[1] == 1 and name == SCORE:
            array = array[:, 0]
        if array.ndim == 0 or len(array) != num_rows:
            raise InputError(
                f"{name} of the model's answer has shape {list(array.shape)}; {num_rows} rows were asked. Answer each "
                "row, in its order."
            )
        found[name] = array
    return found


def check_libraries(folder: Path, needs: Mapping[str, str]) -> None:
    """Hold the libraries here against those that the model was made with: a change of the first two numbers of a
    version may change answers, or what can be loaded.

    Raises:
        InputError: one is missing, or of another version.
    """
    from importlib import metadata

    for name, wanted in needs.items():
        here = "not installed"
        # (Some have a distribution for machines without a GPU: xgboost-cpu.)
        for same in (f"{name}-cpu", name.removesuffix("-cpu"), name):
            with suppress(metadata.PackageNotFoundError):
                here = metadata.version(same)
        if here.split(".")[:2] != str(wanted).split(".")[:2]:
            raise InputError(
                f"the model of {folder} was made with {name} {wanted}, which is {here} here. Install it: pip install "
                f"'{name}=={wanted}'; or train again."
            )


def _csv(columns: Columns, inputs: Inputs) -> str:
    text = io.StringIO()
    lists = [columns[name].tolist() for name in inputs.names]
    csv.writer(text, lineterminator="\n").writerows(zip(*lists, strict=True))
    return text.getvalue()


def _numbers_of_csv(body: str, content_type: str) -> NDArray[Any]:
    """The toolkit's own input_fn, for a module that has none."""
    return np.array([list(map(float, row)) for row in csv.reader(io.StringIO(body))])


def _columns_of(answer: Any, name: str, classes: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Numbers of the toolkit's answer as columns of a table.

    Raises:
        InputError: they are neither CSV nor JSON of numbers, or do not fit the task.
    """
    if isinstance(answer, tuple):  # the body and its content type
        answer = answer[0]
    body = answer.decode() if isinstance(answer, bytes) else answer
    if isinstance(body, str):
        try:
            body = json.loads(body) if body.lstrip()[:1] in ("[", "{") else _rows(body, name)
        except ValueError:
            raise InputError(
                f"the model's output_fn answered {body[:60]!r}; allowed are CSV or a JSON list of numbers, a row each."
            ) from None
        if isinstance(body, dict):
            body = body.get("predictions", body)
    values = np.asarray(body)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if name == "text":
        return {"text": values.astype(object)}
    if values.ndim == 1 and name in ("binary", "regression"):
        return {SCORE if name == "binary" else PREDICTED: values}
    if name == "binary" and values.ndim == 2 and values.shape[1] == 2:
        return {SCORE: values[:, 1]}
    if values.ndim == 2 and name != "binary":
        if name == "regression":
            return {PREDICTED: values}
        named = classes or tuple(map(str, range(values.shape[1])))
        if len(named) == values.shape[1]:
            return {f"{SCORE}_{each}": values[:, place] for place, each in enumerate(named)}
    raise InputError(
        f"the model's output_fn answered numbers of shape {list(values.shape)}, which {name} does not have"
        + (f" ({and_more(classes, 12)})." if classes else ".")
    )


def _rows(body: str, name: str) -> list[list[Any]]:
    rows = [row for row in csv.reader(io.StringIO(body)) if row]
    if len(rows) == 1 and len(rows[0]) > 1:  # all answers in one line
        rows = [[cell] for cell in rows[0]]
    return rows if name == "text" else [list(map(float, row)) for row in rows]
