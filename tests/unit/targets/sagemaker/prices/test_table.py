from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.catalog.instances import find_instance
from drivetrain.targets.sagemaker.prices import table
from drivetrain.targets.sagemaker.prices.table import (
    KINDS,
    PriceTable,
    Sheet,
    age_line,
    current,
    read,
    shipped,
    user_file,
    write,
)


def sheet(region: str, day: int, hourly: float, source: str = "tests") -> Sheet:
    return Sheet(region, datetime.date(2026, 10, day), source, {"Training": {"ml.m5.xlarge": hourly}}, {})


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRIVETRAIN_PRICES", str(tmp_path / "prices.json"))
    return tmp_path / "prices.json"


def test_every_shipped_price_has_its_source() -> None:
    said = json.loads(table.SHIPPED.read_bytes())
    assert said["currency"] == "USD"
    for entry in said["sheets"]:
        assert "https://" in entry["source"]
        assert datetime.date(2023, 1, 1) < datetime.date.fromisoformat(entry["date"]) < datetime.date(2026, 11, 30)
        assert set(entry["hourly"]) <= set(KINDS)
        for prices in entry["hourly"].values():
            assert all(0.01 < amount < 200 for amount in prices.values())
            assert all(name.startswith("ml.") for name in prices)


def test_the_shipped_list_has_the_machines_that_a_pipeline_has_by_default() -> None:
    for kind in ("Training", "Processing"):
        price = shipped().hourly("us-east-1", kind, "ml.m5.xlarge")
        assert price is not None
        assert price.amount == 0.23
        assert shipped().storage("us-east-1", kind) is not None


def test_more_of_the_same_machine_costs_more() -> None:
    """A slip of a digit in the shipped list would show here."""
    for entry in shipped().sheets:
        for prices in entry.hourly.values():
            for one, amount in prices.items():
                for other, more in prices.items():
                    small, large = find_instance(one), find_instance(other)
                    if small and large and one.split(".")[1] == other.split(".")[1] and small.vcpus < large.vcpus:
                        assert amount < more <= amount * 2 * max(large.vcpus / small.vcpus, large.gpus or 1), (
                            one,
                            other,
                        )


def test_of_several_sheets_the_newest_that_has_the_price_counts(tmp_path: Path) -> None:
    place = tmp_path / "prices.json"
    old = Sheet("us-east-1", datetime.date(2025, 1, 1), "old", {"Training": {"ml.m5.xlarge": 1, "ml.m4.xlarge": 2}}, {})
    write(place, PriceTable((old, sheet("us-east-1", 3, 0.5, "new"))))
    found = read(place)
    new, fallen_back = (found.hourly("us-east-1", "Training", name) for name in ("ml.m5.xlarge", "ml.m4.xlarge"))
    assert (new and (new.amount, new.source)) == (0.5, "new")
    assert (fallen_back and (fallen_back.amount, fallen_back.date.year)) == (2, 2025)


def test_missing_prices_are_absent() -> None:
    held = PriceTable((sheet("us-east-1", 1, 0.5),))
    assert held.hourly("us-east-1", "Processing", "ml.m5.xlarge") is None
    assert held.hourly("us-east-2", "Training", "ml.m5.xlarge") is None
    assert held.hourly("us-east-1", "Training", "ml.m5.large") is None
    assert held.storage("us-east-1", "Training") is None


def test_a_fetched_region_replaces_the_shipped_one(own_file: Path) -> None:
    assert current() == shipped()
    day = datetime.date(2030, 1, 1)
    write(own_file, PriceTable((Sheet("us-east-1", day, "mine", {"Training": {"ml.m5.xlarge": 7}}, {}),)))
    price = current().hourly("us-east-1", "Training", "ml.m5.xlarge")
    assert price is not None
    assert (price.amount, price.date) == (7, day)
    assert current().hourly("us-east-1", "Training", "ml.g5.xlarge") is None, "a region's list is the whole list"
    assert current().of_region("ap-south-1") == shipped().of_region("ap-south-1")


def test_a_shipped_list_that_is_newer_than_the_fetched_one_counts(own_file: Path) -> None:
    day = datetime.date(2020, 1, 1)
    write(own_file, PriceTable((Sheet("us-east-1", day, "mine", {"Training": {"ml.m5.xlarge": 7}}, {}),)))
    assert current() == shipped()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"sheets": []}',
        '{"currency": "USD", "sheets": [{"region": "us-east-1"}]}',
        '{"currency": "USD", "sheets": [{"region": "r", "date": "soon", "source": "", "hourly": {}, "storage": {}}]}',
        '{"currency": "USD", "sheets": [{"region": "r", "date": "2026-01-01", "source": "", "hourly": {"Training": '
        '{"ml.m5.xlarge": -1}}, "storage": {}}]}',
        '{"currency": "USD", "sheets": [{"region": "r", "date": "2026-01-01", "source": "", "hourly": {"Training": '
        '{"ml.m5.xlarge": NaN}}, "storage": {}}]}',
        '{"currency": "USD", "sheets": [{"region": "r", "date": "2026-01-01", "source": "", "hourly": []}]}',
        "[" * 100_000,
    ],
)
def test_a_broken_file_of_the_user_is_one_message_with_what_to_do(own_file: Path, text: str) -> None:
    own_file.write_text(text)
    with pytest.raises(UserError, match=r"no price list .*prices update"):
        current()


def test_a_file_without_end_is_not_read(own_file: Path) -> None:
    with own_file.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UserError, match="bytes"):
        current()


def test_the_age_is_said_in_days() -> None:
    day = datetime.date(2026, 9, 24)
    assert age_line(day, datetime.date(2026, 11, 21)) == (
        "prices of 2026-09-24, 58 days old; refresh with drivetrain prices update"
    )
    assert "1 day old" in age_line(day, datetime.date(2026, 9, 25))
    assert "today's" in age_line(day, day)
    assert "today's" in age_line(day, datetime.date(2026, 9, 23)), "a clock that is behind"


def test_where_the_users_file_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DRIVETRAIN_PRICES", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert user_file() == tmp_path / ".local/share/drivetrain/prices.json"
    monkeypatch.setenv("XDG_DATA_HOME", "not/absolute")
    assert user_file() == tmp_path / ".local/share/drivetrain/prices.json"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert user_file() == tmp_path / "data/drivetrain/prices.json"
    monkeypatch.setenv("DRIVETRAIN_PRICES", "~/mine.json")
    assert user_file() == tmp_path / "mine.json"
