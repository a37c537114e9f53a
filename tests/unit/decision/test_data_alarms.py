"""Alarms from night to night."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from drivetrain.base.errors import InputError
from drivetrain.decision.data_alarms import Alarm, carried, warn_after, without

TUESDAY = date(2026, 11, 3)


def test_a_column_has_one_alarm_until_a_night_is_within_its_bounds() -> None:
    alarms: list[Alarm] = []
    for night in range(3):
        day = TUESDAY + timedelta(days=night)
        alarms, _ = carried(alarms, {"age": f"night {night}"}, (), ("age", "city"), day)
    (alarm,) = alarms
    assert (alarm.since, alarm.nights, alarm.text) == (TUESDAY, 3, "night 2")
    assert alarm.since_when(TUESDAY) == "since tonight" and alarm.since_when(alarm.last) == "since Tuesday"
    assert alarm.since_when(TUESDAY + timedelta(days=7)) == "since 2026-11-03"
    assert Alarm.from_json(json.loads(json.dumps(alarm.as_json()))) == alarm
    assert carried(alarms, {}, (), ("age",), TUESDAY + timedelta(days=3)) == ([], frozenset())


def test_the_alarm_of_a_missing_column_stays_open() -> None:
    alarms, _ = carried([], {"age": "no value"}, (), (), TUESDAY)
    assert carried(alarms, {}, (), ("city",), TUESDAY + timedelta(days=1))[0] == alarms


def test_an_unanswered_alarm_that_fails_warns_after_some_nights() -> None:
    alarms, failed = list[Alarm](), list[bool]()
    for night in (0, 0, 1, 2, 2, 3, 4):  # a night that is judged again counts once
        day = TUESDAY + timedelta(days=night)
        alarms, fails = carried(alarms, {"age": "far"}, ("age",), ("age",), day, warn_after=3)
        failed.append("age" in fails)
    assert failed == [True] * 5 + [False] * 2 and alarms[0].failing == 5
    assert carried(alarms, {"age": "far"}, ("age",), ("age",), TUESDAY + timedelta(days=9))[1] == {"age"}


def test_an_answer_closes_an_alarm() -> None:
    alarms, _ = carried([], {"age": "", "city": ""}, (), (), TUESDAY)
    assert [alarm.column for alarm in without(alarms, ["age"])] == ["city"]
    with pytest.raises(InputError, match=r"no alarm is open on 'agee'\. Did you mean 'age'\?"):
        without(alarms, ["agee"])


def test_the_end_of_unanswered_alarms() -> None:
    assert warn_after("warn after 3") == 3 and warn_after("fail") is None
    with pytest.raises(InputError, match=r"unanswered: 'never' is not allowed\. Give 'warn after 3'"):
        warn_after("never")
