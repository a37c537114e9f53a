"""Findings in served data: kept, read again, and told as events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.served_findings import (
    DATA_DRIFT,
    QUALITY_DROP,
    Finding,
    Served,
    looked,
    packed,
    passed,
    unpacked,
)

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
    others = (replace(FOUND, told_at=FOUND.told_at + 1), replace(FOUND, metric="f1"))
    assert FOUND.id not in {each.id for each in others}


WEEK = 7 * 86_400.0


def after(
    served: Served,
    day: int,
    *,
    drift: bool | None,
    version: int = 3,
    columns: tuple[str, ...] = FOUND.columns,
    **more: object,
) -> Served:
    """A look on a day of November; drift None where it could not be judged."""
    told_at = day * 86_400.0
    found = replace(FOUND, version=version, day=f"2026-11-{day:02}", told_at=told_at, columns=columns)
    seen = {} if drift is None else {found.key: found if drift else None}
    drifted = None if drift is None else list(columns) if drift else []
    return looked(served, {"day": found.day, "version": version, "drifted": drifted, **more}, seen, WEEK)


def after_labels(served: Served, day: int, **dropped: bool) -> Served:
    """A look at labelled rows of a day of November: by metric True for a drop."""
    made = {metric: replace(FOUND, kind=QUALITY_DROP, columns=(), metric=metric) for metric in dropped}
    seen = {
        found.key: replace(found, day=f"2026-11-{day:02}", told_at=86_400.0) if dropped[metric] else None
        for metric, found in made.items()
    }
    return looked(served, {"day": f"2026-11-{day:02}", "version": 3, **dropped}, seen, WEEK)


def states(served: Served) -> list[tuple[str, bool]]:
    return [(each.day, each.is_open) for each in served.findings]


def test_a_finding_opens_once_and_is_closed_when_it_is_over() -> None:
    first = after(Served(), 1, drift=True)
    second = after(first, 2, drift=True)
    assert [each.id for each in second.findings] == [each.id for each in first.findings] and len(second.looks) == 2
    unknown = after(second, 3, drift=None)
    assert unknown.findings == second.findings, "a look that judges nothing closes nothing"
    over = after(unknown, 4, drift=False)
    assert states(over) == [("2026-11-01", False)]
    assert states(after(over, 5, drift=True)) == [("2026-11-01", False), ("2026-11-05", True)]


def test_a_finding_is_told_again_after_a_week() -> None:
    first = after(Served(), 1, drift=True)
    sent = replace(first, findings=(replace(first.findings[0], is_sent=True),))
    assert after(sent, 7, drift=True).findings == (replace(sent.findings[0], last_day="2026-11-07"),)
    (again,) = after(sent, 8, drift=True).findings
    assert (again.day, again.is_sent) == ("2026-11-08", False) and again.id != first.findings[0].id


def test_another_version_closes_the_findings_of_the_one_before() -> None:
    first = after(Served(), 1, drift=True)
    assert states(after(first, 2, drift=None, version=4)) == [("2026-11-01", False)]
    both = after(first, 2, drift=True, version=4)
    assert states(both) == [("2026-11-01", False), ("2026-11-02", True)] and both.findings[1].version == 4


def test_a_finding_that_gains_columns_is_told_again_once() -> None:
    first = after(Served(), 1, drift=True, columns=("age",))
    sent = replace(first, findings=(replace(first.findings[0], is_sent=True),))
    (gained,) = after(sent, 2, drift=True, columns=("bill", "age")).findings
    assert gained.columns == ("bill", "age") and not gained.is_sent and gained.id != sent.findings[0].id
    other = after(after(sent, 2, drift=True, columns=("bill",)), 3, drift=True, columns=("age",))
    assert [each.columns for each in other.findings] == [("bill", "age")], "a column is told once"
    assert other.findings[0].told_at == 2 * 86_400.0


def test_kinds_and_metrics_open_and_close_by_themselves() -> None:
    served = after_labels(after(Served(), 1, drift=True), 2, accuracy=True)
    both = after_labels(served, 2, accuracy=True, f1=True)
    assert [(each.kind, each.metric) for each in both.findings] == [
        (DATA_DRIFT, ""),
        (QUALITY_DROP, "accuracy"),
        (QUALITY_DROP, "f1"),
    ]
    assert [each.is_open for each in after_labels(both, 3, f1=False).findings] == [True, True, False]


def test_the_same_look_again_changes_nothing_and_a_day_has_one() -> None:
    first = after(Served(), 1, drift=True, rows=7)
    assert after(first, 1, drift=True, rows=7) is first
    assert [each["rows"] for each in after(first, 1, drift=True, rows=8).looks] == [8]


def test_late_labels_of_an_earlier_day_tell_a_drop_and_close_none_of_a_later_day() -> None:
    late = after_labels(after_labels(Served(), 30, accuracy=False), 1, accuracy=True)
    assert states(late) == [("2026-11-01", True)]
    seen = after_labels(late, 20, accuracy=True)
    assert states(after_labels(seen, 19, accuracy=False)) == [("2026-11-01", True)], "it was seen on the 20th"
    assert states(after_labels(seen, 21, accuracy=False)) == [("2026-11-01", False)]


def test_a_drift_of_an_earlier_day_is_told_unless_later_rows_passed() -> None:
    unknown = after(Served(), 5, drift=None)
    assert states(after(unknown, 2, drift=True)) == [("2026-11-02", True)]
    fine = after(Served(), 5, drift=False)
    late = after(fine, 2, drift=True)
    assert late.findings == () and [each["day"] for each in late.looks] == ["2026-11-02", "2026-11-05"]
    assert passed(fine, "2026-11-02", 3) == "2026-11-05" and not passed(fine, "2026-11-05", 3)
    assert states(after(fine, 2, drift=True, version=4)) == [("2026-11-02", True)], "that was another version"


def test_the_oldest_looks_are_dropped() -> None:
    served = Served()
    for number in range(403):
        served = looked(served, {"day": f"{2000 + number}-01-01", "version": 1}, {}, WEEK)
    assert len(served.looks) == 400 and served.looks[0]["day"] == "2003-01-01"
