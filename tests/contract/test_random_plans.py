"""Every engine gives, of random expressions and plans, the values of plain Python (engines/reference*.py).

Bit for bit, with the signs of zeros, but for variances, which engines add up in another order. A sample is quick; 7,000
expressions and 479 plans an engine are nightly (Spark's with `make test-in ENV=spark35`). By hand:

    python -m pytest -m nightly tests/contract/test_random_plans.py
    PYTHONPATH=.venvs/spark python -m pytest -m 'nightly and spark' tests/contract/test_random_plans.py
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from drivetrain.base.errors import InputError
from drivetrain.data import engines
from drivetrain.data.transform.expressions import Expression
from drivetrain.data.transform.plan import Plan
from drivetrain.data.transform.verbs import Aggregate, Window
from tests.contract.engines import random_expressions, random_plans, reference, reference_casts, reference_verbs
from tests.contract.test_engines import ran, table_of

ENGINES = [pytest.param(name, marks=pytest.mark.spark if name == "spark" else ()) for name in engines.names()]
ROWS = 40
BATCH = 40
PLANS = 479
# Of a plan whose value in a branch that is not chosen does not fit, an engine may make an error or not.
EITHER = "either"


class Case(NamedTuple):
    """An expression, and its values; None where it must fail, EITHER where it may."""

    expression: Expression
    values: list[Any] | str | None


def is_same(found: Any, expected: Any, close: bool = False) -> bool:
    if isinstance(found, float) and isinstance(expected, float):
        if close and math.isclose(found, expected, rel_tol=1e-12):
            return True
        equal = found == expected and math.copysign(1, found) == math.copysign(1, expected)
        return equal or (math.isnan(found) and math.isnan(expected))
    if isinstance(found, dt.datetime) and isinstance(expected, dt.datetime) and found.tzinfo and expected.tzinfo:
        return found.astimezone(dt.UTC) == expected.astimezone(dt.UTC)
    return type(found) is type(expected) and found == expected


def rows_of(columns: Mapping[str, tuple[str, list[Any]]]) -> list[dict[str, Any]]:
    count = len(next(iter(columns.values()))[1])
    return [{name: values[row] for name, (_, values) in columns.items()} for row in range(count)]


def cases(seed: int, count: int, columns: Mapping[str, tuple[str, list[Any]]]) -> Iterator[Case]:
    kinds, rows = {name: kind for name, (kind, _) in columns.items()}, rows_of(columns)
    draw = random_expressions.Expressions(seed, kinds)
    while count:
        expression = draw.any(1 + seed % 3)
        try:
            Plan().derive(z=expression).output(kinds, {})
        except InputError:  # such as of two zones that are compared
            continue
        count -= 1
        yield Case(expression, expected(expression, rows, kinds))


def expected(expression: Expression, rows: list[dict[str, Any]], kinds: Mapping[str, str]) -> list[Any] | str | None:
    try:
        return [reference.value(expression, row, kinds) for row in rows]
    except reference_casts.UnfitError:
        try:
            for row in rows:
                reference.value(expression, row, kinds, lazily=True)
        except reference_casts.UnfitError:
            return None
        return EITHER


def differences(engine: str, seed: int, count: int, scratch: Path) -> list[str]:
    columns = random_expressions.columns(seed, ROWS)
    found, fitting = list[str](), list[Case]()
    for case in cases(seed, count, columns):
        if isinstance(case.values, list):
            fitting.append(case)
            continue
        try:
            ran(engine, Plan().derive(z=case.expression), table_of(columns, 16), scratch)
        except InputError:
            continue
        if case.values is None:
            found.append(f"no error: {case.expression}")
    for start in range(0, len(fitting), BATCH):
        found += of_batch(engine, fitting[start : start + BATCH], columns, scratch)
    return found


def of_batch(engine: str, batch: Sequence[Case], columns: Any, scratch: Path) -> Iterator[str]:
    names = [f"q{number}" for number in range(len(batch))]
    plan = Plan().derive({name: case.expression for name, case in zip(names, batch, strict=True)}).select(*names)
    made = ran(engine, plan, table_of(columns, 16), scratch)
    for name, case in zip(names, batch, strict=True):
        assert isinstance(case.values, list)
        for row, (one, other) in enumerate(zip(made.column(name).to_pylist(), case.values, strict=True)):
            if not is_same(one, other):
                yield f"row {row}: {one!r} instead of {other!r}: {case.expression}"
                break


def difference_of_plan(engine: str, seed: int, memory: int, scratch: Path) -> str | None:
    columns = random_plans.table(seed % 7, random_expressions.columns(seed % 7, ROWS))
    others = random_plans.others(seed % 7)
    kinds = {name: kind for name, (kind, _) in columns.items()}
    joined = {name: {each: kind for each, (kind, _) in other.items()} for name, other in others.items()}
    plan = random_plans.plan(seed, kinds, joined)
    output = plan.output(kinds, joined)
    close = {
        name
        for verb in plan.verbs
        if isinstance(verb, Aggregate | Window)
        for name, call in verb.values
        if call.operation.name in ("variance", "standard_deviation")
    }
    try:
        tables = {name: (rows_of(other), joined[name]) for name, other in others.items()}
        wanted = reference_verbs.run(plan.verbs, rows_of(columns), kinds, tables)
    except reference_casts.UnfitError:
        wanted = None
    try:
        given = {name: table_of(other, 3) for name, other in others.items()}
        found = ran(engine, plan, table_of(columns, 7), scratch, memory, **given).to_pylist()
    except InputError as error:
        return None if wanted is None else f"plan {seed}: {error}"
    if wanted is None:  # rows that do not fit may have been left out before
        return None
    if len(found) != len(wanted):
        return f"plan {seed}: {len(found)} rows instead of {len(wanted)}"
    for one, other in zip(found, wanted, strict=True):
        for name in output:
            if not is_same(one[name], other[name], name in close):
                return f"plan {seed}, {name!r}: {one[name]!r} instead of {other[name]!r}"
    return None


def test_expressions_and_plans(tmp_path: Path) -> None:
    assert differences("polars", 100, 100, tmp_path) == []
    assert [each for seed in range(20) if (each := difference_of_plan("polars", seed, 1 << 28, tmp_path))] == []


@pytest.mark.spark
def test_expressions_and_plans_on_spark(tmp_path: Path) -> None:
    assert differences("spark", 100, 40, tmp_path) == []
    assert [each for seed in range(3) if (each := difference_of_plan("spark", seed, 1 << 28, tmp_path))] == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("engine", ENGINES)
def test_a_thousand_expressions(engine: str, seed: int, tmp_path: Path) -> None:
    _needs(engine)
    assert differences(engine, seed, 1000, tmp_path) == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("first", range(0, PLANS, 80))
@pytest.mark.parametrize("engine", ENGINES)
def test_plans(engine: str, first: int, tmp_path: Path) -> None:
    _needs(engine)
    memories = (1 << 28, 512) if engine == "polars" else (1 << 28,)  # Spark's memory is its own
    cases = [(seed, memory) for seed in range(first, min(first + 80, PLANS)) for memory in memories]
    assert [found for case in cases if (found := difference_of_plan(engine, *case, tmp_path))] == []


def _needs(engine: str) -> None:
    """The nightly suite runs without PySpark; `make test-in ENV=spark35` runs these with it."""
    if engine == "spark":
        pytest.importorskip("pyspark")
