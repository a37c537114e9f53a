"""Values as words of a task's document, and conditions as CEL that service and local runner read alike."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain import Parameter, join
from drivetrain.spec.values import AnyOf, Reference
from drivetrain.targets.kubeflow.compile.words import cel, literal_text, parameter_type, word
from drivetrain.targets.kubeflow.ir.cel import references

A, B, C = Parameter.number("A"), Parameter.string("B"), Parameter.boolean("C")
VALUE = "inputs.parameter_values['{}']"


def refer(reference: Reference) -> str:
    return getattr(reference, "name", "")


@pytest.mark.parametrize(
    ("condition", "expression"),
    [
        (A >= 1, f"{VALUE.format('A')} >= 1.0"),
        (A < 0.5, f"{VALUE.format('A')} < 0.5"),
        (B.equals("yes"), f"{VALUE.format('B')} == 'yes'"),
        (C.equals(True), f"{VALUE.format('C')} == true"),
        (B.is_in(["a", "b"]), f"{VALUE.format('B')} in ['a', 'b']"),
        (~(A > 1), f"!({VALUE.format('A')} > 1.0)"),
        ((A > 1) & (A < 2), f"({VALUE.format('A')} > 1.0) && ({VALUE.format('A')} < 2.0)"),
        ((A > 1) | C.equals(False), f"({VALUE.format('A')} > 1.0) || ({VALUE.format('C')} == false)"),
        (A > A, f"{VALUE.format('A')} > {VALUE.format('A')}"),
    ],
)
def test_conditions(condition: Any, expression: str) -> None:
    assert cel(condition, refer) == expression
    assert {reference.name for reference in references(expression, lambda _: None)} <= {"A", "B", "C"}


@given(st.text(max_size=30))
def test_a_text_in_a_condition_is_read_back_as_it_was(text: str) -> None:
    """Python reads these escapes as CEL does; kfp's local runner replaces `&&`, `||` and `!(` also inside of texts."""
    expression = cel(AnyOf(conditions=(B.equals(text),)), refer)
    literal = expression.partition(" == ")[2].removesuffix(")")
    assert ast.literal_eval(literal) == text
    assert not any(mark in literal for mark in ("&&", "||", "!("))
    assert references(expression, lambda _: "text")


@pytest.mark.parametrize(("value", "text"), [(True, "true"), (False, "false"), (7, "7"), (0.1, "0.1"), ("a b", "a b")])
def test_literals(value: Any, text: str) -> None:
    assert literal_text(value) == text


def test_a_join_keeps_its_parts() -> None:
    assert word(join("a", A.ref(), 3, on="-"), lambda reference: {"parameter": refer(reference)}) == {
        "join": ["-", ["a", {"parameter": "A"}, "3"]]
    }


def test_types() -> None:
    assert [parameter_type(value) for value in ("a", 1, 1.0, True, A.ref(), B.ref())] == [
        "STRING",
        "NUMBER_INTEGER",
        "NUMBER_DOUBLE",
        "BOOLEAN",
        "NUMBER_DOUBLE",
        "STRING",
    ]
