"""InputFilter and OutputFilter: the documented operators, and what is none of them.

The examples are those of https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform-data-processing.html
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.targets.sagemaker.run.batch_transform.filters import Filter, FilterError

ROW = ["a", "b", "c", "d", "e", "f"]
RECORD = {"id": {"x": 1, "y": 2}, "features": [10, 20, 30], "SageMakerOutput": {"label": 1}}


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("$", ROW, ROW),
        ("$[0]", ROW, "a"),
        ("$[-1]", ROW, "f"),
        ("$[1,3,5]", ROW, ["b", "d", "f"]),
        ("$[0,-1]", ROW, ["a", "f"]),
        ("$[1:]", ROW, ROW[1:]),
        ("$[1:4]", ROW, ["b", "c", "d", "e"]),  # "the second through fifth columns"
        ("$[:5]", ROW, ROW),  # "from the first column (index 0) through the sixth column"
        ("$[5:]", ROW, ["f"]),  # "from the 6th column through the last column"
        ("$[2:-2]", ROW, ["c", "d", "e"]),
        ("$[0,5:]", ROW, ["a", "f"]),
        ("$[*]", ROW, ROW),
        ("$.id", RECORD, {"x": 1, "y": 2}),
        ("$.id.x", RECORD, 1),
        ("$.id.*", RECORD, [1, 2]),
        ("$['id']", RECORD, {"x": 1, "y": 2}),
        ("$['id','SageMakerOutput']", RECORD, {"id": RECORD["id"], "SageMakerOutput": {"label": 1}}),
        ("$.id.['x','y']", RECORD, {"x": 1, "y": 2}),
        ("$.features[1:]", RECORD, [20, 30]),
        ("$.features[0]", RECORD, 10),
    ],
)
def test_the_documented_operators(text: str, value: Any, expected: Any) -> None:
    assert Filter.of(text).apply(value) == expected


@pytest.mark.parametrize("text", ["", "id", "[0]", "$x", "$.", "$[]", "$[a]", "$['id", "$..id", "$[?(@.x)]", "$[::2]"])
def test_invalid_filters_are_refused_with_the_allowed_ones(text: str) -> None:
    with pytest.raises(FilterError, match=r"Allowed: \$"):
        Filter.of(text)


def test_nothing_follows_what_selects_several_values_and_nothing_is_longer_than_the_service_takes() -> None:
    with pytest.raises(FilterError, match="nothing can follow"):
        Filter.of("$['a','b'].c")
    with pytest.raises(FilterError, match="at most 63 characters"):
        Filter.of("$." + "x" * 62)


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("$[6]", ROW, r"there is no \[6\] among 6 values"),
        ("$[0:6]", ROW, r"there is no \[6\] among 6 values"),
        ("$[-7]", ROW, r"there is no \[-7\] among 6 values"),
        ("$.x", RECORD, r"there is no 'x' \(there: id, features, SageMakerOutput\)"),
        ("$['id','x']", RECORD, "there is no 'x'"),
        ("$.id", ROW, "names members, and there is a list; a CSV line goes by numbers"),
        ("$[0]", RECORD, "counts places, and there is an object"),
        ("$.id.x.*", RECORD, "selects the members of a single value, 1"),
    ],
)
def test_a_record_without_what_is_selected_is_an_error_as_on_the_service(text: str, value: Any, said: str) -> None:
    with pytest.raises(FilterError, match=said):
        Filter.of(text).apply(value)


@given(st.text(alphabet="$.[]'*:,-0123456789ab", max_size=20))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    try:
        chosen = Filter.of(text)
    except FilterError:
        return
    for value in (ROW, RECORD, 3):
        try:
            chosen.apply(value)
        except FilterError as error:
            assert chosen.text in str(error)
