"""Cron expressions against a second reading of their rules, day by day, and the documented examples."""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.triggers.cron import MONTHS, WEEKDAYS, CronError, cron
from drivetrain.triggers.timing import next_times


def times(text: str, after: str, count: int = 3) -> list[str]:
    found = islice(next_times(cron(text), datetime.fromisoformat(after).replace(tzinfo=UTC)), count)
    return [time.strftime("%Y-%m-%d %H:%M") for time in found]


# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-scheduled-rule-pattern.html and the page on Scheduler's
# schedule types have the expressions and say in words when they run; the dates are read off a calendar.
@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("0 10 * * ? *", "2026-03-04T10:00", ["2026-03-05 10:00", "2026-03-06 10:00"]),
        ("15 12 * * ? *", "2026-12-31T12:15", ["2027-01-01 12:15"]),
        ("0 18 ? * MON-FRI *", "2026-03-06T18:00", ["2026-03-09 18:00", "2026-03-10 18:00"]),
        ("0 8 1 * ? *", "2026-03-01T08:00", ["2026-04-01 08:00"]),
        ("0/15 * * * ? *", "2026-03-01T08:07", ["2026-03-01 08:15", "2026-03-01 08:30"]),
        ("0/5 8-17 ? * MON-FRI *", "2026-03-06T17:50", ["2026-03-06 17:55", "2026-03-09 08:00"]),
        ("0/30 20-23 ? * MON-FRI *", "2026-03-06T23:00", ["2026-03-06 23:30", "2026-03-09 20:00"]),
        ("15 10 ? * 6L 2022-2023", "2022-11-25T10:15", ["2022-12-30 10:15", "2023-01-27 10:15"]),
        ("0 9 ? * 2#1 *", "2026-03-02T09:00", ["2026-04-06 09:00"]),
        ("1/10 * * * ? *", "2026-03-01T08:00", ["2026-03-01 08:01", "2026-03-01 08:11", "2026-03-01 08:21"]),
        ("0 0 3W * ? *", "2026-01-01T00:00", ["2026-01-02 00:00", "2026-02-03 00:00"]),
        ("0 0 ? * 3#2 *", "2026-03-01T00:00", ["2026-03-10 00:00"]),
        ("0 0 L * ? *", "2028-02-01T00:00", ["2028-02-29 00:00", "2028-03-31 00:00"]),
        ("0 0 ? * L *", "2026-03-01T00:00", ["2026-03-07 00:00", "2026-03-14 00:00"]),
        ("0 0 1W * ? *", "2026-08-01T00:00", ["2026-08-03 00:00", "2026-09-01 00:00"]),  # Saturday: never last month
        ("0 0 31W * ? *", "2026-05-01T00:00", ["2026-05-29 00:00", "2026-07-31 00:00"]),  # Sunday: never next month
        ("0 0 31 * ? *", "2026-03-31T00:00", ["2026-05-31 00:00", "2026-07-31 00:00"]),
        ("59 23 31 12 ? 2199", "2199-12-31T23:58", ["2199-12-31 23:59"]),
        ("0 0 29 2 ? *", "2196-02-29T00:00", []),
        ("cron(0 0 1 jan ? *)", "2026-03-01T00:00", ["2027-01-01 00:00"]),
    ],
)
def test_documented_examples(text: str, after: str, expected: list[str]) -> None:
    assert times(text, after, max(len(expected), 1)) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0 2 * * *", "has 5 fields"),
        ("", "has 0 fields"),
        ("0 0 2 * * ? *", "has 7 fields"),
        ("0 2 * * * *", "neither of day of month and day of week"),
        ("0 2 ? * ? *", "both of day of month and day of week"),
        ("60 2 * * ? *", "minutes is '60': allowed are 0 to 59"),
        ("-1 2 * * ? *", "minutes is '-1'"),
        ("0 24 * * ? *", "hours is '24'"),
        ("0 2 0 * ? *", "day of month is '0'"),
        ("0 2 * 13 ? *", "month is '13': allowed are 1 to 12 or JAN to DEC"),
        ("0 2 * JANUARY ? *", "month is 'JANUARY'"),
        ("0 2 ? * 0 *", "day of week is '0': allowed are 1 to 7 or SUN to SAT"),
        ("0 2 ? * MON/2 *", "List the days"),
        ("0 2 * * ? 1969", "year is '1969'"),
        ("0 2 * * ? 2200", "year is '2200'"),
        ("0 22-4 * * ? *", "Write two: 22-23,0-4"),
        ("*/0 * * * ? *", "a step from 1 to 59"),
        ("0/60 * * * ? *", "a step from 1 to 59"),
        ("0/x * * * ? *", "a step from 1 to 59"),
        ("1,,2 * * * ? *", "minutes is ''"),
        ("٣ * * * ? *", "minutes is '٣'"),
        ("0 2 L-3 * ? *", "stand alone"),
        ("0 2 LW * ? *", "stand alone"),
        ("0 2 1W,15W * ? *", "stand alone"),
        ("0 2 32W * ? *", "day of month is '32W'"),
        ("0 2 ? * 3#6 *", "the first to the fifth"),
        ("0 2 ? * 3#1,6#3 *", "stand alone"),
        ("0 2 ? * 8L *", "day of week is '8L'"),
        ("0 2 ? * 2L,3 *", "stand alone"),
        ("0 2 30 2 ? *", "never comes"),
        ("0 2 31 4,6,9,11 ? *", "never comes"),
        ("0 2 ? 2 3#5 2026", "never comes"),
        ("0 " * 200, "characters"),
    ],
)
def test_invalid_cron_expressions_are_refused(text: str, says: str) -> None:
    with pytest.raises(CronError) as caught:
        cron(text)
    assert says in str(caught.value)


def test_the_expression_for_the_service() -> None:
    assert cron("  cron( 0  2 ? jan  mon-fri * ) ").expression == "cron(0 2 ? JAN MON-FRI *)"


def _span(first: int, last: int, names: tuple[str, ...] = (), *, steps: bool = True) -> st.SearchStrategy[str]:
    number = st.integers(first, last).map(str)
    kinds = [
        st.just("*"),
        number,
        st.tuples(st.integers(first, last), st.integers(first, last)).map(lambda two: f"{min(two)}-{max(two)}"),
        st.lists(number, min_size=2, max_size=4).map(",".join),
    ]
    if steps:
        kinds.append(
            st.tuples(st.one_of(st.just("*"), number), st.integers(1, last)).map(lambda two: f"{two[0]}/{two[1]}")
        )
    if names:
        kinds.append(st.sampled_from(names))
    return st.one_of(kinds)


_days = st.one_of(
    st.tuples(_span(1, 31), st.just("?")),
    st.tuples(st.just("L"), st.just("?")),
    st.tuples(st.integers(1, 31).map(lambda day: f"{day}W"), st.just("?")),
    st.tuples(st.just("?"), _span(1, 7, WEEKDAYS, steps=False)),
    st.tuples(st.just("?"), st.integers(1, 7).map(lambda day: f"{day}L")),
    st.tuples(st.just("?"), st.tuples(st.integers(1, 7), st.integers(1, 5)).map(lambda two: f"{two[0]}#{two[1]}")),
)


def _named(text: str, value: int, last: int, first: int, names: tuple[str, ...] = ()) -> bool:
    """Whether a value is in a field, read by definition, one part at a time."""

    def number(part: str) -> int:
        return names.index(part) + 1 if part in names else int(part)

    for part in text.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        start = first if span == "*" else number(low)
        end = number(high) if high else (last if span == "*" or step else start)
        if start <= value <= end and (value - start) % int(step or 1) == 0:
            return True
    return False


def _runs_on(month_days: str, week_days: str, day: date) -> bool:
    """Whether a day fits the two day fields, by their definitions."""
    weekday = day.isoweekday() % 7 + 1
    if month_days == "L":
        return (day + timedelta(days=1)).day == 1
    if month_days.endswith("W"):
        wanted, length = int(month_days[:-1]), calendar.monthrange(day.year, day.month)[1]
        if wanted > length:
            return False
        workdays = [n for n in range(1, length + 1) if date(day.year, day.month, n).isoweekday() < 6]
        return day.day == min(workdays, key=lambda n: abs(n - wanted))
    if month_days != "?":
        return _named(month_days, day.day, 31, 1)
    if week_days.endswith("L"):
        return weekday == int(week_days[:-1]) and (day + timedelta(days=7)).month != day.month
    if "#" in week_days:
        wanted, count = map(int, week_days.split("#"))
        return weekday == wanted and (day.day - 1) // 7 + 1 == count
    return _named(week_days, weekday, 7, 1, WEEKDAYS)


@settings(max_examples=150, deadline=None)
@given(
    minutes=_span(0, 59),
    hours=_span(0, 23),
    days=_days,
    months=_span(1, 12, MONTHS),
    year=st.sampled_from(["*", "2028", "2026-2028", "2027,2029", "2026/2"]),
    after=st.datetimes(datetime(2026, 1, 1), datetime(2028, 6, 1)),
)
def test_next_times_match_the_definition(
    minutes: str, hours: str, days: tuple[str, str], months: str, year: str, after: datetime
) -> None:
    try:
        made = cron(f"{minutes} {hours} {days[0]} {months} {days[1]} {year}")
    except CronError as error:
        assert "never comes" in str(error)
        found = None
    else:
        found = next(next_times(made, after.replace(tzinfo=UTC)), None)
    on_clock = [(h, m) for h in range(24) if _named(hours, h, 23, 0) for m in range(60) if _named(minutes, m, 59, 0)]
    day = after.date()
    expected: datetime | None = None
    while expected is None and day < date(2034, 1, 1):  # far enough for the 29th of February and every 5th weekday
        fits = _named(year, day.year, 2199, 1970) and _named(months, day.month, 12, 1, MONTHS) and _runs_on(*days, day)
        if fits:
            expected = next(
                (
                    time
                    for hour, minute in on_clock
                    if (time := datetime(day.year, day.month, day.day, hour, minute)) > after
                ),
                None,
            )
        day += timedelta(days=1)
    if expected is None:
        assert found is None or found.year >= 2034
    else:
        assert found is not None and found.replace(tzinfo=None) == expected


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="0123456789*/,-?LW# MONFRIcron()٣", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        made = cron(text)
    except CronError as error:
        assert str(error).startswith(("Cron", "A cron"))
    else:
        assert cron(made.expression) == made
