"""Evaluate a trained model on prepared data, on as many processes and hosts as the step is given.

    python -m drivetrain.components.evaluate --model build/model --data build/test --metrics build/metrics \\
        --report build/report
    python -m drivetrain.components.evaluate --model build/checkpoints --data build/test --report build/report \\
        --scoring "accuracy, f1, auroc" --slices site --processes 2

The numbers that come back: num_samples, loss, and the metrics under their names (accuracy, accuracy_class_3, auroc,
auroc_bound). The report says more: how far each may be off, intervals, slices, curves.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.model_folder import ARCHIVE, DESCRIPTION, open_model, unpack
from drivetrain.steps import Input, Output, programs
from drivetrain.steps.declaration import component
from drivetrain.steps.user_code import without_credentials
from drivetrain.training.evaluation.settings import Settings

OUTPUT_ARCHIVE = "output.tar.gz"
_CHECKPOINT = re.compile(r"step-\d{8,18}(\.[1-9]\d{0,5})?", re.ASCII)


@component(needs=("torch", "pyarrow", "numpy", "safetensors"), settings=Settings)
def evaluate(
    model: Input | None,
    data: Input,
    report: Output | None = None,
    answers: Input | None = None,
    *,
    checkpoint: str = "newest",
    processes: int = 0,
    **settings: Any,
) -> dict[str, float]:
    """Evaluate a trained model on prepared data, or the answers that some model gave to it.

    Every host runs this command. The first one has the numbers and the report; the others return nothing.

    Args:
        model: the output `model` of a training step, as a folder or as model.tar.gz; or the checkpoints of a training.
            With answers it is not asked, and need not be one of ours: it says which model's they are.
        data: the prepared data to measure on.
        answers: a table with the data's key and what any model answered, as batch_predict writes it: Parquet or CSV,
            or the output `output` of a training step that holds one (docs/evaluation.md). The report keeps it, so that
            a later candidate can be compared with it.
        report: gets evaluation.json, bootstrap.json, rows.npz, curves.json, model_quality.json, plots/; with
            predictions also predictions/ and suspects.json, the rows whose label may be wrong.
        checkpoint: of a folder of checkpoints: newest, best or a step.
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.

    Raises:
        InputError: neither answers nor a model that can be opened.
    """
    if answers is not None and checkpoint != "newest":
        raise InputError(
            f"checkpoint={checkpoint!r} is of a model that is asked, and answers are given. Leave one out."
        )
    if model is None and answers is None:
        raise InputError("evaluate needs a model, or answers that one gave before. Give one of them.")
    from drivetrain.training.launch.cluster import numbers_of
    from drivetrain.training.model_folder import tensors_of

    process = programs.ahead("drivetrain.components.evaluate")
    with (
        nullcontext(None) if answers is None else _unpacked(answers) as table,
        nullcontext(model) if model is None or answers is not None else _opened(model, checkpoint) as folder,
        tempfile.TemporaryDirectory(prefix="drivetrain-evaluate-") as results,
    ):
        numbers = Path(results) / "metrics.json"
        asked = folder if answers is None else None
        folders = {"model": asked, "answers": table, "data": data, "metrics": numbers, "report": report}
        told = {"model_hash": "" if folder is None else content_hash(folder), **settings}
        if answers is not None and report is not None:
            told["predictions"] = True  # a later candidate is compared with them
        # A model of functions runs its own code.
        environment = without_credentials() if asked is not None and not tensors_of(asked) else None
        command = programs.launcher("drivetrain.training_scripts.evaluate", processes, folders, told)
        programs.run(command, process=process, environment=environment)
        return numbers_of(numbers)


@contextmanager
def _unpacked(answers: Path) -> Generator[Path]:
    """The table as it is given, or out of the archive that a platform makes of the output of a training step."""
    archive = answers / OUTPUT_ARCHIVE
    if not archive.is_file():
        yield answers
        return
    with tempfile.TemporaryDirectory(prefix="drivetrain-answers-") as folder:
        unpack(archive, Path(folder))
        yield Path(folder)


@contextmanager
def _opened(model: Path, checkpoint: str) -> Generator[Path]:
    """The model's folder: given, unpacked, or made of a checkpoint."""
    is_folder = model.is_dir() and not (model / DESCRIPTION).is_file() and not (model / ARCHIVE).is_file()
    if not (is_folder and _has_checkpoints(model)):
        if checkpoint != "newest":
            raise InputError(
                f"checkpoint={checkpoint!r}, but {model} is no folder of checkpoints. Give the checkpoints of a "
                "training, or leave checkpoint out."
            )
        with open_model(model) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="drivetrain-model-") as exported:
        folder = Path(exported) / "model"
        program = (sys.executable, "-m", "drivetrain.training_scripts.checkpoints")
        command = [*program, "export", f"--out={folder}", "--", str(model), checkpoint]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise InputError(done.stderr.strip().removeprefix("error: "))
        print(done.stderr, end="", file=sys.stderr, flush=True)  # which damaged ones it passed by
        yield folder


def _has_checkpoints(folder: Path) -> bool:
    """Return True for a checkpoint of our trainings, the folder of a training, or one of several trainings."""
    own = _CHECKPOINT.fullmatch(folder.name) and (folder / "manifest.json").is_file()
    return bool(own) or any(
        _CHECKPOINT.fullmatch(path.parent.name)
        for pattern in ("step-*/manifest.json", "*/step-*/manifest.json")
        for path in folder.glob(pattern)
    )


if __name__ == "__main__":
    evaluate.main()
