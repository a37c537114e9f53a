"""Parameters out of events: paths, types, what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.triggers.event_values import EVENT_FIELDS, ParameterSource, parameters, read_path, value_at

EVENT: dict[str, Any] = {
    "id": "e-1",
    "detail-type": "Object Created",
    "resources": ["arn:a", "arn:b"],
    "detail": {
        "name": "x",
        "size": 12,
        "share": 0.5,
        "whole": 3.0,
        "fresh": True,
        "none": None,
        "empty": "",
        "odd key": {"in.side": "y"},
        "list": [{"a": 1}, [2, 3]],
        "long": "x" * 1_025,
    },
}


@pytest.mark.parametrize(
    ("path", "steps"),
    [
        ("$.detail.ModelPackageArn", ("detail", "ModelPackageArn")),
        ("$.detail-type", ("detail-type",)),
        ("$['detail-type']", ("detail-type",)),
        ('$.detail["odd key"]["in.side"]', ("detail", "odd key", "in.side")),
        ("$.resources[0]", ("resources", 0)),
        ("$.detail.list[1][0]", ("detail", "list", 1, 0)),
    ],
)
def test_paths(path: str, steps: tuple[str | int, ...]) -> None:
    assert read_path(path) == steps


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("$", "write $.detail.key"),
        ("", "write $.detail.key"),
        ("detail.x", "write $.detail.key"),
        ("$.", "cannot be read from '.' on"),
        ("$..name", "from '..name' on"),
        ("$.detail.*", "from '.*' on"),
        ("$.detail[*].x", "from '[*].x' on"),
        ("$.detail[-1]", "from '[-1]' on"),
        ("$.detail[?(@.a)]", "from '[?(@.a)]' on"),
        ("$.detail.a b", "from ' b' on"),
        ("$.detial.name", "Did you mean 'detail'?"),
        ("$[0]", "no 0 at its top"),
    ],
)
def test_paths_to_several_places_are_refused(path: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        read_path(path)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("$.detail.nmae", "$.detail has no 'nmae'. Did you mean 'name'?"),
        ("$.resources[2]", "$.resources is a list of 2"),
        ("$.detail.name.first", '$.detail.name is "x"'),
        ("$.detail.name[0]", '$.detail.name is "x"'),
        ("$.detail[0]", "$.detail is an object"),
        ("$.account", "$ has no 'account'"),
    ],
)
def test_missing_values_are_reported(path: str, says: str) -> None:
    with pytest.raises(UserError) as caught:
        value_at(EVENT, path)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("String", "$.detail.name", "x"),
        ("String", "$.detail.size", "12"),
        ("String", "$.detail.fresh", "true"),
        ("String", "$.detail.empty", ""),
        ("String", "$.detail.list", '[{"a":1},[2,3]]'),
        ("String", "$.resources[1]", "arn:b"),
        ("Integer", "$.detail.size", "12"),
        ("Float", "$.detail.size", "12"),
        ("Float", "$.detail.share", "0.5"),
        ("Boolean", "$.detail.fresh", "true"),
        ("String", "as it is", "as it is"),
    ],
)
def test_values(kind: str, path: str, value: str) -> None:
    assert parameters({"P": ParameterSource(kind, path)}, EVENT) == {"P": value}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (ParameterSource("Integer", "$.detail.name"), "Parameter 'P' from $.detail.name: 'x' is not of type Integer"),
        (ParameterSource("Integer", "$.detail.whole"), "'3.0' is not of type Integer"),
        (ParameterSource("Integer", "$.detail.empty"), "not of type Integer"),
        (ParameterSource("Float", "$.detail.fresh"), "not of type Float"),
        (ParameterSource("Boolean", "$.detail.size"), "not of type Boolean"),
        (ParameterSource("String", "$.detail.none"), "the event has null there"),
        (ParameterSource("String", "$.detail.long"), "at most 1,024"),
        (ParameterSource("String", "$.detail.name", ("full", "quick")), "Allowed: full, quick"),
    ],
)
def test_values_that_do_not_fit(wanted: ParameterSource, says: str) -> None:
    with pytest.raises(UserError) as caught:
        parameters({"P": wanted}, EVENT)
    assert says in str(caught.value)


@given(
    st.lists(
        st.one_of(st.integers(0, 50), st.text(min_size=1).filter(lambda name: "'" not in name and "\\" not in name)),
        max_size=5,
    ),
    st.sampled_from(EVENT_FIELDS),
)
def test_a_written_path_reads_back(steps: list[str | int], first: str) -> None:
    text = f"$.{first}" + "".join(f"[{step}]" if isinstance(step, int) else f"['{step}']" for step in steps)
    assert read_path(text) == (first, *steps)
    made: Any = "found"
    for step in reversed(steps):
        made = [None] * step + [made] if isinstance(step, int) else {step: made}
    assert value_at({first: made}, text) == "found"


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        read_path("$" + text)
    except UserError as error:
        assert str(error).startswith("Event path")
