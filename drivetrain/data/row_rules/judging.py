"""Judge the rows of a run: count those that break a rule, put rows aside, and end the run where it is too many."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError, warn
from drivetrain.data.arrow import Array, Batch, arrow, numpy
from drivetrain.data.hash_runs import HashRuns, Scratch, ordered
from drivetrain.data.leakage import value_hashes
from drivetrain.data.reading import Table, TableOptions, open_table
from drivetrain.data.row_rules.checks import Check, check_of
from drivetrain.data.row_rules.declared import RowRules, Rule
from drivetrain.data.row_rules.quarantine import Quarantine
from drivetrain.data.schema import suggestion
from drivetrain.data.source import Source

Repeated = Mapping[str, Any]
"""Column -> the hashes of values that occur in several rows, sorted."""


class RepeatedError(Exception):
    """Some rows repeat the values of earlier ones, which is only known after all are read: read the table again."""

    def __init__(self, hashes: Repeated) -> None:
        super().__init__()
        self.hashes = hashes


@dataclass
class Tally:
    """How many rows break a rule, and which of them is the first."""

    rule: Rule
    rows: int = 0
    first: tuple[Source, int] | None = None

    def add(self, source: Source, index: int, rows: int) -> None:
        self.first = self.first or (source, index)
        self.rows += rows


@dataclass
class _Unique:
    tally: Tally
    hashes: HashRuns
    repeated: Any
    seen: Any

    def later(self, hashes: Any) -> Any:
        """A mask of the rows that repeat a value of an earlier row, of those whose repeated values are known."""
        np = numpy()
        later = np.zeros(len(hashes), bool)
        if not len(self.repeated):
            return later
        places = np.minimum(np.searchsorted(self.repeated, hashes), len(self.repeated) - 1)
        rows = np.flatnonzero(self.repeated[places] == hashes)
        found, firsts = np.unique(places[rows], return_index=True)
        later[rows] = True
        later[rows[firsts[~self.seen[found]]]] = False
        self.seen[found] = True
        return later


@dataclass(kw_only=True)
class Judge:
    """Judges the batches of a table, in their order. Make it with `judge_of`."""

    rules: RowRules
    table: Table
    tallies: list[Tally]
    checks: list[tuple[Tally, Check]]
    unreadable: dict[str, Tally]
    unique: list[_Unique]
    quarantine: Quarantine | None
    rows: int = 0
    put_aside: int = 0
    _masks: list[tuple[Rule, Any]] = field(default_factory=list[tuple[Rule, Any]])

    def kept(self, source: Source, first: int, batch: Batch) -> Array | None:
        """Judge the next batch of the table; `first` is the index of its first row in its file.

        Returns:
            The indices of the rows that go on; None for all.
        """
        np, pa = numpy(), arrow()
        aside = None
        cells = self.table.unreadable.taken() if self.table.unreadable else {}
        for name, (rows, raw) in cells.items():
            mask = np.zeros(batch.num_rows, bool)
            mask[rows] = True
            aside = self._broken(
                self.unreadable[name], source, first, batch, mask, aside, dict(zip(rows, raw, strict=True))
            )
        for tally, check in self.checks:
            mask = check(batch)
            if mask is not None:
                mask = mask.to_numpy(zero_copy_only=False)
                if cells and tally.rule.column in cells:  # which has no value for want of a readable one
                    mask = mask & ~np.isin(np.arange(len(mask)), cells[tally.rule.column][0])
                aside = self._broken(tally, source, first, batch, mask, aside)
        for each in self.unique:
            column = batch.column(each.tally.rule.column)
            counts = column.is_valid().to_numpy(zero_copy_only=False)
            if aside is not None:
                counts = counts & ~aside
            hashes = value_hashes(column)[counts]
            if each.repeated is None:
                each.hashes.add(hashes)
            elif (later := each.later(hashes)).any():
                mask = np.zeros(batch.num_rows, bool)
                mask[np.flatnonzero(counts)[later]] = True
                aside = self._broken(each.tally, source, first, batch, mask, aside)
        self.rows += batch.num_rows
        if aside is None:
            return None
        self.put_aside += int(aside.sum())
        return pa.array(np.flatnonzero(~aside))

    def _broken(
        self,
        tally: Tally,
        source: Source,
        first: int,
        batch: Batch,
        mask: Any,
        aside: Any,
        raw: Mapping[int, str] | None = None,
    ) -> Any:
        """Count the rows of a mask; the rows that are put aside by then."""
        rows = numpy().flatnonzero(mask)
        if not len(rows):
            return aside
        tally.add(source, first + int(rows[0]), len(rows))
        if tally.rule.then != "quarantine":
            return aside
        if self.quarantine:
            self.quarantine.add(tally.rule, source, first, batch, rows, raw)
        return mask if aside is None else mask | aside

    def finish(self) -> list[dict[str, Any]]:
        """Warn of what is broken and may be; the entries of the lineage.

        Raises:
            RepeatedError: read again, with what it says.
            InputError: a rule is broken by more rows than it allows.
        """
        self.complete()
        failed: list[str] = []
        for said, fails in self.broken():
            if fails:
                failed.append(said)
            else:
                warn(f"rules: {said}")
        if failed:
            more = f" {len(failed) - 1} more rules are broken: {' '.join(failed[1:3])}" if len(failed) > 1 else ""
            raise InputError(f"rules: {failed[0]}{more} The outputs stay as they were.")
        return self.entries()

    def broken(self) -> Iterator[tuple[str, bool]]:
        """The sentence of each rule that is broken, and whether it fails."""
        most = self.rules.most_rows
        if self.rows < self.rules.least_rows or (most is not None and self.rows > most):
            yield self._says_rows(), self.rules.rows_then == "fail"
        for tally in self.tallies:
            allowed = tally.rule.allowed(self.rows)
            if tally.rows > (0 if tally.rule.then == "quarantine" else allowed):
                yield self._says(tally, allowed), tally.rule.then != "warn" and tally.rows > allowed

    def entries(self) -> list[dict[str, Any]]:
        """By rule, how many rows broke it."""
        return [
            {
                "column": tally.rule.column,
                "rule": tally.rule.name,
                "then": tally.rule.then,
                "rows": tally.rows,
                "share": tally.rows / self.rows if self.rows else 0.0,
            }
            for tally in self.tallies
        ]

    def _says_rows(self) -> str:
        most = f"{self.rules.most_rows:,}" if self.rules.most_rows is not None else "any number"
        names = [source.name for source in self.table.sources]
        files = f" in {names[0]}" + (f" and {len(names) - 1} more files" if len(names) > 1 else "") if names else ""
        return f"there are {self.rows:,} rows{files}; allowed: {self.rules.least_rows:,} to {most}."

    def _says(self, tally: Tally, allowed: float) -> str:
        assert tally.first
        share = f"{100 * tally.rows / max(self.rows, 1):.3g} %"
        return (
            f"column {tally.rule.column!r} {tally.rule.says} in {tally.rows:,} of {self.rows:,} rows ({share}; "
            f"allowed: {int(allowed):,}), first in {self.table.locate(*tally.first)}."
        )

    def complete(self) -> None:
        """Count the values that repeat, after all rows are read.

        Raises:
            RepeatedError: read again, with what it says.
        """
        np = numpy()
        again: dict[str, Any] = {}
        for each in self.unique:
            if each.repeated is not None:
                continue
            repeated = ordered(list(each.hashes.repeated()))
            if not len(repeated):
                continue
            if each.tally.rule.then == "quarantine":
                again[each.tally.rule.column] = repeated
                continue
            each.repeated, each.seen = repeated, np.zeros(len(repeated), bool)
            for source, first, batch in self.table.batches([each.tally.rule.column]):
                column = batch.column(each.tally.rule.column)
                later = each.later(value_hashes(column)) & np.asarray(column.is_valid())
                if later.any():
                    each.tally.add(source, first + int(np.argmax(later)), int(later.sum()))
        if again:
            raise RepeatedError(again)


def judge_of(
    rules: RowRules,
    table: Table,
    scratch: Scratch,
    *,
    night: str | None = None,
    tables: Path | None = None,
    quarantine: Quarantine | None = None,
    repeated: Repeated | None = None,
) -> Judge:
    """A judge of the rows of a table.

    Args:
        rules: what holds for them.
        table: the rows, with `unreadable` from `readable`.
        scratch: where hashes of unique columns go that do not fit in memory.
        night: the time that bounds mean by `night`.
        tables: the folder of the tables that columns refer to.
        quarantine: gets the rows that are put aside; None to count alone.
        repeated: from RepeatedError, when rows are read again.

    Raises:
        InputError: a rule names a column or a table that is not there, or does not go with a column's type.
    """
    expanded = list(_expanded(rules, table))
    references = {rule.value: _referred(rule, tables) for rule in expanded if rule.name == "found_in"}
    judge = Judge(rules=rules, table=table, tallies=[], checks=[], unreadable={}, unique=[], quarantine=quarantine)
    for rule in expanded:
        tally = Tally(rule)
        judge.tallies.append(tally)
        if rule.name == "unreadable":
            judge.unreadable[rule.column] = tally
        elif rule.name == "unique":
            known = None if repeated is None else repeated.get(rule.column, numpy().empty(0, "<u8"))
            known = known if rule.then == "quarantine" else None
            seen = None if known is None else numpy().zeros(len(known), bool)
            judge.unique.append(_Unique(tally, HashRuns(scratch), known, seen))
        else:
            judge.checks.append((tally, check_of(rule, table.schema.field(rule.column).type, night, references)))
    return judge


def _expanded(rules: RowRules, table: Table) -> Iterator[Rule]:
    """The rules with each pattern of columns in place of those that it names. A column's own name goes before."""
    names = table.schema.names
    columns: dict[str, list[str]] = {}
    for pattern in (*rules.columns, *(rule.column for rule in rules.rules)):
        fitting = [pattern] if pattern in names else fnmatch.filter(names, pattern)
        columns[pattern] = [name for name in fitting if name == pattern or name not in rules.columns]
        if not fitting:
            first = f"{table.sources[0].name} has" if table.sources else "there is"
            raise InputError(f"rules: {first} no column {pattern!r}{suggestion(pattern, names)}")
    for rule in rules.rules:
        for name in columns[rule.column]:
            if rule.name == "unreadable" and name in table.inferred:
                raise InputError(f"rules: column {name!r}, unreadable: say the type that its cells must have: type.")
            yield replace(rule, column=name)


def _referred(rule: Rule, tables: Path | None) -> Array:
    """The values of a column of another table.

    Raises:
        InputError: there is no such table, or it has no such column.
    """
    name, _, column = rule.value.partition(".")
    where = f"rules: column {rule.column!r}, found_in"
    if tables is None or not tables.is_dir():
        raise InputError(f"{where} is {rule.value}: give the folder tables, in which {name} is a file or a folder.")
    named = {path.name.partition(".")[0]: path for path in tables.iterdir()}
    if name not in named:
        raise InputError(f"{where}: {tables} holds no table {name!r}{suggestion(name, named)}")
    table = open_table(named[name], TableOptions(key=None, label=None), whole=True)
    if column not in table.schema.names:
        raise InputError(f"{where}: table {name} has no column {column!r}{suggestion(column, table.schema.names)}")
    pa = arrow()
    found = [batch.column(column) for _, _, batch in table.batches([column])]
    return pa.chunked_array(found, table.schema.field(column).type).unique()
