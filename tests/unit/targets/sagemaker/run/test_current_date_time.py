"""Execution.CurrentDateTime of a step in an execution that is killed and goes on: the moment at which it began."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.events import Event, StepNoted, StepStarted
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run import callbacks
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.tuning.trials import Trial
from drivetrain.targets.sagemaker.run.tuning.tuner import Tuner
from tests.fixtures.kills import dies_when
from tests.fixtures.local_runs import BUCKET, LocalRuns, join
from tests.fixtures.tunings import COMMAND, categories, training, tuning

# Who waits for an answer that never comes waits for ever.
pytestmark = pytest.mark.timeout(30)
NOW = {"Get": "Execution.CurrentDateTime"}
OPTIONS = Options(pipeline="test")
A_DAY_S = 86_400.0


@pytest.fixture
def next_day(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Call it, and it is the next day."""
    clock = time.time
    return lambda: monkeypatch.setattr(time, "time", lambda: clock() + A_DAY_S)


def ask(**fields: Any) -> dict[str, Any]:
    outputs = [{"OutputName": "approved", "OutputType": "Boolean"}]
    queue = "https://sqs.us-east-2.amazonaws.com/000000000000/reviews"
    return {"Name": "ask", "Type": "Callback", "SqsQueueUrl": queue, "OutputParameters": outputs, **fields}


def each(body: dict[str, Any]) -> dict[str, Any]:
    fields = {"IterableItems": ["x"], "MaxConcurrency": 1, "ForEachBody": [body]}
    return {"Name": "each", "Type": "ForEach", "Arguments": fields}


@pytest.mark.parametrize("iterated", [False, True])
def test_an_answer_that_is_given_after_a_kill_counts(runs: LocalRuns, next_day: Any, iterated: bool) -> None:
    question = ask(Arguments={"asked": NOW})
    text = runs.text([each(question) if iterated else question])
    dies_when(runs, text, OPTIONS, lambda event: isinstance(event, StepNoted))
    [asked] = callbacks.waiting(runs.home)
    callbacks.answer(runs.home, asked.token, {"approved": "true"}, None)
    next_day()
    summary = runs.resume("latest", OPTIONS)
    assert (summary.status, runs.of(StepNoted)) == ("Succeeded", [])
    with Ledger(runs.home) as ledger:
        assert ledger.step(summary.execution, asked.step).arguments == asked.body["arguments"]


def test_a_step_that_had_not_begun_has_the_moment_at_which_it_begins(runs: LocalRuns, next_day: Any) -> None:
    def late(event: Event) -> bool:
        return isinstance(event, StepStarted) and event.step == "First"

    steps = [{"Name": name, "Type": "Lambda", "Arguments": {"now": NOW}} for name in ("First", "Then")]
    steps[1]["DependsOn"] = ["First"]
    options = Options(pipeline="test", stubs={"First": {}, "Then": {}})
    dies_when(runs, runs.text(steps), options, late)
    next_day()
    summary = runs.resume("latest", options)
    with Ledger(runs.home) as ledger:
        began, (first, then) = ledger.execution(summary.execution).started, ledger.steps(summary.execution)
    days = [time.strftime("%Y-%m-%dT", time.gmtime(began + passed)) for passed in (0.0, A_DAY_S)]
    assert [row.arguments["now"][:11] for row in (first, then)] == days


def test_a_tuning_goes_on_with_its_trainings(
    runs: LocalRuns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_day: Any
) -> None:
    class KilledError(BaseException):
        pass

    program = """
        import json, os
        from pathlib import Path
        x = json.loads(Path("/opt/ml/input/config/hyperparameters.json").read_text())["x"]
        with open(Path(os.environ["FOLDER"]) / "starts", "a") as file:
            file.write(x + "\\n")
        print("loss=1;")
    """
    place = {"S3OutputPath": join(f"{BUCKET}/out", NOW)}
    definition = training(runs, program, Environment={"FOLDER": str(tmp_path)}, OutputDataConfig=place)
    step = tuning(definition, ranges=categories(x=["a", "b", "c"]), strategy="Grid", most=None)
    enter = Tuner._enter_objective

    def dies(self: Tuner, trial: Trial) -> None:
        if trial.number == 2:
            raise KilledError
        enter(self, trial)

    with monkeypatch.context() as patch:
        patch.setattr(Tuner, "_enter_objective", dies)
        with pytest.raises(KilledError):
            runs.start([step], image_commands=COMMAND)
    next_day()
    assert runs.resume().status == "Succeeded"
    assert (tmp_path / "starts").read_text().split() == ["a", "b", "c"]
    [one_place] = runs.store.path(f"{BUCKET}/out").iterdir()
    assert len(list(one_place.glob("*/output/model.tar.gz"))) == 3
