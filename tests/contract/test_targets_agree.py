"""Trainings run by each target's own runner on this machine give the same models, metrics, decisions and versions, to
the digit: the flagship against a champion, and on spot machines that are taken away.

(Loops with a selection, branches that fail and all else without a real training: test_targets.py.)
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain.authoring.loading import load
from drivetrain.registry.registry import open_registry
from drivetrain.run_store.events import Event, ExecutionFinished, MetricLogged, StepStarted, ignore
from drivetrain.run_store.home import Home
from drivetrain.targets.kubeflow import target as kubeflow
from drivetrain.targets.sagemaker import target as sagemaker
from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import parse_all
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.fixtures.target_results import results

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SETTINGS = ("epochs=2", "min_accuracy=0", "processes=1")


def by_sagemaker(home: Path, *overrides: str, interruptions: tuple[str, ...] = ()) -> ExecutionFinished:
    compiled = sagemaker.compile(load("retraining", overrides=overrides).pipeline, here=True)
    options = Options(pipeline="retraining", interruptions=parse_all(interruptions), cache=False)
    return Runner(Home(home)).start(compiled.text, {}, options, assets=compiled.assets)


def by_kubeflow(home: Path, *overrides: str, observer: Callable[[Event], None] = ignore) -> ExecutionFinished:
    compiled = kubeflow.compile(load("retraining", overrides=overrides).pipeline, here=True)
    return kubeflow.run(compiled, {}, home, observer)


def test_the_flagship_against_its_champion(tmp_path: Path) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for name, run in (("sagemaker", by_sagemaker), ("kubeflow", by_kubeflow)):
        home = tmp_path / name
        first = results(home, run(home, *SETTINGS).execution)
        open_registry(f"local:{Home(home).ledger}").set_status("retraining", 1, "Approved")
        found[name] = [first, results(home, run(home, *SETTINGS, "seed=8").execution)]
    for one, other in zip(*found.values(), strict=True):
        for part, expected in one.items():
            assert other[part] == expected, part
    first, second = found["kubeflow"]
    assert first["status"] == second["status"] == "Succeeded"
    assert first["steps"]["register"][2] == "yes"
    assert [model["version"] for model in first["models"]] == [1] and first["models"][0]["files"]
    assert {"model.safetensors"} < set(first["outputs"]["train.model"])
    assert first["outputs"]["train.model"] != second["outputs"]["train.model"]
    assert "of version 1" in second["decisions"][0]["why"][0]


def test_a_training_on_interrupted_spot_machines(tmp_path: Path) -> None:
    """On SageMaker the job goes on; on Kubeflow the pod is evicted, which is a failure, and another one takes over."""
    settings = (*SETTINGS, "epochs=3", "spot=true")
    one = by_sagemaker(tmp_path / "sagemaker", *settings, interruptions=("train@step=27",))
    events: list[Event] = []

    def evict(event: Event) -> None:
        events.append(event)
        validated = [each for each in events if isinstance(each, MetricLogged) and each.name == "validation_loss"]
        if event in validated[1:] and attempts(events) == [1]:  # the checkpoint of the first epoch is there by then
            kill_pods()

    other = by_kubeflow(tmp_path / "kubeflow", *settings, observer=evict)
    expected, found = results(tmp_path / "sagemaker", one.execution), results(tmp_path / "kubeflow", other.execution)
    assert attempts(events) == [1, 2]
    log = Home(tmp_path / "kubeflow").logs(other.execution, "train", 2) / "algo-1.log"
    assert "epoch 3/3" in log.read_text() and "epoch 1/3" not in log.read_text()
    status, number, said, reason = found["steps"].pop("train")
    assert (status, number, reason) == ("Succeeded", 2, None)
    assert re.fullmatch(r"starts from step [1-9]\d* of this training \(interrupted\)", said), said
    said = "starts from nothing (a new training); 1 interruption"
    assert expected["steps"].pop("train") == ("Succeeded", 1, said, None)
    for part in expected:
        assert found[part] == expected[part], part


OWN = {
    "fit.py": """
import os
open(os.environ["SM_MODEL_DIR"] + "/weight.txt", "w").write("1.5")
""",
    "answer.py": """
import numpy

def load(folder):
    return float((folder / "weight.txt").read_text())

def predict(model, columns):
    return {"score": 1 / (1 + numpy.exp(-model * columns["x0"]))}
""",
    "pipeline.py": """
from drivetrain import Pipeline, Settings, register, step
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.compare import compare
from drivetrain.components.describe_model import describe_model
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_script import train_script

class Own(Settings):
    rows: str = "rows.csv"

def own(settings: Own) -> Pipeline:
    data = step(prepare_data, raw=settings.rows, key="id", label="label", test_percent=40, validation_percent=0)
    fitted = step(train_script, train=data["train"], script="fit.py", launcher="python")
    model = step(describe_model, trained=fitted["model"], data=data["train"], task="binary")
    scores = step(evaluate, model=model["model"], data=data["test"], bootstrap=20)
    rows = step(batch_predict, model=model["model"], data=data["test"])
    given = {"model": model["model"], "data": data["test"], "group": "own", "first": True}
    verdict = step(compare, evaluation=scores["report"], **given)
    new = register(
        model=model["model"], group="own", evaluation=scores["report"], decision=verdict["decision"], name="new"
    )
    return Pipeline(name="own", steps=[data, fitted, model, scores, rows, verdict, new])
""",
}


def test_a_described_model_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same predictions, evaluation, decision and version, to the byte."""
    folder = tmp_path / "own"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name, text in OWN.items():
        (folder / name).write_text(text)
    rows = [f"{row},{(row * 7 % 20 - 10) / 5 + row / 1000},{int(row * 7 % 20 > 9 + row % 3)}" for row in range(60)]
    (folder / "rows.csv").write_text("\n".join(["id,x0,label", *rows]))
    claim = "deployment.targets.kubeflow.checkpoint_claim=kept"
    loaded = load(str(folder / "pipeline.py"), overrides=[claim])
    found: list[dict[str, Any]] = []
    for name, target in (("sagemaker", sagemaker), ("kubeflow", kubeflow)):
        compiled = target.compile(loaded.pipeline, loaded.source, loaded.base, here=True)
        home = tmp_path / name
        if name == "kubeflow":
            done = kubeflow.run(compiled, {}, home, ignore)
        else:
            options = Options(pipeline="own", cache=False)
            done = Runner(Home(home)).start(compiled.text, {}, options, assets=compiled.assets)
        found.append(results(home, done.execution))
        outputs = found[-1]["outputs"]
        found[-1]["outputs"] = {name: files for name, files in outputs.items() if files}  # the script's is empty
    one, other = found
    assert one["status"] == "Succeeded", one["reason"]
    for part, expected in one.items():
        assert other[part] == expected, part
    assert one["outputs"]["batch-predict.output"] and one["outputs"]["describe-model.model"]


def attempts(events: list[Event]) -> list[int]:
    return [event.attempt for event in events if isinstance(event, StepStarted) and event.step == "train"]


def kill_pods() -> None:
    """Kill the tasks that kfp runs for this process, with all that they have started."""
    parents: dict[int, int] = {}
    runners: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"kfp_process" in (folder / "cmdline").read_bytes() and parents[int(folder.name)] == os.getpid():
                runners.add(int(folder.name))
        except OSError:
            continue
    assert len(runners) == 1
    found = runners
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found = found | more
    for pid in found - runners:
        os.kill(pid, signal.SIGKILL)
