"""Running a component as a command: exit codes, what people and platforms are told, numbers in and out."""

import dataclasses
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypedDict

import pytest

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.steps import Checkpoints, Input, Output, call, gather, spread
from drivetrain.steps.call import find
from drivetrain.steps.declaration import Component, component
from drivetrain.steps.trainings import RECORD

# What the components of this file were called with, and what they are to do.
SEEN: dict[str, Any] = {}


@component
def step(
    data: Input,
    out: Output,
    maybe: Input | None = None,
    *,
    text: str = "x",
    whole: int = 1,
    real: float = 1.5,
    flag: bool = False,
    size: Literal["small", "large"] = "small",
    limit: int | None = None,
) -> dict[str, float]:
    """Take one of everything.

    Args:
        whole: about 50 % of it.
    """
    SEEN.update(locals())
    return {"sum": whole + real}


@component(job="training")
def fit(data: Input, model: Output, checkpoints: Checkpoints) -> None:
    SEEN.update(locals())


@component
def answer() -> dict[str, float]:
    return SEEN["answer"]


class Two(NamedTuple):
    right: int
    wrong: int


class Maybe(TypedDict, total=False):
    right: int


@dataclasses.dataclass
class Loss:
    loss: float


@component
def two() -> Two:
    return SEEN["answer"]


@component
def loss() -> Loss:
    return SEEN["answer"]


@component
def one() -> float:
    return SEEN["answer"]


@component
def silent():  # type: ignore[no-untyped-def]
    return {"accuracy": 0.9}


@component
def refuse() -> None:
    raise InputError("the file a.csv has no column 'id'.")


@component
def full() -> None:
    raise OSError(28, "No space left on device")


@component
def away() -> None:
    raise AwayError("S3 did not list s3://bucket/data")


@component
def raising() -> None:
    raise SEEN["error"]


@pytest.fixture(autouse=True)
def forget() -> None:
    SEEN.clear()


def run(component: Component[..., Any], *arguments: object) -> int:
    """The exit code."""
    try:
        call.run(component, [str(argument) for argument in arguments])
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def run_step(tmp_path: Path, *arguments: object) -> int:
    (tmp_path / "in").mkdir(exist_ok=True)
    return run(step, "--data", tmp_path / "in", "--out", tmp_path / "made" / "out", *arguments)


@pytest.mark.parametrize("text", ["", "ab", "x" * 21, "--text", "a\nb", 'é"\\' * 9 + "\u2028\r\n", "[1,\n2]"])
def test_long_texts_are_spread_over_arguments(tmp_path: Path, text: str) -> None:
    words = spread("--text", text, 10)
    assert all(len(word) <= 11 and "\n" not in word for word in words)
    assert gather(["--whole", "2", *words, "--flag"]) == ["--whole", "2", "--text", text, "--flag"]
    assert run_step(tmp_path, "--whole", 2, *words, "--real", 3) == 0
    assert (SEEN["text"], SEEN["whole"], SEEN["real"]) == (text, 2, 3.0)


def test_pieces_of_another_text_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_step(tmp_path, "--text", "a", "--text.3", "b") == 2
    assert "unrecognized arguments: --text.3 b" in capsys.readouterr().err


def test_defaults_and_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_step(tmp_path) == 0
    assert {
        **{"data": tmp_path / "in", "out": tmp_path / "made" / "out", "maybe": None, "text": "x", "whole": 1},
        **{"real": 1.5, "flag": False, "size": "small", "limit": None},
    } == SEEN
    assert (tmp_path / "made" / "out").is_dir()
    assert capsys.readouterr().out == '{\n  "sum": 2.5\n}\n'


def test_every_kind_of_value_arrives_as_its_type(tmp_path: Path) -> None:
    given = (
        "--text",
        "a b;$(c)",
        "--whole",
        " 7",
        "--real",
        "1e-3",
        "--flag",
        "True",
        "--size",
        "large",
        "--limit",
        "0",
    )
    assert run_step(tmp_path, *given) == 0
    found = {name: SEEN[name] for name in ("text", "whole", "real", "flag", "size", "limit")}
    assert found == {"text": "a b;$(c)", "whole": 7, "real": 1e-3, "flag": True, "size": "large", "limit": 0}
    assert [type(value) for value in found.values()] == [str, int, float, bool, str, int]


@pytest.mark.parametrize("value", ["-1e-3", "-5", "-.5"])
def test_negative_numbers_are_values(tmp_path: Path, value: str) -> None:
    assert run_step(tmp_path, "--real", value) == 0
    assert SEEN["real"] == float(value)


@pytest.mark.parametrize("value", ["-x", "--unknown", "", " ", "=", "a=b", "@file", "%s", "- -", "--", "-h", "--help"])
def test_any_text_is_a_value(tmp_path: Path, value: str) -> None:
    assert run_step(tmp_path, "--text", value) == 0
    assert SEEN["text"] == value
    assert run_step(tmp_path, f"--text={value}") == 0
    assert SEEN["text"] == value


def test_a_text_may_be_spelled_as_a_flag_of_the_component(tmp_path: Path) -> None:
    """A platform fills in a parameter's value when the run starts, as an argument of its own."""
    assert run_step(tmp_path, "--text", "--out", "--whole", "7") == 0
    assert (SEEN["text"], SEEN["whole"]) == ("--out", 7)
    assert run_step(tmp_path, "--whole", "8", "--text", "--text") == 0
    assert (SEEN["text"], SEEN["whole"]) == ("--text", 8)


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("True", True), ("1", True), ("false", False), ("FALSE", False), (" 0 ", False)]
)
def test_bools(tmp_path: Path, text: str, value: bool) -> None:
    assert run_step(tmp_path, "--flag", text) == 0
    assert SEEN["flag"] is value


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--flag", "yes"], "argument --flag: 'yes' is not true or false"),
        (["--flag", ""], "argument --flag: '' is not true or false"),
        (["--whole", "1.5"], "argument --whole: '1.5' is not a whole number"),
        (["--real", "fast"], "argument --real: 'fast' is not a number"),
        (["--real", "nan"], "argument --real: 'nan' is not a number"),
        (["--size", "medium"], "argument --size: 'medium' is not one of small, large"),
        (["--limit", "none"], "argument --limit: 'none' is not a whole number"),
        (["--text"], "argument --text: expected one argument"),
        (["--text", "--flag", "true"], "argument --text: expected one argument"),
        (["--text", "--text", "--flag"], "argument --text: expected one argument"),
        (["--whole", "--flag", "true"], "argument --whole: expected one argument"),
        (["--size", "--flag", "true"], "argument --size: expected one argument"),
        (["--unknown", "1"], "unrecognized arguments: --unknown 1"),
        (["--tex", "1"], "unrecognized arguments: --tex 1"),
        (["--maybe", "/no/such/folder"], "--maybe /no/such/folder: no such file or folder"),
    ],
)
def test_bad_arguments_end_with_2_and_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    expected: str,
) -> None:
    """The platform's failure file has the reason, too."""
    monkeypatch.setenv(call.FAILURE_FILE, str(tmp_path / "failure"))
    assert run_step(tmp_path, *arguments) == 2
    told = capsys.readouterr()
    assert (told.out, SEEN) == ("", {})
    assert told.err.startswith(f"error: {expected}") and told.err.count("\n") == 1
    assert (tmp_path / "failure").read_text() == told.err


def test_required_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(step) == 2
    assert "error: the following arguments are required: --data, --out" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "made").write_text("a file")
    assert run_step(tmp_path) == 2
    assert "cannot be made: a file is in its place" in capsys.readouterr().err


def test_help_lists_folders_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(step, "--text", "x", "--help") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "Take one of everything." in shown
    assert "--whole INT about 50 % of it. [default: 1]" in shown
    assert "--size small|large [default: 'small']" in shown
    assert "--limit INT" in shown and "None" not in shown
    assert all(flag in shown for flag in ("--data PATH (input)", "--out PATH (output)", "--metrics PATH"))


def test_a_training_job_gets_its_checkpoints_and_no_metrics_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (data := tmp_path / "data").mkdir()
    arguments = ["--data", data, "--model", tmp_path / "m", "--checkpoints", tmp_path / "c"]
    assert run(fit, *arguments) == 0
    (kept,) = (tmp_path / "c").iterdir()
    assert {"data": data, "model": tmp_path / "m", "checkpoints": kept} == SEEN
    assert json.loads((kept / RECORD).read_text())["ended"] is True
    assert (tmp_path / "m").is_dir() and (tmp_path / "c").is_dir()
    assert run(fit, *arguments, "--metrics", tmp_path) == 2
    assert run(fit, *arguments, "--on-change", "refuse") == 0  # of a definition that an earlier version compiled
    assert "--on-change refuse of an earlier definition decides nothing any more" in capsys.readouterr().out


def test_checkpoints_may_be_a_uri_that_the_program_reaches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path would make `s3:/bucket` of it, a folder that is lost with the container."""
    monkeypatch.chdir(tmp_path)
    assert run(fit, "--data", tmp_path, "--model", tmp_path / "m", "--checkpoints", "s3://bucket/run") == 0
    assert re.fullmatch("s3://bucket/run/[0-9a-f]{32}", SEEN["checkpoints"])
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


@pytest.mark.parametrize(
    ("returning", "value", "written"),
    [
        (answer, {"b": 1, "a": 0.5}, {"a": 0.5, "b": 1}),
        (two, Two(9, 1), {"right": 9, "wrong": 1}),
        (loss, Loss(0.25), {"loss": 0.25}),
        (one, 0.1, {"value": 0.1}),
        (one, 3, {"value": 3}),
    ],
)
def test_numbers_are_written(tmp_path: Path, returning: Component[..., Any], value: Any, written: Any) -> None:
    SEEN["answer"] = value
    assert run(returning, "--metrics", tmp_path / "new" / "metrics") == 0
    assert json.loads((tmp_path / "new" / "metrics" / "metrics.json").read_bytes()) == written


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    SEEN["answer"] = {"a": numpy.float32(0.5), "b": numpy.int64(3)}
    assert run(answer, "--metrics", tmp_path) == 0
    assert json.loads((tmp_path / "metrics.json").read_bytes()) == {"a": 0.5, "b": 3}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "0.9", None, True, [0.9]])
def test_nonfinite_metrics_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], value: Any) -> None:
    """A gate that compares with NaN would decide something nobody meant."""
    SEEN["answer"] = {"accuracy": value}
    assert run(answer, "--metrics", tmp_path) == 2
    line = answer.function.__code__.co_firstlineno
    said = capsys.readouterr().err
    assert said.startswith(
        f"error: test_call.py, line {line}: answer returned accuracy={value!r}. Allowed: finite numbers. "
    )
    assert ("It is usually 0 / 0" in said) is isinstance(value, float)
    assert "eave the name out if there is n" in said
    assert not (tmp_path / "metrics.json").exists()


@component
def failing() -> None:
    raise SEEN["error"]


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (
            ModuleNotFoundError("No module named 'polars.x'", name="polars.x"),
            "Install the package that has polars",
        ),
        (
            FileNotFoundError(2, "No such file or directory", f"{Path(__file__).parent}/words.txt"),
            "this file as an Input",
        ),
        (FileNotFoundError(2, "No such file or directory", "/nowhere/words.txt"), ""),
        (KeyError("a"), ""),
    ],
)
def test_modules_missing_in_the_container_are_reported_with_what_to_do(
    error: Exception, advice: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)
    SEEN["error"] = error
    assert run(failing) == 1
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert advice in last and last.endswith("." if advice else ("'a'" if isinstance(error, KeyError) else "words.txt'"))


def test_a_file_that_hides_a_module_of_python_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "random.py").write_text("")
    monkeypatch.setitem(sys.modules, "random", SimpleNamespace(__file__=str(tmp_path / "random.py")))
    SEEN["error"] = ImportError("cannot import name 'Random' from 'random'")
    assert run(failing) == 1
    assert "Rename random.py: it hides Python's own module random." in capsys.readouterr().err


class Told(TypedDict):
    accuracy: float
    why: str


@component
def told() -> Told:
    return SEEN["answer"]


def test_texts_are_written_beside_numbers(tmp_path: Path) -> None:
    SEEN["answer"] = {"accuracy": 0.5, "why": "above the floor"}
    assert run(told, "--metrics", tmp_path) == 0
    assert json.loads((tmp_path / "metrics.json").read_bytes()) == {"accuracy": 0.5, "why": "above the floor"}


@pytest.mark.parametrize("value", ["two\nlines", "x" * 1025, 0.5, None, "half a \ud800"])
def test_texts_that_a_pipeline_cannot_pass_on_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: Any
) -> None:
    SEEN["answer"] = {"accuracy": 0.5, "why": value}
    assert run(told, "--metrics", tmp_path) == 2
    assert "told returned why=" in (said := capsys.readouterr().err) and "a text of one line" in said
    SEEN["answer"] = {"accuracy": "0.5", "why": "x"}
    assert run(told, "--metrics", tmp_path) == 2
    assert not (tmp_path / "metrics.json").exists()


def test_a_promised_number_that_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    SEEN["answer"] = {"right": 1}
    assert run(two) == 2
    assert "two did not return 'wrong', which its declaration promises" in capsys.readouterr().err


def test_an_undeclared_result_is_dropped_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(silent) == 0
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        "warning: silent returned a dict, which is dropped. To keep numbers, declare them: -> dict[str, float].\n"
    )


def test_bad_input_is_one_line_and_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(call.FAILURE_FILE, str(tmp_path / "failure"))
    assert run(refuse) == 2
    assert capsys.readouterr().err == "error: the file a.csv has no column 'id'.\n"
    assert (tmp_path / "failure").read_text() == "error: the file a.csv has no column 'id'.\n"


def test_an_unavailable_service_is_one_line_and_code_75(capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody's input is wrong, and a platform may try again."""
    assert run(away) == 75
    assert capsys.readouterr().err == "error: S3 did not list s3://bucket/data\n"


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "Make room"),
        (errno.EROFS, "Give a place that can be written"),
        (errno.EACCES, "Give this user the right"),
        (errno.ENOTDIR, "A file is where a folder is needed"),
        (errno.EISDIR, "Give the name of a file"),
        (errno.ELOOP, "Links lead in a circle"),
        (errno.ENAMETOOLONG, "Give a shorter name"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "try again"),
        (errno.ENOENT, "it is gone"),
    ],
    ids=lambda value: errno.errorcode[value] if isinstance(value, int) else "",
)
def test_operating_system_errors_of_shipped_components_are_one_line(
    number: int, advice: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    SEEN["error"] = OSError(number, os.strerror(number), "/data/1.csv")
    monkeypatch.setattr(raising.function, "__module__", "drivetrain.components.raising")
    assert run(raising) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: /data/1.csv: ") and advice in told and told.count("\n") == 1


def test_unwritable_metrics_are_one_line_in_any_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "metrics" / "metrics.json").mkdir(parents=True)
    assert run_step(tmp_path, "--metrics", tmp_path / "metrics") == 2
    told = capsys.readouterr().err
    assert told == f"error: {tmp_path}/metrics/metrics.json: Is a directory. Give the name of a file.\n"


def test_an_output_on_a_read_only_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, **_: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", refused)
    with pytest.raises(InputError, match=r"--out \S+/out: Read-only file system\. Give a place that can be written\."):
        call._make_folder("out", tmp_path / "out")


def test_a_failure_file_that_cannot_be_written_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(call.FAILURE_FILE, str(tmp_path / "no" / "such" / "folder"))
    assert run(full) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-2] == "OSError: [Errno 28] No space left on device"
    assert lines[-1].startswith("The reason could not be written to ")


USER_FILE = """
import json, re
from drivetrain.components import component, Input

class Missing(Exception): pass

@component
def parse() -> None:
    read()

def read():
    json.loads("{")

@component
def deep(levels: int) -> None:
    down(levels)

def down(levels):
    if levels == 0:
        raise Missing("at the bottom")
    down(levels - 1)

@component
def long() -> None:
    raise ValueError("\\n".join(f"line {number}" for number in range(100)))

@component
def callback() -> None:
    re.sub("a", inner, "a")

def inner(match):
    return sorted([1, 2], key=broken)

def broken(value):
    raise Missing("in a callback")

def plain(): pass
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    (tmp_path / "steps.py").write_text(USER_FILE)
    (tmp_path / "broken.py").write_text("import nothing_of_this_name\n")
    (tmp_path / "misspelt.py").write_text("import jsn\n")
    return tmp_path


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.steps.call", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "frames", "last"),
    [
        (["steps:parse"], ["in parse", "in read"], "json.decoder.JSONDecodeError: Expecting property name"),
        (["steps:deep", "--levels", "50"], ["in down"] * 5, "steps.Missing: at the bottom"),
        (["steps:long"], ["in long"], "..."),
        (["steps:callback"], ["in callback", "in inner", "in broken"], "steps.Missing: in a callback"),
    ],
)
def test_the_users_own_frames_and_the_exception_come_last(
    user_file: Path, arguments: list[str], frames: list[str], last: str
) -> None:
    done = command(user_file, *arguments)
    lines = done.stderr.splitlines()
    assert done.returncode == 1
    assert len(lines) <= 15
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith(last)
    own = [line for line in lines if "steps.py" in line]
    assert [line.rpartition(", ")[2] for line in own][-len(frames) :] == frames
    assert not any("drivetrain/steps/call.py" in line for line in lines)


def test_a_long_exception_keeps_its_first_line_and_no_half_of_a_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(call.FAILURE_FILE, str(tmp_path / "failure"))
    secret = "ghp_" + "a1" * 20
    lines = ["x" * 385 + f" token {secret}", *(f"{n} " + "y" * 300 + f" of {secret}" for n in range(20))]
    with pytest.raises(SystemExit) as ended:
        call._fail_by(ValueError("\n".join(lines)))
    assert ended.value.code == 1
    said = (tmp_path / "failure").read_text()
    assert "ValueError: xxx" in said and said.rstrip().endswith("...")
    assert "ghp_" not in said + capsys.readouterr().err


def test_the_frame_that_raised_in_a_library_is_shown_where_there_is_room(user_file: Path) -> None:
    lines = command(user_file, "steps:parse").stderr.splitlines()
    assert any("json/decoder.py" in line for line in lines)
    assert any("json.loads(" in line for line in lines)


@pytest.mark.parametrize(
    ("target", "code", "expected"),
    [
        ("steps:nothing", 2, "error: 'steps' has no component 'nothing'. There are: parse, deep, long, callback."),
        ("steps:plain", 2, "error: 'steps:plain' is not a component: decorate the function with @component."),
        ("stepz:parse", 2, "error: no module 'stepz' for 'stepz:parse'"),
        ("steps", 2, "error: 'steps' does not name a component. Allowed: module:function."),
        (":parse", 2, "error: ':parse' does not name a component"),
        ("../steps:parse", 2, "error: '../steps:parse' does not name a component"),
        ("broken:parse", 1, "ModuleNotFoundError: No module named 'nothing_of_this_name'"),
    ],
)
def test_a_missing_target_is_reported(user_file: Path, target: str, code: int, expected: str) -> None:
    done = command(user_file, target)
    assert done.returncode == code
    assert expected in done.stderr.splitlines()[-1]


def test_a_module_that_exits_on_import_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that parses arguments where it is imported."""
    (tmp_path / "arguments_at_the_top.py").write_text("import argparse\nargparse.ArgumentParser().parse_args(['x'])\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"ended the program \(code 2\) when the step imported it\. Keep what it does"):
        find("arguments_at_the_top:fit")


def test_without_a_target_it_shows_its_use(tmp_path: Path) -> None:
    assert command(tmp_path).returncode == 2
    shown = command(tmp_path, "--help")
    assert shown.returncode == 0 and shown.stdout.startswith("Run a component as a command")


def test_a_step_does_not_wait_for_imports_that_it_does_not_need(tmp_path: Path) -> None:
    program = "import sys, pathlib, typing; before = {*sys.modules}; import drivetrain.steps.call as call"
    shown = "print(*sorted({*sys.modules} - before))"
    done = subprocess.run([sys.executable, "-c", f"{program}; {shown}"], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    assert "drivetrain.steps.signature" not in imported, "nothing was declared yet"
    assert {"argparse", "dataclasses", "inspect", "json", "traceback"}.isdisjoint(imported)
