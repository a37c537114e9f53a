"""Changes at places: what they leave behind, and what they refuse."""

from typing import Any

import pytest

from drivetrain.targets.sagemaker.document.difference.change import ABSENT, Change
from drivetrain.targets.sagemaker.document.difference.editing import NoSuchPlaceError, alike, put
from drivetrain.targets.sagemaker.document.difference.outline import outline
from drivetrain.targets.sagemaker.document.difference.place import Place, Position, parse
from tests.fixtures.changed_definitions import RETRAINING, edited


def training(**arguments: Any) -> dict[str, Any]:
    return {"Steps": [{"Name": "t", "Type": "Training", "Arguments": arguments}]}


def change(place: str, new: Any) -> Change:
    return Change(parse(f"steps.t.Arguments.{place}"), ABSENT, new)


def test_the_last_entry_takes_its_collection_with_it() -> None:
    assert edited(training(Environment={"A": "1"}, Image="x"), [change("Environment.A", ABSENT)]) == training(Image="x")
    assert edited(training(Image="x"), [change("Environment.A", "1")]) == training(Image="x", Environment={"A": "1"})
    # Of what lists nothing one by one, the empty object stays.
    assert edited(training(Odd={"A": 1}), [change("Odd.A", ABSENT)]) == training(Odd={})


def test_an_entry_of_a_list_has_the_name_of_its_place() -> None:
    channels = [{"ChannelName": "train"}, {"ChannelName": "test"}]
    with pytest.raises(NoSuchPlaceError, match="would not be train"):
        edited(training(InputDataConfig=channels), [change("InputDataConfig.train", {"ChannelName": "more"})])
    with pytest.raises(NoSuchPlaceError, match=r"steps\.t\.Arguments\.Odd is not there") as told:
        edited(training(), [change("Odd.A", 1)])
    assert told.value.depth == 4


@pytest.mark.parametrize("place", [(), ("steps",), ("other", "t"), ("steps", Position(0, 1)), ("parameters",)])
def test_a_place_begins_with_a_root_and_a_name(place: Place) -> None:
    with pytest.raises(NoSuchPlaceError, match="has steps, branches, parameters, definition, and names below them"):
        edited(training(), [Change(place, ABSENT, 1)])


def test_an_entry_is_added_to_null_like_to_nothing() -> None:
    for nothing in (None, {}):
        made = edited(training(Environment=nothing, Image="x"), [change("Environment.A", "1")])
        assert made == training(Environment={"A": "1"}, Image="x")


@pytest.mark.parametrize("new", [{"Image": "c"}, ABSENT])
def test_a_list_by_position_takes_nothing_by_name(new: Any) -> None:
    containers = [{"Image": "a"}, {"Image": "b"}]
    place = (*parse("steps.t.Arguments.Containers"), "x")
    with pytest.raises(NoSuchPlaceError, match=r"steps\.t\.Arguments\.Containers is"):
        edited(training(Containers=containers), [Change(place, ABSENT, new)])


def test_a_step_that_was_taken_out_comes_back_at_the_top_level() -> None:
    gone = put(outline(RETRAINING), parse("steps.register"), ABSENT)
    assert "register" not in put(gone, parse("steps.register"), {"Name": "register", "Type": "RegisterModel"}).branches


def test_whole_lists_are_alike_by_meaning() -> None:
    parts = outline(training())
    steps = training()["Steps"]
    assert alike(parts, ("definition", "Steps"), steps, [{**steps[0], "DependsOn": [], "CacheConfig": None}])
    assert not alike(parts, ("definition", "Steps"), steps, [{**steps[0], "DependsOn": ["u"]}])
    assert alike(parts, ("definition", "Parameters"), ABSENT, [])
