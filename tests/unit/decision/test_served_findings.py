"""Findings in served data: kept, read again, and told as events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.served_findings import DATA_DRIFT, Finding, Served, packed, unpacked

FOUND = Finding(
    kind=DATA_DRIFT,
    group="churn",
    version=3,
    day="2026-11-30",
    told_at=1_796_040_000.25,
    columns=("age", "plan"),
    value=0.4,
    why="40 % of the rows moved in age",
)


def test_what_is_kept_is_read_again() -> None:
    served = Served(findings=(FOUND, replace(FOUND, is_open=False)), looks=({"day": "2026-11-30", "rows": 7},))
    assert unpacked(packed(served), "churn-served.json") == served


def test_an_empty_file_holds_nothing() -> None:
    assert unpacked(b"", "churn-served.json") == Served()


@pytest.mark.parametrize("kept", [b"{", b"[]", b'{"format": 1, "findings": [{"group": "a"}], "looks": []}'])
def test_a_damaged_file_is_named(kept: bytes) -> None:
    with pytest.raises(InputError, match=r"churn-served\.json is damaged .* Put back a copy of it, or remove it\."):
        unpacked(kept, "churn-served.json")


def test_an_event_has_the_form_of_eventbridge() -> None:
    event = FOUND.event(region="eu-west-1", account="123456789012")
    assert event["source"] == "drivetrain" and event["detail-type"] == DATA_DRIFT
    assert event["time"] == "2026-11-30T12:00:00Z"
    assert event["detail"]["columns"] == ["age", "plan"] and event["detail"]["group"] == "churn"


def test_an_event_keeps_its_id_until_it_is_told_again() -> None:
    assert replace(FOUND, is_open=False, why="another").id == FOUND.id
    assert replace(FOUND, told_at=FOUND.told_at + 1).id != FOUND.id
