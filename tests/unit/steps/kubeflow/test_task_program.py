"""A task as the platform runs it: what it is given, the program that it runs, what it says that it made."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.steps.kubeflow.program import Log, Reporter, command_of, environment_of, start, tell
from drivetrain.steps.kubeflow.reports import reported
from drivetrain.steps.kubeflow.task import REGISTER, Task, TaskError, local_path, spelled, stored

MODULE = """
import os
import sys
from pathlib import Path
from drivetrain.base.errors import InputError
from drivetrain.components import Input, Output, component

@component
def work(data: Input, made: Output, *, text: str = "", number: float = 0.0, ends: str = "") -> dict[str, float]:
    command = Path("/proc/self/cmdline").read_text().replace("\\0", " ")
    called = Path(sys.argv[0]).name
    Path(made, "process.txt").write_text(f"{called} {os.environ.get('PYTHONHASHSEED')} {command}")
    left = sorted({path.name for path in made.iterdir()} - {"process.txt"})
    Path(made, "text.txt").write_text(f"{text}|{number!r}|{sorted(os.listdir(data))}|{left}")
    print("score=0.5\\nscore=0.75")
    if ends == "bad":
        raise InputError("bad rows. Give good ones.")
    if ends == "lost":
        os._exit(75)
    return {"rows": 7, "whole": 7.0}
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that stands for S3, with an input in it; the module of the program is importable."""
    (tmp_path / "s3" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "s3" / "bucket" / "data" / "rows.csv").write_text("1")
    (tmp_path / "worked.py").write_text(MODULE)
    monkeypatch.setenv("DRIVETRAIN_OBJECT_STORE", str(tmp_path / "s3"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def given(store: Path, **parameters: Any) -> dict[str, Any]:
    """The executor input."""
    return {
        "inputs": {
            "parameterValues": parameters,
            "artifacts": {"data": {"artifacts": [{"name": "data", "uri": "s3://bucket/data"}]}},
        },
        "outputs": {
            "outputFile": str(store / "out" / "executor_output.json"),
            "artifacts": {
                name: {"artifacts": [{"name": name, "uri": str(store / "s3" / "out" / name)}]}
                for name in ("made", "metrics")
            },
        },
    }


def working(*more: Any, **document: Any) -> dict[str, Any]:
    folders = [{"option": [f"--{name}", {"output": name}]} for name in ("made", "metrics")]
    data = {"option": ["--data", {"input": "data"}]}
    return {"program": "worked:work", "arguments": [data, *folders, *more], **document}


def run(store: Path, document: dict[str, Any], executor_input: dict[str, Any] | None = None) -> tuple[int, str]:
    """The task as the platform starts it: its exit code, and what it printed."""
    told = json.dumps({"step": "work", "outputs": ["made", "metrics"], **document})
    done = subprocess.run(
        [sys.executable, "-m", "drivetrain.steps.kubeflow", json.dumps(executor_input or given(store))],
        env={**os.environ, "DRIVETRAIN_TASK": told},
        capture_output=True,
        text=True,
        check=False,
    )
    assert list(store.glob("drivetrain-task-*")) == [], "it leaves nothing behind"
    return done.returncode, done.stdout + done.stderr


def made(store: Path) -> dict[str, Any]:
    return json.loads((store / "out" / "executor_output.json").read_text())


def test_a_task_reports_its_outputs(store: Path) -> None:
    document = working(
        {"option": ["--text", {"join": ["-", ["a", {"parameter": "n", "type": "Float"}]]}]},
        {"option": ["--number", {"parameter": "n", "type": "Float"}]},
        metrics={"rows": "rows"},
        texts={"text-of-rows": "rows", "text-of-whole": "whole"},
        logs={"score": r"score=(\S+)"},
        logged={"logged-score": "score"},
    )
    (store / "s3" / "out" / "made").mkdir(parents=True)
    (store / "s3" / "out" / "made" / "half.txt").touch()  # of an attempt that was lost
    assert run(store, document, given(store, n=2))[0] == 0
    found = made(store)
    assert found["parameterValues"] == {
        "rows": 7,
        "text-of-rows": "7",
        "text-of-whole": "7.0",
        "logged-score": 0.75,
    }
    assert set(found["artifacts"]) == {"made", "metrics"}
    assert found["artifacts"]["metrics"]["artifacts"][0]["metadata"] == {"rows": 7, "whole": 7.0}
    assert (store / "s3" / "out" / "made" / "text.txt").read_text() == "a-2.0|2.0|['rows.csv']|[]"


def test_bad_input_ends_further_attempts_at_once(store: Path) -> None:
    code, printed = run(store, working({"option": ["--ends", "bad"]}, retries=True))
    assert code == 2 and not (store / "out" / "executor_output.json").exists()
    assert "score=0.75\nerror: bad rows. Give good ones.\n" in printed and "Traceback" not in printed
    code, printed = run(store, working(retries=True))
    assert code == 2 and printed.startswith("error: an earlier attempt failed for a reason that a retry does not")
    assert "bad rows. Give good ones." in printed


def test_an_empty_input_is_bad_input(store: Path) -> None:
    (store / "s3" / "bucket" / "data" / "rows.csv").unlink()
    (store / "s3" / "bucket" / "data" / "folder").mkdir()
    assert run(store, working()) == (2, "error: input 'data' is empty: nothing was written to s3://bucket/data.\n")


def test_training_outputs_are_an_archive(store: Path) -> None:
    (store / "s3" / "bucket" / "data" / "deep").mkdir()
    (store / "s3" / "bucket" / "data" / "deep" / "more.csv").write_text("2")
    assert run(store, working(archives={"data": "model.tar.gz"}))[0] == 0
    assert (store / "s3" / "out" / "made" / "text.txt").read_text() == "|0.0|['model.tar.gz']|[]"


def test_an_integer_that_is_rounded_is_not_compared(store: Path) -> None:
    (store / "worked.py").write_text(MODULE.replace('"rows": 7', '"rows": 2**53 + 1'))
    code, printed = run(store, working(metrics={"rows": "rows"}))
    assert code == 2 and "step 'work' returned rows = 9007199254740993, which is compared as a double" in printed
    assert run(store, working(texts={"text-of-rows": "rows"}))[0] == 0
    assert made(store)["parameterValues"] == {"text-of-rows": "9007199254740993"}


@pytest.mark.parametrize(
    ("content", "path", "kind", "said"),
    [
        (None, ["mse"], "Float", "mse in scores.json of output 'made': there is no such file. The output has a.txt."),
        ("{", ["mse"], "Float", "the file is not JSON: "),
        ('{"m": {"mae": 1}}', ["m", "mse"], "Float", "there is no 'mse' in {'mae': 1}."),
        ('{"m": "abc"}', ["m", 0], "Float", "there is no 0 in 'abc'."),
        ('{"m": [1]}', ["m", 1], "Float", "there is no 1 in [1]."),
        ('{"m": "1"}', ["m"], "Float", "is '1', and another step reads it. Allowed: int or float."),
        ('{"m": true}', ["m"], "Float", "is True, and another step reads it. Allowed: int or float."),
        ('{"m": [1]}', ["m"], "JSON", "is [1], and another step reads it. Allowed: str or int or float or bool."),
        ('{"m": [1, {"a b": 2.5}]}', ["m", 1, "a b"], "Float", 2.5),
        ('{"m": "{{x}}"}', ["m"], "JSON", '"{\\u007bx}}"'),
    ],
)
def test_values_of_files_are_read(
    content: str | None, path: list[str | int], kind: str, said: object, tmp_path: Path
) -> None:
    (tmp_path / ("a.txt" if content is None else "scores.json")).write_text(content or "")
    made = {"outputFile": str(tmp_path / "out.json"), "artifacts": {"made": {"artifacts": [{"uri": str(tmp_path)}]}}}
    document = {"step": "work", "outputs": ["made"], "reports": {"key": ["made", "scores.json", path, kind]}}
    task = Task(json.dumps({"inputs": {}, "outputs": made}), json.dumps(document))
    if isinstance(said, str) and kind + said[:1] != 'JSON"':
        with pytest.raises(TaskError, match=rf"step 'work', .*{re.escape(said)}"):
            reported(task)
    else:
        assert reported(task) == {"key": said}


def test_a_lost_attempt_is_retried(store: Path) -> None:
    code, printed = run(store, working({"option": ["--ends", "lost"]}))
    assert code == 75 and "score=0.75\n" in printed, "lines are seen when they are written"
    assert run(store, working())[0] == 0


def test_a_program_with_variables_for_its_libraries_gets_an_interpreter_of_its_own(store: Path) -> None:
    seeded = working(environment={"PYTHONHASHSEED": "7"})
    assert run(store, seeded)[0] == 0
    own = (store / "s3" / "out" / "made" / "process.txt").read_text()
    assert run(store, working())[0] == 0
    forked = (store / "s3" / "out" / "made" / "process.txt").read_text()
    assert own.startswith("call.py 7 ") and forked.startswith("call.py None ")
    # The fork has its parent's command line, the other its own.
    assert "steps.call" in own and "steps.kubeflow" in forked


def test_outputs_read_by_other_steps_must_exist(store: Path) -> None:
    code, printed = run(store, working(metrics={"loss": "loss"}))
    assert code == 2
    assert "error: step 'work' returned no 'loss', which another step reads. It returned rows, whole.\n" in printed


def test_a_task_ends_with_its_program(store: Path) -> None:
    """Though what that started holds the output open."""
    log = Log({"score": r"score=(\S+)"}, Reporter(Task(json.dumps(given(store)), "{}")))
    file = store / "pid"
    behind = (
        "import subprocess,sys; left = subprocess.Popen(['sleep', '600']); "
        "open(sys.argv[1], 'w').write(str(left.pid)); print('score=1', end=''); sys.exit(3)"
    )
    try:
        assert start([sys.executable, "-c", behind, str(file)], dict(os.environ), log) == 3
        os.kill(int(file.read_text()), 0)  # it is still there
    finally:
        os.kill(int(file.read_text()), signal.SIGKILL)
    assert log.values == {"score": 1.0}


def test_a_killed_program_has_the_exit_code_of_a_shell(store: Path) -> None:
    log = Log({"score": r"score=(\S+)"}, Reporter(Task(json.dumps(given(store)), "{}")))
    assert start(["/bin/sh", "-c", "kill -9 $$"], dict(os.environ), log) == 128 + 9


def test_a_signal_after_the_end_of_the_program_is_ignored(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = os.waitpid

    def waited(pid: int, options: int) -> tuple[int, int]:
        ended = wait(pid, options)
        signal.raise_signal(signal.SIGTERM)
        return ended

    monkeypatch.setattr(os, "waitpid", waited)
    log = Log({"score": r"score=(\S+)"}, Reporter(Task(json.dumps(given(store)), "{}")))
    assert start(["/bin/sh", "-c", "echo score=1"], dict(os.environ), log) == 0
    assert log.values == {"score": 1.0}


SAVES = """
import os, pathlib, signal, sys, time
def stop(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it comes from Argo and from the task
    for step in range(3):
        print("saving", step, flush=True)
    sys.stderr.write("nearly\\n")
    pathlib.Path(os.environ["SAVED"]).write_text("whole")
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
print("trains", flush=True)
while True:
    time.sleep(0.01)
"""


@pytest.mark.parametrize("logs", [{}, {"score": r"score=(\S+)"}])
def test_a_program_can_save_after_its_output_was_closed(store: Path, logs: dict[str, str]) -> None:
    """The platform's launcher gets SIGTERM, too, and is dead at once: the first print was a BrokenPipeError."""
    (store / "saves.py").write_text(SAVES)
    told = {"step": "work", "program": "script:saves.py", "arguments": [], "outputs": ["made"], "logs": logs}
    variables = {"DRIVETRAIN_TASK": json.dumps(told), "DRIVETRAIN_SOURCE": str(store), "SAVED": str(store / "saved")}
    with subprocess.Popen(
        [sys.executable, "-m", "drivetrain.steps.kubeflow", json.dumps(given(store))],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as task:
        assert task.stdout is not None and task.stdout.readline() == b"trains\n"
        task.stdout.close()
        os.killpg(task.pid, signal.SIGTERM)  # as Argo does it
        assert task.wait(20) == 75
    assert (store / "saved").read_text() == "whole"


def test_unread_lines_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    with open(write, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        tell("one")
        assert os.read(read, 100) == b"one\n"
        os.close(read)
        tell("two")
        print("three", flush=True)


def test_fail_and_select_need_no_program(store: Path) -> None:
    failing = {"fail": {"join": ["", ["only ", {"parameter": "n", "type": "JSON"}]]}}
    assert run(store, failing, given(store, n="7.0")) == (1, "error: only 7.0\n")
    folders = [store / "s3" / "bucket" / name for name in ("one", "two")]
    for number, folder in enumerate(folders):
        folder.mkdir()
        (folder / "model.txt").write_text(str(number))
    chosen = {"pick": "MaxBy", "values": "scores", "outputs": ["made"], "parameters": ["scores-chosen"]}
    asked = given(store, scores=[0.1, 0.9])
    asked["inputs"]["artifacts"]["made"] = {"artifacts": [{"uri": str(folder)} for folder in folders]}
    assert run(store, {"select": chosen}, asked)[0] == 0
    assert (store / "s3" / "out" / "made" / "model.txt").read_text() == "1"
    assert made(store)["parameterValues"] == {"scores-chosen": 0.9}


@pytest.mark.parametrize(
    ("value", "type", "path", "text"),
    [
        (7.0, "Integer", "", "7"),
        (7, "Float", "", "7.0"),
        (1e-7 / 3, "Float", "", "3.3333333333333334e-08"),
        (True, "Boolean", "", "true"),
        ("a b", "String", "", "a b"),
        ("7", "JSON", "", "7"),
        ("7.0", "JSON", "", "7.0"),
        ('"it\'s"', "JSON", "", "it's"),
        ('"{\\u007b$}}"', "JSON", "", "{{$}}"),
        ('{"a": {"b": 0.1}}', "String", "a.b", "0.1"),
        ('{"a": [1, "x"]}', "String", "a.1", "x"),
    ],
)
def test_values_keep_the_spelling_of_the_pipeline(value: Any, type: str, path: str, text: str) -> None:
    assert spelled(value, type, path) == text


@pytest.mark.parametrize(
    ("document", "is_told"),
    [
        ({"program": "own:work", "arguments": [{"option": ["--text", "a"]}]}, False),
        ({"program": "own:work", "arguments": [{"option": ["--registry", "auto"]}]}, True),
        ({"program": "own:work", "arguments": [], "environment": {"DRIVETRAIN_REGISTRY": "mlflow:x"}}, True),
        ({"program": REGISTER, "arguments": []}, True),
    ],
)
def test_only_a_program_that_uses_the_registry_gets_its_address(
    store: Path, monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], is_told: bool
) -> None:
    monkeypatch.setenv("DRIVETRAIN_REGISTRY", "local:/home/ledger.db")
    task = Task('{"outputs": {"outputFile": "o"}}', json.dumps(document))
    found = environment_of(task, store / "failure")
    assert [name in found for name in ("DRIVETRAIN_REGISTRY", "DRIVETRAIN_OBJECT_STORE")] == [is_told] * 2
    monkeypatch.delenv("DRIVETRAIN_OBJECT_STORE")  # in a cluster the pod says what it says
    assert environment_of(task, store / "failure")["DRIVETRAIN_REGISTRY"] == "local:/home/ledger.db"


def test_a_task_removes_leftovers_of_killed_ones(tmp_path: Path) -> None:
    def a_task() -> Task:
        return Task('{"outputs": {"outputFile": "o"}}', "{}")

    at_work, killed, young = a_task(), a_task(), a_task()
    for task in (at_work, killed, young):
        (task.folder / "failure").touch()
        if task is not young:
            os.utime(task.folder, (0, 0))
    assert killed._lock is not None
    os.close(killed._lock)  # as the kernel does for a process that ends
    assert young._lock is not None
    os.close(young._lock)
    last = a_task()
    last.clean_up()
    assert killed.folder.exists(), "a task that needed no folder looks for none"
    assert last.folder.is_dir()
    last.clean_up()
    assert set(tmp_path.glob("drivetrain-task-*")) == {at_work.folder, young.folder}


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_path("s3://bucket/a") == Path("/s3/bucket/a") and stored("/s3/x") == "/s3/x"
    monkeypatch.setenv("DRIVETRAIN_OBJECT_STORE", "/home/s3")
    assert local_path("s3://bucket/a") == Path("/home/s3/bucket/a")
    assert stored("/home/s3/bucket/a") == "s3://bucket/a" and stored("/elsewhere/a") == "/elsewhere/a"
    with pytest.raises(TaskError, match=r"hdfs://a has a scheme that tasks cannot read"):
        local_path("hdfs://a")


def test_an_option_whose_value_looks_like_one() -> None:
    task = Task('{"outputs": {"outputFile": "o"}}', "{}")
    assert task.option({"option": ["--salt", "-x"]}) == ["--salt=-x"]
    assert task.option({"option": ["--salt", "x"]}) == ["--salt", "x"]
    with pytest.raises(TaskError, match="the task has no parameter 'lost'"):
        task.option({"parameter": "lost", "type": "String"})
    with pytest.raises(TaskError, match="the task has no input 'lost'"):
        task.text({"input": "lost"})


def test_a_missing_script_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DRIVETRAIN_SOURCE", str(tmp_path))
    with pytest.raises(TaskError, match=r"no script 'clean\.py' in the source folder"):
        command_of("script:clean.py", [])
    (tmp_path / "clean.py").touch()
    assert command_of("script:clean.py", ["--x"]) == [sys.executable, str(tmp_path / "clean.py"), "--x"]


def test_invalid_json_is_reported() -> None:
    with pytest.raises(TaskError, match="is not JSON"):
        Task("{", "{}")


def test_without_locks_a_task_keeps_files_that_may_be_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    old, task = (Task('{"outputs": {"outputFile": "o"}}', "{}") for _ in range(2))
    os.utime(old.folder, (0, 0))
    assert task.folder.is_dir()
    task.clean_up()
    assert old.folder.is_dir() and not task._folder.exists()
