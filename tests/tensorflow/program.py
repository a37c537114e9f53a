"""What a test has done in the environment with TensorFlow: Config's fields and a few folders, as JSON.

    program.py '{"data": ..., "runs": [{"target": ..., "config": {...}}, ...], "evaluate": [...], "predict": [...]}'

The last line is a JSON object: what is noted of each run (or why it was refused), and what the evaluations found.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.process import Process, join_group
from drivetrain.training_scripts import evaluate, predict
from drivetrain.training_scripts.train import train


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    data = Path(given["data"])
    found: dict[str, Any] = {"runs": [], "evaluations": [], "shards": []}
    with join_group(given.get("timeout", 60.0), "tensorflow") as process:
        for run in given.get("runs", []):
            found["runs"].append(done(run, data, process))
        for model in given.get("evaluate", []):
            found["evaluations"].append(evaluate.run(Path(model), data, process, report=Path(f"{model}-report")))
        for model in given.get("predict", []):
            output = Path(f"{model}-predictions")
            found["shards"].append(predict.run(Path(model), data, output, process)["shards_predicted"])
    if process.is_main:
        print(json.dumps(found), flush=True)


def done(run: dict[str, Any], data: Path, process: Process) -> dict[str, Any]:
    """What is noted of a training; of one that is `refused`, only what was said."""
    target = Path(run["target"])
    folders = Folders(
        train=Path(run.get("data", data)),
        validation=data if run.get("validates", True) else None,
        model=target / "model",
        output=target / "output",
        weights=Path(run["weights"]) if "weights" in run else None,
        checkpoints=target / "checkpoints",
    )
    with noted() as notes:
        try:
            train(
                Config(**run["config"]), folders, replace(process, world_size=run.get("world_size", process.world_size))
            )
        except InputError as error:
            if not run.get("refused"):
                raise
            return {"refused": str(error)}
    return notes()


@contextmanager
def noted() -> Generator[Any]:
    """What the strategies that are made inside come to."""
    import tensorflow as tf

    from drivetrain.training.tensorflow.strategy import Strategy

    made: list[Any] = []
    init = Strategy.__init__
    recipes = sys.modules.get("tests.tensorflow.noting")
    if recipes:
        recipes.Recipe.rows.clear()
        recipes.Recipe.labels.clear()

    def noting(strategy: Any, *given: Any) -> None:
        init(strategy, *given)
        made.append(strategy)

    def notes() -> dict[str, Any]:
        (strategy,) = made
        recipes = sys.modules.get("tests.tensorflow.noting")
        return {
            "traces": strategy._step.experimental_get_tracing_count(),
            "computes_in": strategy.model.compute_dtype,
            "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "xla": bool(getattr(strategy._of_piece, "_jit_compile", False)),
            "loss_scale": float(strategy.optimizer.dynamic_scale.numpy()) if strategy._scales else None,
            "rows": list(recipes.Recipe.rows) if recipes else [],
            "labels": [label for labels in recipes.Recipe.labels for label in labels] if recipes else [],
        }

    Strategy.__init__ = noting  # type: ignore[method-assign]
    try:
        yield notes
    finally:
        Strategy.__init__ = init  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
