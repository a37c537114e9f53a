"""Steps that go wrong: the user's own frames and exception come last, in at most 15 lines."""

from __future__ import annotations

import json
import resource

import pytest

from tests.contract.bad_input.place import Place, definition, output_of, processing

MOST_LINES = 15
RAISING = """
from drivetrain.components import Output, component
from drivetrain import Pipeline, step


@component
def report(data: Output, depth: int = 0) -> None:
    BODY


def read_report(text: str) -> object:
    import json

    return json.loads(text)


def deeper(levels: int) -> None:
    if levels:
        deeper(levels - 1)
    raise ValueError("too deep\\n" * 40)


def raising() -> Pipeline:
    return Pipeline(name="raising", steps=[step(report)])
"""


def ended(place: Place, body: str) -> list[str]:
    """The lines from the traceback to the end, of a run of one step with this body."""
    ran = place.drivetrain("run", place.write("raising.py", RAISING.replace("BODY", body)))
    assert ran.code == 1, ran
    assert list(place.executions().values()) == ["Failed"]
    lines = ran.out.rstrip().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("Traceback")]
    return lines[starts[-1] :] if starts else lines[-1:]


def test_the_users_frames_and_exception_come_last(place: Place) -> None:
    lines = ended(place, 'read_report("{not json")')
    assert len(lines) <= MOST_LINES
    own = [line for line in lines if line.startswith("  File")]
    assert own == ['  File "raising.py", line 8, in report', '  File "raising.py", line 14, in read_report']
    assert lines[-1].startswith("json.decoder.JSONDecodeError: Expecting property name")


def test_a_deep_recursion_and_a_long_message_are_cut(place: Place) -> None:
    lines = ended(place, "deeper(200)")
    assert len(lines) <= MOST_LINES
    assert '  File "raising.py", line 20, in deeper' in lines
    assert "ValueError: too deep" in lines
    assert place.drivetrain("runs", "show").out.count("ValueError: too deep") == 2  # in the table, and below it


def test_an_endless_line_is_cut(place: Place) -> None:
    lines = ended(place, "raise ValueError('x' * 100_000)")
    assert lines[-1].startswith("ValueError: xxx") and len(lines[-1]) <= 400


def test_an_exception_that_was_raised_from_another(place: Place) -> None:
    body = (
        'try:\n        {}["gone"]\n    except KeyError as error:\n        raise LookupError("no such row") from error'
    )
    lines = ended(place, body)
    assert len(lines) <= MOST_LINES
    assert lines[-1] == "LookupError: no such row"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import os; os.kill(os.getpid(), 9)", ["signal 9", "out of memory"]),
        ("import ctypes; ctypes.string_at(0)", ["signal 11"]),
        ("raise SystemExit(3)", ["exit code 3"]),
        ("raise SystemExit('no rows left')", ["no rows left"]),
        ("import os; os.mkfifo('/opt/ml/processing/output/data/f')", ["'f', which is no file"]),
        (
            "import os; f = '/opt/ml/processing/output/data'; os.rmdir(f); open(f, 'w').write('x')",
            ["output 'data' is a file now"],
        ),
        ("import os; os.symlink('/etc/passwd', '/opt/ml/processing/output/data/l')", ["a link to /etc/passwd"]),
    ],
    ids=["SIGKILL", "SIGSEGV", "exit code", "exit message", "pipe", "file", "link"],
)
def test_a_program_that_ends_badly(place: Place, program: str, words: list[str]) -> None:
    first = processing("first", program, outputs={"data": "s3://bucket/data"})
    second = processing("second", "print('ran')", inputs={"data": output_of("first", "data")})
    ran = place.run(definition(first, second))
    assert ran.code == 1, ran
    status, reason = place.step("first")
    assert status == "Failed" and reason is not None
    for word in words:
        assert word in reason and word in ran.out
    assert place.step("second")[0] == "NotExecuted"
    assert place.files() == set()


@pytest.mark.slow
def test_memory_that_runs_out(place: Place) -> None:
    first = processing("first", "x = bytearray(1 << 33)")

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1 << 32, 1 << 32))

    file = place.write("definition.json", json.dumps(definition(first)))
    ran = place.drivetrain("run", "-d", file, before=limit)
    assert ran.code == 1 and ran.out.rstrip().endswith("MemoryError")
    assert place.step("first")[0] == "Failed"


def test_a_program_that_is_not_there(place: Place) -> None:
    step = processing("first", "pass")
    step["Arguments"]["AppSpecification"]["ContainerEntrypoint"] = ["no-such-program; true"]
    ran = place.run(definition(step))
    assert ran.code == 1
    assert "cannot start 'no-such-program; true'" in ran.out


@pytest.mark.parametrize(
    ("value", "words"),
    [("../../../etc", ["'..'"]), ("a\\u0000b", ["NUL"]), ("x" * 2000, ["longer than"]), ("none", ["--data"])],
    ids=["outside", "NUL", "long", "nothing there"],
)
def test_a_path_that_is_only_known_while_it_runs(place: Place, value: str, words: list[str]) -> None:
    """What one step writes decides where the next one reads: refused when it is known, by exit code 2."""
    write = f"open('/opt/ml/processing/output/o/f.json', 'w').write('{{\"place\": \"{value}\"}}')".replace("\\", "\\\\")
    first = processing("first", write, outputs={"o": "s3://bucket/o"})
    first["PropertyFiles"] = [{"PropertyFileName": "F", "OutputName": "o", "FilePath": "f.json"}]
    read = {"Std:JsonGet": {"PropertyFile": {"Get": "Steps.first.PropertyFiles.F"}, "Path": "place"}}
    uri = {"Std:Join": {"On": "/", "Values": ["s3://bucket", read]}}
    ran = place.run(definition(first, processing("second", "pass", inputs={"x": uri})))
    place.failed_by_input(ran, "second", *words)
    assert place.files() == set()
