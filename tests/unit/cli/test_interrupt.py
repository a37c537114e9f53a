"""Rehearsed interruptions on the command line: how they are given and shown, and how a run leaves spot machines."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from drivetrain.run_store.events import ExecutionStarted, StepFinished, StepInterrupted, StepRestarted, StepStarted
from drivetrain.telling.progress import EventLines, PlainProgress, RunView
from drivetrain.telling.progress.live import LiveProgress

STEPS = (("train", "Training", "train"),)
REASON = "spot machines taken back, rehearsed (step=120)"
COURSE = (
    ExecutionStarted("e-1", "p", STEPS),
    StepStarted("train", 1),
    StepInterrupted("train", 1, 120, 2, REASON),
    StepRestarted("train", 1, 2),
    StepFinished("train", "Succeeded", 3.0, value="1 interruption"),
)

# Its training fails at its first start, after it has kept something.
PIPELINE = '''
import json, os
from drivetrain.components import Checkpoints, Input, Output, component
from drivetrain import Cluster, Pipeline, Settings, Spot, step


class Nightly(Settings):
    spot: bool = False
    letter: str = "x"
    make_on: str = "ml.m5.large"
    rate: float = 0.1
    epochs: int = 3


@component
def make(out: Output, *, letter: str) -> None:
    """Make data."""
    (out / "x.txt").write_text(letter)


@component(job="training", resumable=("epochs",))
def fit(data: Input, model: Output, checkpoints: Checkpoints, *, rate: float, epochs: int) -> None:
    """Learn it."""
    kept = checkpoints / "step-1"
    print("most interruptions:", os.environ.get("DRIVETRAIN_MAX_INTERRUPTIONS"), flush=True)
    for step in (1, 2, 3) if kept.exists() else (1,):
        print("step", step, flush=True)
    if not kept.exists():
        kept.write_text("1")
        raise RuntimeError("interrupted 4 times in a row")
    (model / "weights").write_text(kept.read_text())


def nightly(settings: Nightly) -> Pipeline:
    spot = Spot(max_wait_seconds=86_400, max_interruptions=3) if settings.spot else None
    data = step(make, letter=settings.letter, cluster=Cluster(instance_type=settings.make_on))
    model = step(fit, data=data["out"], rate=settings.rate, epochs=settings.epochs, cluster=Cluster(spot=spot))
    return Pipeline(name="nightly", steps=[data, model])
'''


def test_interruptions_are_checked_before_anything_starts(drivetrain) -> None:
    message = drivetrain.error("run", "retraining", "--interrupt", "train@stop=3", "--home", drivetrain.home)
    assert "--interrupt 'train@stop=3': it has no 'stop'. Did you mean 'step'?" in message
    message = drivetrain.error("run", "retraining", "--interrupt", "trian@step=3", "--home", drivetrain.home)
    assert "--interrupt trian@step=3: there is no step 'trian'. Did you mean 'train'?" in message
    message = drivetrain.error("run", "retraining", "--interrupt", "evaluate@step=3", "--home", drivetrain.home)
    assert "evaluate is a step of type Processing" in message
    given = ("-s", "raw=example:digits", "-s", "key=id", "-s", "label=label", "--home", drivetrain.home)
    message = drivetrain.error("submit", "prepare-data", *given, "--interrupt", "step=3")
    assert "--interrupt step=3: no step can be interrupted: there is no training step." in message


def test_plain_lines() -> None:
    lines: list[str] = []
    progress = PlainProgress(lines.append, lambda: 100.0)
    for event in COURSE:
        progress(event)
    assert [line[11:] for line in lines[2:]] == [
        f"train: interrupted at step 120, restarting (2): {REASON}",
        "train: at work again, start 2",
        "train: succeeded in 3.00 s: 1 interruption",
    ]


def test_json_lines() -> None:
    lines: list[str] = []
    events = EventLines(lines.append, lambda: 1.0)
    for event in COURSE:
        events(event)
    told = [json.loads(line) for line in lines]
    assert told[2] == {
        **{"event": "step_interrupted", "time": 1.0, "step": "train", "attempt": 1},
        **{"at_step": 120, "start": 2, "reason": REASON},
    }
    assert told[3]["event"] == "step_restarted"


def test_the_live_view() -> None:
    progress = LiveProgress(io.StringIO(), lambda: 0.0, lambda: (100, 30))

    def line() -> str:
        return progress.lines()[1]

    for event in COURSE[:3]:
        progress(event)
    assert line().startswith("‖ train") and "interrupted at step 120, restarting (2)" in line()
    progress(COURSE[3])
    assert "running" in line() and "start 2" in line()
    progress(COURSE[4])
    assert "1 interruption" in line() and "start 2" not in line()


def test_without_a_known_step() -> None:
    view = RunView()
    view.apply(COURSE[0])
    view.apply(StepInterrupted("train", 1, None, 3, REASON))
    assert view.steps["train"].detail() == "interrupted, restarting (3)"


@pytest.fixture
def failed(drivetrain, request: pytest.FixtureRequest) -> Path:
    """The home of a run on spot machines whose training gave up."""
    file = "spot_" + re.sub(r"\W", "_", request.node.name) + ".py"  # a module is imported once
    drivetrain.write(file, PIPELINE)
    home = drivetrain.folder / ".home"
    drivetrain("run", f"{file}:nightly", "--set", "spot=true", "--home", home, code=1)
    return home


def log_of(home: Path) -> str:
    return "".join(path.read_text() for path in sorted(home.glob("runs/*/fit/*/logs/*.log")))


@pytest.mark.slow
def test_a_run_leaves_spot_machines_and_resumes(drivetrain, failed: Path) -> None:
    assert "most interruptions: 3" in log_of(failed)
    text = drivetrain("runs", "resume", "latest", "--set", "spot=false", "--home", failed)
    assert "nightly goes on" in text and "1 done before" in text and "make: started" not in text
    assert "most interruptions: None" in log_of(failed)
    with open(next(failed.glob("runs/*/definition.json"))) as file:
        arguments = json.load(file)["Steps"][1]["Arguments"]
    assert arguments["EnableManagedSpotTraining"] is False
    assert "MaxWaitTimeInSeconds" not in arguments["StoppingCondition"]
    saved = json.loads(next(failed.glob("runs/*/request.json")).read_text())
    assert saved["options"]["origin"]["set"] == ["spot=true", "spot=false"]
    assert [path.read_text() for path in failed.glob("s3/*/pipelines/nightly/checkpoints/fit/*/*/step-1")] == ["1"]


@pytest.mark.slow_cases("both", "data")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        (("rate=0.01",), "with another configuration: rate 0.1 -> 0.01."),
        (("rate=0.01", "spot=false"), "with another configuration: rate 0.1 -> 0.01."),
        (("letter=y",), "with another configuration: letter x -> y of step 'make'."),
    ],
    ids=["parameter", "both", "data"],
)
def test_another_training_is_refused_on_resume(drivetrain, failed: Path, given: tuple[str, ...], named: str) -> None:
    before = {path: path.read_bytes() for path in failed.glob("runs/*/*.json")}
    message = drivetrain.error("runs", "resume", "latest", *(f"--set={one}" for one in given), "--home", failed)
    assert "step 'fit' has checkpoints (s3://" in message and named in message
    assert "What may change: " in message
    assert "or begin a new training with it (drivetrain run ...)" in message
    assert {path: path.read_bytes() for path in failed.glob("runs/*/*.json")} == before
    text = drivetrain("runs", "resume", "latest", "--home", failed)
    assert "1 done before" in text


@pytest.mark.slow
def test_machines_and_growing_values_may_change_on_resume(drivetrain, failed: Path) -> None:
    changes = ("--set", "epochs=4", "--set", "make_on=ml.m5.xlarge")
    text = drivetrain("runs", "resume", "latest", *changes, "--home", failed)
    assert "make: succeeded" in text and "fit: succeeded" in text
    assert "step 3" in log_of(failed)  # which only a training that goes on prints


@pytest.mark.slow
def test_a_resume_takes_other_interruptions(drivetrain, failed: Path) -> None:
    text = drivetrain("runs", "resume", "latest", "--interrupt", "step=500", "--home", failed)
    assert "never came to step 500" in text
    saved = json.loads(next(failed.glob("runs/*/request.json")).read_text())
    assert [one["text"] for one in saved["options"]["interruptions"]] == ["step=500"]


def test_a_definition_cannot_be_recompiled_on_resume(drivetrain) -> None:
    drivetrain.run(accuracy=0.1, code=1)
    message = drivetrain.error("runs", "resume", "latest", "--set", "spot=false", "--home", drivetrain.home)
    assert "was not started from a named pipeline with settings" in message
