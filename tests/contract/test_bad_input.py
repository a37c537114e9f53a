"""What people get wrong and what an adversary sends, through the real command line: one clear error, exit code 2.

Definitions, settings and pipeline files here; steps, data, archives, secrets and homes in the files of bad_input/.
Everything here is refused before anything starts: no execution is entered, nothing is written outside the home.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.bad_input.place import Place, definition, output_of, processing

DEEP = 100_000
PARAMETERS = (
    {"Name": "Rows", "Type": "Integer", "DefaultValue": 3},
    {"Name": "Word", "Type": "String"},
    {"Name": "Kind", "Type": "String", "DefaultValue": "a", "EnumValues": ["a", "b"]},
)
WRITE = "open('/opt/ml/processing/output/data/a', 'w').write('x')"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "work")


def two_steps(**changes: Any) -> dict[str, Any]:
    """`first` writes what `second` reads; a key such as `second__InputName` sets that field, wherever it is."""
    first = processing("first", WRITE, outputs={"data": "s3://bucket/data"})
    second = processing("second", "pass", inputs={"data": output_of("first", "data")})
    steps = {"first": first, "second": second}
    for key, value in changes.items():
        step, _, field = key.partition("__")
        if not _set(steps[step], field, value):
            steps[step][field] = value
    return definition(first, second, parameters=PARAMETERS)


def _set(node: Any, field: str, value: Any) -> bool:
    """Set every field of that name; tells whether there is one."""
    if isinstance(node, dict) and field in node:
        node[field] = value
        return True
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return sum(_set(child, field, value) for child in children) > 0


def test_the_definition_without_a_mistake_runs(place: Place) -> None:
    ran = place.run(two_steps(), "--param", "Word=x")
    assert ran.code == 0, ran
    assert list(place.executions().values()) == ["Succeeded"]
    assert place.files() == set()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"Version": "2020-12-01",\n "Steps": [', ["definition.json, line 2, column", "not JSON"]),
        (b'{"Steps": [], "a": "\xe9"}', ["byte 20 (0xe9) is not UTF-8"]),
        ("", ["not JSON"]),
        ("[]", ["a JSON object with a list of Steps"]),
        ('{"Steps": [], "x": NaN}', ["NaN is not JSON"]),
        ('{"Steps": [], "Steps": []}', ["'Steps' is given twice"]),
        ('{"Steps": ' * DEEP, ["nested more than 200 levels deep"]),
        ('{"Steps": ' + "[" * DEEP + "]" * DEEP + "}", ["nested more than 200 levels deep"]),
        ('{"Steps": [' + ",".join(['{"Name": "a", "Type": "X"}'] * DEEP) + "]}", ["100,000 steps. Allowed: 10,000."]),
        ('{"Steps": [' + "1," * 5_000_000 + "1]}", ["at most 8,388,608 bytes"]),
    ],
    ids=[
        "malformed",
        "not UTF-8",
        "empty",
        "a list",
        "NaN",
        "key twice",
        "100,000 objects",
        "100,000 lists",
        "100,000 steps",
        "10 MB",
    ],
)
@pytest.mark.parametrize("command", ["run", "show"])
def test_invalid_definition_texts_are_refused(
    place: Place, command: str, content: str | bytes, words: list[str]
) -> None:
    file = place.write("definition.json", content)
    place.refused(place.drivetrain(*([command, "-d"] if command == "run" else [command]), file), *words)
    assert not place.home.exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"first__Type": "Procesing"},
            ["step 'first'", "Did you mean 'Processing'? Allowed: ", "--stub first"],
        ),
        (
            {"second__S3Uri": output_of("frist", "data")},
            ["there is no step 'frist'", "Did you mean 'first'? Allowed: first, second."],
        ),
        ({"second__S3Uri": output_of("first", "dato")}, ["step 'first' has no output 'dato'", "Did you mean 'data'?"]),
        ({"second__S3Uri": {"Get": "Steps.first.ProcessingJobNam"}}, ["Did you mean 'ProcessingJobName'?"]),
        ({"second__S3Uri": {"Get": "Parameters.Wrod"}}, ["no parameter 'Wrod'", "Did you mean 'Word'?"]),
        ({"second__S3Uri": {"Std:Jion": {}}}, ["'Std:Jion' is not known", "Did you mean 'Std:Join'?"]),
        ({"first__DependsOn": ["secnd"]}, ["step 'secnd'", "Did you mean 'second'?"]),
        ({"first__DependsOn": ["second"]}, ["wait for each other: first -> second -> first", "Remove one"]),
        ({"first__DependsOn": ["first"]}, ["wait for each other: first -> first"]),
        ({"first__Name": "second"}, ["2 steps are named 'second'"]),
        ({"first__Name": "../../x", "second__S3Uri": "s3://bucket/data"}, ["'../../x'", "the name is not allowed"]),
        ({"second__InstanceCount": "two"}, ["InstanceCount is 'two'", "a whole number"]),
        ({"second__ProcessingResources": "large"}, ['"large" is text. Allowed: an object']),
        ({"second__ContainerEntrypoint": "python3 -c pass"}, ["Allowed: a list of words"]),
        ({"second__S3Uri": "s3://bucket/../../../etc"}, ["'..'", "another place"]),
        ({"second__S3Uri": "s3://../etc"}, ["names no bucket"]),
        ({"first__S3Uri": "s3://bucket/../../x", "second__S3Uri": "s3://bucket/data"}, ["'..'"]),
        ({"second__LocalPath": "/opt/ml/processing/../../../../etc"}, ["a path below /opt/ml/processing/"]),
        ({"first__LocalPath": "/etc"}, ["LocalPath is '/etc'", "a path below /opt/ml/processing/"]),
        (
            {"first__PropertyFiles": [{"PropertyFileName": "F", "OutputName": "data", "FilePath": "../../x"}]},
            ["FilePath '../../x'"],
        ),
        ({"second__ContainerEntrypoint": ["python3", "-c", "a\0b"]}, ["step 'second' holds a NUL"]),
        ({"second__ContainerEntrypoint": ["python3", "-c", "\ud800"]}, ["half of a character"]),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_definition_that_cannot_run(place: Place, changes: dict[str, Any], words: list[str]) -> None:
    place.refused(place.run(two_steps(**changes), "--param", "Word=x"), *words)
    assert place.files() == set()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ["no value for Word (String)", "NAME=VALUE"]),
        (["--param", "Wrod=x"], ["no parameter 'Wrod'", "Did you mean 'Word'?"]),
        (["--param", "Word=x", "--param", "Rows=many"], ["'Rows' is 'many'", "a whole number"]),
        (["--param", "Word=x", "--param", "Kind=c"], ["'Kind' is 'c'", "Allowed: a, b"]),
        (["--param", "Word"], ["give NAME=VALUE"]),
        (["--param", "Word=x", "--data", "s3://bucket/../x=."], ["'..'"]),
        (["--param", "Word=x", "--data", "s3://bucket/x=nowhere"], ["nowhere"]),
        (["--param", "Word=x", "--stub", "frist=definition.json"], ["no such step", "Did you mean 'first'?"]),
        (["--prallel", "2"], ["--prallel", "--parallel"]),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_bad_command_line_options_are_refused(place: Place, given: list[str], words: list[str]) -> None:
    place.refused(place.run(two_steps(), *given), *words)


PIPELINE = """
from drivetrain.components import Input, Output, component
from drivetrain import Pipeline, Settings, script, step


class Example(Settings):
    times: int = 3
    word: str = "x"


@component
def first(data: Output, times: int, word: str = "x") -> None:
    (data / "a.txt").write_text(word * times)


@component
def second(data: Input) -> dict[str, float]:
    return {"size": len((data / "a.txt").read_text())}


def example(settings: Example) -> Pipeline:
    one = step(first, times=settings.times, word=settings.word)
    two = step(second, data=one["data"])
    return Pipeline(name="example", steps=[one, two])
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('one["data"]', 'one["dato"]', ["'first' has no output 'dato'", "Did you mean 'data'? Allowed: data."]),
        ("(second, data=", "(second, dat=", ["'second' does not take 'dat'", "Did you mean 'data'?"]),
        ("times=settings", "tims=settings", ["'first' does not take 'tims'", "Did you mean 'times'?"]),
        (', data=one["data"]', "", ["'second' needs the input folder 'data'"]),
        ("settings.times", "'3'", ["times is Integer, but '3' is String"]),
        ("settings.times", "[3]", ["[3] is a list", "Allowed: str, int, float, bool"]),
        (
            "one = step(first,",
            'one = step(first, after=[step(second, name="second", data="s3://b/k")],',
            ["wait for each other: first -> second -> first"],
        ),
        ("two = step(", "if one['data']:\n        pass\n    two = step(", ["has no value while the pipeline is built"]),
        ("two = step(", "two = script('exmple.py') or step(", ["no script 'exmple.py'", "Did you mean 'example.py'?"]),
        ("two = step(", "two = script('../../etc/passwd') or step(", ["a path below the folder of the pipeline"]),
        ('data=one["data"]', 'data="s3://bucket/../../etc"', ["'..' is not allowed"]),
        ('data=one["data"]', 'data="no/such/folder"', ["no such file or folder"]),
        ('name="example"', 'name="my example"', ["the name is not allowed", "letters, digits and hyphens"]),
        ("def example(", "def example((", ["example.py, line 21"]),
        ("one = step(", "raise LookupError('nothing there')\n    one = step(", ["example.py, line 22: LookupError"]),
        ("one = step(", "raise SystemExit\n    one = step(", ["example() ended the program"]),
        ("class Example", "import no_such_module\nclass Example", ["example.py, line 6", "no_such_module"]),
    ],
    ids=[
        *("output", "input", "parameter", "missing input", "wrong type", "wrong kind", "cycle", "reference as bool"),
        *("script", "script outside", "key outside", "data", "name", "syntax", "raises", "exits", "import"),
    ],
)
def test_a_pipeline_file_with_a_mistake(place: Place, old: str, new: str, words: list[str]) -> None:
    assert old in PIPELINE
    file = place.write("example.py", PIPELINE.replace(old, new, 1))
    place.refused(place.drivetrain("run", file), *words)
    assert not place.home.exists()


def bomb() -> str:
    lines = ["a: &a [x, x, x, x, x, x, x, x, x]"]
    lines += [f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join(['*' + chr(97 + n)] * 9)}]" for n in range(9)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ("times: [1, 2", ["example.yaml, line", "not YAML"]),
        ('word: !!python/object/apply:os.system ["touch owned"]', ["line 1: tags are not allowed"]),
        ("!!python/object/new:os.system [touch owned]", ["tags are not allowed"]),
        (bomb(), ["anchors and aliases are not allowed"]),
        ("word: " + "[" * DEEP, ["nested deeper than 50 levels"]),
        (b"word: \xe9", ["is not UTF-8 (byte 6)"]),
        ("tiems: 3", ["Setting tiems", "does not exist", "Did you mean 'times'?"]),
        ("times: many", ["Setting times", "'many'", "give a whole number"]),
        ("? [a, b]\n: 3", ["cannot be a key"]),
        ("times: 3\ntimes: 4", ["line 2: 'times' is given twice"]),
    ],
    ids=["malformed", "tag", "tag on top", "bomb", "deep", "not UTF-8", "typo", "type", "key", "twice"],
)
def test_a_settings_file(place: Place, yaml: str | bytes, words: list[str]) -> None:
    file = place.write("example.py", PIPELINE)
    place.write("example.yaml", yaml)
    place.refused(place.drivetrain("run", file), *words)
    assert place.files() == {"example.py", "example.yaml"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ('word=!!python/object/apply:os.system ["touch owned"]', ["--set word", "tags are not allowed"]),
        ("word=[&a [x, x], *a, *a, *a]", ["anchors and aliases are not allowed"]),
        ("word=" + "[" * DEEP, ["nested deeper than 50 levels"]),
        ("word=[1,", ["--set word", "not YAML"]),
        ("tiems=3", ["Setting tiems (from --set) does not exist", "Did you mean 'times'?"]),
        ("times", ["give key=value"]),
    ],
    ids=["tag", "bomb", "deep", "malformed", "typo", "no value"],
)
def test_a_setting_on_the_command_line(place: Place, setting: str, words: list[str]) -> None:
    file = place.write("example.py", PIPELINE)
    place.refused(place.drivetrain("run", file, "--set", setting), *words)
    assert place.files() == {"example.py"}


def test_a_setting_in_the_environment(place: Place) -> None:
    file = place.write("example.py", PIPELINE)
    tag = '!!python/object/apply:os.system ["touch owned"]'
    place.refused(place.drivetrain("run", file, DRIVETRAIN_WORD=tag), "DRIVETRAIN_WORD", "tags are not allowed")
    place.refused(place.drivetrain("run", file, DRIVETRAIN_TIMES="many"), "DRIVETRAIN_TIMES", "give a whole number")
    assert place.files() == {"example.py"}


def test_a_thousand_mistakes_are_refused_as_quickly_as_one(place: Place) -> None:
    names = [f"step-number-{number:04d}-with-a-long-name" for number in range(1000)]
    steps = [processing(name, "pass", {"Get": f"Steps.{name[:-1]}.ProcessingJobName"}) for name in names]
    place.refused(
        place.run(definition(*steps)), "Did you mean 'step-number-0000-with-a-long-name'?", "19 more problems"
    )


def test_memory_exhausting_texts_are_refused(place: Place) -> None:
    value = {"Std:Join": {"On": "", "Values": [{"Get": "Parameters.Word"}] * 50_000}}
    step = processing("step", "pass", value)
    ran = place.run(definition(step, parameters=PARAMETERS), "--param", "Word=" + "x" * 1000)
    place.refused(ran, "Std:Join: more than 262,144 characters")


def test_shell_words_are_not_interpreted(place: Place) -> None:
    """Arguments, parameters and variables arrive as they were given, and nothing interprets them on the way."""
    words = ["$(touch owned)", "; touch owned", "| touch owned", "`touch owned`", "a\ntouch owned", "&& touch owned"]
    words += ["> owned", "*", "~", "$HOME", "\"'", "\\", "-rf", "--", "", " sp  ace ", "é€😀"]
    dump = (
        "import json, os, sys; json.dump([sys.argv[1:], dict(os.environ)], open('/opt/ml/processing/output/o/a', 'w'))"
    )
    value = {"Get": "Parameters.Word"}
    step = processing(
        "all",
        dump,
        *words,
        value,
        {"Std:Join": {"On": ";", "Values": ["touch owned", value]}},
        outputs={"o": "s3://bucket/o"},
        environment={"NASTY": "$(touch owned)"},
    )
    given = "$(touch owned); `touch owned` | x\n\"'"
    ran = place.run(definition(step, parameters=PARAMETERS), "--param", f"Word={given}")
    assert ran.code == 0, ran
    arguments, environment = json.loads((place.home / "s3" / "bucket" / "o" / "a").read_text())
    assert arguments == [*words, given, f"touch owned;{given}"]
    assert environment["NASTY"] == "$(touch owned)"
    assert not list(place.folder.rglob("owned*"))
    assert place.files() == set()


def test_a_component_gets_shell_words_unchanged(place: Place) -> None:
    file = place.write("example.py", PIPELINE)
    ran = place.drivetrain("run", file, "--set", "times=1", "--set", "word='$(touch owned); `touch owned`'")
    assert ran.code == 0, ran
    (written,) = place.home.glob("s3/**/a.txt")
    assert written.read_text() == "$(touch owned); `touch owned`"
    assert not list(place.folder.rglob("owned*"))
