import itertools

import pytest

from drivetrain.triggers.resource_names import (
    description,
    is_cut_name,
    is_resource_name,
    name_prefix,
    resource_name,
    trigger_part,
)


def test_names_are_distinct_and_stable() -> None:
    names = {resource_name(*pair) for pair in [("a-b", "c"), ("a", "b-c"), ("a-b-c", "d"), ("A", "b-c")]}
    assert len(names) == 4
    assert resource_name("p" * 256, "t" * 63) != resource_name("p" * 256, "t" * 62 + "u")
    assert resource_name("retraining", "nightly") == "retraining_nightly-a07f3d85"


def test_the_longest_name_is_one_that_the_services_take() -> None:
    longest = resource_name("p" * 256, "t" * 63)
    # https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutRule.html; of a schedule, too.
    assert len(longest) == 62 <= 64
    assert longest.startswith(name_prefix("p" * 256))


def test_no_prefix_begins_as_that_of_another_pipeline() -> None:
    long = "p" * 20
    prefixes = [name_prefix(name) for name in ("a", "a-b", "ab", long[:11], long, f"{long}-1", f"{long}-2")]
    assert not [pair for pair in itertools.permutations(prefixes, 2) if pair[0].startswith(pair[1])]


@pytest.mark.parametrize("pipeline", ["p", "a-pipeline-with-quite-a-long-name"])
@pytest.mark.parametrize("trigger", ["t", "t" * 31, "t" * 32, "a-b-" + "c" * 59])
def test_a_generated_name_is_recognized(pipeline: str, trigger: str) -> None:
    name = resource_name(pipeline, trigger)
    assert is_resource_name(name, pipeline, description(pipeline, trigger))
    assert trigger_part(name, pipeline) == trigger[:32]
    assert is_cut_name(name, pipeline) == (len(trigger) >= 32)
    # Somebody has edited the description: only a name that was cut needs it.
    assert is_resource_name(name, pipeline, "mine") == (len(trigger) <= 32)
    assert not is_resource_name(name, f"{pipeline}-too", description(pipeline, trigger))


@pytest.mark.parametrize(
    "name",
    [
        "nightly",
        "nightly_",
        "nightly_daily",
        "nightly_daily-1a2b3c4",
        "nightly_-1a2b3c4d",
        "daily_x-1a2b3c4d",
        "nightly-daily",
        "nightly-daily-1a2b3c4d",
        "nightly-too_daily-1a2b3c4d",
    ],
)
def test_a_name_of_another_form_is_not_recognized(name: str) -> None:
    assert trigger_part(name, "nightly") is None
    assert not is_cut_name(name, "nightly")
    assert not is_resource_name(name, "nightly", description("nightly", "daily"))


def test_a_hand_made_name_is_not_recognized() -> None:
    name = "nightly_daily-1a2b3c4d"
    assert trigger_part(name, "nightly") == "daily"
    assert not is_resource_name(name, "nightly", description("nightly", "daily"))
