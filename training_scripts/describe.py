"""Make the files of any model a folder that answers: model.json, and the code that answers.

    python -m drivetrain.training_scripts.describe --model build/fitted --data build/train --output build/model \\
        --source own --answers answer --task binary

The module is imported and asked for some rows of the data: a model that cannot answer is refused here, by its own
error, and not after the next steps.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.base.errors import InputError, and_more, warn
from drivetrain.base.json_options import parse_options
from drivetrain.training import plugins
from drivetrain.training.answers.columns import KINDS
from drivetrain.training.answers.samples import Answers
from drivetrain.training.command_line import Parser
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.input_pipeline.description import describe_data
from drivetrain.training.launch.processes.failure import run_rank
from drivetrain.training.model_folder import (
    CODE_FOLDER,
    DESCRIPTION_FILE,
    FRAMEWORK,
    FUNCTIONS,
    OWN,
    write_code,
    write_description,
)
from drivetrain.training.process import Process
from drivetrain.training.recipe import any_rows
from drivetrain.training.serving.code_folder import code_of_answers
from drivetrain.training.serving.functions import ServedModel, module_file, own_module, style_of

ASKED_ROWS = 100
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
DEFAULT_THRESHOLD = 0.5
ALONE = Process(0, 1, 0, 1, None)


def run(
    model: Path,
    data: Path,
    output: Path,
    *,
    source: Path | None = None,
    answers: str = "answer",
    task: str = "",
    class_names: str = "",
    threshold: float = DEFAULT_THRESHOLD,
    columns: str = "",
    reader_options: str = "{}",
) -> dict[str, Any]:
    """Write the folder of a model that answers.

    Args:
        model: the files that a program of the user's own has written.
        data: prepared data as the model was trained on.
        output: gets the files, model.json and code/.
        source: the folder of the module that answers; None for code/ of the model, where SageMaker's toolkits look.
        answers: the module, such as answer or package.answer.
        task: one of `KINDS`.
        class_names: names of the classes in their order, with commas.
        threshold: of a binary task: the least score for class 1.
        columns: those that the model takes, with commas; all but the label and the key unless given.
        reader_options: of the data, a JSON object.

    Returns:
        model.json's content.

    Raises:
        InputError: no such task or module; the model cannot be loaded by it, or not answer rows of the data.
    """
    names = _check(answers, task, class_names, threshold)
    if output.resolve() == model.resolve():
        raise InputError(f"{output} is the folder of the script's files. Give another one for the model that answers.")
    if (model / DESCRIPTION_FILE).is_file():
        if not _is_ours(model / DESCRIPTION_FILE):
            raise InputError(
                f"{model} has a {DESCRIPTION_FILE} of its own, and describe_model writes one of that name. Save the "
                "model under another name, such as model.ubj."
            )
        raise InputError(
            f"{model} has a {DESCRIPTION_FILE}: it is a model of `train`, `train_table` or describe_model already. "
            "Give it to the next step as it is."
        )
    if output.is_dir() and any(output.iterdir()) and not _is_ours(output / DESCRIPTION_FILE):
        raise InputError(f"{output} holds other files, which would become a part of the model. Give an empty folder.")
    source = model / CODE_FOLDER if source is None else source
    if module_file(source, answers) is None:
        raise InputError(
            f"answers={answers!r}: there is no {answers.replace('.', '/')}.py in {source}. Write a module with "
            "load(folder) and predict(model, columns), and give its folder as source."
        )
    options = parse_options(reader_options, "reader_options")
    dataset = _open(data, _names(columns), options)
    told: dict[str, Any] = {"kind": task, "class_names": names}
    told |= {"threshold": threshold} if task == "binary" else {}
    description: dict[str, Any] = {
        FRAMEWORK: FUNCTIONS,
        "answers": answers,
        "task": told,
        "inputs": dataset.inputs,
        "label": dataset.label,
        "data": describe_data(dataset.reader, dataset.reader_name, options),
    }
    code = code_of_answers(answers, dataset.reader_name, source)
    # The output is written when the model has answered: a refused one leaves nothing, and replaces nothing.
    with tempfile.TemporaryDirectory(prefix="drivetrain-describe-") as folder:
        made = Path(folder) / "model"
        _copy(model, made)
        write_code(made, code)
        before = set(sys.modules)
        module = own_module(made, answers)
        description["style"] = style_of(module, answers)
        write_description(made, {**description, "needs": {}})
        served = ServedModel.load(made)
        _ask(served, dataset, description)
        own = {name.removeprefix(f"{OWN}/"): text for name, text in code.items() if name.startswith(f"{OWN}/")}
        description["needs"] = _libraries(own, set(sys.modules) - before)
        write_description(made, description)
        for old in output.iterdir() if output.is_dir() else ():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(made, output, dirs_exist_ok=True)
    return description


def _check(answers: str, task: str, class_names: str, threshold: float) -> list[str]:
    """The names of the classes.

    Raises:
        InputError: a parameter that cannot be.
    """
    if not _MODULE.fullmatch(answers):
        raise InputError(f"answers={answers!r}; allowed is the name of a module, such as answer or package.answer.")
    if answers.endswith(".py"):
        raise InputError(f"answers={answers!r}; the module's name is {answers.removesuffix('.py')}.")
    if task not in KINDS:
        raise InputError(f"task={task!r}; allowed are {', '.join(KINDS)}.")
    names = _names(class_names)
    if names and task not in ("binary", "multiclass", "multilabel"):
        raise InputError(f"class_names={class_names!r}: {task} has no classes. Leave it out.")
    if task == "binary" and names and len(names) != 2:
        raise InputError(f"class_names={class_names!r}; allowed are two names, first that of class 0.")
    if not 0 <= threshold <= 1 or (threshold != DEFAULT_THRESHOLD and task != "binary"):
        raise InputError(f"threshold={threshold:g}; allowed are numbers from 0 to 1, of a binary task.")
    return names


def _is_ours(path: Path) -> bool:
    """Return True for a model.json that one of our programs wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "format" in found


def _ask(served: ServedModel, dataset: Dataset, description: dict[str, Any]) -> None:
    """Ask for the first rows, and complete the task by what is answered."""
    rows = slice(0, min(ASKED_ROWS, len(dataset)))
    if not rows.stop:
        raise InputError(f"{dataset.reader.folder} has no rows to ask the model for.")
    said = served.said(dataset.reader.read(rows, served.inputs.names))
    answers = Answers(dataset=dataset, source="the model's answer", said=said)
    if dataset.label:
        answers.samples(np.arange(rows.stop))  # whose checks are those of evaluate
    told = description["task"]
    told["num_classes"] = said.task.num_classes
    told["class_names"] = told["class_names"] or list(said.task.class_names)
    if said.scores is not None and rows.stop >= ASKED_ROWS and np.isin(said.scores, (0, 1)).all():
        warn(f"all scores of {rows.stop} rows are 0 or 1. Probabilities are expected: predict_proba, not predict")
    print(f"the model answered {rows.stop} rows: {_shown(said)}", flush=True)


def _shown(said: Any) -> str:
    parts = [name for name in ("scores", "margins", "predicted", "ends") if getattr(said, name) is not None]
    return f"{said.name}, {', '.join(parts)}"


def _open(data: Path, columns: list[str], options: dict[str, Any]) -> Dataset:
    """The rows to ask for.

    Args:
        options: the reader's; gets the columns that may have empty cells, if it does not name any.
    """
    from drivetrain.training.input_pipeline.choice import load_reader

    reader = load_reader("auto", data, options, ALONE, defaults={"split": "train", "unlabelled": True})
    others = {reader.label, reader.key}
    if reader.label in columns:
        raise InputError(f"columns names {reader.label!r}, the label of {data}: the model is to find it. Leave it out.")
    taken = columns or [name for name in reader.column_names if name not in others]
    empty = [name for name in taken if reader.statistics.get(name, {}).get("nulls")]
    if empty and "missing" not in options:  # the model itself says whether it takes them
        options["missing"] = empty
    return Dataset(
        data,
        any_rows(taken),
        ALONE,
        reader_options=options,
        labelled=reader.label is not None,
    )


def _copy(model: Path, output: Path) -> None:
    """The model's own files, without code/, which is written anew.

    Raises:
        InputError: it has none.
    """
    found = [path for path in sorted(model.rglob("*")) if path.is_file()]
    found = [path for path in found if path.relative_to(model).parts[0] != CODE_FOLDER]
    if not found:
        raise InputError(f"{model} holds no files of a model. Give the output `model` of the step that trained it.")
    for path in found:
        to = output / path.relative_to(model)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)


def _libraries(own: Mapping[str, str], loaded: set[str]) -> dict[str, str]:
    """Distribution -> version, of those by which models are made and of those that the user's modules import.

    Args:
        own: the user's modules, name of the file -> text.
        loaded: modules that came with the model.
    """
    named: set[str] = set()
    for text in own.values():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                named |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                named.add(str(node.module).partition(".")[0])
    tops = {name.partition(".")[0] for name in loaded}
    wanted = (named | (MODEL_MODULES & tops)) - set(sys.stdlib_module_names)
    distributions = metadata.packages_distributions()
    return {
        found: metadata.version(found)
        for module in sorted(wanted)
        for found in sorted(distributions.get(module, ()))
        if module in tops or module in sys.modules
    }


# Libraries whose objects a model may be made of, though its module does not import them.
MODEL_MODULES = frozenset(
    ("sklearn", "xgboost", "lightgbm", "catboost", "statsmodels", "torch", "tensorflow", "transformers", "onnxruntime")
)


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if twice := [name for name in names if names.count(name) > 1]:
        raise InputError(f"{and_more(names, 12)} names {twice[0]!r} twice.")
    return names


def main() -> None:
    def program() -> None:
        parser = Parser(
            program="drivetrain.training_scripts.describe",
            description=__doc__,
            usage="--model FOLDER --data FOLDER --output FOLDER --task TASK [OPTION ...]",
        )
        for name, words in (
            ("model", "the files of a model"),
            ("data", "prepared data that it was trained on"),
            ("output", "gets the folder that answers"),
        ):
            parser.add_argument(f"--{name}", type=Path, required=True, metavar="FOLDER", help=words)
        parser.add_argument("--source", type=Path, metavar="FOLDER", help="the folder of the module that answers")
        parser.add_argument("--answers", default="answer", help="the module with load and predict (default: answer)")
        parser.add_argument("--task", required=True, help=f"one of {', '.join(KINDS)}")
        parser.add_argument("--class-names", default="", help="the classes in their order, with commas")
        parser.add_argument(
            "--threshold", type=float, default=DEFAULT_THRESHOLD, help="the least score for class 1 (default: 0.5)"
        )
        parser.add_argument("--columns", default="", help="columns that the model takes, with commas (default: all)")
        parser.add_argument("--reader-options", default="{}", help="options of the data's reader, a JSON object")
        plugins.forget_current_folder()
        run(**vars(parser.parse_args()))

    run_rank(program)


if __name__ == "__main__":
    main()
