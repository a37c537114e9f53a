"""Train trees on a table: numbers, categories and missing values, as prepare_data writes them.

    python -m drivetrain.components.train_table --train build/train --validation build/validation --model build/model \\
        --output build/output --checkpoints build/checkpoints --estimator xgboost --rounds 500 --early-stopping 30 \\
        --estimator-options '{"max_depth": 6, "categories": ["plan", "state"]}'

Every host runs this command; it becomes the launcher (drivetrain.training_scripts.launch), which starts the processes.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from drivetrain.steps import CheckpointsOfAll, Input, Output, programs, trainings
from drivetrain.steps.declaration import component
from drivetrain.training.table_config import TableConfig

_NUMBER = r"([-+0-9.eE]+|nan|inf|-inf)"


@component(
    job="training",
    needs=("pyarrow", "numpy"),  # and those of its estimator (drivetrain/resolving/frameworks.py)
    logs={name: rf"{name}={_NUMBER}" for name in ("train_loss", "validation_loss", "samples_per_second", "healthy")},
    settings=TableConfig,
)
def train_table(
    train: Input,
    validation: Input | None,
    model: Output,
    output: Output,
    checkpoints: CheckpointsOfAll,
    *,
    processes: int = 0,
    **settings: Any,
) -> None:
    """Train an estimator of tables, such as XGBoost, on data.

    The other parameters are the fields of drivetrain.training.table_config.TableConfig.

    Args:
        train: the data to learn from; its label is what is learnt.
        validation: data to measure the loss on while training.
        model: gets the model's file and model.json; evaluate, compare and batch_predict take it.
        output: gets history.json (the losses of the rounds), metrics.jsonl and tensorboard/.
        checkpoints: kept between attempts, a folder for each training; an interrupted one goes on from its newest
            checkpoint and gives the same model.
        processes: processes a host; 0 for one. They use the cores together; one with many threads is mostly as fast.
    """
    from drivetrain.training.launch.cluster import read_cluster

    config = TableConfig(**settings)
    cluster = read_cluster(os.environ, processes=processes or 1)
    learns = {name: value for name, value in settings.items() if name != "health_rules"}  # which only look on
    given = {"train": train, "validation": validation, "processes": processes, "health_rules": "{}", **learns}
    parts = {**trainings.parts_of(train_table, given), "processes": cluster.world_size, **_code(config)}
    kept = Path(trainings.begin(checkpoints.resolve(), parts, is_first=cluster.host_index == 0))
    folders = {"train": train, "validation": validation, "model": model, "output": output, "checkpoints": kept}
    command = programs.launcher(
        "drivetrain.training_scripts.train_table",
        cluster.processes,
        folders,
        settings,
        options=("--launcher=python", f"--checkpoints={kept}"),
    )
    (programs.become if programs.is_the_step("drivetrain.components.train_table") else programs.run)(command)


def _code(config: TableConfig) -> dict[str, Any]:
    """The parts of the training's identity that say what its library and its estimator are."""
    from drivetrain.training import plugins
    from drivetrain.training.table_config import versions_of

    if config.estimator not in plugins.names("estimators"):
        for root in map(Path, sys.path):
            if path := trainings.module_file(config.estimator, root):
                return trainings.script_code(str(path.relative_to(root)), root)
        return {}
    return versions_of(plugins.literal("estimators", config.estimator, "NEEDS", kind="estimator"))


if __name__ == "__main__":
    train_table.main()
