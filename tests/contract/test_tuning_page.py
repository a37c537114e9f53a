"""docs/tuning.md does what it says: its pipeline compiles, it names every search and every word of `tune`."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from drivetrain import Pipeline, between, one_of, step, tune
from drivetrain.catalog.quotas import DEFAULT_TUNED_JOBS
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.tuning.config import known_strategies, read_config

PAGE = Path(__file__).parents[2] / "docs" / "tuning.md"


def page() -> str:
    return PAGE.read_text(encoding="utf-8")


def test_its_pipeline_compiles_to_what_runs_here() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", page(), re.MULTILINE | re.DOTALL)
    data = step(prepare_data, raw="s3://bucket/raw/", key="id", label="label")
    names: dict[str, Any] = {
        **{"between": between, "one_of": one_of, "step": step, "tune": tune},
        **{"train": train, "evaluate": evaluate, "data": data},
    }
    exec("".join(blocks), names)
    pipeline = Pipeline(name="p", steps=[data, names["search"], names["scores"], names["model"]])
    definition = compile_pipeline(pipeline, here=True).definition
    config = read_config(definition["Steps"][1]["Arguments"])
    assert (config.strategy, config.num_trainings, config.max_parallel) == ("Bayesian", 20, 4)
    assert {one.name for one in config.definitions[0].ranges} == {"learning_rate", "schedule"}
    assert config.num_trainings < DEFAULT_TUNED_JOBS
    final = definition["Steps"][3]["Arguments"]["HyperParameters"]
    best = "Steps.search.BestTrainingJob.TunedHyperParameters"
    assert [final[name] for name in ("learning_rate", "schedule")] == [
        {"Get": f"{best}['learning_rate']"},
        {"Get": f"{best}['schedule']"},
    ]


def test_it_names_every_search_and_every_word() -> None:
    rows = re.findall(r"^\| (\w+) \|", page(), re.MULTILINE)
    assert tuple(sorted(set(rows) - {"Strategy"})) == known_strategies()
    words = set(inspect.signature(tune).parameters) - {"training", "ranges"}
    assert {word for word in words if not re.search(rf"\b{word}\b", page())} == set()
