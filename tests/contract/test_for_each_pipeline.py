"""A for_each from an author's file to its results: each iteration in places of its own, the best one handed on."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from drivetrain.cli import main

PIPELINE = """
from pathlib import Path

from drivetrain.components import Input, Output, component
from drivetrain import Pipeline, current_item, for_each, largest, step


@component(job="training", logs={"score": r"score=([0-9.]+)"})
def fit(data: Input, model: Output, rate: float, layers: int = 1) -> None:
    numbers = (Path(data) / "n.txt").read_text()
    Path(model).joinpath("weights.txt").write_text(f"{rate} {layers} {numbers}")
    print(f"score={1 - (rate - 0.3) ** 2:.4f}")


@component
def make(data: Output) -> None:
    Path(data).joinpath("n.txt").write_text("1 2 3")


@component
def look(model: Input, report: Output) -> dict[str, float]:
    import tarfile

    text = tarfile.open(Path(model) / "model.tar.gz").extractfile("weights.txt").read().decode()
    Path(report).joinpath("report.txt").write_text(text)
    return {"rate": float(text.split()[0])}


def pipeline() -> Pipeline:
    data = step(make)
    model = step(fit, data=data["data"], rate=current_item("Float", "rate"), layers=current_item("Integer", "layers"))
    looked = step(look, model=model["model"])
    items = [{"name": f"r{rate}", "rate": rate, "layers": 2} for rate in (0.1, 0.3, 0.9)]
    best = largest(model.logged("score"))
    sweep = for_each(items, [model, looked], name="sweep", max_concurrency=2, key="name", best=best)
    return Pipeline(name="sweeping", steps=[data, sweep, step(look, name="final", model=sweep.best["model"])])
"""


@pytest.mark.slow
def test_the_best_of_several_trainings_is_passed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRIVETRAIN_HOME", raising=False)
    (tmp_path / "sweep.py").write_text(textwrap.dedent(PIPELINE))

    def run(*words: str) -> dict[str, Any]:
        assert main.run(["run", "sweep.py", "--json", *words]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    first = run()
    assert {name: numbers["rate"] for name, numbers in first["results"].items()} == {
        "look-0": 0.1,
        "look-1": 0.3,
        "look-2": 0.9,
        "final": 0.3,
    }
    steps = tmp_path / ".drivetrain" / "s3" / "drivetrain-local" / "pipelines" / "sweeping" / "steps"
    made = (steps / "look" / first["execution"]).glob("*/report/report.txt")
    reports = {path.parent.parent.name: path.read_text() for path in made}
    assert reports == {f"r{rate}": f"{rate} 2 1 2 3" for rate in (0.1, 0.3, 0.9)}
    assert first["metrics"]["fit-1"] == {"score": 1.0}
    again = run()
    assert {step["status"] for step in again["steps"] if step["name"] != "sweep"} == {"Cached"}
