"""Schedules in time zones: what a change of the clocks does, beginnings and ends, rates, single times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.triggers.cron import CronError, cron
from drivetrain.triggers.timing import At, Rate, Timing, at, moment, next_times, rate, zone

NEW_YORK = "America/New_York"


def times(timing: Timing, after: str, place: str, count: int) -> list[str]:
    found = islice(next_times(timing, datetime.fromisoformat(after), zone(place)), count)
    return [time.isoformat(timespec="minutes") for time in found]


def test_a_local_time_skipped_by_the_clock_change_is_skipped() -> None:
    """https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html#daylist-savings-time"""
    assert times(cron("30 2 * * ? *"), "2026-03-07T12:00-05:00", NEW_YORK, 2) == [
        "2026-03-09T02:30-04:00",
        "2026-03-10T02:30-04:00",
    ]
    assert times(cron("0/30 1-3 * * ? *"), "2026-03-08T01:30-05:00", NEW_YORK, 2) == [
        "2026-03-08T03:00-04:00",
        "2026-03-08T03:30-04:00",
    ]


def test_a_local_time_that_occurs_twice_runs_once() -> None:
    assert times(cron("30 1 * * ? *"), "2026-10-31T12:00-04:00", NEW_YORK, 2) == [
        "2026-11-01T01:30-04:00",
        "2026-11-02T01:30-05:00",
    ]
    assert times(cron("0/30 * * * ? *"), "2026-11-01T01:00-04:00", NEW_YORK, 2) == [
        "2026-11-01T01:30-04:00",
        "2026-11-01T02:00-05:00",
    ]
    # Asked in the hour that comes again: 01:45 has been.
    assert times(cron("45 1 * * ? *"), "2026-11-01T01:40-05:00", NEW_YORK, 1) == ["2026-11-02T01:45-05:00"]


def test_a_time_of_the_repeated_hour_given_in_the_zone_itself() -> None:
    second = datetime(2026, 11, 1, 1, 40, fold=1, tzinfo=zone(NEW_YORK))
    found = next(next_times(cron("45 1 * * ? *"), second, zone(NEW_YORK)))
    assert found.isoformat() == "2026-11-02T01:45:00-05:00"


def test_a_day_of_a_rate_has_24_hours() -> None:
    assert times(rate("1 day"), "2026-03-07T12:00-05:00", NEW_YORK, 2) == [
        "2026-03-08T13:00-04:00",
        "2026-03-09T13:00-04:00",
    ]


def test_a_rate_counts_from_its_beginning() -> None:
    start = datetime(2026, 3, 1, 0, 7, tzinfo=UTC)

    def found(after: datetime, end: datetime | None = None) -> list[str]:
        return [f"{time:%d %H:%M}" for time in islice(next_times(rate("6 hours"), after, start=start, end=end), 3)]

    assert found(datetime(2026, 2, 1, tzinfo=UTC)) == ["01 00:07", "01 06:07", "01 12:07"]
    assert found(start) == ["01 06:07", "01 12:07", "01 18:07"]
    assert found(datetime(2026, 3, 1, 7, tzinfo=UTC)) == ["01 12:07", "01 18:07", "02 00:07"]
    assert found(start, end=datetime(2026, 3, 1, 12, 7, tzinfo=UTC)) == ["01 06:07", "01 12:07"]
    assert found(start, end=datetime(2026, 3, 1, 6, 6, tzinfo=UTC)) == []


def test_a_cron_has_a_beginning_and_an_end() -> None:
    after = datetime(2026, 1, 1, tzinfo=UTC)
    start, end = datetime(2026, 3, 1, 2, tzinfo=UTC), datetime(2026, 3, 3, 1, tzinfo=UTC)
    found = [f"{time:%m-%d %H}" for time in next_times(cron("0 2 * * ? *"), after, start=start, end=end)]
    assert found == ["03-01 02", "03-02 02"]


def test_once() -> None:
    once = at("at(2026-03-08T03:30:00)")
    assert times(once, "2026-01-01T00:00Z", NEW_YORK, 2) == ["2026-03-08T03:30-04:00"]
    assert times(once, "2026-03-08T07:30Z", NEW_YORK, 2) == []
    assert times(at("2026-03-08T02:30:00"), "2026-01-01T00:00Z", NEW_YORK, 2) == []  # clocks skip it


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1 minute", "rate(1 minute)"), (" rate( 15  minutes ) ", "rate(15 minutes)"), ("2 days", "rate(2 days)")],
)
def test_rates(text: str, expected: str) -> None:
    assert rate(text).expression == expected
    assert rate(expected) == rate(text)


@pytest.mark.parametrize(
    "text", ["", "day", "0 days", "1 days", "2 day", "1.5 hours", "1 week", "rate(1 day", "٣ days"]
)
def test_rates_that_are_refused(text: str) -> None:
    with pytest.raises(CronError, match="Rate"):
        rate(text)


@pytest.mark.parametrize("text", ["2026-3-1T00:00:00", "2026-03-01", "2026-02-30T00:00:00", "at(2026-03-01T00:00:00Z)"])
def test_times_that_are_refused(text: str) -> None:
    with pytest.raises(CronError, match="write it as"):
        at(text)


def test_zones() -> None:
    with pytest.raises(CronError, match="Did you mean 'Europe/Berlin'"):
        zone("Europe/Berlim")
    for bad in ("", "/etc/passwd", "../../etc/passwd", "Europe", "x" * 5_000, "a\0b"):
        with pytest.raises(CronError, match="no time zone"):
            zone(bad)


def test_moments() -> None:
    berlin = zone("Europe/Berlin")
    assert moment("2026-03-01", berlin).isoformat() == "2026-03-01T00:00:00+01:00"
    assert moment("2026-03-01T05:00:00Z", berlin) == datetime(2026, 3, 1, 5, tzinfo=UTC)
    with pytest.raises(CronError, match="is no time"):
        moment("tomorrow", berlin)
    with pytest.raises(UserError, match="names no zone"):
        next(next_times(rate("1 day"), datetime(2026, 1, 1)))


_timings: st.SearchStrategy[Timing] = st.one_of(
    st.builds(Rate, st.integers(1, 400), st.sampled_from(["minute", "hour", "day"])),
    st.builds(
        At, st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1)).map(lambda time: time.replace(microsecond=0))
    ),
    st.sampled_from(["0/7 * * * ? *", "30 1,2 * * ? *", "0 0 L * ? *", "15 2 ? * SUN *", "0 3 1W * ? *"]).map(cron),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    timing=_timings,
    after=st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 1)),
    place=st.sampled_from(["UTC", NEW_YORK, "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]),
)
def test_next_times_increase(timing: Timing, after: datetime, place: str) -> None:
    since = after.replace(tzinfo=UTC)
    found = [time.astimezone(UTC) for time in islice(next_times(timing, since, zone(place)), 6)]
    assert all(one < two for one, two in zip([since, *found], found, strict=False))
    if found:  # what comes next does not depend on when one asks
        just_before = found[-1] - timedelta(seconds=1)
        if not isinstance(timing, Rate):
            # In UTC: Python never calls a time that comes twice equal to one of another zone (PEP 495).
            assert next(next_times(timing, just_before, zone(place))).astimezone(UTC) == found[-1]


@pytest.mark.parametrize("text", ["9999-12-31", "9999-12-31T23:59:59Z", "0001-01-01", "0001-01-01T00:00:00+00:00"])
@pytest.mark.parametrize("place", [NEW_YORK, "Asia/Tokyo", "UTC"])
def test_the_ends_of_the_calendar_are_refused(text: str, place: str) -> None:
    with pytest.raises(CronError, match="leave it out"):
        moment(text, zone(place))


def test_a_single_time_at_the_end_of_the_calendar_is_refused() -> None:
    with pytest.raises(CronError, match="allowed are 2 to 9998"):
        at("9999-12-31T23:59:59")


@pytest.mark.parametrize("place", [NEW_YORK, "Asia/Tokyo", "Pacific/Kiritimati"])
def test_the_first_and_last_years_that_are_allowed_can_be_counted_with(place: str) -> None:
    where = zone(place)
    start, end = moment("0002-01-01", where), moment("9998-12-31T23:59:59", where)
    after = datetime(2026, 1, 1, tzinfo=UTC)
    for timing in (cron("0 2 * * ? *"), rate("1 day")):
        assert next(next_times(timing, after, where, start=start, end=end)) > after
    late = at("9998-12-31T23:59:59")
    assert [time.year for time in next_times(late, after, where)] == [9998]
    assert next(next_times(rate("1 day"), after, where, start=end)) == end
