"""Random plans over the columns of random_expressions.py, the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.data.transform import types
from drivetrain.data.transform.expressions import op
from drivetrain.data.transform.plan import Plan
from tests.contract.engines.random_expressions import Expressions

Tables = dict[str, dict[str, tuple[str, list[Any]]]]
AGGREGATES = (
    "sum",
    "mean",
    "variance",
    "standard_deviation",
    "min",
    "max",
    "count",
    "distinct",
    "quantile",
    "any",
    "all",
)


def table(seed: int, columns: Mapping[str, tuple[str, list[Any]]]) -> dict[str, tuple[str, list[Any]]]:
    """The columns, a number of the row, and floats whose sums are exact in any order."""
    draw, rows = random.Random(seed), len(columns["i"][1])
    eighths = [None if draw.random() < 0.2 else draw.randrange(-999, 999) / 8 for _ in range(rows)]
    return {"id": ("int64", list(range(rows))), **columns, "h": ("float64", eighths)}


def others(seed: int) -> Tables:
    """Tables to join with: keys that occur twice, not at all, and null."""
    draw = random.Random(seed)
    texts = ["a", "b", "x", "", None, "Abc", "none", "a"]
    numbers = [0, 1, 2, 3, None, -2, 77, 1]
    return {
        "texts": {"t": ("string", texts), "weight": ("int64", [draw.randrange(99) for _ in texts])},
        "numbers": {"j": ("int64", numbers), "size": ("float64", [draw.random() for _ in numbers])},
    }


def plan(seed: int, kinds: Mapping[str, str], tables: Mapping[str, Mapping[str, str]]) -> Plan:
    """Two to six verbs; sums of floats are of `h` alone, since engines add others up in another order."""
    draw = random.Random(seed)
    expressions = Expressions(seed, {name: kind for name, kind in kinds.items() if name not in ("id", "h")})
    while True:
        try:
            return _drawn(draw, expressions, kinds, tables)
        except InputError:  # such as of two zones that are compared
            continue


def _drawn(
    draw: random.Random, expressions: Expressions, kinds: Mapping[str, str], tables: Mapping[str, Mapping[str, str]]
) -> Plan:
    made = Plan()
    for number in range(draw.randrange(3)):
        if draw.random() < 0.5:
            made = made.filter(expressions.make("bool", 2))
        else:
            made = made.derive({f"new{number}": expressions.any(2)})
    for number in range(draw.randrange(1, 4)):
        made = _one(draw, made, made.output(kinds, tables), number)
    if draw.random() < 0.5:
        made = _aggregated(draw, made, made.output(kinds, tables))
    made.output(kinds, tables)
    return made


def _some(draw: random.Random, names: list[str], most: int) -> tuple[str, ...]:
    return tuple(draw.sample(names, draw.randrange(1, min(most, len(names)) + 1)))


def _keys(draw: random.Random, kinds: Mapping[str, str], most: int = 2) -> tuple[str, ...]:
    """Often those with few values, so that groups have several rows."""
    few = [name for name in ("b", "c", "t", "j", "f", "x", "m", "int8", "z0") if name in kinds]
    return _some(draw, few if few and draw.random() < 0.8 else list(kinds), most)


def _one(draw: random.Random, made: Plan, kinds: Mapping[str, str], number: int) -> Plan:
    ordered = [name for name, kind in kinds.items() if kind != "binary"]
    hashed = [name for name, kind in kinds.items() if types.is_integer(kind) or kind == "string"]
    joined = [(table, key) for table, key in (("texts", "t"), ("numbers", "j")) if key in kinds]
    verb = draw.choice(
        ("sort", "deduplicate", "window", "window", "sample", "shuffle", "join", "select", "rename", "cast")
    )
    if verb == "join" and joined and not {"weight", "size"} & set(kinds):
        name, key = draw.choice(joined)
        return made.join(name, on=key, how=draw.choice(("inner", "left", "semi", "anti")))
    if verb == "deduplicate":
        return made.deduplicate(by=_keys(draw, kinds, 3), order_by=draw.choice(((), _some(draw, ordered, 2))))
    if verb == "window":
        values = {f"w{number}{place}": _windowed(draw, kinds) for place in range(draw.randrange(1, 4))}
        return made.window(values, by=_keys(draw, kinds), order_by=_some(draw, ordered, 2))
    if verb in ("sample", "shuffle") and hashed:
        key = draw.choice(hashed)
        return made.sample(key, percent=70, salt="s") if verb == "sample" else made.shuffle(key, seed=7)
    if verb == "select" and len(kinds) > 8:
        return made.select(*draw.sample(list(kinds), 8))
    if verb == "rename":
        name = draw.choice(list(kinds))
        return made.rename({name: f"{name}_{number}"})
    if verb == "cast" and (small := [name for name in ("int8", "int16", "uint8", "uint32", "j") if name in kinds]):
        return made.cast({draw.choice(small): draw.choice(("int64", "float64", "string"))})
    return made.sort(*_some(draw, ordered, 3))


def _windowed(draw: random.Random, kinds: Mapping[str, str]) -> Any:
    name = draw.choice(("row_number", "rank", "lag", "lead", "cumulative_sum", "aggregate", "aggregate"))
    if name in ("row_number", "rank"):
        return op(name)
    if name in ("lag", "lead"):
        return op(name, draw.choice(list(kinds)), draw.randrange(3))
    if name == "cumulative_sum" and (numbers := [each for each in ("j", "h", "uint32", "int8") if each in kinds]):
        column = draw.choice(numbers)
        return op(name, column) if types.is_kind(kinds[column], "number") else op("rows")
    return _aggregate(draw, kinds)


def _aggregate(draw: random.Random, kinds: Mapping[str, str]) -> Any:
    name, column = draw.choice(AGGREGATES), draw.choice(list(kinds))
    kind = kinds[column]
    is_number = types.is_kind(kind, "number")
    if name in ("any", "all"):
        return op(name, column) if kind == "bool" else op("rows")
    if name == "quantile":
        return op(name, column, draw.choice((0, 0.1, 0.25, 0.5, 0.9, 1))) if is_number else op("count", column)
    if name in ("min", "max"):
        return op(name, column) if kind != "binary" else op("count", column)
    if name in ("sum", "mean", "variance", "standard_deviation"):
        summed = [each for each in ("h", "j", "int8", "uint32", "m") if each in kinds]
        column = draw.choice(summed) if summed else column
        is_summed = bool(summed) and types.is_kind(kinds[column], "number")
        is_summed = is_summed or (name == "sum" and types.is_decimal(kinds[column]))
        return op(name if is_summed else "distinct", column)
    return op(name, column)


def _aggregated(draw: random.Random, made: Plan, kinds: Mapping[str, str]) -> Plan:
    by = _keys(draw, kinds) if draw.random() < 0.8 else ()
    values = {f"a{number}": _aggregate(draw, kinds) for number in range(draw.randrange(1, 5))}
    return made.aggregate(values, by=by)
