"""What a user is told of a run by kfp before anything starts; what is seen of one that goes on is in
tests/contract/test_kubeflow_runs.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from drivetrain.base.errors import SpecError
from drivetrain.cli import main
from drivetrain.run_store.home import Home, forbid_resume
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.spec.pipeline import Parameter
from drivetrain.targets.kubeflow.run import runner

SMALL = Path(__file__).parents[4] / "fixtures" / "target_pipelines" / "small.py"


def refused(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> str:
    assert main.run(["run", *words, "--target", "kubeflow", "--home", str(home)]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and not (home / "ledger.db").exists()
    return printed.err


def test_kfp_is_not_installed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(runner, "find_spec", lambda name: None if name == "kfp" else find(name))
    error = refused(capsys, tmp_path / "home", f"{SMALL}:quick")
    assert error == "error: kfp is not installed here. Install it: pip install 'drivetrain[kubeflow]'.\n"


def test_a_value_with_a_placeholder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, tmp_path / "home", f"{SMALL}:spelled", "--param", "Text=a {{$.x}}")
    assert "--param Text: it holds `{{$`, which Kubeflow Pipelines takes for a placeholder of its own." in error


def test_an_integer_that_is_rounded_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, tmp_path / "home", f"{SMALL}:spelled", "--param", f"Count={2**53 + 1}")
    assert error == (
        "error: --param Count: 9007199254740993 is rounded there, where numbers are doubles. Allowed: -2**53 to 2**53. "
        "Give Count another value.\n"
    )


@pytest.mark.parametrize("words", [["--explain-cache"], ["--select", "make"], ["--interrupt", "fit@step=1"]])
def test_an_option_of_the_other_runner(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    error = refused(capsys, tmp_path / "home", f"{SMALL}:quick", *words)
    assert error.startswith(f"error: {words[0]} does not go with --target kubeflow: ") and error.count("\n") == 1


def test_an_unknown_parameter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, tmp_path / "home", f"{SMALL}:spelled", "--param", "Txt=a")
    assert "Txt" in error and "Text" in error


def test_a_definition_is_of_another_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, tmp_path / "home", "--definition", "pipeline.json")
    assert "--target is kubeflow. Give a pipeline, or no --target." in error


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ([Parameter.string("Text", default="{{$.x}}")], "parameter 'Text'"),
        ([Parameter.string("a--b", default="x")], "parameter 'a--b'"),
        ([Parameter.integer("Count", default=2**53 + 1)], "parameter 'Count'"),
    ],
)
def test_parameters_that_the_platform_cannot_have(parameters: list[Parameter], field: str) -> None:
    from drivetrain import Pipeline, fail
    from drivetrain.targets.kubeflow.target import check, compile

    pipeline = Pipeline(name="p", parameters=parameters, steps=[fail("no")])
    (problem,) = check(pipeline)
    assert (problem.step, problem.field) == ("", field)
    with pytest.raises(SpecError, match="Kubeflow Pipelines cannot express this pipeline"):
        compile(pipeline)


@pytest.mark.parametrize("words", [[], ["--set", "rows=4"], ["--interrupt", "fit@step=1"]])
def test_such_a_run_is_not_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    home = Home(tmp_path)
    home.create()
    with LedgerWriter(home) as ledger:
        ledger.begin("abc", "quick", definition_hash="1", request_hash="2", parameters={}, steps=[])
        ledger.finish("abc", "Failed", "make: it broke")
    home.run("abc").mkdir(parents=True)
    forbid_resume(home.run("abc"), runner.NO_RESUME)
    assert main.run(["runs", "resume", "abc", *words, "--home", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: Execution abc cannot be resumed: kfp's local runner begins anew each time.")
    assert "a training goes on from its checkpoints" in error and error.count("\n") == 1
    for shown in (["show", "abc"], ["list"]):
        assert main.run(["runs", *shown, "--home", str(tmp_path)]) == 0
        assert "resume" not in capsys.readouterr().out
