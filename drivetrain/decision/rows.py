"""The evidence of each row of a test set on each metric: rows.npz of a report, and the rows of two models together.

    ours, theirs = read_rows(Path("build/report")), read_rows(Path("build/champion"))
    won_lost(ours, theirs, "recall_class_3")      # on how many rows of class 3 only one of them is right
    paired(ours, theirs, "mse").differences       # their mean is the difference of the values

Columns are kept as evaluate wrote them: classes a byte each, truths a bit each. A metric is said in terms of columns: a
share of rows, a mean, a ranking, or an average of such (drivetrain/training/metric_states/rows.py writes them). Other
metrics say nothing by row.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import numpy
from drivetrain.decision.row_forms import (
    Average,
    Form,
    Is,
    Mean,
    Part,
    Ranking,
    Said,
    Share,
    form_of,
    mean,
    ranked,
    scaled,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from drivetrain.decision.row_forms import Bools, Floats

ROWS_FILE = "rows.npz"

FORMAT = 1
_ABOUT = "about"


class WonLost(NamedTuple):
    """The number of rows on which only the candidate is right, of those on which only the champion is, and of all that
    both models are measured on."""

    won: int
    lost: int
    of: int


class Paired(NamedTuple):
    """Two models on units (rows or keys) that have data for a metric."""

    keys: NDArray[np.uint64]
    differences: Floats
    """Candidate - champion. Their mean is the difference of the values (to first order, where the metric is no mean),
    their standard deviation over the root of their number its standard error."""
    sizes: NDArray[np.int64]
    """Rows of each unit."""


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The rows of one report, in the order of the test set."""

    keys: NDArray[np.uint64]
    """A hash of each row's key; without a key column the row's number."""
    keyed: bool
    """Without, keys mean something within one test set only."""
    columns: Sequence[NDArray[Any]]
    """Classes, numbers, or ranks [n]; truths packed, eight to a byte."""
    bits: frozenset[int] = frozenset()
    """The columns that are packed."""
    slices: Mapping[str, tuple[NDArray[Any], int]] = field(default_factory=lambda: {})
    """`column=value` -> the column's slice numbers [n], and which of them it is."""
    forms: Mapping[str, Form] = field(default_factory=dict[str, Form])
    left_out: tuple[str, ...] = ()
    """Metrics whose columns were too large to keep."""

    @classmethod
    def of(
        cls,
        shares: Mapping[str, tuple[Bools, Bools | None]],
        *,
        means: Mapping[str, Floats] | None = None,
        keys: NDArray[np.uint64] | None = None,
        slices: Mapping[str, Bools] | None = None,
    ) -> Rows:
        """Rows in memory, of shares (right, of what: None for all) and of means."""
        np = numpy()
        columns: list[NDArray[Any]] = []
        forms: dict[str, Form] = {}
        for name, (right, of) in shares.items():
            forms[name] = Share((Is(len(columns)),), () if of is None else (Is(len(columns) + 1),))
            columns += [right] if of is None else [right & of, of]
        for name, values in (means or {}).items():
            forms[name] = Mean(len(columns))
            columns.append(values)
        n = len(columns[0])
        return cls(
            keys=np.arange(n, dtype=np.uint64) if keys is None else keys,
            keyed=keys is not None,
            columns=columns,
            slices={name: (inside, 1) for name, inside in (slices or {}).items()},
            forms=forms,
        )

    @property
    def num_rows(self) -> int:
        return len(self.keys)

    def members(self, name: str) -> Bools:
        """Mask of the rows of a slice; "" is all of them."""
        np = numpy()
        if not name:
            return np.ones(self.num_rows, bool)
        numbers, number = self.slices[name]
        return numbers == number

    def share(self, metric: str, name: str = "") -> tuple[Bools, Bools] | None:
        """Masks of the rows that are right, and of those that the share is taken of; None if the metric is no share of
        rows."""
        form = self.forms.get(metric)
        return self._share(form, self.members(name)) if isinstance(form, Share) and not form.scale else None

    def values(self, metric: str, name: str = "") -> Floats | None:
        """One number per row of the slice, NaN elsewhere. Their mean is the metric's value. For a metric that is no
        mean, each number is the value plus the number of rows times the row's first-order change of it. None if the
        rows have no data for the metric, or do not define it."""
        said = self.said(metric, name)
        if said is None:
            return None
        np = numpy()
        found = np.where(self.members(name), said.value, np.nan)
        found[said.places] += said.changes
        return found

    def positive(self, metric: str, name: str = "") -> Bools | None:
        """Mask of the positive rows of a slice for a metric that is a ranking; None for others."""
        form = self.forms.get(metric)
        return self._where(form.positive) & self.members(name) if isinstance(form, Ranking) else None

    def said(self, metric: str, name: str = "") -> Said | None:
        """The influence of a slice's rows on a metric."""
        np = numpy()
        form = self.forms.get(metric)
        with np.errstate(all="ignore"):
            said = None if form is None else self._form(form, self.members(name))
        return said if said is not None and np.isfinite(said.value) and np.isfinite(said.changes).all() else None

    def _form(self, form: Form, inside: Bools) -> Said | None:
        np = numpy()
        if isinstance(form, Average):
            return self._average(form, inside)
        if isinstance(form, Ranking):
            places = np.flatnonzero(inside)
            return ranked(self.columns[form.score][places], self._where(form.positive)[places], places)
        num_rows = int(np.count_nonzero(inside))
        if isinstance(form, Share):
            right, of = self._share(form, inside)
            places = np.flatnonzero(of)
            return scaled(form.scale, mean(right[places].astype(np.float64), None, places, num_rows))
        places = np.flatnonzero(self._any(form.of, inside))
        weight = None if form.weight is None else self.columns[form.weight][places].astype(np.float64)
        numbers = self._numbers(form.column)[places].astype(np.float64)
        return scaled(form.scale, mean(numbers, weight, places, num_rows))

    def _average(self, form: Average, inside: Bools) -> Said | None:
        np = numpy()
        there = [np.flatnonzero(self._any(conditions, inside)) for conditions in form.there]
        weights = [float(len(each) if form.by_size else len(each) > 0) for each in there]
        total = sum(weights)
        if not total:
            return None
        found = [self._form(part, inside) if weight else None for part, weight in zip(form.parts, weights, strict=True)]
        value = sum(w / total * said.value for w, said in zip(weights, found, strict=True) if said is not None)
        changes, says = np.zeros(len(inside)), np.zeros(len(inside), bool)
        for said, weight, rows in zip(found, weights, there, strict=True):
            if said is not None:
                changes[said.places] += weight / total * said.changes
                says[said.places] = True
            if form.by_size:  # a row more of a part, too
                of_part = 0.0 if said is None else said.value
                changes[rows] += np.count_nonzero(inside) / total * (of_part - value)
                says[rows] = True
        places = np.flatnonzero(says)
        rests = tuple(
            Part(weight / total * part.value, part.rows, weight / total)
            for said, weight in zip(found, weights, strict=True)
            for part in ((Part(0.0, places[:0]),) if said is None else said.rests)
        )
        return Said(value, places, changes[places], rests)

    def _any(self, conditions: tuple[Is, ...], inside: Bools) -> Bools:
        np = numpy()
        return inside & np.logical_or.reduce([self._where(one) for one in conditions]) if conditions else inside

    def _share(self, form: Share, inside: Bools) -> tuple[Bools, Bools]:
        np = numpy()
        of = self._any(form.of, inside)
        return np.logical_and.reduce([of, *(self._where(one) for one in form.right)]), of

    def _where(self, condition: Is) -> Bools:
        found = self._numbers(condition.column) == condition.value
        return ~found if condition.negated else found

    def _numbers(self, place: int) -> NDArray[Any]:
        np = numpy()
        column = self.columns[place]
        return np.unpackbits(column, count=self.num_rows) if place in self.bits else column


def won_lost(candidate: Rows, champion: Rows, metric: str, name: str = "") -> WonLost | None:
    """Counts of the rows of a slice ("" for all rows) on which the models differ, for a share of the same rows in both;
    else None."""
    np = numpy()
    ours, theirs = candidate.share(metric, name), champion.share(metric, name)
    if ours is None or theirs is None or not np.array_equal(ours[1], theirs[1]):
        return None
    of = ours[1]
    gains = (ours[0].astype(np.int64) - theirs[0])[of]
    return WonLost(int((gains > 0).sum()), int((gains < 0).sum()), len(gains))


def paired(
    candidate: Rows, champion: Rows, metric: str, name: str = "", *, by_keys: bool = False, centered: bool = True
) -> Paired | None:
    """The difference by row, or by key; None where rows say nothing of the metric.

    Args:
        centered: each row's change, about the difference. Else a part of the difference lies on the rows that it rests
            on: as without a difference, a sum of few rows of a class varies as much as they are large.
    """
    np = numpy()
    ours, theirs = candidate.said(metric, name), champion.said(metric, name)
    if ours is None or theirs is None:
        return None
    beside = np.zeros(candidate.num_rows)
    beside[ours.places] += ours.changes
    beside[theirs.places] -= theirs.changes
    places = ours.places if np.array_equal(ours.places, theirs.places) else np.union1d(ours.places, theirs.places)
    num_rows = int(np.count_nonzero(candidate.members(name)))
    if not centered:
        beside += num_rows * _gains(ours, theirs, len(beside))
    beside, keys, sizes = beside[places], candidate.keys[places], np.ones(len(places), np.int64)
    if by_keys:
        keys, numbers = _units(keys)
        beside, sizes = np.bincount(numbers, beside), np.bincount(numbers)
    gain = ours.value - theirs.value if centered else 0.0
    return Paired(keys, (gain + len(keys) / num_rows * beside).astype(np.float64), sizes)


def _gains(ours: Said, theirs: Said, num_rows: int) -> Floats:
    """The difference, spread over the rows that each of its parts rests on."""
    np = numpy()
    found = np.zeros(num_rows)
    for own, other in zip(ours.rests, theirs.rests, strict=True):
        rows = np.union1d(own.rows, other.rows)
        if len(rows):
            found[rows] += (own.value - other.value) / len(rows)
    return found


def _units(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The keys, each once in the order of its first row, and the number of each row's."""
    np = numpy()
    found, first, numbers = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    places = np.empty(len(found), np.int64)
    places[order] = np.arange(len(found))
    return found[order], places[numbers.reshape(-1)]


def check_same(candidate: Rows, champion: Rows) -> None:
    """
    Raises:
        InputError: the rows of two reports are not the same.
    """
    np = numpy()
    if not np.array_equal(candidate.keys, champion.keys) or candidate.slices.keys() != champion.slices.keys():
        raise InputError(
            "the rows of the candidate's and the champion's evaluation have different keys or slices. Give compare the "
            "data on which the candidate was evaluated."
        )


def check_shares(rows: Rows, values: Mapping[str, float]) -> None:
    """Check that rows give each share its reported value: a user's own metric may report something else.

    Raises:
        ValueError: it does not.
    """
    for metric, value in values.items():
        share = rows.share(metric)
        if share is not None and not math.isclose(counted := share[0].sum() / max(1, share[1].sum()), value):
            raise ValueError(
                f"{metric} is {value:g}, and {counted:g} of the rows that it is a share of: the metric's rows() and "
                "compute() disagree. Correct the metric"
            )


def read_rows(report: Path) -> Rows | None:
    """The rows of a report; None where an earlier version of drivetrain wrote it, or nothing was drawn.

    Raises:
        InputError: the file is damaged, or of a format that this version does not know.
    """
    file = report / ROWS_FILE
    if not file.is_file():  # numpy may not be installed
        return None
    try:
        with numpy().load(file, allow_pickle=False) as arrays:
            return _read(arrays)
    except (OSError, KeyError, TypeError, ValueError, IndexError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{file} holds no rows of an evaluation: {error}. Evaluate the model again.") from None


def _read(arrays: Mapping[str, NDArray[Any]]) -> Rows:
    np = numpy()
    about: dict[str, Any] = json.loads(arrays[_ABOUT].tobytes())
    if about["format"] != FORMAT:
        raise ValueError(f"it has format {about['format']!r}, and this version of drivetrain reads {FORMAT}")
    n = int(about["rows"])
    bits = frozenset(number for number, kind in enumerate(about["columns"]) if kind == "bits")
    columns = [
        _checked(arrays[f"column_{number}"], -(-n // 8) if number in bits else n)
        for number in range(len(about["columns"]))
    ]
    slices = {
        f"{one['column']}={value}": (_checked(arrays[f"slice_{place}"], n), number)
        for place, one in enumerate(about["slices"])
        for number, value in enumerate(one["values"])
    }
    keyed = bool(about["keyed"])
    return Rows(
        keys=_checked(arrays["keys"], n) if keyed else np.arange(n, dtype=np.uint64),
        keyed=keyed,
        columns=columns,
        bits=bits,
        slices=slices,
        forms={str(name): form_of(form) for name, form in about["metrics"].items()},
        left_out=tuple(map(str, about["left_out"])),
    )


def _checked(array: NDArray[Any], length: int) -> NDArray[Any]:
    if array.shape != (length,) or array.dtype.kind not in "uif":
        raise ValueError(f"a column has shape {list(array.shape)} and type {array.dtype}, and not [{length}]")
    return array
