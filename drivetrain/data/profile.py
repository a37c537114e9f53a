"""The profile of a set: what the rows of one run held, in one small file beside the shards.

    train/3f6c0a41b2d7/profile.npz    what the run that wrote this version added
    train/3f6c0a41b2d7/whole.npz      all rows of an incremental set, where the run went on from an earlier one

The manifest's lineage names both with their hashes (`profile`, `whole`); they are not part of the content hash. The
sides of a split are judged together: their profiles are merged. All arrays are float64 [columns], NaN for no value,
unless said otherwise.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.data import association
from drivetrain.data.array_file import packed_arrays, unpacked_arrays
from drivetrain.data.arrow import numpy
from drivetrain.data.columns import MAX_DAYS, Texts, Times
from drivetrain.data.manifest import Manifest
from drivetrain.data.quantile_grid import POINTS, below, fractions, grid_of_counts, mixture
from drivetrain.data.shapes import is_number
from drivetrain.data.statistics import MAX_VALUES, TableStatistics

PROFILE, WHOLE = "profile", "whole"
MAX_SHARES = 20
"""Values of a text column, or classes, whose shares of the rows are statistics."""
TABLE = ""
"""The column's name of what a night has once: its rows."""
_KIND, _FORMAT, _ADVICE = "profile", 1, "Run prepare_data again."
# The smallest hashes of a column's values: how many values two profiles share.
_SMALLEST = 32
_SUMS = ("nulls", "blanks", "not_finite", "count", "length_sum", "hours_sum", "before")
_LEAST, _GREATEST = ("min", "oldest"), ("max", "newest", "length_max")


class Statistic(NamedTuple):
    """A number that nights are compared by: its kind, which says on which scale, and its words."""

    kind: str
    """count, share, positive or number."""
    words: str


STATISTICS: Mapping[str, Statistic] = {
    "rows": Statistic("count", "number of rows"),
    "nulls": Statistic("share", "share of empty cells"),
    "blanks": Statistic("share", "share of blank texts"),
    "not_finite": Statistic("share", "share of values that are NaN or infinite"),
    "distinct": Statistic("share", "number of different values per value"),
    "class_share": Statistic("share", "share of rows"),
    "mean": Statistic("number", "mean"),
    "std": Statistic("positive", "standard deviation"),
    "low": Statistic("number", "quantile 0.0625"),
    "median": Statistic("number", "median"),
    "high": Statistic("number", "quantile 0.9375"),
    "length": Statistic("positive", "mean length of texts"),
    "hour": Statistic("number", "mean time of day in hours"),
    "correlation": Statistic("number", "correlation with the label"),
}
"""The numbers of a night. `rows` is that of the column TABLE, and `class_share` of columns named
`LABEL=CLASS`."""


@dataclass(frozen=True, kw_only=True)
class Night:
    """One night's statistics: by name, float64 [columns], NaN where a column has none."""

    day: datetime.date
    rows: int
    content_hash: str
    columns: tuple[str, ...]
    values: Mapping[str, Any]
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    """By column of the table: number, time, text or other."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Profile:
    """The content of some rows, as counts, moments and sketches."""

    rows: int
    columns: tuple[str, ...]
    types: tuple[str, ...]
    """Arrow's spelling of each column's type."""
    kinds: tuple[str, ...]
    """number, time, text, or other."""
    key: str | None
    label: str | None
    arrays: Mapping[str, Any]
    """Sums, ends and moments of each column: `nulls`, `blanks` (empty texts, or of white space alone), `not_finite`,
    `count` (finite numbers), `length_sum` and `length_max` (characters of texts), `hours_sum` (of the time of day),
    `before` (rows of days before those in `days`), `min`, `max`, `oldest`, `newest` (days since 1970), `mean`,
    `squares` (the sum of squared distances from it), and `distinct` (as the manifest's). A merged profile has
    `distinct_by_side`, too: the sum of those of its parts."""
    grid: Any
    """Quantiles of number columns, float64 [columns, POINTS]. Ranks are off by less than 0.5 % of the rows, as the
    manifest's; between two points, and in merged profiles, by 1/64 more at most (not where `values` has the column)."""
    smallest: Any
    """The smallest hashes of each column's different values, float32 [columns, 32], NaN beyond their number."""
    null_sums: Any
    """uint64 [columns], equal for columns that are empty in the very same rows (association.py)."""
    moments: association.Moments
    """With the label, of up to 4,096 rows of each row group."""
    classes: Mapping[Any, int] = field(default_factory=dict[Any, int])
    """Rows by class of a label that names classes."""
    values: Mapping[str, Mapping[Any, int]] = field(default_factory=dict[str, Mapping[Any, int]])
    """Rows by value, of columns whose values the manifest lists."""
    days: Mapping[str, Mapping[int, int]] = field(default_factory=dict[str, Mapping[int, int]])
    """Rows by day (since 1970) of columns of times: the 64 latest days."""

    @classmethod
    def of(cls, statistics: TableStatistics) -> Profile:
        """The profile of the rows whose statistics were gathered."""
        np = numpy()
        schema, entries = statistics.schema, statistics.columns
        measures = [column.measures() for column in entries.values()]
        names = (*_SUMS, *_LEAST, *_GREATEST, "mean", "squares")
        arrays = {name: np.array([each.get(name, np.nan) for each in measures], "float64") for name in names}
        arrays["distinct"] = np.full(len(schema), np.nan)
        grid = np.full((len(schema), POINTS), np.nan)
        smallest = np.full((len(schema), _SMALLEST), np.nan, "<f4")
        for place, field_ in enumerate(schema):
            if field_.name not in statistics.shapes:
                continue
            hashes, arrays["distinct"][place] = statistics.different(field_.name, _SMALLEST)
            smallest[place, : len(hashes)] = hashes
            if is_number(field_.type) and (points := statistics.shapes[field_.name].quantiles(fractions())):
                grid[place] = points
        moments = statistics.label_moments
        return cls(
            rows=statistics.rows,
            columns=tuple(schema.names),
            types=tuple(str(each.type) for each in schema),
            kinds=tuple(_kind(each.type, entries[each.name]) for each in schema),
            key=statistics.key,
            label=statistics.label,
            arrays=arrays,
            grid=grid,
            smallest=smallest,
            null_sums=statistics.nulls.sums,
            moments=moments.moments if moments else association.empty(len(schema)),
            classes=dict(sorted(statistics.classes.items())),
            values={
                name: {each["value"]: each["rows"] for each in listed}
                for name, listed in statistics.listed_values().items()
            },
            days={name: dict(sorted(each.days.items())) for name, each in entries.items() if isinstance(each, Times)},
        )

    @cached_property
    def places(self) -> Mapping[str, int]:
        """Column -> its place in the arrays."""
        return {name: place for place, name in enumerate(self.columns)}

    @property
    def null_together(self) -> list[tuple[str, ...]]:
        """Groups of columns that have empty cells, and have them in the very same rows."""
        found: dict[int, list[str]] = {}
        for name, total, nulls in zip(
            self.columns, self.null_sums.tolist(), self.arrays["nulls"].tolist(), strict=True
        ):
            if nulls:
                found.setdefault(total, []).append(name)
        return [tuple(names) for names in found.values() if len(names) > 1]

    @cached_property
    def statistics(self) -> Mapping[str, Any]:
        """STATISTICS of the columns, float64 [columns]; those of the table and of classes are in `night`."""
        np, arrays = numpy(), self.arrays
        present = self.rows - arrays["nulls"]
        with np.errstate(all="ignore"):
            found = {
                "nulls": arrays["nulls"] / self.rows if self.rows else np.full(len(self.columns), np.nan),
                "blanks": arrays["blanks"] / present,
                "not_finite": arrays["not_finite"] / present,
                # (An estimate may be above.)
                "distinct": np.minimum(arrays.get("distinct_by_side", arrays["distinct"]) / present, 1.0),
                "mean": arrays["mean"],
                "std": np.sqrt(arrays["squares"] / arrays["count"]),
                "low": self.grid[:, 4],
                "median": self.grid[:, 32],
                "high": self.grid[:, 60],
                "length": arrays["length_sum"] / present,
                "hour": arrays["hours_sum"] / present,
                "correlation": association.correlation(self.moments),
            }
        if self.label is not None:
            found["correlation"][self.places[self.label]] = np.nan
        return {name: np.where(np.isfinite(values), values, np.nan) for name, values in found.items()}

    def night(self, day: datetime.date, content_hash: str) -> Night:
        """The night that these rows are, by STATISTICS."""
        np = numpy()
        shares = {f"{name}={value}": rows for name, listed in self._listed() for value, rows in listed.items()}
        columns = (TABLE, *self.columns, *shares)
        inside = slice(1, 1 + len(self.columns))
        values = {name: np.full(len(columns), np.nan) for name in STATISTICS}
        for name, found in self.statistics.items():
            values[name][inside] = found
            if self.key is not None:  # each night has other keys
                values[name][1 + self.places[self.key]] = np.nan
        values["rows"][0] = self.rows
        if self.rows:
            values["class_share"][inside.stop :] = [rows / self.rows for rows in shares.values()]
        kinds = dict(zip(self.columns, self.kinds, strict=True))
        return Night(day=day, rows=self.rows, content_hash=content_hash, columns=columns, values=values, kinds=kinds)

    def _listed(self) -> Iterator[tuple[str, Mapping[Any, int]]]:
        """The classes of the label, and the values of texts that have few."""
        listed = {name: self.values[name] for name, kind in zip(self.columns, self.kinds, strict=True)
                  if kind == "text" and name in self.values}  # fmt: skip
        if self.label is not None and self.classes:
            listed[self.label] = self.classes
        yield from ((name, rows) for name, rows in listed.items() if name != self.key and len(rows) <= MAX_SHARES)

    def histogram(self, edges: Mapping[str, Sequence[float]]) -> dict[str, Any]:
        """By column how many values lie in each interval between two of its edges, the last edge included; float64
        [intervals]. Values beyond the edges count for the first and the last interval. Exact where `values` has the
        column; else off by less than 0.5 % of the rows at the grid's points, and by 1/64 more between them."""
        np = numpy()
        found: dict[str, Any] = {}
        for name, each in edges.items():
            place = self.places[name]
            if counted := self.values.get(name):
                inside = np.searchsorted(np.asarray(each[1:-1], "float64"), np.array([*counted], "float64"), "right")
                found[name] = np.bincount(inside, [*counted.values()], len(each) - 1)
                continue
            rows = below(self.grid[place], np.asarray(each, "float64")) * self.arrays["count"][place]
            rows[0], rows[-1] = 0.0, self.arrays["count"][place]
            found[name] = np.diff(rows)
        return found

    def to_bytes(self) -> bytes:
        """The content of its file; the same profile gives the same bytes."""
        facts: dict[str, Any] = {
            **{"kind": _KIND, "format": _FORMAT, "classes": _pairs(self.classes)},
            **{name: getattr(self, name) for name in (*_PLAIN, *_NAMES)},
            **{name: {column: _pairs(rows) for column, rows in getattr(self, name).items()} for name in _TABLES},
        }
        moments = {f"moments.{name}": values for name, values in self.moments.items()}
        return packed_arrays(facts, {**self.arrays, **moments, **{name: getattr(self, name) for name in _GRIDS}})

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> Profile:
        """
        Args:
            name: of the file, for messages.

        Raises:
            InputError: it is damaged.
        """
        facts, arrays = unpacked_arrays(content, name, _KIND, _FORMAT, _ADVICE)
        try:
            moments = {each.partition(".")[2]: arrays.pop(each) for each in [*arrays] if each.startswith("moments.")}
            found: dict[str, Any] = {each: facts[each] for each in _PLAIN}
            found |= {each: tuple(facts[each]) for each in _NAMES} | {each: arrays.pop(each) for each in _GRIDS}
            found |= {each: {column: dict(rows) for column, rows in facts[each].items()} for each in _TABLES}
            return cls(**found, moments=moments, arrays=arrays, classes=dict(facts["classes"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{name} is damaged ({error}). {_ADVICE}") from None


_PLAIN, _NAMES = ("rows", "key", "label"), ("columns", "types", "kinds")
_TABLES, _GRIDS = ("values", "days"), ("grid", "smallest", "null_sums")


def profile_of(folder: Path, which: str = PROFILE, manifest: Manifest | None = None) -> Profile:
    """The profile of the set in a folder, or in the folder of a version.

    Args:
        folder: what prepare_data, transform_data or read_source wrote.
        which: PROFILE for the rows of its last run, WHOLE for all of its rows.
        manifest: the folder's, where it was read already.

    Raises:
        InputError: there is no set, an earlier release wrote it, or the file is missing, damaged or another one.
    """
    manifest = manifest or Manifest.read(folder, checksums=False)
    named = manifest.lineage.get(which) or manifest.lineage.get(PROFILE)
    if not named:
        raise InputError(f"{folder} has no profile: an earlier version of drivetrain wrote it. {_ADVICE}")
    inside = folder / manifest.version
    path = (inside if inside.is_dir() else folder) / named["file"]
    if not path.is_file():
        raise InputError(f"{path} is missing, but the manifest lists it. {_ADVICE}")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != named["sha256"]:
        raise InputError(f"{path} was altered since it was written. {_ADVICE}")
    return Profile.from_bytes(content, str(path))


def merged(profiles: Iterable[Profile]) -> Profile:
    """The profile of the rows of all, such as of the sides of a split.

    Raises:
        InputError: their columns or their types differ.
    """
    parts = list(profiles)
    found = reduce(_joined, parts)
    grid = mixture([each.grid for each in parts], [each.arrays["count"] for each in parts])
    for name, rows in found.values.items():
        if rows and found.kinds[found.places[name]] == "number":
            grid[found.places[name]] = grid_of_counts(rows)
    # Values that sides share are estimated by few hashes: nights would differ by that.
    by_side = sum(each.arrays["distinct"] for each in parts)
    return replace(found, grid=grid, arrays={**found.arrays, "distinct_by_side": by_side})


def _joined(first: Profile, later: Profile) -> Profile:
    """The profile of the rows of both, but for its grid."""
    if (first.columns, first.types, first.label) != (later.columns, later.types, later.label):
        raise InputError("the sets have different columns or types. Give the sets of one run.")
    np, mine, its = numpy(), first.arrays, later.arrays
    with np.errstate(all="ignore"):
        arrays = {name: _total(mine[name], its[name]) for name in _SUMS}
        arrays |= {name: np.fmin(mine[name], its[name]) for name in _LEAST}
        arrays |= {name: np.fmax(mine[name], its[name]) for name in _GREATEST}
        share = np.where(arrays["count"] > 0, its["count"] / arrays["count"], 0.0)
        apart = np.nan_to_num(its["mean"] - mine["mean"])
        arrays["mean"] = np.where(np.isnan(mine["mean"]), its["mean"], mine["mean"] + apart * share)
        arrays["squares"] = _total(mine["squares"], its["squares"]) + apart * apart * mine["count"] * share
    both = {name: _added(first.values[name], later.values[name]) for name in first.values if name in later.values}
    values = {name: counts for name, counts in both.items() if len(counts) <= MAX_VALUES}
    days: dict[str, Mapping[int, int]] = {}
    for name in first.days:
        rows = sorted(_added(first.days[name], later.days[name]).items())
        days[name] = dict(rows[-MAX_DAYS:])
        arrays["before"][first.places[name]] += sum(count for _, count in rows[:-MAX_DAYS])
    smallest, distinct = _different(first, later)
    for name, counts in values.items():
        distinct[first.places[name]] = len(counts)
    return replace(
        first,
        rows=first.rows + later.rows,
        arrays={**arrays, "distinct": distinct},
        smallest=smallest,
        null_sums=association.joined_sums(first.null_sums, later.null_sums),
        moments=association.merged(first.moments, later.moments),
        classes=dict(sorted(_added(first.classes, later.classes).items())),
        values=values,
        days=days,
    )


def _kind(data_type: Any, column: Any) -> str:
    if isinstance(column, Times | Texts):
        return "time" if isinstance(column, Times) else "text"
    return "number" if is_number(data_type) else "other"


def _different(first: Profile, later: Profile) -> tuple[Any, Any]:
    """The smallest hashes of the values of both, and about how many different values there are."""
    np = numpy()
    both = np.sort(np.concatenate([first.smallest, later.smallest], axis=1), axis=1)
    again = np.zeros(both.shape, bool)
    again[:, 1:] = both[:, 1:] == both[:, :-1]
    kept = np.sort(np.where(again, np.nan, both), axis=1)[:, :_SMALLEST]
    # Among the smallest of both together, which both sets have as far as they go, some are in both.
    last = np.nanmax(kept, axis=1, initial=-1.0)
    counted = both <= last[:, None]
    different = (counted & ~again).sum(axis=1) / np.maximum(counted.sum(axis=1), 1)
    mine, its = first.arrays["distinct"], later.arrays["distinct"]
    estimate = np.round((mine + its) * different)
    return kept, np.fmax(estimate, np.fmax(mine, its))


def _total(first: Any, later: Any) -> Any:
    """The sum; NaN where both are."""
    np = numpy()
    return np.where(np.isnan(first), later, np.where(np.isnan(later), first, first + later))


def _added(first: Mapping[Any, int], later: Mapping[Any, int]) -> dict[Any, int]:
    return {value: first.get(value, 0) + later.get(value, 0) for value in {**first, **later}}


def _pairs(rows: Mapping[Any, int]) -> list[tuple[Any, int]]:
    return list(rows.items())
