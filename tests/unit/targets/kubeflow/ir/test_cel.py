"""Conditions: what they refer to, and which of them no cluster can evaluate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.targets.kubeflow.ir.cel import CelError, Reference, references

TYPES = {"n": "number", "t": "text", "b": "boolean", "l": "list"}


def type_of(reference: Reference) -> str | None:
    return TYPES.get(reference.name)


def value(name: str) -> str:
    return f"inputs.parameter_values['{name}']"


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        (f"{value('n')} > 0.9", ["n"]),
        (f"!(int({value('n')}) == 1) && {value('t')} != 'it is'", ["n", "t"]),
        (f"({value('n')} >= {value('x')}) || {value('b')} == false", ["n", "x", "b"]),
        (f"{value('t')} in ['a', 'b\\'c', \"d\"]", ["t"]),
        (f"size({value('l')}) > 2 && {value('t')}.startsWith('a')", ["l", "t"]),
        ("inputs.artifacts['model'][0].metadata['accuracy'] * 100 > 90", ["model"]),
        (f"{value('b')} ? {value('n')} < 1 : -{value('n')} < 1e3", ["b", "n", "n"]),
        ("true", []),
    ],
)
def test_references_of_a_condition_are_found(expression: str, names: list[str]) -> None:
    assert [reference.name for reference in references(expression, type_of)] == names


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "column 1: found 'the end' where a value belongs"),
        (f"{value('n')} >", "found 'the end' where a value belongs"),
        (f"{value('n')} = 1", "is no CEL"),
        (f"{value('n')} > 1 2", "found '2' where the expression could end"),
        (f"({value('n')} > 1", r"found 'the end' instead of '\)'"),
        (f"{value('n')} == 'a'", "'==' compares a number with a text, which never holds"),
        (f"{value('b')} != 1", "compares a boolean with a number"),
        (f"{value('n')}", "it gives a number. Allowed: what is true or false"),
        (f"!{value('n')}", "'!' takes a boolean, not a number"),
        (f"{value('n')} && true", "'&&' takes a boolean, not a number"),
        ("other == 1", "there is no 'other'"),
        ("inputs.values['n'] == 1", "inputs has no 'values'. Allowed: parameter_values, artifacts"),
        ("inputs.parameter_values[0] == 1", "an input is named by a text"),
        ("exec('rm')", "there is no 'exec'"),
        ("'a'.run()", "there is no function 'run'"),
        ("(" * 2_000, "nested deeper than 40 levels"),
        ("!" * 2_000 + "true", "nested deeper than 40 levels"),
        ("true && " * 2_000 + "true", "Allowed: 10,000"),
    ],
)
def test_unevaluable_conditions_are_refused(expression: str, said: str) -> None:
    with pytest.raises(CelError, match=said):
        references(expression, type_of)


@given(st.text(alphabet="inputs.parameter_values['n'] &|!()<>=?:,+-*/%\"\\01e", max_size=60))
def test_any_text_is_read_or_refused(expression: str) -> None:
    try:
        found = references(expression, type_of)
    except CelError:
        return
    assert all(reference.flow in ("parameters", "artifacts") for reference in found)
