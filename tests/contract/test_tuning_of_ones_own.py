"""A tuning that is written with our words runs from the definition that the service gets: search, best model, what
reads it, and a training with the best values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.authoring.loading import load
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner

FILE = '''
from drivetrain.components import Checkpoints, Input, Output, component
from drivetrain import Cluster, Pipeline, between, one_of, step, tune


@component(job="training", logs={"loss": r"loss=([0-9.]+)"})
def fit(model: Output, checkpoints: Checkpoints, x: float = 0.0, size: str = "small", factor: int = 1) -> None:
    """Fit."""
    import os
    from pathlib import Path

    assert "DRIVETRAIN_START" not in os.environ
    assert (type(x), type(size), type(factor)) == (float, str, int)
    loss = abs(x - 0.5) + (0.0 if size == "large" else 1.0)
    Path(model, "found.txt").write_text(f"{x} {size} {factor}")
    print(f"loss={loss:.6f}")


@component
def look(model: Input, found: Output, best: str = "") -> None:
    """Look."""
    import tarfile
    from pathlib import Path

    text = tarfile.open(Path(model, "model.tar.gz")).extractfile("found.txt").read().decode()
    Path(found, "found.txt").write_text(f"{text} {best}")


def pipe() -> Pipeline:
    search = tune(
        step(fit, name="search"),
        objective="loss",
        x=between(0.0, 1.0),
        size=one_of("small", "large"),
        factor=one_of(3),
        max_trainings=6,
        max_parallel=2,
        seed=4,
    )
    found = step(look, model=search["model"], best=search.best("x"))
    final = step(fit, name="final", x=search.best("x"), size=search.best("size"), factor=search.best("factor"))
    return Pipeline(name="pipe", steps=[search, found, final, step(look, name="look-again", model=final["model"])])
'''


@pytest.mark.slow
def test_a_tuning_of_a_component_passes_the_best_model_on(tmp_path: Path) -> None:
    file = tmp_path / "own_tuning.py"
    file.write_text(FILE)
    loaded = load(str(file))
    compiled = compile_pipeline(loaded.pipeline, loaded.source, loaded.base)
    home = Home(tmp_path / "home")
    options = Options(pipeline="pipe", max_parallel=2)
    summary = Runner(home).start(compiled.text, {}, options, assets=compiled.assets)
    assert summary.status == "Succeeded", summary.reason
    with Ledger(home) as ledger:
        response = json.loads(json.dumps(ledger.step(summary.execution, "search").response))
        found, again = (
            one.uri
            for step in ("look", "look-again")
            for one in ledger.artifacts(summary.execution, step)
            if one.flow == "output"
        )
    assert response["TrainingJobStatusCounters"]["Completed"] == 6
    best = response["BestTrainingJob"]
    values = [one["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] for one in response["TrainingJobSummaries"]]
    assert best["FinalHyperParameterTuningJobObjectiveMetric"]["Value"] == min(values)
    x, size = (best["TunedHyperParameters"][name] for name in ("x", "size"))

    def told(uri: str) -> list[str]:
        return ObjectStore(home.objects).path(f"{uri.rstrip('/')}/found.txt").read_text().split()

    assert float(told(found)[0]) == float(x) and told(found)[1:] == [size, "3", x]
    assert told(again) == told(found)[:3]
