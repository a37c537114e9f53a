"""Definitions that others made, whole, mutated and malicious: read or refused, never a traceback, nothing lost.

Every file of tests/fixtures/definitions is taken by itself, and so is every command that takes a definition.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import io
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.cli import main
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.document.difference.place import BRANCHES, STEPS
from drivetrain.targets.sagemaker.document.document import from_json, read
from drivetrain.targets.sagemaker.written import write_code
from tests.fixtures.changed_definitions import BASES, FIXTURES, RETRAINING, changed
from tests.fixtures.public_forms import FORMS

FILES = sorted(FIXTURES.glob("*.json"))
# "FILE" is the definition, "OTHER" another one, "OUT" a file to write.
COMMANDS = (
    ("import", "FILE", "-o", "OUT"),
    ("import", "FILE", "--json"),
    ("check", "FILE"),
    ("show", "FILE"),
    ("diff", "FILE", "OTHER"),
    ("diff", "OTHER", "FILE", "--json"),
)
# What the machine may take for a definition that is refused.
MAX_SECONDS = 1.0


def run(folder: Path, command: tuple[str, ...]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command."""
    places = {"FILE": folder / "file.json", "OTHER": folder / "other.json", "OUT": folder / "out.json"}
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.run([str(places.get(word, word)) for word in command])
    return code, out.getvalue(), err.getvalue()


@contextlib.contextmanager
def folder_with(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "file.json").write_bytes(data)
        (folder / "other.json").write_text(json.dumps(RETRAINING), encoding="utf-8")
        yield folder


def assert_read_or_refused(folder: Path) -> None:
    for command in COMMANDS:
        code, out, err = run(folder, command)
        assert code in (0, 1, 2), (command, code, err)
        assert "Traceback" not in out + err
        if code == 2:
            assert err.startswith("error: ") and len(err.splitlines()) <= 3, (command, err)
        if command[0] == "import":
            assert code != 1
        if code == 0 and "--json" in command:
            json.loads(out)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_definition_is_imported_and_exported_with_the_same_meaning(file: Path) -> None:
    with folder_with(file.read_bytes()) as folder:
        assert run(folder, ("import", "FILE", "-o", "OUT"))[0] == 0
        written = (folder / "out.json").read_bytes()
        assert json.loads(written) == json.loads(file.read_bytes())
        assert differences(read(file.read_bytes()).raw, read(written).raw) == ()
        assert run(folder, ("diff", "FILE", "OUT"))[1] == "No difference.\n"
        assert_read_or_refused(folder)


@pytest.mark.slow
@given(st.sampled_from(sorted(BASES)).flatmap(lambda name: changed(BASES[name])))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_mutated_definitions_never_end_in_a_traceback(definition: dict[str, Any]) -> None:
    with folder_with(json.dumps(definition).encode()) as folder:
        assert_read_or_refused(folder)
        if (folder / "out.json").exists():
            assert json.loads((folder / "out.json").read_bytes()) == definition


@pytest.mark.slow
@given(st.sampled_from(sorted(BASES)), st.data())
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_files_never_end_in_a_traceback(name: str, data: st.DataObject) -> None:
    damaged = bytearray(json.dumps(BASES[name]).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(damaged)))
        damaged[start : start + data.draw(st.integers(0, 5))] = data.draw(
            st.one_of(st.binary(max_size=4), st.sampled_from([b"{", b"[", b'"', b"NaN", b"1e999", b"null"]))
        )
    with folder_with(bytes(damaged)) as folder:
        assert_read_or_refused(folder)


def nested(levels: int, opening: str, closing: str) -> str:
    return '{"Steps": [{"Name": "a", "Type": "T", "Arguments": ' + opening * levels + "1" + closing * levels + "}]}"


def conditions(levels: int) -> str:
    opening = '{"Name": "c%d", "Type": "Condition", "Arguments": {"Conditions": [], "IfSteps": ['
    return '{"Steps": [' + "".join(opening % n for n in range(levels)) + "]}}" * levels + "]}"


MALICIOUS = {
    "lists_deep": nested(100_000, "[", "]"),
    "objects_deep": nested(100_000, '{"a":', "}"),
    "conditions_deep": conditions(2_000),
    "yaml_alias_bomb": "a: &a [x, x]\nb: &b [*a, *a]\nSteps: [*b, *b]\n",
    "yaml_tag": "Steps: !!python/object/apply:os.system ['touch pwned']\n",
    "too_long": '{"Steps": [], "x": "' + "a" * (9 * 1024 * 1024) + '"}',
    "many_steps": '{"Steps": [' + ",".join('{"Name":"s","Type":"T"}' for _ in range(20_000)) + "]}",
    "long_number": '{"Steps": [], "x": ' + "9" * 1_000_000 + "}",
    "huge_float": '{"Steps": [], "x": 1e400}',
    "nan": '{"Steps": [], "x": NaN}',
    "key_twice": '{"Steps": [], "Steps": [1]}',
    "zip": "PK\x03\x04" + "\x00" * 1000,
    "no_text": "\x00" * 100_000,
}


@pytest.fixture(autouse=True, scope="module")
def what_others_left_is_not_looked_at() -> None:
    """The collector runs before many tests here, and all that the files before have left takes it 50 ms."""
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("name", sorted(MALICIOUS))
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_malicious_definitions_are_refused_within_a_second(name: str, command: tuple[str, ...]) -> None:
    gc.collect()  # what was left before must not be ended where the stack is at its limit
    with folder_with(MALICIOUS[name].encode()) as folder:
        before = process_time()
        code, out, err = run(folder, command)
        assert process_time() - before < MAX_SECONDS
        assert (code, out) == (2, "")
        assert err.startswith("error: ") and len(err) < 1_200
        assert sorted(path.name for path in folder.iterdir()) == ["file.json", "other.json"]


@pytest.mark.slow
def test_large_definitions_are_read_within_a_second() -> None:
    """Nothing is wrong with them; what looks at them is linear."""
    step = '{"Name":"s%d","Type":"Training","Arguments":{"HyperParameters":{"a":"1"},"InputDataConfig":[]}}'
    large = '{"Steps": [' + ",".join(step % n for n in range(5_000)) + "]}"
    with folder_with(large.encode()) as folder:
        (folder / "other.json").write_text(large.replace('"a":"1"', '"a":"2"'))
        for command in (("import", "FILE", "-o", "OUT"), ("check", "FILE"), ("diff", "FILE", "OTHER")):
            before = process_time()
            code, out, _ = run(folder, command)
            assert (code, process_time() - before < 4 * MAX_SECONDS) == (1 if command[0] == "check" else 0, True)
            assert out


HOSTILE = "$(touch pwned); `touch pwned` | touch pwned && touch pwned > pwned\n\x1b[2J\x07"


def test_shell_and_terminal_commands_are_not_interpreted() -> None:
    """They come out of the export as they came in, and are shown without their power."""
    hostile = json.loads(
        re.sub(r'"(ml\.m5\.xlarge|Train it|train)"', lambda _: json.dumps(HOSTILE), json.dumps(RETRAINING))
    )
    with folder_with(json.dumps(hostile).encode()) as folder, contextlib.chdir(folder):
        for command in COMMANDS:
            _, out, err = run(folder, command)
            assert "\x1b" not in out + err and "\x07" not in out + err
        assert json.loads((folder / "out.json").read_bytes()) == hostile
        assert not (folder / "pwned").exists()


# Those of the public forms that compile takes, and its reason for the others.
ACCEPTED = sorted({*FORMS} - {"callbacks", "tracked"})


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Form -> the file of its code, as the command writes it."""
    found: dict[str, Path] = {}
    for name, form in FORMS.items():
        folder = tmp_path_factory.mktemp(name)
        (folder / "file.json").write_text(json.dumps(form()), encoding="utf-8")
        found[name] = folder / f"{name}_code.py"
        before = process_time()
        status, out, err = run(folder, ("import", "FILE", "--code", str(found[name])))
        assert process_time() - before < MAX_SECONDS
        assert status == (0 if name in ACCEPTED else 1), out + err
    return found


@pytest.mark.parametrize("name", sorted({*ACCEPTED} - {"nothing"}))  # a pipeline's file has steps
def test_code_of_a_public_form_compiles_to_the_same_definition(name: str, code: Mapping[str, Path]) -> None:
    folder = code[name].parent
    assert run(folder, ("compile", str(code[name]), "-o", "OUT", "--home", str(folder)))[0] == 0
    assert run(folder, ("diff", "FILE", "OUT", "--exit-code"))[:2] == (0, "No difference.\n")
    assert ("NativeStep(" in code[name].read_text(encoding="utf-8")) == (name == "cluster")


def test_written_code_is_formatted_and_has_no_lint(code: Mapping[str, Path]) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    for command in (["format", "--check"], ["check", "--select", "E4,E7,E9,F,I"]):
        done = subprocess.run(
            [ruff, *command, "--isolated", *code.values()], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_written_code_has_the_types_that_it_says(code: Mapping[str, Path]) -> None:
    pyright = Path(sys.executable).with_name("pyright")
    command = [pyright, "--pythonpath", sys.executable, *code.values()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
@given(st.sampled_from(sorted({**BASES, **FORMS})), st.data())
@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_code_of_a_mutated_definition_says_nothing_else(name: str, data: st.DataObject) -> None:
    """Every difference is told, and none is in a job; odd names and edges are not carried, nor fields beside steps."""
    with contextlib.suppress(UserError):
        definition = from_json(data.draw(changed(BASES[name] if name in BASES else FORMS[name]())))
        written = write_code(definition, "p")
        steps = [change.place for change in written.changes if change.place[0] in (STEPS, BRANCHES)]
        steps = [place for place in steps if place[2:3] not in (("DependsOn",), ("DisplayName",), ("Description",))]
        assert written.problem or steps == []
        names = {node.id for node in ast.walk(ast.parse(written.code)) if isinstance(node, ast.Name)}
        assert not names & {"exec", "eval", "open", "__import__"}
