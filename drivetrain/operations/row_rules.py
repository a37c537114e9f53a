"""Row rules outside of a step: suggest them from accepted sets, and check a folder against them."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.hash_runs import Scratch
from drivetrain.data.manifest import Manifest
from drivetrain.data.reading import Table, TableOptions, open_table
from drivetrain.data.row_rules.applying import RowRuling
from drivetrain.data.row_rules.declared import declared_rules
from drivetrain.data.row_rules.judging import Judge
from drivetrain.data.schema import checked_types

# A text column of at most so many values is one of categories, where each is there often.
_FEW_VALUES, _ROWS_EACH = 20, 20


def judged(folder: Path, rules: Mapping[str, Any], *, tables: Path | None = None, night: str | None = None) -> Judge:
    """Judge all rows of a prepared set, a folder or a file by rules; nothing is written.

    Raises:
        InputError: the rules do not go with the data, or the data cannot be read.
    """
    ruling = RowRuling(declared_rules(rules), None, tables, night)
    found: list[Judge] = []

    def run(table: Table) -> None:
        with tempfile.TemporaryDirectory(prefix="drivetrain-rules-") as place:
            scratch = Scratch(Path(place))
            try:
                judge = ruling.start(table, scratch)
                for _ in ruling.judged(table):
                    pass
                assert judge
                judge.complete()
                found.append(judge)
            finally:
                scratch.close()

    ruling.attempt(open_table(folder, TableOptions(key=None, label=None, types=ruling.types), whole=True), run)
    return found[0]


def suggested(sets: Sequence[Manifest]) -> str:
    """The text of a rules file that the given sets keep, with slack: YAML, each line with the reason for it."""
    rows = sum(each.rows for each in sets)
    key = sets[0].key
    named = "1 set" if len(sets) == 1 else f"{len(sets)} sets"
    lines = [
        f"# Suggested from {named} of {rows:,} rows in all. Review each line.",
        "then: warn  # fail, or quarantine, where a rule is known to hold",
        "columns:",
    ]
    for column in sets[0].schema:
        found = [each.statistics[column.name] for each in sets if column.name in each.statistics]
        of_column = list(_of_column(column.name, column.type, found, rows, column.name == key))
        if of_column:
            lines += [f"  {json.dumps(column.name, ensure_ascii=False)}:", *(f"    {line}" for line in of_column)]
    least = min(each.rows for each in sets)
    return "\n".join([*lines, f"# rows: {{min: {least // 2}}}  # the smallest of them has {least:,} rows"]) + "\n"


def _of_column(name: str, kind: str, found: Sequence[Mapping[str, Any]], rows: int, is_key: bool) -> Iterator[str]:
    with suppress(InputError):  # a list or an object, which no rule is for
        checked_types([(name, kind)], "rules")
        yield f"type: {json.dumps(kind)}"
    nulls = sum(each["nulls"] for each in found)
    if not nulls:
        yield "nulls: warn  # no row is without a value"
    elif nulls < rows:
        share = min(1.0, math.ceil(2000 * nulls / rows) / 1000)
        yield f"nulls: {{share: {share:g}}}  # {nulls:,} rows ({100 * nulls / rows:.3g} %) are without a value"
    if is_key:
        yield "unique: fail  # it is the key"
        return
    ends = [(each["min"], each["max"]) for each in found if each.get("min") is not None]
    if ends and kind != "bool":
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        if isinstance(low, str):
            yield f'min: "{low}"  # the earliest of them'
            return
        slack = (high - low) / 2
        below = 0 if low >= 0 else low - slack
        whole = isinstance(low, int) and isinstance(high, int)
        bounds = (math.floor(below), math.ceil(high + slack)) if whole else (below, high + slack)
        yield f"min: {_number(bounds[0])}  # they are {low:g} to {high:g}"
        yield f"max: {_number(bounds[1])}"
    values = {each["value"] for entry in found for each in entry.get("values", ())}
    listed = all("values" in entry for entry in found)
    if kind == "string" and listed and 0 < len(values) <= _FEW_VALUES and rows >= _ROWS_EACH * len(values):
        yield f"values: {json.dumps(sorted(values), ensure_ascii=False)}  # all that there are"


def _number(value: float) -> str:
    """As YAML reads a number: with a point before the exponent."""
    digits, exponent, power = repr(value).partition("e")
    return digits + (".0" if exponent and "." not in digits else "") + exponent + power
