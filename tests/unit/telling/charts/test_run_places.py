"""A run keeps the style of its curves."""

from __future__ import annotations

from drivetrain.telling.charts.run_places import NUM_PLACES, run_places


def test_a_run_keeps_its_style_and_no_two_share_one() -> None:
    ids = [f"{number:012x}" for number in range(NUM_PLACES)]
    places = run_places(ids)
    assert sorted(places.values()) == list(range(1, NUM_PLACES + 1))
    assert run_places(reversed(ids)) == places
    alone = [id for id in ids if run_places([id])[id] == places[id]]
    assert len(alone) >= 6  # only those whose style another one has take the next
    assert set(run_places([*ids, "one more"])) == {*ids, "one more"}
