"""What every target keeps: run for each folder of drivetrain/targets with a target.py, and for those of
tests/contract/targets, where `shell` shows that one folder makes a target: no line of the package names it.

The pipelines of tests/target_features have every feature once; those of tests/fixtures/target_pipelines are run.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from drivetrain.authoring.loading import Loaded, load
from drivetrain.base.errors import SpecError, UserError
from drivetrain.cli import main
from drivetrain.run_store.events import Event, ExecutionFinished, ExecutionStarted
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, put_assets
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.targets.target import RunsHere, Target, find_target, target_names
from drivetrain.telling.content.comparison import compare
from tests.fixtures.more_targets import FOLDER, more_targets
from tests.fixtures.target_results import contents, results
from tests.target_features.features import features

ROOT = Path(__file__).parents[2]
PIPELINES = ROOT / "tests" / "fixtures" / "target_pipelines"
with more_targets():
    NAMES = target_names()
    RUN_HERE = [name for name in NAMES if isinstance(find_target(name), RunsHere)]
BUILT = tuple((feature.name, feature.build()) for feature in features())


@pytest.fixture(autouse=True, scope="module")
def third_target() -> Iterator[None]:
    with more_targets():
        yield


@pytest.fixture(params=NAMES)
def target(request: pytest.FixtureRequest) -> Target:
    return find_target(request.param)


@cache
def small(function: str) -> Loaded:
    return load(f"{PIPELINES / 'small.py'}:{function}")


def test_a_folder_is_a_target() -> None:
    added = {path.parent.name for path in FOLDER.glob("*/target.py")}
    assert added and {*added, "sagemaker", "kubeflow"} == set(NAMES)
    assert [path for path in FOLDER.iterdir() if path.is_file()] == []
    package = ROOT / "drivetrain"
    named = re.compile(rf"targets[./]({'|'.join(added)})\b")
    assert [path for path in package.rglob("*.py") if named.search(path.read_text(encoding="utf-8"))] == []


def test_an_added_target_is_removed_after_the_test() -> None:
    command = [sys.executable, "-c", "from drivetrain.targets.target import target_names; print(*target_names())"]
    alone = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    assert alone == [name for name in NAMES if not (FOLDER / name).is_dir()]
    modules = [name for name in sys.modules if name.startswith("drivetrain.targets.")]
    with more_targets():
        find_target("shell")
    assert [name for name in sys.modules if name.startswith("drivetrain.targets.")] == modules


def test_a_target_has_a_name_for_people_and_one_for_files(target: Target) -> None:
    others = [find_target(name) for name in NAMES if find_target(name) is not target]
    assert target.TITLE and target.TITLE not in {other.TITLE for other in others}
    assert re.fullmatch(r"\.[a-z]+", target.SUFFIX) and target.SUFFIX not in {other.SUFFIX for other in others}


def test_unsupported_features_are_reported_by_step_and_field(target: Target, tmp_path: Path) -> None:
    """Before anything is compiled: data and code are not there, and nobody notices."""
    expressed = 0
    for name, pipeline in BUILT:
        problems = target.check(pipeline)
        expressed += not problems
        steps = {step.name for step in Graph(pipeline).steps}
        for problem in problems:
            # What is a rule's message names its step and field itself.
            assert problem.step in steps or problem.step == "", (name, problem)
            assert problem.field or (problem.step == "" and "step '" in problem.reason), (name, problem)
            assert problem.reason.rstrip().endswith(".") and "\n" not in problem.reason
            assert str(problem).startswith(f"Step {problem.step!r}: " if problem.step else "The pipeline: ")
        if problems:
            with pytest.raises(SpecError) as caught:
                target.compile(pipeline, tmp_path / "no-source", tmp_path / "no-data")
            assert str(caught.value).startswith(f"{target.TITLE} cannot express this pipeline.")
            assert all(str(problem) in str(caught.value) for problem in problems[:5])
    assert expressed, "it expresses nothing"


def test_supported_features_compile_and_list_their_needs(target: Target) -> None:
    for name, pipeline in BUILT:
        if target.check(pipeline):
            continue
        compiled = target.compile(pipeline)
        assert isinstance(compiled.text, str) and compiled.text.endswith("\n"), name
        assert compiled.pipeline.name == pipeline.name
        uris = [asset.uri for asset in compiled.assets]
        assert uris == sorted(set(uris)) and all(uri.startswith("s3://") for uri in uris)
        for uri in uris:  # each is named, itself or by its folder
            key = uri.removeprefix("s3://")
            assert key in compiled.text or key.rpartition("/")[0] in compiled.text, (name, uri)
        for asset in compiled.assets:
            data = asset.content if isinstance(asset.content, bytes) else asset.content.read_bytes()
            assert hashlib.sha256(data).hexdigest() == asset.sha256
        assert isinstance(compiled.notes, tuple) and all(note and "\n" not in note for note in compiled.notes)


def test_missing_data_are_bad_input(target: Target) -> None:
    loaded = small("chain")
    (counted, _) = loaded.pipeline.steps
    lost = Pipeline(name="lost", steps=(counted.model_copy(update={"inputs": {"words": "no/such/folder"}}),))
    with pytest.raises(UserError, match="no/such/folder"):
        target.compile(lost, loaded.source, loaded.base)


def digests(names: Sequence[str]) -> list[str]:
    """Of all that each target compiles."""
    return [
        f"{name} {feature} {hashlib.sha256(find_target(name).compile(pipeline).text.encode()).hexdigest()}"
        for name in names
        for feature, pipeline in BUILT
        if not find_target(name).check(pipeline)
    ]


def test_compiling_is_pure(monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, no clock, no random number; the pipeline and its JSON give the same bytes."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a compiler asks for nothing outside")

    for module, name in ((socket.socket, "connect"), (os, "urandom"), (time, "time")):
        monkeypatch.setattr(module, name, refused)
    for name in NAMES:
        for feature, pipeline in BUILT:
            if not find_target(name).check(pipeline):
                again = Pipeline.model_validate_json(pipeline.model_dump_json())
                texts = {find_target(name).compile(each).text for each in (pipeline, again)}
                assert len(texts) == 1, (name, feature)


@pytest.mark.slow
def test_another_process_compiles_the_same_bytes(tmp_path: Path) -> None:
    expected = digests(NAMES)
    assert len({line.split()[0] for line in expected}) == len(NAMES)
    code = (
        "from tests.fixtures.more_targets import more_targets\n"
        "from tests.contract.test_targets import NAMES, digests\n"
        "with more_targets(): print('\\n'.join(digests(NAMES)))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT), "TZ": "UTC+1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == expected


# The command line by the protocol alone.


@pytest.mark.parametrize("name", NAMES)
def test_the_command_line_compiles_for_it(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"{PIPELINES / 'small.py'}:chain"
    assert main.run(["compile", place, "--target", name]) == 0
    printed = capsys.readouterr().out
    loaded = small("chain")
    assert printed == find_target(name).compile(loaded.pipeline, loaded.source, loaded.base).text
    file = tmp_path / f"out{find_target(name).SUFFIX}"
    assert main.run(["compile", place, "--target", name, "-o", str(file), "--home", str(tmp_path / "home")]) == 0
    assert file.read_text() == printed


@pytest.mark.parametrize("name", NAMES)
def test_a_deployment_names_it(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"{PIPELINES / 'small.py'}:deployed"
    texts: list[str] = []
    for words in (["--target", name], ["--set", f"deployment.target={name}"]):
        assert main.run(["compile", place, *words]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


def test_an_unknown_target(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["compile", "retraining", "--target", "kubflow"]) == 2
    error = capsys.readouterr().err
    assert "There is no target 'kubflow'" in error and "kubeflow" in error and error.count("\n") == 1


@pytest.mark.parametrize("name", [name for name in NAMES if name not in RUN_HERE])
def test_a_target_that_cannot_run_here_says_so(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = f"{PIPELINES / 'small.py'}:chain"
    assert main.run(["run", place, "--target", name, "--home", str(tmp_path / "home")]) == 2
    error = capsys.readouterr().err
    assert find_target(name).TITLE in error and "--target" in error and error.count("\n") == 1
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("name", NAMES)
def test_unsupported_features_exit_with_2(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = next((pipeline for _, pipeline in BUILT if find_target(name).check(pipeline)), None)
    assert refused is not None, "it expresses everything: add what it does not to tests/target_features"
    loaded = Loaded(refused, small("quick").settings, None, tmp_path)
    monkeypatch.setattr("drivetrain.authoring.loading.load", lambda *_: loaded)
    problem = find_target(name).check(refused)[0]
    for verb in ("compile", "run"):
        assert main.run([verb, "x.py", "--target", name]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and "Traceback" not in printed.err
        if verb == "compile" or name in RUN_HERE:
            assert str(problem) in printed.err


# What they give when they run.


@dataclass
class Runs:
    """Runs of one pipeline by each target that can."""

    folder: Path

    def run(self, name: str, function: str, **parameters: object) -> tuple[dict[str, object], list[Event]]:
        loaded = small(function)
        compiled = find_target(name).compile(loaded.pipeline, loaded.source, loaded.base, here=True)
        events: list[Event] = []
        found = find_target(name)
        assert isinstance(found, RunsHere)
        home = self.folder / name
        summary = found.run(compiled, parameters, home, events.append)
        assert isinstance(events[0], ExecutionStarted) and events[0].execution == summary.execution
        assert isinstance(events[-1], ExecutionFinished) and events[-1].status == summary.status
        assert events[-1].reason == summary.reason
        return results(home, summary.execution), events

    def assert_alike(self, function: str, **parameters: object) -> dict[str, object]:
        given = {name: self.run(name, function, **parameters)[0] for name in RUN_HERE}
        first, *others = given.values()
        for other in others:
            assert other.keys() == first.keys()
            for part, expected in first.items():
                assert other[part] == expected, part
        return first


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


def test_decisions_are_equal_on_all_targets(runs: Runs) -> None:
    """The least that shows a run; the slow tests below have the rest."""
    found = runs.assert_alike("quick")
    assert found["status"] == "Succeeded"
    given = found["outputs"]["record.told"]["given.json"]  # type: ignore[index]
    assert b'"number": "3.0"' in given and rb"it's \"so\" && python3 --x" in given


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "status"),
    [
        ("spelled", "Succeeded"),
        ("decided", "Succeeded"),
        ("swept", "Succeeded"),
        ("trained", "Succeeded"),
        ("refused", "Failed"),
        ("crashed", "Failed"),
        ("failing_branch", "Failed"),
        ("failing_loop", "Failed"),
        ("held", "Failed"),
        ("two_gates", "Failed"),
        ("passed", "Succeeded"),
        ("handled", "CompletedWithFailures"),
        ("never_begun", "Failed"),
        ("unread", "Succeeded"),
    ],
)
def test_results_are_equal_on_all_targets(runs: Runs, function: str, status: str) -> None:
    assert runs.assert_alike(function)["status"] == status


@pytest.mark.slow
def test_inputs_of_two_targets_are_compared_by_content(tmp_path: Path) -> None:
    """A model, which is an archive on SageMaker and a folder elsewhere, is not comparable by its hash."""
    loaded, home = small("trained"), tmp_path / "home"
    executions: list[str] = []
    for name in RUN_HERE:
        target = find_target(name)
        assert isinstance(target, RunsHere)
        compiled = target.compile(loaded.pipeline, loaded.source, loaded.base, here=True)
        executions.append(target.run(compiled, {}, home, lambda _: None).execution)
    found = compare(Home(home), executions)
    assert next(iter(found.settings.items())) == ("target platform", tuple(RUN_HERE))
    assert (found.data, found.same_code) == ({}, True)
    assert "names.model" in found.data_not_comparable and "fit.data" not in found.data_not_comparable
    assert all("fit.data" in run.data for run in found.runs)


@pytest.mark.slow
def test_parameters_are_equal_on_all_targets(runs: Runs) -> None:
    found = runs.assert_alike("spelled", Number="0.1", Count="12", Flag="false", Text="--x=%s {}")
    text = found["outputs"]["joined.told"]["given.json"]  # type: ignore[index]
    assert b"0.1|12|false|--x=%s {}|12.0|" in text
    with pytest.raises(UserError) as one:
        runs.run(RUN_HERE[0], "spelled", Count="many")
    with pytest.raises(UserError) as other:
        runs.run(RUN_HERE[-1], "spelled", Count="many")
    assert str(one.value) == str(other.value)


@pytest.mark.slow
def test_an_empty_input_is_refused_by_all(runs: Runs) -> None:
    for name in RUN_HERE:
        found, _ = runs.run(name, "hollow")
        assert found["status"] == "Failed", name
        assert str(found["reason"]).startswith("count: error: input 'words' is empty: "), name


@pytest.mark.parametrize(
    ("parameters", "lost"),
    [
        ({}, "step 'one': input 'words' reads s3://own/words, and nothing is there on this machine"),
        ({"Place": "/tmp"}, "step 'one': input 'words': '/tmp' is not an s3:// URI."),
        ({"Place": "s3://own/there"}, "step 'other': input 'words' reads s3://own/more, and nothing is there"),
    ],
)
def test_missing_data_are_found_before_anything_starts(runs: Runs, parameters: dict[str, str], lost: str) -> None:
    for name in RUN_HERE:
        there = Home(runs.folder / name).objects / "own" / "there"
        there.mkdir(parents=True)
        (there / "words.txt").write_text("two words")
        with pytest.raises(UserError) as caught:
            runs.run(name, "elsewhere", **parameters)
        assert lost in str(caught.value)
        assert not list((runs.folder / name).glob("runs/*/*/attempt-1"))


def test_printed_commands_give_the_same_files(runs: Runs, tmp_path: Path) -> None:
    """The dry target's script, run by hand."""
    loaded = small("chain")
    compiled = find_target("shell").compile(loaded.pipeline, loaded.source, loaded.base)
    home = Home(tmp_path / "objects")
    home.create()
    with LedgerWriter(home) as ledger:
        put_assets(ObjectStore(home.objects), compiled.assets, ledger)
    (tmp_path / "pipeline.sh").write_text(compiled.text)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        **{"SOURCE": str(loaded.source), "OBJECTS": str(home.objects), "WORK": str(tmp_path / "work")},
    }
    command = ["sh", str(tmp_path / "pipeline.sh")]
    subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    expected, _ = runs.run("sagemaker", "chain")
    files = {f"{path.parent.name}.{path.name}": contents(home, str(path)) for path in (tmp_path / "work").glob("*/*")}
    assert files == expected["outputs"] and len(files) == 4
