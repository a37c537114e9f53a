"""The prices of machines and their volumes: the shipped list, and the user's fetched one.

    table = current()
    table.hourly("us-east-1", "Training", "ml.m5.xlarge")     # Price(amount=0.23, date=..., source=...)

A list is made of sheets: prices of one region, from one source and of one day. What a sheet does not have has no price
here; none is derived from another type or region.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import tempfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean

SHIPPED = Path(__file__).with_name("prices.json")
VARIABLE = "DRIVETRAIN_PRICES"
KINDS = ("Training", "Processing", "Transform")
REFRESH = "drivetrain prices update"
# The list of every region has some 10,000 machine prices.
MAX_BYTES = 8 * 1024 * 1024

Json = dict[str, Any]


@dataclass(frozen=True)
class Price:
    """An amount in the table's currency: for an hour of one machine, or a month of one GB of its volume."""

    amount: float
    date: datetime.date
    source: str


@dataclass(frozen=True)
class Sheet:
    """Prices of one region as one source had them on one day."""

    region: str
    date: datetime.date
    source: str
    hourly: Mapping[str, Mapping[str, float]]
    """Kind of job (one of KINDS) -> instance type -> price of an hour of one machine."""
    storage: Mapping[str, float]
    """Kind of job -> price of a GB of its machines' volumes for a month."""

    def to_json(self) -> Json:
        return {
            "region": self.region,
            "date": self.date.isoformat(),
            "source": self.source,
            "hourly": {kind: dict(sorted(prices.items())) for kind, prices in self.hourly.items()},
            "storage": dict(self.storage),
        }


@dataclass(frozen=True)
class PriceTable:
    """All sheets, those that count first, first."""

    sheets: tuple[Sheet, ...]
    currency: str = "USD"

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions with known prices, sorted."""
        return tuple(sorted({sheet.region for sheet in self.sheets}))

    def of_region(self, region: str) -> tuple[Sheet, ...]:
        """The sheets of a region."""
        return tuple(sheet for sheet in self.sheets if sheet.region == region)

    def hourly(self, region: str, kind: str, instance_type: str) -> Price | None:
        """The on-demand price of an hour of one machine, or None where no sheet has it."""
        for sheet in self.of_region(region):
            if (amount := sheet.hourly.get(kind, {}).get(instance_type)) is not None:
                return Price(amount, sheet.date, sheet.source)
        return None

    def storage(self, region: str, kind: str) -> Price | None:
        """The price of one GB of a job's volume for a month, or None where no sheet has it."""
        for sheet in self.of_region(region):
            if (amount := sheet.storage.get(kind)) is not None:
                return Price(amount, sheet.date, sheet.source)
        return None

    def including(self, fetched: Iterable[Sheet]) -> PriceTable:
        """The table in which a region's fetched sheet, which is its whole list, stands for those that were there."""
        new = tuple(fetched)
        replaced = {sheet.region for sheet in new}
        kept = tuple(sheet for sheet in self.sheets if sheet.region not in replaced)
        return PriceTable((*new, *kept), self.currency)

    def only(self, types: Collection[str]) -> PriceTable:
        """The table with nothing but the hourly prices of some instance types.

        Raises:
            UserError: a type that no sheet has.
        """
        known = {name for sheet in self.sheets for prices in sheet.hourly.values() for name in prices}
        for name in types:
            if name not in known:
                raise UserError(f"No price of instance type {name!r} is known. {did_you_mean(name, known)}")
        found: list[Sheet] = []
        for sheet in self.sheets:
            hourly = {
                kind: {name: amount for name, amount in prices.items() if name in types}
                for kind, prices in sheet.hourly.items()
            }
            if any(hourly.values()):
                found.append(replace(sheet, hourly=hourly, storage={}))
        return PriceTable(tuple(found), self.currency)

    def to_json(self) -> Json:
        return {"currency": self.currency, "sheets": [sheet.to_json() for sheet in self.sheets]}


def days_old(date: datetime.date, today: datetime.date | None = None) -> int:
    """Whole days since then, by the calendar in UTC; 0 where a clock is behind."""
    return max(((today or datetime.datetime.now(datetime.UTC).date()) - date).days, 0)


def age_line(date: datetime.date, today: datetime.date | None = None) -> str:
    """`prices of 2026-09-24, 58 days old; refresh with drivetrain prices update`."""
    days = days_old(date, today)
    age = "today's" if days == 0 else f"{days} day{'' if days == 1 else 's'} old"
    return f"prices of {date.isoformat()}, {age}; refresh with {REFRESH}"


def user_file() -> Path:
    """The file that `drivetrain prices update` writes: $DRIVETRAIN_PRICES, or drivetrain/prices.json in the user's
    data folder.

    The data folder is $XDG_DATA_HOME or ~/.local/share (XDG Base Directory Specification).
    """
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME", "")
    # The specification: a path that is not absolute is to be ignored.
    folder = Path(data) if data.startswith("/") else Path.home() / ".local" / "share"
    return folder / "drivetrain" / "prices.json"


def shipped() -> PriceTable:
    """The list that comes with this version."""
    return read(SHIPPED)


def current() -> PriceTable:
    """The shipped list, with the user's fetched regions in place of its own.

    Raises:
        UserError: the user's file is no price list.
    """
    place = user_file()
    table = shipped()
    if not place.exists():
        return table
    fetched = read(place)
    newest = {region: max(sheet.date for sheet in table.of_region(region)) for region in table.regions}
    # A newer version of drivetrain may ship what is newer than the user's own list.
    return table.including(sheet for sheet in fetched.sheets if sheet.date >= newest.get(sheet.region, sheet.date))


def read(path: Path) -> PriceTable:
    """A list in a file.

    Raises:
        UserError: it cannot be read, or is no price list.
    """
    mend = f"Delete it, or write it anew: {REFRESH}" if path != SHIPPED else "Install drivetrain again."
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        said = json.loads(content)
        sheets = tuple(map(_sheet, said["sheets"]))
        # Stable: of two sheets of one day the first stays first.
        return PriceTable(tuple(sorted(sheets, key=lambda sheet: sheet.date, reverse=True)), str(said["currency"]))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. {mend}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"{path} is no price list ({type(error).__name__}: {error}). {mend}") from None


def write(path: Path, table: PriceTable) -> None:
    """Write a list whole or not at all; its folder is made if it is missing.

    Raises:
        UserError: it cannot be written.
    """
    text = json.dumps(table.to_json(), indent=1) + "\n"
    place = path.resolve()  # a link stays one
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        # Named anew each time: two that write at once must not share it.
        handle, beside = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".part")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(beside, 0o644)
            os.replace(beside, place)
        except BaseException:
            os.unlink(beside)
            raise
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. Give another place: ${VARIABLE}=FILE") from error


def _sheet(said: Json) -> Sheet:
    return Sheet(
        region=str(said["region"]),
        date=datetime.date.fromisoformat(said["date"]),
        source=str(said["source"]),
        hourly={str(kind): _amounts(prices) for kind, prices in cast("Json", said["hourly"]).items()},
        storage=_amounts(said["storage"]),
    )


def _amounts(said: Mapping[str, Any]) -> dict[str, float]:
    amounts = {str(name): float(amount) for name, amount in said.items()}
    if wrong := [name for name, amount in amounts.items() if not (math.isfinite(amount) and amount >= 0)]:
        raise ValueError(f"the price of {wrong[0]} is {said[wrong[0]]!r}")
    return amounts
