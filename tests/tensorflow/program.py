"""What a test has done in the environment with TensorFlow: Config's fields and a few folders, as JSON.

    program.py '{"data": ..., "runs": [{"target": ..., "config": {...}}, ...], "evaluate": [...], "predict": [...]}'

The last line is a JSON object: for each run how often its step was traced, and what the evaluations found.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from drivetrain.training.config import Config, Folders
from drivetrain.training.process import join_group
from drivetrain.training_scripts import evaluate, predict
from drivetrain.training_scripts.train import train


def main() -> None:
    given: dict[str, Any] = json.loads(sys.argv[1])
    data = Path(given["data"])
    found: dict[str, Any] = {"traces": [], "evaluations": [], "shards": []}
    with join_group(60.0, "tensorflow") as process:
        for run in given.get("runs", []):
            target = Path(run["target"])
            folders = Folders(
                train=data,
                validation=data,
                model=target / "model",
                output=target / "output",
                checkpoints=target / "checkpoints",
            )
            with counted_traces() as traces:
                train(Config(**run["config"]), folders, process)
            found["traces"].append(traces())
        for model in given.get("evaluate", []):
            found["evaluations"].append(evaluate.run(Path(model), data, process, report=Path(f"{model}-report")))
        for model in given.get("predict", []):
            output = Path(f"{model}-predictions")
            found["shards"].append(predict.run(Path(model), data, output, process)["shards_predicted"])
    if process.is_main:
        print(json.dumps(found), flush=True)


class counted_traces:  # noqa: N801 (used as a function)
    """How often the step of the strategies that are made inside was traced."""

    def __enter__(self) -> Any:
        from drivetrain.training.tensorflow.strategy import Strategy

        self._made: list[Any] = []
        self._init = Strategy.__init__
        made, init = self._made, self._init

        def noted(strategy: Any, *given: Any) -> None:
            init(strategy, *given)
            made.append(strategy)

        Strategy.__init__ = noted  # type: ignore[method-assign]
        return lambda: sum(strategy._step.experimental_get_tracing_count() for strategy in made)

    def __exit__(self, *_: object) -> None:
        from drivetrain.training.tensorflow.strategy import Strategy

        Strategy.__init__ = self._init  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
