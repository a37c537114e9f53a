import pytest

from drivetrain.base.errors import UserError
from drivetrain.spec.durations import seconds

DAY = 86_400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("P7d", 7 * DAY),
        ("P30D", 30 * DAY),
        ("30d", 30 * DAY),
        ("T12H", 12 * 3600),
        ("PT1H", 3600),
        ("5y", 5 * 365 * DAY),
        ("T16m", 16 * 60),
        ("30dT5h", 30 * DAY + 5 * 3600),
        ("P1M", 30 * DAY),
        ("1m", 30 * DAY),
        ("PT1M", 60),
        ("P1MT1M", 30 * DAY + 60),
        ("P2W", 14 * DAY),
        ("P1Y2M3W4DT5H6M7S", (365 + 60 + 21 + 4) * DAY + 5 * 3600 + 6 * 60 + 7),
        ("12h", 12 * 3600),
        ("90s", 90),
        ("1d12h", DAY + 12 * 3600),
        ("PT0.5H", 1800),
        ("PT0,5H", 1800),
        ("PT0S", 0),
        (" P1D ", DAY),
    ],
)
def test_every_spelling_of_a_duration_is_read(text: str, expected: float) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "T",
        "30",
        "P30",
        "d",
        "-P1D",
        "P-1D",
        "P1DT1D",
        "P1H1D",
        "1d1d",
        "PT1H1H",
        "P1X",
        "one day",
        "P1D 2",
        "P9999999999D",
        "P1.D",
        "PPT1H",
        "PT1HT2M",
        "٣d",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"is not a duration\. Allowed: an ISO 8601 duration such as P30D"):
        seconds(text)
