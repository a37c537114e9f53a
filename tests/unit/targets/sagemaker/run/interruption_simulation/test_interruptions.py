from __future__ import annotations

from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import (
    Interruption,
    of_step,
    parse,
    parse_all,
    problems,
)
from drivetrain.targets.sagemaker.run.options import Options


def test_the_forms() -> None:
    assert parse("train@step=120") == Interruption(text="train@step=120", step="train", at_step=120, notice_s=120.0)
    text = "train@poisson=60s,seed=7,notice=2s"
    assert parse(text) == Interruption(text=text, step="train", mean_s=60.0, seed=7, notice_s=2.0)
    assert parse("step=120, notice=0") == Interruption(text="step=120, notice=0", at_step=120, notice_s=0.0)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60), ("60s", 60), ("5m", 300), ("5 min", 300), ("1.5h", 5400), ("0.5s", 0.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert parse(f"poisson={text}").mean_s == seconds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a part is empty"),
        ("train", "'train' is no KEY=VALUE"),
        ("@step=1", "no step before '@'"),
        ("train@stop=3", "it has no 'stop'. Did you mean 'step'? Allowed: notice, poisson, seed, step"),
        ("train@step=1,step=2", "step is given twice"),
        ("train@step=1,poisson=3s", "step and poisson are given both"),
        ("train@notice=2s", "neither step nor poisson is given"),
        ("step=0", "step is '0', not a whole number from 1"),
        ("step=-1", "step is '-1', not a whole number from 1"),
        ("step=1.5", "step is '1.5', not a whole number"),
        ("step=²", "not a whole number"),
        ("step=" + "9" * 30, "not a whole number"),
        ("poisson=0", "poisson is '0', not a time such as 60s"),
        ("poisson=often", "poisson is 'often', not a time such as 60s"),
        ("poisson=60d", "poisson is '60d', not a time"),
        ("poisson=99999h", "not a time"),
        ("step=1,notice=-2s", "notice is '-2s', not a time"),
        ("step=1,seed=x", "seed is 'x', not a whole number from 0"),
    ],
)
def test_what_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(text)
    message = str(caught.value)
    assert why in message and message.startswith("--interrupt ") and "Allowed: STEP@step=120" in message
    assert len(message.splitlines()) == 1


def test_the_same_one_is_given_once() -> None:
    assert [one.at_step for one in parse_all(["step=1", "step=2"])] == [1, 2]
    assert parse_all(None) == ()
    with pytest.raises(UserError, match="--interrupt step=1 is given twice"):
        parse_all(["step=1", "step=1"])


def test_they_survive_in_the_request_of_a_run() -> None:
    options = Options(pipeline="p", interruptions=parse_all(["train@step=120", "poisson=60s,seed=7"]))
    assert Options.from_json(options.to_json()) == options
    before = {
        key: value for key, value in Options(pipeline="p").to_json().items() if key not in ("interruptions", "origin")
    }
    assert Options.from_json(before) == Options(pipeline="p")  # of a run that an older version began


STEPS = {"prepare": "Processing", "train": "Training", "tune": "Training", "evaluate": "Processing"}
NO_CHECKPOINTS = {"tune": "keeps no checkpoints."}


def problem(text: str, steps: dict[str, str] = STEPS, refused: dict[str, str] = NO_CHECKPOINTS, stubs: str = "") -> str:
    found = problems([parse(text)], steps, refused, stubs.split())
    assert len(found) <= 1
    return found[0] if found else ""


def test_which_step() -> None:
    assert problem("train@step=1") == problem("step=1") == ""
    assert (
        problem("trian@step=1")
        == "--interrupt trian@step=1: there is no step 'trian'. Did you mean 'train'? Allowed: train."
    )
    assert "prepare is a step of type Processing. Only training jobs" in problem("prepare@step=1")
    assert "Allowed: train." in problem("prepare@step=1")
    assert problem("tune@step=1") == "--interrupt tune@step=1: tune keeps no checkpoints."
    assert "which step? Say it: train@step=1. Allowed: train, tune." in problem("step=1", refused={})
    assert "no step can be interrupted: tune keeps no checkpoints." in problem("step=1", {"tune": "Training"})
    assert "no step can be interrupted: there is no training step." in problem("step=1", {"a": "Processing"}, {})
    assert "train is not run, since --stub gives its outputs" in problem("train@step=1", stubs="train")
    assert "This pipeline has no training step." in problem("a@step=1", {"a": "Processing"}, {})


def test_those_of_a_step() -> None:
    wanted = parse_all(["train@step=1", "tune@step=2", "step=3"])

    def steps(kind: str, arguments: dict[str, Any]) -> list[int | None]:
        node = StepNode(name="train", type=kind, raw={}, arguments=arguments, place="")
        return [one.at_step for one in of_step(wanted, node)]

    assert steps("Training", {"CheckpointConfig": {"S3Uri": "s3://b/k/"}}) == [1, 3]
    assert steps("Training", {}) == steps("Processing", {"CheckpointConfig": {"S3Uri": "s3://b/k/"}}) == []
