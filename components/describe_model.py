"""Make the model of a script of one's own a folder that answers, as those of `train` are.

    python -m drivetrain.components.describe_model --trained build/trained --data build/train --model build/model \\
        --source own --answers answer --task binary

The module `answer` has two functions: load(folder) gives the model, predict(model, columns) the columns of a table of
answers. With it evaluate, compare, batch_predict, `models predict` and an endpoint can ask the model.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from drivetrain.base.errors import InputError
from drivetrain.registry.model_folder import DESCRIPTION, open_files
from drivetrain.steps import Input, Output, programs, trainings
from drivetrain.steps.declaration import component
from drivetrain.steps.user_code import code_folder, without_credentials


@component(needs=("pyarrow", "numpy"))
def describe_model(
    trained: Input,
    data: Input,
    source: Input | None,
    model: Output,
    *,
    task: Literal["binary", "multiclass", "multilabel", "regression", "text"],
    answers: str = "answer",
    class_names: str = "",
    threshold: float = 0.5,
    columns: str = "",
    reader_options: str = "{}",
) -> None:
    """Make a model of your own a folder that answers.

    Loading such a model runs your module's code, here and wherever it is asked: in a process that sees no credentials
    of the step.

    Args:
        trained: the output `model` of a training step: any files.
        data: the data that it was trained on: the names and types of its columns are the model's.
        source: the folder of the module that answers; else the Python files that travel with the pipeline, or code/ in
            the model's files, where SageMaker's inference toolkits look.
        model: gets the files, model.json and code/.
        task: of the answers.
        answers: the module with load(folder) and predict(model, columns); or with model_fn, input_fn, predict_fn and
            output_fn of SageMaker's inference toolkits, which is asked by CSV.
        class_names: names of the classes in their order, with commas.
        threshold: of a binary task: the least score for class 1.
        columns: the columns that the model takes, with commas; all but the label and the key unless given.
        reader_options: of the data's reader, a JSON object.

    Raises:
        InputError: no files of a model; no such module; it cannot answer rows of the data.
    """
    with open_files(trained) as files:
        folder: Path | None = code_folder(source)
        assert folder is not None
        if source is None and trainings.module_file(answers, folder) is None:
            folder = None  # in the model's files
        options = {
            **{"model": files, "data": data, "output": model, "source": folder},
            **{"answers": answers, "task": task, "class_names": class_names, "threshold": threshold},
            **{"columns": columns, "reader_options": reader_options},
        }
        command = [sys.executable, "-m", "drivetrain.training_scripts.describe"]
        command += [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value is not None]
        programs.run(command, environment=without_credentials())
        if not (model / DESCRIPTION).is_file():
            raise InputError(
                "the model's own code ended the process that asked it, without an error. Look for os._exit there."
            )


if __name__ == "__main__":
    describe_model.main()
