"""Places: what is written is read again, and what is no place is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.difference.place import Place, Position, parse, text

POSITIONS = st.integers(0, 40).flatmap(lambda index: st.builds(Position, st.just(index), st.integers(index + 1, 50)))
SEGMENTS = st.one_of(st.text(), st.sampled_from(["", ".", "1 of 2", '"', "\\", "a b", "--x", "\ud800", "é"]), POSITIONS)


@given(st.lists(SEGMENTS, min_size=1, max_size=6).map(tuple))
@settings(deadline=None)
def test_a_place_is_read_as_it_was_written(place: Place) -> None:
    assert parse(text(place)) == place


@pytest.mark.parametrize(
    ("place", "written"),
    [
        (("steps", "train", "Arguments", "InstanceType"), "steps.train.Arguments.InstanceType"),
        (("steps", "a", "HyperParameters", "sagemaker:x"), 'steps.a.HyperParameters["sagemaker:x"]'),
        (("steps", "a", "Containers", Position(0, 2), "Image"), "steps.a.Containers[1 of 2].Image"),
        (("steps", "a", "ContainerArguments", "--rows"), "steps.a.ContainerArguments.--rows"),
    ],
)
def test_a_place_is_readable(place: Place, written: str) -> None:
    assert text(place) == written


@pytest.mark.parametrize(
    "given", [".a", "a.", "a..b", "a[0]", "a[2 of 1]", "a[0 of 1]", 'a["', 'a["x"', "a[x]", "a b", "a['x']", "a]"]
)
def test_invalid_places_are_refused(given: str) -> None:
    with pytest.raises(UserError, match="is not a place in a definition: cannot read"):
        parse(given)


@given(st.text())
@settings(deadline=None)
def test_any_text_is_a_place_or_refused(given: str) -> None:
    try:
        place = parse(given)
    except UserError:
        return
    assert parse(text(place)) == place


def test_invisible_characters_are_escaped_and_readable_both_ways() -> None:
    place = ("steps", "a\u202eb\t")
    assert text(place) == 'steps["a\\u202eb\\t"]'
    assert parse(text(place)) == parse('steps["a\u202eb\t"]') == place
    assert text(("steps", "é b")) == 'steps["é b"]'
