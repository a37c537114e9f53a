"""The timeline and the section of a training that was interrupted."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from drivetrain.telling.charts.timeline import MAX_MARKS, WIDTH, in_words, timeline
from drivetrain.telling.content.goodput import Attempt, Interruption, JobTimes, Phase
from drivetrain.telling.content.spot_savings import Prices
from drivetrain.telling.page.interruptions import MAX_OPEN_ROWS, MAX_ROWS, interruptions


def times(number: int = 2, **changes: object) -> JobTimes:
    """`number` interruptions: each start takes 1 s, 100 steps in 10 s, saves every 40 steps, and 3 s without machines
    follow."""
    attempts = tuple(
        Attempt(
            number=place + 1, started=14.0 * place, time=14.0 * place + 11, first_step=80 * place,
            step=80 * place + 100, saves=2, stall_seconds=0.2, restart_seconds=1.0,
            saved=tuple((80 * place + more, 14.0 * place + 1 + more / 10) for more in (40, 80)),
        )
        for place in range(number + 1)
    )  # fmt: skip
    found = tuple(
        Interruption(start=place + 1, at_step=80 * place + 100, resumed_step=80 * place + 80, steps_lost=20,
                     notice_seconds=0.0, seconds_down=3.0, reason="spot machines taken back")
        for place in range(number)
    )  # fmt: skip
    given: dict[str, object] = {"spot": True, "attempts": attempts, "interruptions": found,
                                "billable_seconds": 11.0 * (number + 1)}  # fmt: skip
    return JobTimes(step="train", **{**given, **changes})  # type: ignore[arg-type]


def parsed(markup: str | None) -> ElementTree.Element:
    assert markup is not None
    return ElementTree.fromstring(markup)


def texts(element: ElementTree.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def drawn(element: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    return [one for one in element.iter() if name in (one.get("class") or "").split()]


def test_the_picture_shows_the_interruptions() -> None:
    picture = parsed(timeline(times()))
    assert [len(drawn(picture, name)) for name in ("kept", "again", "fall", "save")] == [3, 2, 2, 6]
    crosses = [one for one in drawn(picture, "cross") if one.tag == "g"]
    titles = [title.text for cross in crosses for title in cross.iter("title")]
    assert titles == [
        "interruption 1: at step 100, 11.0 s after the start", "interruption 2: at step 180, 25.0 s after the start",
    ]  # fmt: skip
    assert [one.tag for one in drawn(picture, "k-lost")] == ["i", "rect", "rect"], "a key, and two stretches"
    assert {"seconds since its start", "step"} <= {one.text for one in picture.iter("text")}


def test_the_picture_has_a_text_alternative() -> None:
    picture = next(parsed(timeline(times())).iter("svg"))
    assert picture.get("aria-label") == in_words(times()) and picture.get("role") == "img"
    assert in_words(times()) == (
        "train for 39.0 s; 2 interruptions; at step 100 for 3.00 s, then on from step 80; at step 180 for 3.00 s, "
        "then on from step 160"
    )
    assert len(in_words(times(1000))) < 2_000


def never_a_step() -> JobTimes:
    """The second of four starts takes no step, the third says nothing at all; 3 s without machines follow on each."""
    return times(
        attempts=(
            Attempt(number=1, started=0.0, time=11.0, first_step=0, step=100, restart_seconds=1.0),
            Attempt(number=2, started=14.0, time=20.0, first_step=80, step=80, restart_seconds=6.0),
            Attempt(number=3, started=23.0, time=29.0),
            Attempt(number=4, started=32.0, time=43.0, first_step=80, step=180, restart_seconds=1.0),
        ),
        interruptions=(
            Interruption(start=1, at_step=100, resumed_step=80, steps_lost=20, seconds_down=3.0),
            Interruption(start=2, at_step=80, resumed_step=80, steps_lost=0, seconds_down=3.0),
            Interruption(start=3, at_step=80, resumed_step=80, steps_lost=0),
        ),
    )


def test_starts_without_a_step_are_drawn_as_interruptions() -> None:
    picture = parsed(timeline(never_a_step()))
    titles = [title.text for one in drawn(picture, "cross") if one.tag == "g" for title in one.iter("title")]
    assert titles == [
        "interruption 1: at step 100, 11.0 s after the start", "interruption 2: at step 80, 20.0 s after the start",
        "interruption 3: at step 80, 29.0 s after the start",
    ]  # fmt: skip
    assert [len(drawn(picture, name)) for name in ("kept", "again", "fall")] == [2, 1, 1], "of the two that took steps"
    stretches = [(one.get("class") or "").split() for one in picture.iter("rect")]
    kinds = [
        name for classes in stretches for name in classes if name in ("k-training", "k-lost", "k-restart", "k-down")
    ]
    assert kinds == ["k-restart", "k-training", "k-lost", *("k-down", "k-restart") * 3, "k-training"]
    assert in_words(never_a_step()) == (
        "train for 43.0 s; 3 interruptions; at step 100 for 3.00 s, then on from step 80; at step 80 for 3.00 s, "
        "then on from step 80; at step 80, then on from step 80"
    )
    section = texts(parsed(interruptions(never_a_step())))
    assert "Interruptions 3 20 steps taken again" in section


def test_an_interruption_without_a_following_start_is_drawn() -> None:
    first = never_a_step().attempts[0]
    unknown = times(attempts=(first,), interruptions=(Interruption(start=1), Interruption(start=7, at_step=3)))
    assert in_words(unknown) == "train for 11.0 s; 2 interruptions; before its first step; at step 3"
    assert len([one for one in drawn(parsed(timeline(unknown)), "cross") if one.tag == "g"]) == 1, (
        "start 7 is not known"
    )


def test_all_marks_lie_inside_the_picture() -> None:
    picture = next(parsed(timeline(times(7))).iter("svg"))
    _, _, width, height = (float(number) for number in (picture.get("viewBox") or "").split())
    for one in picture.iter():
        for name, most in (("x", width), ("x1", width), ("x2", width), ("cx", width), ("y", height), ("y1", height),
                           ("y2", height), ("cy", height)):  # fmt: skip
            assert 0 <= float(one.get(name) or 0) <= most
        assert float(one.get("x") or 0) + float(one.get("width") or 0) <= WIDTH
    assert width == WIDTH


@pytest.mark.slow
def test_thousands_of_interruptions_keep_the_page_small() -> None:
    picture = timeline(times(3000))
    assert picture is not None
    element = parsed(picture)
    assert len(drawn(element, "cross")) <= 2 * MAX_MARKS and len(drawn(element, "save")) <= 2 * MAX_MARKS
    section = parsed(interruptions(times(3000)))
    rows = [row for table in drawn(section, "each") for row in table.iter("tr")]
    assert len(rows) == MAX_ROWS + 1 and f"the first {MAX_ROWS} of 3,000" in texts(section)
    assert len(interruptions(times(3000))) < 3_000_000


def test_many_rows_are_folded() -> None:
    few, many = parsed(interruptions(times(MAX_OPEN_ROWS))), parsed(interruptions(times(MAX_OPEN_ROWS + 1)))
    assert not list(few.iter("details")) and len(list(many.iter("details"))) == 1


def test_a_script_without_step_logs_has_its_phases_drawn() -> None:
    phases = (
        Phase(status="Starting", started=0.0, ended=200.0), Phase(status="Training", started=200.0, ended=900.0),
        Phase(status="Interrupted", started=900.0, ended=1000.0), Phase(status="Training", started=1000.0, ended=2e3),
    )  # fmt: skip
    own = times(attempts=(), phases=phases, interruptions=(Interruption(seconds_down=100.0),))
    picture = parsed(timeline(own))
    assert not drawn(picture, "kept") and len(drawn(picture, "k-training")) == 3
    assert "minutes since its start" in texts(picture)
    section = texts(parsed(interruptions(own)))
    assert "Interruptions 1" in section and "Goodput" not in section
    assert timeline(times(attempts=(), phases=())) is None


def test_the_section_has_the_numbers() -> None:
    section = texts(parsed(interruptions(times())))
    for fact in (
        "Interruptions 2 40 steps taken again", "Goodput", "Young's estimate", "Time wasted", "useful steps",
        "work lost",
        "1 100 80 20 none 3.00 s spot machines taken back", "2 180 160 20 none 3.00 s", "a save stops the training",
        "50 %", "90 %", "pays from",
    ):  # fmt: skip
        assert fact in section, fact


def test_given_prices_take_the_place_of_guessed_discounts() -> None:
    section = texts(parsed(interruptions(times(), Prices(discount=0.7, on_demand=3.6))))
    assert "at 70 % off" in section and "on demand" in section and "50 %" not in section


def test_an_on_demand_part_is_shown_beside_the_saving() -> None:
    last = tuple(replace(one, spot=one.number < 3) for one in times().attempts)
    section = texts(parsed(interruptions(times(attempts=last), Prices(discount=0.7))))
    assert "of it on demand 11.0 s" in section and "pays from" in section and "never" not in section
    most = tuple(replace(one, spot=one.number < 2) for one in times().attempts)
    slow = times(attempts=most, interruptions=times().interruptions)
    assert "on demand 22.0 s" in texts(parsed(interruptions(slow, Prices(discount=0.7))))
    costly = tuple(replace(one, restart_seconds=10.5) for one in most)
    assert "eat up never" in texts(parsed(interruptions(times(attempts=costly), Prices(discount=0.7))))


@pytest.mark.parametrize("spot", [True, False])
def test_only_spot_machines_save(spot: bool) -> None:
    assert ("Saved against on-demand" in texts(parsed(interruptions(times(spot=spot))))) is spot
