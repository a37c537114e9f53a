"""What a component's text says before it runs: the numbers that it returns, and outputs that it never uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.authoring.loading import load
from drivetrain.base.errors import UserError
from drivetrain.cli.errors import explain

PAGE = """from drivetrain import Pipeline, step
from drivetrain.components import Input, Output, Value, component


@component
def make(out: Output, rows: int = 3) -> {returns}:
    {body}


@component
def count(data: Input) -> float:
    return 1.0


@component
def take(value: Value) -> None:
    print(value)


def made() -> Pipeline:
    first = step(make)
    {more}
    return Pipeline(name="p", steps=[first, step(count, data=first["out"])])
"""
WRITES = '(out / "a").touch()'
NUMBERS = "dict[str, float]"


def line_of(text: str) -> int:
    lines = PAGE.format(body="...", returns="None", more="pass").splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.startswith(text))


def told(folder: Path, body: str, returns: str = NUMBERS, more: str = "pass") -> str:
    """What is said of the page; empty where it is built."""
    file = folder / "page.py"
    file.write_text(PAGE.format(body=body.replace("\n", "\n    "), returns=returns, more=more))
    try:
        load(str(file))
    except (UserError, TypeError, NameError) as error:
        return explain(error)[1]
    return ""


@pytest.mark.parametrize(
    ("returns", "body"),
    [
        (NUMBERS, f'{WRITES}\nfound = {{"a": 1.0}}'),
        ("float", f"{WRITES}\nprint(rows)"),
        (NUMBERS, f'{WRITES}\n{{"a": 1.0}}["a"] + 1\nif rows:\n    return'),
        (NUMBERS, f"{WRITES}\nreturn None"),
    ],
)
def test_a_missing_return_is_refused_at_the_function(tmp_path: Path, returns: str, body: str) -> None:
    assert told(tmp_path, body, returns).startswith(
        f"error: page.py, line 6: make() promises {returns} and never returns it. End it with: return ..."
    )


@pytest.mark.parametrize("value", ["float('nan')", "'good'", "None", "True", "math.nan", "f'{rows}'"])
def test_a_metric_that_is_no_number_is_refused_at_the_return(tmp_path: Path, value: str) -> None:
    said = told(tmp_path, f'{WRITES}\nreturn {{"a": {value}}}')
    assert said.startswith(
        f"error: page.py, line {line_of('    ...') + 1}: make() returns {value} as 'a'. Allowed in {NUMBERS}: finite"
    )


def test_a_metric_that_is_never_returned_is_refused_at_its_use(tmp_path: Path) -> None:
    body = f'{WRITES}\nif rows:\n    return {{"rows": 1.0}}\nreturn {{"none": 0.0}}'
    assert told(tmp_path, body, more='first.metric("row")') == (
        f"error: page.py, line {line_of('    pass') + 3}: Step 'make' returns no 'row'. Did you mean 'rows'? "
        "Allowed: none, rows."
    )
    assert told(tmp_path, body, more='first.metric("rows")') == told(tmp_path, body, more='first.metric("none")') == ""


@pytest.mark.parametrize("returned", ["found", '{**found, "a": 1.0}', "{str(rows): 1.0}", "dict(a=1.0)"])
def test_computed_metric_names_are_checked_at_run_time(tmp_path: Path, returned: str) -> None:
    assert told(tmp_path, f"{WRITES}\nfound = {{}}\nreturn {returned}", more='first.metric("other")') == ""


def test_an_output_that_is_read_but_never_used_is_refused(tmp_path: Path) -> None:
    line = line_of("    first")
    said = f"error: page.py, line {line}: make() never uses its Output 'out', which step 'count' reads. Write files"
    for body in ("print(rows)", "pass", "x = 1"):
        assert told(tmp_path, body, "None").startswith(said)
    for body in ("print(locals())", "...", WRITES):
        assert told(tmp_path, body, "None") == ""


@pytest.mark.parametrize("body", ["raise SystemExit(3)", "import os\nos._exit(9)", "while True:\n    print(rows)"])
def test_a_function_that_never_comes_back_needs_no_return(tmp_path: Path, body: str) -> None:
    assert told(tmp_path, f"{WRITES}\n{body}") == ""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("make()", "TypeError: make() needs the folder 'out'. In a pipeline it is a step, which the"),
        ("step(make, rows=None)", "Step 'make': rows is None. Allowed: int. Leave it out for 3."),
        ("stp(make)", "NameError: name 'stp' is not defined. Did you mean 'step'?"),
        ("step(take, value=[1])", "Step 'take': value is [1], a value that is there now. It takes what another step"),
    ],
)
def test_calling_a_component_instead_of_step_is_explained(tmp_path: Path, more: str, said: str) -> None:
    assert told(tmp_path, WRITES, "None", more).startswith(f"error: page.py, line {line_of('    pass')}: {said}")


def test_a_component_name_error_says_where_to_import_it_from(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text("from drivetrain import Output, Pipeline\n")
    with pytest.raises(UserError, match=r"\. Write: from drivetrain\.components import Output$"):
        load(str(tmp_path / "page.py"))
    (tmp_path / "page.py").write_text("from drivetrain import Pipelin\n")
    with pytest.raises(UserError, match=r"\. Did you mean 'Pipeline'\?$"):
        load(str(tmp_path / "page.py"))
