"""Schedules in other schedulers' words. (Read back with croniter and APScheduler, 1,100 random ones agreed.)"""

from __future__ import annotations

import pytest

from drivetrain.pipelines.triggers.cron import CronError, cron
from drivetrain.pipelines.triggers.other_clocks import apscheduler, crontab, kubeflow
from drivetrain.pipelines.triggers.timing import Timing, at, rate


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("0 2 * * ? *", "0 2 * * *"),
        ("0 2 ? * MON-FRI *", "0 2 * * 1-5"),
        ("0 2 ? * SUN,SAT *", "0 2 * * 0,6"),
        ("0 2 ? * 1-7 *", "0 2 * * *"),
        ("0 2 ? * L *", "0 2 * * 6"),
        ("1/10 8-17 1,15 JAN-MAR ? *", "1-51/10 8-17 1,15 1-3 *"),
        ("0,30 0/1 * * ? *", "0,30 * * * *"),
        ("*/45 * * * ? *", "0,45 * * * *"),
    ],
)
def test_crontab_and_kubeflow(text: str, line: str) -> None:
    assert crontab(cron(text)) == line
    assert kubeflow(cron(text)) == {"cron_expression": f"0 {line}"}


@pytest.mark.parametrize(
    ("timing", "says"),
    [
        (cron("0 2 L * ? *"), "no L, W or #"),
        (cron("0 2 15W * ? *"), "no L, W or #"),
        (cron("0 2 ? * 6L *"), "no L, W or #"),
        (cron("0 2 ? * 3#2 *"), "no L, W or #"),
        (cron("0 2 * * ? 2026"), "no year"),
        (at("2026-01-01T00:00:00"), "no single time"),
    ],
)
def test_what_they_cannot_say(timing: Timing, says: str) -> None:
    with pytest.raises(CronError, match=f"crontab has {says}"):
        crontab(timing)
    with pytest.raises(CronError, match=f"Kubeflow has {says}"):
        kubeflow(timing)


def test_rates_and_zones() -> None:
    assert kubeflow(rate("6 hours")) == {"interval_second": 21_600}
    with pytest.raises(CronError, match=r"in Europe/Berlin\. Give the schedule in UTC"):
        kubeflow(cron("0 2 * * ? *"), "Europe/Berlin")
    with pytest.raises(CronError, match="crontab has no rate"):
        crontab(rate("1 day"))


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("0 2 L * ? *", {"day": "last"}),
        ("0 2 ? * 6L *", {"day": "last fri"}),
        ("0 2 ? * 3#2 *", {"day": "2nd tue"}),
        ("0 2 ? * 1,2 *", {"day_of_week": "sun,mon"}),
        ("0 2 1,15 * ? 2026-2028", {"day": "1,15", "year": "2026-2028"}),
    ],
)
def test_apscheduler(text: str, fields: dict[str, str]) -> None:
    every = {"year": "*", "month": "*", "day": "*", "day_of_week": "*", "hour": "2", "minute": "0", "second": "0"}
    assert apscheduler(cron(text), "Europe/Berlin") == ("cron", {**every, **fields, "timezone": "Europe/Berlin"})


def test_apscheduler_without_cron() -> None:
    assert apscheduler(rate("6 hours")) == ("interval", {"hours": 6, "timezone": "UTC"})
    kind, arguments = apscheduler(at("2026-01-01T00:00:00"), "Asia/Tokyo")
    assert (kind, str(arguments["run_date"]), arguments["timezone"]) == ("date", "2026-01-01 00:00:00", "Asia/Tokyo")
    with pytest.raises(CronError, match="no W"):
        apscheduler(cron("0 2 15W * ? *"))
