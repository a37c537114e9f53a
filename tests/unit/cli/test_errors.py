from __future__ import annotations

import errno
import re
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from drivetrain.authoring.loading import load
from drivetrain.base.errors import BAD_INPUT, FAILED, INTERRUPTED, RETRY, InputError, SpecError, UserError
from drivetrain.base.stopping import AwayError
from drivetrain.cli.errors import BUG, explain
from drivetrain.spec.resources import RetryPolicy


class Machine(BaseModel):
    model_config = ConfigDict(extra="forbid")
    count: int = Field(default=1, ge=1)


class Job(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str
    machine: Machine = Machine()


def explained(error: BaseException) -> tuple[int, str]:
    try:
        raise error
    except BaseException as raised:
        return explain(raised)


@pytest.mark.parametrize("kind", [UserError, InputError])
def test_user_errors_are_one_message(kind: type[Exception]) -> None:
    assert explained(kind("data.csv, row 3: 'x' is no number.")) == (2, "error: data.csv, row 3: 'x' is no number.")


def test_at_most_three_lines() -> None:
    assert explained(UserError("one\n\ntwo\nthree"))[1] == "error: one\ntwo\nthree"
    assert explained(UserError("one\n\ntwo\nthree\nfour\nfive"))[1] == "error: one\ntwo\nthree (and 2 more)"


def test_a_current_folder_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(FileNotFoundError) as caught:
        Path.cwd()
    assert explain(caught.value) == (2, "error: the current folder was removed. Change into another one.")


def test_lines_are_bounded() -> None:
    text = explained(UserError("x" * 100_000))[1]
    assert len(text) < 1_100 and text.endswith("xxx...")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": "x", "machine": {"count": 0}}, "Job.machine.count is 0: Input should be greater than or equal to 1."),
        ({"name": "x", "nmae": "y"}, "Job.nmae does not exist. Did you mean 'name'? Allowed: machine, name."),
        ({}, "Job.name is required."),
        ({"machine": {"coun": 3}}, "Job.name is required. (1 more)"),
    ],
)
def test_validation_errors_name_the_field(given: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Job(**given)  # type: ignore[arg-type]
    code, text = explain(caught.value)
    assert code == 2
    assert text.endswith(message)


@pytest.mark.parametrize(("given", "said"), [({}, "required."), ({"causes": []}, "empty. Give one at least.")])
def test_missing_values_are_reported_with_their_choices(given: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        RetryPolicy(**given)  # type: ignore[arg-type]
    code, text = explain(caught.value)
    assert code == 2 and text.endswith(
        f"RetryPolicy.causes is {said} Allowed: service_error, throttling, job_error, no_capacity, quota."
    )


def test_errors_name_the_line_of_the_users_file(tmp_path: Path) -> None:
    path = tmp_path / "digits.py"
    path.write_text("def pipeline():\n    return {}['epochs']\n")
    scope: dict[str, object] = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    with pytest.raises(KeyError) as caught:
        scope["pipeline"]()  # type: ignore[operator]
    # The frame of this test file is somebody's file too, but the last one is what broke.
    assert explain(caught.value) == (2, "error: digits.py, line 2: KeyError: 'epochs'")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("step(load, row=3)", "Step 'load' does not take 'row'"),
        ("step('load')", "step('load'): not a component."),
        (
            "script('a.py', instance_type='ml.m5.large')",
            "script('a.py') does not take 'instance_type'. Machines are chosen by cluster=: "
            "cluster=Cluster(instance_type=...).",
        ),
        ("script('a.py', output=['a'])", "script('a.py') does not take 'output'. Did you mean 'outputs'?"),
        ("Pipeline(name='p', steps=[step(load), step(load)])", "'load'"),
        ("Pipeline(name='p', steps=[load])", "holds load, which is no step yet. Write step(load)."),
        (
            "Pipeline(name='p', steps=[step(load)['data']])",
            "holds Output 'data' of step 'load', which is a value",
        ),
        (
            "Pipeline(name='p', steps=[3])",
            "Pipeline(steps=...) holds 3, which is no step. Give what step(",
        ),
        ("Pipeline(name='p', steps=3)", "Pipeline(steps=...) is 3. Give a list of steps: steps=[...]."),
        ("Pipeline(name='p', steps=step(load))", "Pipeline(steps=...) is the step 'load'. Give a list: steps=[...]."),
    ],
)
def test_wrong_arguments_in_a_pipeline_file_name_the_line(wrong: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "nightly.py"
    path.write_text(
        "from drivetrain.components import Output, component\n"
        "from drivetrain import Pipeline, script, step\n"
        "\n@component\ndef load(data: Output, rows: int = 3) -> None:\n    ...\n\n"
        f"def pipeline() -> Pipeline:\n    made = (\n        {wrong}\n    )\n    return made\n"
    )
    with pytest.raises(ValueError) as caught:
        load(str(path))
    del sys.modules["nightly"]
    code, text = explain(caught.value)
    assert code == 2 and text.startswith("error: nightly.py, line 10: ") and said in text


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS])
def test_operating_system_refusals_are_no_bug(number: int) -> None:
    import os

    code, text = explained(OSError(number, os.strerror(number), "/data/ledger.db"))
    assert code == 2 and text.startswith(f"error: /data/ledger.db: {os.strerror(number)}. ")
    assert "another place" in text or "a place that can be written" in text


def test_an_unavailable_service_is_no_bug() -> None:
    assert explain(AwayError("S3 did not read s3://b/k")) == (75, "error: S3 did not read s3://b/k")


def test_interrupted() -> None:
    assert explained(KeyboardInterrupt()) == (130, "interrupted")


def test_the_table_of_exit_codes_is_complete() -> None:
    page = (Path(__file__).parents[3] / "docs" / "running.md").read_text(encoding="utf-8")
    table = page.partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    told = {int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)}
    assert told == {0, FAILED, BAD_INPUT, BUG, RETRY, INTERRUPTED, 141}
