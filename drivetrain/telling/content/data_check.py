"""Read the verdict on a night's data from data_check.json, and that on served rows from served_check.json
(docs/data_checks.md describes them).

As with decisions, what is not understood is left out, and a file that cannot be read is said to be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.base.json_text import as_list, list_in, object_in
from drivetrain.telling.content.untrusted_json import UnreadableError, finite, objects, read_object, text, whole

DATA_CHECK_FILE, SERVED_CHECK_FILE = "data_check.json", "served_check.json"
MAX_BYTES, MAX_ALARMS, MAX_COLUMNS, MAX_NIGHTS, MAX_BINS, MAX_PICTURES = 16 << 20, 500, 60, 120, 64, 24
MAX_LOOKS = 400
TONES = {"passed": "good", "warned": "warn", "data drift": "warn", "failed": "bad", "not judged": "idle"}
_SERVED = "served"


@dataclass(frozen=True, kw_only=True)
class AlarmFacts:
    """A column's alarm in one sentence; `since` is the night of the first one that nobody has answered."""

    column: str
    verdict: str
    sentence: str
    since: str


@dataclass(frozen=True, kw_only=True)
class NightsOfColumn:
    """How far a column's nights lay from what was expected, in standard deviations; None where it was not judged. The
    last one is tonight."""

    column: str
    verdict: str
    distances: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Distributions:
    """The shares of a column's values in intervals, or by value: tonight, and what it is compared with."""

    column: str
    names: tuple[str, ...]
    tonight: tuple[float, ...]
    other: tuple[float, ...]
    other_name: str
    name: str = "tonight"


@dataclass(frozen=True, kw_only=True)
class LookFacts:
    """The metric of one look at labelled rows, its interval, and what was promised; None for what is not known."""

    metric: str
    value: float
    low: float | None
    high: float | None
    promised: float | None


@dataclass(frozen=True, kw_only=True)
class DataCheckFacts:
    """The verdict of a check_data or check_served step; `problem` says why there is none."""

    step: str
    problem: str = ""
    verdict: str = ""
    why: tuple[str, ...] = ()
    night: str = ""
    rows: int | None = None
    nights: int | None = None
    """Accepted nights before this one."""
    alarms: tuple[AlarmFacts, ...] = ()
    days: tuple[str, ...] = ()
    columns: tuple[NightsOfColumn, ...] = ()
    distributions: tuple[Distributions, ...] = ()
    method: tuple[str, ...] = ()
    is_served: bool = False
    """It is about served rows, and not about a night."""
    looks: tuple[LookFacts, ...] = ()
    """Looks at served rows so far, those without a label left out."""

    @property
    def tone(self) -> str:
        return "bad" if self.problem or "quality drop" in self.verdict else TONES.get(self.verdict, "idle")


def read_data_check(step: str, folder: Path) -> DataCheckFacts | None:
    """Read the verdict in a folder; None if the file is not ours."""
    return _facts(step, folder / DATA_CHECK_FILE)


def read_served_check(step: str, folder: Path) -> DataCheckFacts | None:
    """Read the verdict on served rows in a folder; None if the file is not ours."""
    return _facts(step, folder / SERVED_CHECK_FILE, _SERVED)


def _facts(step: str, file: Path, name: str = "tonight") -> DataCheckFacts | None:
    try:
        found = read_object(file, MAX_BYTES)
    except UnreadableError as error:
        return DataCheckFacts(step=step, problem=f"{file.name} {error}", is_served=name == _SERVED)
    if found is None or whole(found.get("format")) is None or not isinstance(found.get("verdict"), str):
        return None
    nights = object_in(found, "map")
    return DataCheckFacts(
        step=step,
        verdict=text(found.get("verdict")),
        why=_sentences(found, "why"),
        night=text(found.get("night")),
        rows=whole(found.get("rows")),
        nights=whole(found.get("nights")),
        alarms=tuple(_alarms(found.get("alarms"))),
        days=tuple(text(day) for day in list_in(nights, "days")[-MAX_NIGHTS:]),
        columns=tuple(_columns(nights.get("columns"))),
        distributions=tuple(_distributions(found.get("distributions"), name)),
        method=_sentences(found, "method"),
        is_served=name == _SERVED,
        looks=tuple(_looks(found.get("looks"))),
    )


def sentence(found: DataCheckFacts) -> str:
    """The verdict in a sentence: "Data: 2 columns warned. ..." ."""
    if found.problem:
        return f"Data: the verdict cannot be read: {found.problem}."
    if found.is_served:
        return " ".join((f"Served rows: {found.verdict}.", *found.why[:1]))
    return f"Data {found.verdict}: {found.why[0] if found.why else 'no reason is said.'}"


def _sentences(found: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(line for line in (text(each, 500) for each in list_in(found, name)[:MAX_ALARMS]) if line)


def _alarms(found: object) -> Iterator[AlarmFacts]:
    for entry in objects(found, MAX_ALARMS):
        yield AlarmFacts(
            column=text(entry.get("column")),
            verdict=text(entry.get("verdict")),
            sentence=text(entry.get("sentence"), 500),
            since=text(entry.get("since")),
        )


def _columns(found: object) -> Iterator[NightsOfColumn]:
    for entry in objects(found, MAX_COLUMNS):
        distances = as_list(entry.get("distances"))[-MAX_NIGHTS:]
        yield NightsOfColumn(
            column=text(entry.get("column")),
            verdict=text(entry.get("verdict")),
            distances=tuple(map(finite, distances)),
        )


def _looks(found: object) -> Iterator[LookFacts]:
    for entry in objects(found, MAX_LOOKS):
        if (value := finite(entry.get("value"))) is not None:
            ends = {name: finite(entry.get(name)) for name in ("low", "high", "promised")}
            yield LookFacts(metric=text(entry.get("metric")), value=value, **ends)


def _distributions(found: object, own_name: str) -> Iterator[Distributions]:
    for entry in objects(found, MAX_PICTURES):
        shares = {
            name: [finite(share) or 0.0 for share in as_list(entry.get(name))[:MAX_BINS]]
            for name in ("tonight", "other")
        }
        names = [text(name) for name in as_list(entry.get("names"))[:MAX_BINS]]
        if names and all(len(each) == len(names) for each in shares.values()):
            yield Distributions(
                column=text(entry.get("column")),
                names=tuple(names),
                tonight=tuple(shares["tonight"]),
                other=tuple(shares["other"]),
                other_name=text(entry.get("other_name")) or "before",
                name=own_name,
            )
