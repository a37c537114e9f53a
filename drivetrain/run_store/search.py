"""Runs by what they were started with and what came out: comparisons (where.py) and an order, as one query."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.formatting import status_word
from drivetrain.run_store.model import Run
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.run_values import KINDS, kind_and_name, number_in
from drivetrain.run_store.schema import IS_UNHEALTHY
from drivetrain.run_store.where import All, Comparison, Expression, Not, mistake, parse

# What every run has. `status`, `ended` and `seconds` are worked out: a runner may have been killed.
_TEXTS = ("id", "pipeline", "name", "note", "reason")
_TIMES = ("started", "ended")
_STATUSES = (
    *("Executing", "Stopping", "Interrupted", "Succeeded", "Unhealthy", "CompletedWithFailures", "Failed"),
    "Stopped",
)
FIELDS = (*_TEXTS, "status", *_TIMES, "seconds")
_AMONG = "WHERE id IN (SELECT value FROM json_each(?))"
_ORDER = ("<", "<=", ">", ">=")
_KINDS = ", ".join(f"'{kind}'" for kind in KINDS)
_RANK = "CASE v.kind " + " ".join(f"WHEN '{kind}' THEN {place}" for place, kind in enumerate(KINDS)) + " END"


@dataclass(frozen=True)
class Found:
    """A page of the runs that were looked for, and how many there are in all."""

    rows: list[Run]
    total: int


@dataclass(frozen=True)
class _Sql:
    text: str
    values: tuple[Any, ...] = ()


def search(
    ledger: Ledger,
    *,
    where: str | None = None,
    sort: str | None = None,
    pipeline: str | None = None,
    limit: int = 20,
    offset: int = 0,
) -> Found:
    """Runs that `where` holds for, by the value of a name (`-accuracy`: the greatest first), else the newest first.

    Runs that lack the value by which they are sorted come last.

    Raises:
        UserError: the expression is wrong, or no run has a value of a name.
    """
    looked = _Looked(ledger)
    conditions: list[_Sql] = []
    if pipeline is not None:
        conditions.append(_Sql("e.pipeline = ?", (pipeline,)))
    if where is not None:
        conditions.append(looked.condition(parse(where), where))
    order = _Sql("e.rowid DESC") if sort is None else looked.order(sort)
    text = f"WHERE {' AND '.join(each.text for each in conditions)}" if conditions else ""
    values = [value for each in conditions for value in each.values]
    total = ledger.rows(f"SELECT count(*) FROM executions e {text}", *values)[0][0]
    rows = ledger.selected(f"{text} ORDER BY {order.text} LIMIT ? OFFSET ?", *values, *order.values, limit, offset)
    return Found(rows, total)


class _Looked:
    """Makes SQL of expressions; values are bound, never written into the text."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        open_ones = [row[0] for row in ledger.rows("SELECT id FROM executions WHERE status = 'Executing'")]
        self.at_work = [id for id in open_ones if ledger.home.is_running(id)]
        self.killed = json.dumps([id for id in open_ones if id not in self.at_work])
        self.now = time.time()

    @cached_property
    def stopping(self) -> str:
        """The runs that go on and were asked to stop."""
        return json.dumps([row.id for row in self.ledger.selected(_AMONG, json.dumps(self.at_work)) if row.stopping])

    @cached_property
    def ends(self) -> str:
        """Run whose runner was killed -> its last sign of life, as lists show it; computed on first use."""
        return json.dumps({row.id: row.ended for row in self.ledger.selected(_AMONG, self.killed)})

    def condition(self, expression: Expression, text: str) -> _Sql:
        if isinstance(expression, Comparison):
            return self.comparison(expression, text)
        if isinstance(expression, Not):
            inner = self.condition(expression.of, text)
            # Without a value SQL says neither yes nor no.
            return _Sql(f"NOT COALESCE({inner.text}, 0)", inner.values)
        parts = [self.condition(part, text) for part in expression.parts]
        between = " AND " if isinstance(expression, All) else " OR "
        return _Sql(
            f"({between.join(part.text for part in parts)})", tuple(value for part in parts for value in part.values)
        )

    def comparison(self, one: Comparison, text: str) -> _Sql:
        field = self.field(one.name)
        if field is not None:
            return (_compared if one.name != "status" or one.value is None else _of_status)(field, one, text)
        kind, name = kind_and_name(one.name)
        if not self.is_known(kind, name):
            raise mistake(text, one.at[0], f"no run has {one.name!r}. {did_you_mean(one.name, self.names())}")
        chosen = _Sql("v.name = ? AND v.execution = e.id AND v.kind IN " + _kinds(kind), (name,))
        if one.value is None:
            sign = "NOT EXISTS" if one.operator == "=" else "EXISTS"
            return _Sql(f"{sign} (SELECT 1 FROM run_values v WHERE {chosen.text})", chosen.values)
        if one.operator in _ORDER and number_in(one.value) is None and not self.has_text(kind, name):
            raise mistake(text, one.at[1], f"{one.name} is a number in every run, and {one.value!r} is not.")
        found = _compared(_Sql("v.value"), one, text)
        return _Sql(
            f"EXISTS (SELECT 1 FROM run_values v WHERE {chosen.text} AND {found.text})",
            (*chosen.values, *found.values),
        )

    def order(self, sort: str) -> _Sql:
        name, direction = (sort[1:], "DESC") if sort.startswith("-") else (sort.removeprefix("+"), "ASC")
        found = self.field(name)
        if found is None:
            kind, name = kind_and_name(name)
            if not self.is_known(kind, name):
                raise UserError(f"sort: no run has {name!r}. {did_you_mean(name, self.names())}")
            found = _Sql(
                "(SELECT v.value FROM run_values v WHERE v.name = ? AND v.execution = e.id AND v.kind IN "
                f"{_kinds(kind)} ORDER BY {_RANK} LIMIT 1)",
                (name,),
            )
        return _Sql(f"({found.text}) IS NULL, {found.text} {direction}, e.rowid DESC", (*found.values, *found.values))

    def field(self, name: str) -> _Sql | None:
        if name == "started" or name in _TEXTS:
            return _Sql(f"e.{name}")
        if name == "status":
            cases = (
                f"WHEN e.status = 'Succeeded' AND {IS_UNHEALTHY} THEN 'Unhealthy' "
                "WHEN e.status != 'Executing' THEN e.status "
                "WHEN e.id IN (SELECT value FROM json_each(?)) THEN 'Interrupted' "
                "WHEN e.id IN (SELECT value FROM json_each(?)) THEN 'Stopping' "
            )
            return _Sql(f"CASE {cases} ELSE e.status END", (self.killed, self.stopping))
        ended = "e.ended, (SELECT value FROM json_each(?) WHERE key = e.id)"
        if name == "ended":
            return _Sql(f"COALESCE({ended})", (self.ends,))
        if name == "seconds":
            return _Sql(f"(COALESCE({ended}, ?) - e.started - COALESCE(e.idle, 0))", (self.ends, self.now))
        return None

    def is_known(self, kind: str | None, name: str) -> bool:
        """Return True if a run has it, or if there are no runs, which is no mistake."""
        sql = f"SELECT 1 FROM run_values WHERE name = ? AND kind IN {_kinds(kind)} LIMIT 1"
        return bool(self.ledger.rows(sql, name)) or not self.ledger.rows("SELECT 1 FROM executions LIMIT 1")

    def has_text(self, kind: str | None, name: str) -> bool:
        """Return True if a run has a text under a name, or if none has the name."""
        sql = f"SELECT typeof(value) = 'text' FROM run_values WHERE name = ? AND kind IN {_kinds(kind)} GROUP BY 1"
        return (0,) not in (found := self.ledger.rows(sql, name)) or (1,) in found

    def names(self) -> Sequence[str]:
        found = self.ledger.rows(f"SELECT DISTINCT name FROM run_values WHERE kind IN ({_KINDS})")
        return [*FIELDS, *(row[0] for row in found)]


def _compared(left: _Sql, one: Comparison, text: str) -> _Sql:
    """One value beside another; `left` may be missing, and then nothing holds but `= none`."""
    if one.value is None:
        return _Sql(f"{left.text} IS {'' if one.operator == '=' else 'NOT '}NULL", left.values)
    is_time = one.name in _TIMES
    if one.operator == "~":
        shown = f"strftime('%Y-%m-%d %H:%M:%S', {left.text}, 'unixepoch', 'localtime')" if is_time else left.text
        return _Sql(f"instr(casefold({shown}), ?) > 0", (*left.values, one.value.casefold()))
    if is_time:
        return _Sql(f"{left.text} {one.operator} ?", (*left.values, _seconds(one, text)))
    number = None if one.name in _TEXTS else number_in(one.value)
    if number is not None:
        kept = f"typeof({left.text}) IN ('integer', 'real') AND {left.text} {one.operator} ?"
        return _Sql(f"({kept})", (*left.values, *left.values, number))
    if one.name == "seconds":
        raise mistake(text, one.at[1], f"seconds is a number, and {one.value!r} is not.")
    compared = _Sql(f"casefold({left.text}) {one.operator} ?", (*left.values, one.value.casefold()))
    if one.operator in _ORDER:  # SQL takes every number for less than any text
        return _Sql(f"(typeof({left.text}) = 'text' AND {compared.text})", (*left.values, *compared.values))
    return compared


def _of_status(left: _Sql, one: Comparison, text: str) -> _Sql:
    """Compare a status: by the word that lists show, or by the word in the ledger."""
    if one.operator in _ORDER:
        raise mistake(text, one.at[0], "status is compared by =, != or ~.")
    given = str(one.value).casefold()
    stored = {"Stopping": "Executing", "Unhealthy": "Succeeded"}
    words = {status: (status_word(status), stored.get(status, status).casefold()) for status in _STATUSES}
    if one.operator == "~":
        meant = [status for status, known in words.items() if any(given in word for word in known)]
    else:
        meant = [status for status, known in words.items() if given in known]
    if not meant:
        allowed = ", ".join(repr(word) if " " in word else word for word, _ in words.values())
        raise mistake(text, one.at[1], f"{one.value!r} is no status of a run. Allowed: {allowed}.")
    sign = "NOT IN" if one.operator == "!=" else "IN"
    return _Sql(f"{left.text} {sign} (SELECT value FROM json_each(?))", (*left.values, json.dumps(meant)))


def _seconds(one: Comparison, text: str) -> float:
    try:
        return datetime.fromisoformat(str(one.value)).timestamp()
    except ValueError:
        said = f"{one.name} is a time, and {one.value!r} is not. Give 2026-11-20, or '2026-11-20 14:30'."
        raise mistake(text, one.at[1], said) from None


def _kinds(kind: str | None) -> str:
    return f"({_KINDS})" if kind is None else f"('{kind}')"
