"""Plain Python's version of the verbs and aggregates, on rows as dicts; expressions are those of reference.py."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from drivetrain.data.split import threshold
from drivetrain.data.transform import verbs
from drivetrain.data.transform.expressions import Call, Literal
from drivetrain.data.transform.verbs import Columns
from tests.contract.engines.reference import cast, integer, is_nan, value

Rows = list[dict[str, Any]]


def run(verbs_: Sequence[verbs.Verb], rows: Rows, columns: Columns, tables: Mapping[str, tuple[Rows, Columns]]) -> Rows:
    for verb in verbs_:
        rows = applied(verb, rows, columns, tables)
        columns = verb.output(columns, {name: kinds for name, (_, kinds) in tables.items()})
    return rows


def applied(verb: verbs.Verb, rows: Rows, kinds: Columns, tables: Mapping[str, tuple[Rows, Columns]]) -> Rows:
    match verb:
        case verbs.Select():
            return [{name: row[name] for name in verb.names} for row in rows]
        case verbs.Rename():
            new = dict(verb.names)
            return [{new.get(name, name): each for name, each in row.items()} for row in rows]
        case verbs.Cast():
            wanted = dict(verb.types)
            return [{**row, **{name: _cast(row[name], kinds[name], wanted[name]) for name in wanted}} for row in rows]
        case verbs.Filter():
            return [row for row in rows if value(verb.condition, row, kinds) is True]
        case verbs.Derive():
            return [{**row, **{name: value(each, row, kinds) for name, each in verb.values}} for row in rows]
        case verbs.Sort():
            return sorted(rows, key=lambda row: place_of(row, verb.by))
        case verbs.Sample():
            most = threshold(verb.percent)
            return [row for row in rows if (drawn := _hash(row[verb.key], verb.salt)) is not None and drawn < most]
        case verbs.Shuffle():
            return sorted(rows, key=lambda row: _last(_hash(row[verb.key], str(verb.seed))))
        case verbs.Deduplicate():
            numbered = sorted(enumerate(rows), key=lambda each: (place_of(each[1], verb.order_by), each[0]))
            first = {tuple(key_of(row[name]) for name in verb.by): number for number, row in reversed(numbered)}
            return [rows[number] for number in sorted(first.values())]
        case verbs.Join():
            return _joined(verb, rows, *tables[verb.table])
        case verbs.Aggregate():
            return _aggregated(verb, rows, kinds)
        case verbs.Window():
            return _windowed(verb, rows, kinds)
        case _:
            raise AssertionError(verb)


def _cast(given: Any, kind: str, wanted: str) -> Any:
    return None if given is None else cast(given, kind, wanted)


def key_of(given: Any) -> Any:
    """Equal for NaN and NaN, and for zeros of both signs."""
    return "NaN" if is_nan(given) else (0.0,) if isinstance(given, float) and given == 0 else (type(given), given)


def _last(given: Any) -> tuple[int, Any]:
    return (2, 0) if given is None else (1, 0) if is_nan(given) else (0, given)


def place_of(row: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_last(row[name]) for name in names)


def _hash(key: Any, salt: str) -> int | None:
    if key is None:
        return None
    return int.from_bytes(hashlib.blake2b(f"{salt}\0{key}".encode(), digest_size=8).digest(), "little")


def _joined(verb: verbs.Join, rows: Rows, others: Rows, kinds: Columns) -> Rows:
    more = [name for name in kinds if name not in verb.on]
    found: Rows = []
    for row in rows:
        key = [row[name] for name in verb.on]
        equal = [] if None in key else [other for other in others if [other[name] for name in verb.on] == key]
        if verb.how in ("semi", "anti"):
            found += [row] if bool(equal) == (verb.how == "semi") else []
        else:
            blank = [dict.fromkeys(more)] if verb.how == "left" else []
            found += [{**row, **{name: other[name] for name in more}} for other in equal or blank]
    return found


def _aggregated(verb: verbs.Aggregate, rows: Rows, kinds: Columns) -> Rows:
    groups: dict[Any, Rows] = {} if verb.by else {(): []}
    for row in rows:
        groups.setdefault(tuple(key_of(row[name]) for name in verb.by), []).append(row)
    found = [
        {
            **{name: without_sign(group[0][name]) for name in verb.by},
            **{name: aggregate(call, group, kinds) for name, call in verb.values},
        }
        for group in groups.values()
    ]
    return sorted(found, key=lambda row: place_of(row, verb.by))


def without_sign(given: Any) -> Any:
    return 0.0 if isinstance(given, float) and given == 0 else given


def aggregate(call: Call, rows: Rows, kinds: Columns) -> Any:
    name = call.operation.name
    if name == "rows":
        return len(rows)
    given = [each for row in rows if (each := value(call.arguments[0], row, kinds)) is not None]
    if name == "count":
        return len(given)
    if name == "distinct":
        return len({key_of(each) for each in given})
    if not given:
        return None
    if name in ("any", "all"):
        return any(given) if name == "any" else all(given)
    if name in ("min", "max"):
        numbers = [each for each in given if not is_nan(each)] or given
        return without_sign(min(numbers) if name == "min" else max(numbers))
    if name == "sum" and not isinstance(given[0], float):
        total = sum(given, start=type(given[0])(0))
        return integer(total) if isinstance(total, int) else total
    if name == "mean" and isinstance(given[0], int):
        return float(sum(given)) / len(given)
    floats = [float(each) for each in given]
    if name == "quantile":
        fraction = call.arguments[1]
        assert isinstance(fraction, Literal)
        return _quantile(floats, float(str(fraction.value)))
    return {"sum": _sum, "mean": lambda all: _sum(all) / len(all), "variance": _variance}.get(
        name, lambda all: None if (found := _variance(all)) is None else math.sqrt(found)
    )(floats)


def _quantile(values: list[float], fraction: float) -> float:
    values = sorted(map(without_sign, values), key=_last)
    place = (len(values) - 1) * fraction
    low, high = values[math.floor(place)], values[math.ceil(place)]
    if low == high or place == math.floor(place):
        return low
    return without_sign((math.floor(place) + 1 - place) * low + (place - math.floor(place)) * high)


def _sum(values: list[float]) -> float:
    finite = [each for each in values if math.isfinite(each)]
    if len(finite) < len(values):
        return sum(each for each in values if not math.isfinite(each))
    try:
        return float(sum(map(Fraction, finite)))
    except OverflowError:
        return math.copysign(math.inf, sum(map(Fraction, finite)))


def _variance(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    if not all(map(math.isfinite, values)):
        return math.nan
    exact = [Fraction(each) for each in values]
    mean = sum(exact) / len(exact)
    try:
        return float(sum((each - mean) ** 2 for each in exact) / (len(exact) - 1))
    except OverflowError:
        return math.inf


def _windowed(verb: verbs.Window, rows: Rows, kinds: Columns) -> Rows:
    made: list[dict[str, Any]] = [dict(row) for row in rows]
    groups: dict[Any, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(tuple(key_of(row[name]) for name in verb.by), []).append(number)
    for numbers in groups.values():
        numbers.sort(key=lambda number: (place_of(rows[number], verb.order_by), number))
        group = [rows[number] for number in numbers]
        for name, call in verb.values:
            for place, found in enumerate(_over(call, group, kinds, verb.order_by)):
                made[numbers[place]][name] = found
    return made


def _over(call: Call, group: Rows, kinds: Columns, order_by: Sequence[str]) -> list[Any]:
    name = call.operation.name
    if call.operation.place == "aggregate":
        return [aggregate(call, group, kinds)] * len(group)
    if name == "row_number":
        return list(range(1, len(group) + 1))
    if name == "rank":
        keys = [tuple(key_of(row[each]) for each in order_by) for row in group]
        return [keys.index(key) + 1 for key in keys]
    values = [value(call.arguments[0], row, kinds) for row in group]
    if name in ("lag", "lead"):
        count = call.arguments[1]
        assert isinstance(count, Literal)
        step = int(str(count.value)) * (1 if name == "lead" else -1)
        return [values[place + step] if 0 <= place + step < len(group) else None for place in range(len(group))]
    running, found = None, []
    for each in values:
        if each is not None:
            running = each if running is None else running + each
            running = integer(running) if isinstance(running, int) else running
        found.append(without_sign(running))
    return found
