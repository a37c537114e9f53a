"""References are data: they compare into conditions, and refuse to be taken for values."""

from collections.abc import Callable

import pytest

from drivetrain import Parameter, SpecError, join, when
from drivetrain.spec.values import All, AnyOf, Comparison, In, MetricRef, Not, OutputRef, as_value, references_in

ACCURACY = MetricRef(step="evaluate", name="accuracy")
FLOOR = Parameter.number("Floor", default=0.9)


@pytest.mark.parametrize("value", [ACCURACY, FLOOR, OutputRef(step="a", output="b"), join("a", ACCURACY)])
def test_a_reference_has_no_truth_value(value: object) -> None:
    with pytest.raises(SpecError, match=r"when\(condition, then"):
        if value:
            pass


@pytest.mark.parametrize("value", [ACCURACY, FLOOR])
def test_a_reference_does_not_fit_an_f_string(value: object) -> None:
    with pytest.raises(SpecError, match=r"join\("):
        f"s3://{value}"


@pytest.mark.parametrize("value", [ACCURACY, FLOOR, OutputRef(step="a", output="b"), join("a", ACCURACY)])
@pytest.mark.parametrize(
    "make_text", [str, "s3://%s".__mod__, lambda value: value + "/x", lambda value: "s3://" + value]
)
def test_a_reference_is_not_converted_to_text(value: object, make_text: Callable[[object], object]) -> None:
    with pytest.raises(SpecError, match=r"join\("):
        make_text(value)


@pytest.mark.parametrize("value", [ACCURACY, FLOOR, OutputRef(step="a", output="b"), join("a", ACCURACY)])
@pytest.mark.parametrize("look", [list, lambda value: "b" in value, lambda value: [*value]], ids=["list", "in", "star"])
def test_a_reference_cannot_be_indexed(value: object, look: Callable[[object], object]) -> None:
    with pytest.raises(SpecError, match=r"is_in\("):
        look(value)


def test_a_reference_can_be_shown() -> None:
    assert repr(ACCURACY) == "MetricRef(kind='metric', step='evaluate', name='accuracy', type='Float', file='')"
    assert "Floor" in repr(FLOOR)


def test_a_condition_has_no_truth_value() -> None:
    with pytest.raises(SpecError, match="combine with `a & b`"):
        0.5 < ACCURACY < 0.9  # noqa: B015


def test_comparisons_build_conditions() -> None:
    assert (ACCURACY >= FLOOR) == Comparison(operator="GreaterThanOrEqualTo", left=ACCURACY, right=FLOOR.ref())
    assert (FLOOR < 0.5) == Comparison(operator="LessThan", left=FLOOR.ref(), right=0.5)
    assert (ACCURACY > 0.5) == Comparison(operator="GreaterThan", left=ACCURACY, right=0.5)
    assert ACCURACY.is_in([1, 2]) == In(value=ACCURACY, options=(1, 2))
    assert FLOOR.equals(1) == Comparison(operator="Equals", left=FLOOR.ref(), right=1)


def test_conditions_combine_flat() -> None:
    a, b, c = ACCURACY > 0.1, ACCURACY > 0.2, ACCURACY > 0.3
    assert (a & b & c) == All(conditions=(a, b, c))
    assert (a | b | c) == AnyOf(conditions=(a, b, c))
    assert ~a == Not(condition=a)


def test_references_keep_python_equality() -> None:
    assert MetricRef(step="evaluate", name="accuracy") == ACCURACY
    assert MetricRef(step="evaluate", name="loss") != ACCURACY


def test_comparing_a_reference_with_a_value_is_refused_only_for_authors() -> None:
    with pytest.raises(SpecError, match=r"Metric 'accuracy' .*reference.equals\(0.9\)"):
        bool(ACCURACY == 0.9)
    assert Not(condition=ACCURACY > 0.1) != Not(condition=FLOOR > 0.1)
    assert hash(MetricRef(step="evaluate", name="accuracy")) == hash(ACCURACY)


def test_values_that_a_pipeline_cannot_hold_are_refused() -> None:
    with pytest.raises(SpecError, match="is a list"):
        as_value([1, 2])
    with pytest.raises(SpecError, match=r"options is 'ab'. Give a list, such as options=\['a', 'b'\]"):
        ACCURACY.is_in("ab")
    with pytest.raises(SpecError, match="is not a condition"):
        when(ACCURACY, then=[])  # type: ignore[arg-type]


def test_references_are_found_at_any_depth() -> None:
    inner = join("x", ACCURACY)
    assert references_in({"a": [join(inner, FLOOR.ref())]}) == [join(inner, FLOOR.ref()), inner, ACCURACY, FLOOR.ref()]
