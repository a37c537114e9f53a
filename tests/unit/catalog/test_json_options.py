"""Types of options, as the compiler reads them: what the training program would refuse, it refuses too."""

from __future__ import annotations

from dataclasses import make_dataclass
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.catalog.json_options import wrong_type
from drivetrain.training.options import build_options

VALUES: list[Any] = [0, -1, 2**63, 1.5, 1e300, float("inf"), float("nan"), True, None, "6", [], ["6"], [1], {"a": 1}]


@pytest.mark.parametrize("annotation", ["int", "float", "str", "bool", "tuple[str, ...]", "int | None"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_compiler_and_the_training_refuse_the_same(value: Any, annotation: str) -> None:
    kind = make_dataclass("Options", [("option", annotation)])
    try:
        build_options(kind, {"option": value}, "x")
    except InputError:
        assert wrong_type(value, annotation) is not None
    else:
        assert wrong_type(value, annotation) is None


@pytest.mark.parametrize(
    ("value", "annotation", "wanted"),
    [
        (float("inf"), "float", "float (finite)"),
        ([1], "tuple[str, ...]", "list of str"),
        ("6", "tuple[str, ...]", "list of str"),
        (None, "str", "str"),
        (True, "int", "int"),
        (1.5, "int", "int"),
        (1, "bool", "bool"),
        (1, "float", None),
        (["a"], "tuple[str, ...]", None),
    ],
)
def test_a_value_of_a_wrong_type_names_the_expected_one(value: Any, annotation: str, wanted: str | None) -> None:
    assert wrong_type(value, annotation) == wanted
