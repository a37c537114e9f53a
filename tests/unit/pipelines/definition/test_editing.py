"""Changes at places: what they leave behind, and what they refuse."""

from typing import Any

import pytest

from drivetrain.pipelines.definition.change import ABSENT, Change
from drivetrain.pipelines.definition.editing import NoSuchPlaceError, edited
from drivetrain.pipelines.definition.place import parse


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
