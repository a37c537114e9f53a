"""Every engine gives the values that transform/operations.py and transform/verbs.py promise, in their types and order.

An engine is held to `tests/contract/engines/operation_cases.py`, value by value, and to a plain Python version of the
verbs, with memory for all rows and for almost none.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import importlib
import math
import random
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from drivetrain.base.errors import InputError
from drivetrain.data import engines
from drivetrain.data.transform.expressions import Call, Expression, col, lit, op
from drivetrain.data.transform.operations import OPERATIONS
from drivetrain.data.transform.plan import Plan
from drivetrain.data.transform.types import arrow_type
from tests.contract.engines import operation_cases as cases

# Spark runs where PySpark is (`make test-in ENV=spark`).
ENGINES = [pytest.param(name, marks=pytest.mark.spark if name == "spark" else ()) for name in engines.names()]


def table_of(columns: Mapping[str, tuple[str, list[Any]]], batch_rows: int = 1 << 20) -> engines.Table:
    found = pa.table({name: pa.array(values, arrow_type(kind)) for name, (kind, values) in columns.items()})

    def batches() -> Iterator[pa.RecordBatch]:
        return iter(found.to_batches(max_chunksize=batch_rows))

    return engines.Table(found.schema, batches)


def ran(
    engine: str, plan: Plan, table: engines.Table, scratch: Path, memory: int = 1 << 28, **tables: engines.Table
) -> pa.Table:
    given = engines.Options(scratch=scratch, memory=memory)
    batches = list(engines.engine(engine).run(plan, table, tables, given))
    promised = plan.output(table.columns, {name: other.columns for name, other in tables.items()})
    schema = pa.schema([(name, arrow_type(kind)) for name, kind in promised.items()])
    assert list(scratch.iterdir()) == []
    return pa.Table.from_batches(batches, schema=schema)  # other types would be refused


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(found, float):
        if math.isnan(expected) or math.isinf(expected):
            return math.isnan(found) if math.isnan(expected) else found == expected
        return math.isclose(found, expected, rel_tol=1e-14)
    if isinstance(expected, dt.datetime) and expected.tzinfo and isinstance(found, dt.datetime):
        # Python holds instants at which a clock goes back for unequal in two zones.
        return found.tzinfo is not None and found.astimezone(dt.UTC) == expected.astimezone(dt.UTC)
    return type(found) is type(expected) and found == expected


def hashed(name: str, keys: list[Any]) -> list[Any]:
    """The hashes of keys by hashlib alone, as split.py defines them."""
    salt = b"salt" if "integers" in name else b""
    digests = [key and hashlib.blake2b(salt + b"\0" + key.encode(), digest_size=8).digest() for key in keys]
    numbers = [None if digest is None else int.from_bytes(digest, "little") for digest in digests]
    return [number if number is None or "bucket" not in name else number % 10 for number in numbers]


def expected_of(name: str, values: Any) -> Any:
    return hashed(name, values) if name.startswith(("key_hash", "bucket")) else values


@pytest.mark.parametrize("engine", ENGINES)
def test_row_operations(engine: str, tmp_path: Path) -> None:
    plan = Plan().derive({name: case[0] for name, case in cases.ROW.items()}).select(*cases.ROW)
    found = ran(engine, plan, table_of(cases.COLUMNS), tmp_path)
    for name, (_, kind, values) in cases.ROW.items():
        assert found.schema.field(name).type == arrow_type(kind), name
        given, expected = found.column(name).to_pylist(), expected_of(name, values)
        assert all(map(same, given, expected)) and len(given) == len(expected), (name, given, expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_last_digits_and_signs_of_zeros(engine: str, tmp_path: Path) -> None:
    plan = Plan().derive(tenth=op("divide", "x", 10), whole=op("round", "x", 0), up=op("ceiling", "x"))
    values = [3.0, 7.3, -0.0, math.inf, None, -0.25]
    found = ran(engine, plan, table_of({"x": ("float64", values)}), tmp_path).to_pydict()
    assert str(found["tenth"]) == str([value and value / 10 for value in values])
    assert str(found["whole"]) == "[3.0, 7.0, -0.0, inf, None, -0.0]"
    assert str(found["up"]) == "[3.0, 8.0, -0.0, inf, None, -0.0]"


@pytest.mark.parametrize("engine", ENGINES)
def test_aggregates(engine: str, tmp_path: Path) -> None:
    plan = Plan().aggregate({name: case[0] for name, case in cases.AGGREGATE.items()})
    (found,) = ran(engine, plan, table_of(cases.COLUMNS), tmp_path).to_pylist()
    wrong = {name: found[name] for name, case in cases.AGGREGATE.items() if not same(found[name], case[2])}
    assert not wrong
    assert plan.output(table_of(cases.COLUMNS).columns) == {
        name: kind for name, (_, kind, _) in cases.AGGREGATE.items()
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows", [0, 3])
def test_aggregates_without_values(engine: str, rows: int, tmp_path: Path) -> None:
    table = table_of({"z": ("int64", [None] * rows), "b": ("bool", [None] * rows)})
    plan = Plan().aggregate({**{name: op(name, "z") for name in cases.EMPTY}, "any": op("any", "b"), "n": op("rows")})
    (found,) = ran(engine, plan, table, tmp_path).to_pylist()
    assert found == {**cases.EMPTY, "any": None, "n": rows}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", cases.FAILING)
def test_an_unfitting_value_is_one_error(engine: str, name: str, tmp_path: Path) -> None:
    said = r"^the transformation failed: verb 1, derive of 'z': .+ is (beyond int64|not cast to \w+([\[(].+)?)[,.] "
    with pytest.raises(InputError, match=said):
        ran(engine, Plan().derive(z=cases.FAILING[name]), table_of(cases.COLUMNS), tmp_path)
    assert list(tmp_path.iterdir()) == []


def operations_in(expression: Expression) -> set[str]:
    if not isinstance(expression, Call):
        return set()
    return {expression.operation.name}.union(*map(operations_in, expression.arguments))


def test_every_operation_has_a_case() -> None:
    tried = {name for case in (*cases.ROW.values(), *cases.AGGREGATE.values()) for name in operations_in(case[0])}
    windows = {name for name, operation in OPERATIONS.items() if operation.place == "window"}
    assert set(OPERATIONS) - tried == windows and windows == set(WINDOW)


# The verbs: rows that fall into few groups, with nulls and NaN among keys and values, in batches of seven rows.
COUNT = 400
_draw = random.Random(7)
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "group": _draw.choice(["a", "b", "c", None]),
        "part": _draw.randrange(30),
        "x": _draw.choice([None, math.nan, *(_draw.uniform(-5, 5) for _ in range(8))]),
        "n": _draw.choice([None, *range(6)]),
    }
    for number in range(COUNT)
]
TYPES = {"id": "int64", "group": "string", "part": "int64", "x": "float64", "n": "int64"}
RIGHT: list[dict[str, Any]] = [
    {"part": _draw.choice([None, *range(40)]), "weight": number, "name": f"r{number}"} for number in range(60)
]
RIGHT_TYPES = {"part": "int64", "weight": "int64", "name": "string"}
MEMORY = (1 << 28, 512)
WINDOW = {
    "row_number": op("row_number"),
    "rank": op("rank"),
    "lag": op("lag", "id", 1),
    "lead": op("lead", "id", 2),
    "cumulative_sum": op("cumulative_sum", "n"),
}


def of_rows(rows: list[dict[str, Any]], kinds: Mapping[str, str]) -> engines.Table:
    return table_of({name: (kind, [row[name] for row in rows]) for name, kind in kinds.items()}, batch_rows=7)


def key_of(value: Any) -> Any:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def in_order(row: dict[str, Any], names: tuple[str, ...]) -> tuple[Any, ...]:
    """Null last, NaN before it."""
    ranks = {name: 2 if row[name] is None else 1 if key_of(row[name]) == "NaN" else 0 for name in names}
    return tuple((ranks[name], row[name] if ranks[name] == 0 else 0) for name in names)


def compared(found: pa.Table, expected: list[dict[str, Any]]) -> None:
    given = found.to_pylist()
    assert len(given) == len(expected)
    for one, other in zip(given, expected, strict=True):
        assert one.keys() == other.keys() and all(same(one[name], other[name]) for name in one), (one, other)


@pytest.mark.parametrize("engine", ENGINES)
def test_verbs_on_rows(engine: str, tmp_path: Path) -> None:
    plan = (
        Plan()
        .filter((col("n") > 0) | (col("part") < 10))
        .rename({"id": "key", "x": "size"})
        .cast({"n": "float32"})
        .derive(part=col("part") * 2, more=col("part") + 1)
        .select("more", "part", "key", "n")
    )
    expected = [
        {"more": row["part"] + 1, "part": row["part"] * 2, "key": row["id"], "n": row["n"] and float(row["n"])}
        for row in ROWS
        if (row["n"] or 0) > 0 or row["part"] < 10
    ]
    for row in expected:
        row["n"] = None if row["n"] is None else float(row["n"])
    compared(ran(engine, plan, of_rows(ROWS, TYPES), tmp_path), expected)


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("engine", ENGINES)
def test_sort(engine: str, memory: int, tmp_path: Path) -> None:
    found = ran(engine, Plan().sort("x", "group"), of_rows(ROWS, TYPES), tmp_path, memory)
    compared(found, sorted(ROWS, key=lambda row: in_order(row, ("x", "group"))))


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("engine", ENGINES)
def test_deduplicate(engine: str, memory: int, tmp_path: Path) -> None:
    for by, order_by in ((("part",), ()), (("group", "x"), ("n", "part"))):
        found = ran(engine, Plan().deduplicate(by=by, order_by=order_by), of_rows(ROWS, TYPES), tmp_path, memory)
        first: dict[Any, dict[str, Any]] = {}
        for row in sorted(ROWS, key=lambda row: in_order(row, order_by)):
            first.setdefault(tuple(key_of(row[name]) for name in by), row)
        compared(found, sorted(first.values(), key=lambda row: row["id"]))


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("engine", ENGINES)
def test_aggregate(engine: str, memory: int, tmp_path: Path) -> None:
    plan = Plan().aggregate(
        {
            "rows": op("rows"),
            "total": op("sum", "n"),
            "most": op("max", col("part") + col("id")),
            "all": op("count", "x"),
        },
        by=("group", "n"),
    )
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in ROWS:
        groups.setdefault((row["group"], row["n"]), []).append(row)
    expected = [
        {
            **{"group": group, "n": n, "rows": len(rows), "total": None if n is None else n * len(rows)},
            **{"most": max(row["part"] + row["id"] for row in rows), "all": sum(row["x"] is not None for row in rows)},
        }
        for (group, n), rows in groups.items()
    ]
    found = ran(engine, plan, of_rows(ROWS, TYPES), tmp_path, memory)
    compared(found, sorted(expected, key=lambda row: in_order(row, ("group", "n"))))


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("engine", ENGINES)
def test_window(engine: str, memory: int, tmp_path: Path) -> None:
    calls = {**WINDOW, "most": op("max", "id"), "distinct": op("distinct", "n")}
    plan = Plan().window(calls, by="group", order_by="n").select("id", *calls)
    expected: list[dict[str, Any]] = []
    for group in {row["group"] for row in ROWS}:
        rows = sorted((row for row in ROWS if row["group"] == group), key=lambda row: in_order(row, ("n",)))
        running: int | None = None
        for place, row in enumerate(rows):
            running = running if row["n"] is None else (running or 0) + row["n"]
            expected.append(
                {
                    "id": row["id"],
                    "row_number": place + 1,
                    "rank": next(number for number, other in enumerate(rows, 1) if other["n"] == row["n"]),
                    "lag": rows[place - 1]["id"] if place else None,
                    "lead": rows[place + 2]["id"] if place + 2 < len(rows) else None,
                    "cumulative_sum": running,
                    "most": max(other["id"] for other in rows),
                    "distinct": len({other["n"] for other in rows} - {None}),
                }
            )
    found = ran(engine, plan, of_rows(ROWS, TYPES), tmp_path, memory)
    compared(found, sorted(expected, key=lambda row: row["id"]))


@pytest.mark.slow_cases("polars-left-512", "polars-semi-512")
@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
@pytest.mark.parametrize("engine", ENGINES)
def test_join(engine: str, how: Any, memory: int, tmp_path: Path) -> None:
    left = [{**row, "part": None if row["id"] % 50 == 0 else row["part"]} for row in ROWS]
    expected: list[dict[str, Any]] = []
    for row in left:
        found = [other for other in RIGHT if row["part"] is not None and other["part"] == row["part"]]
        if how in ("semi", "anti"):
            expected += [row] if bool(found) == (how == "semi") else []
        elif found or how == "left":
            blank = {"weight": None, "name": None}
            expected += [{**row, "weight": each["weight"], "name": each["name"]} for each in found or [blank]]
    plan = Plan().join("right", on="part", how=how)
    right = of_rows(RIGHT, RIGHT_TYPES)
    compared(ran(engine, plan, of_rows(left, TYPES), tmp_path, memory, right=right), expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_sample_is_by_the_hash_of_the_key(engine: str, tmp_path: Path) -> None:
    found = ran(engine, Plan().sample("id", percent=20, salt="s"), of_rows(ROWS, TYPES), tmp_path)

    def fraction(key: int) -> float:
        digest = hashlib.blake2b(f"s\0{key}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little") / 2**64

    assert found.column("id").to_pylist() == [row["id"] for row in ROWS if fraction(row["id"]) < 0.2]


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"twice": pa.compute.multiply(batch.column("part"), 2), "id": batch.column("id")})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_function_on_batches(engine: str, tmp_path: Path) -> None:
    plan = Plan().map_batches(doubled, {"twice": "int64", "id": "int64"}).filter(col("twice") > 4)
    found = ran(engine, plan, of_rows(ROWS, TYPES), tmp_path)
    compared(found, [{"twice": 2 * row["part"], "id": row["id"]} for row in ROWS if row["part"] > 2])
    with pytest.raises(InputError, match=r"map_batches: .*lambda.* gave a int. It must give a pyarrow.RecordBatch"):
        ran(engine, Plan().map_batches(lambda batch: 5, {"id": "int64"}), of_rows(ROWS, TYPES), tmp_path)


@pytest.mark.parametrize("engine", ENGINES)
def test_float_sums_do_not_depend_on_row_order(engine: str, tmp_path: Path) -> None:
    """Bit for bit, since the content of a data set names it."""
    draw = random.Random(1)
    rows = [{"g": draw.randrange(3), "x": draw.uniform(-1, 1) * 10 ** draw.randrange(-9, 9)} for _ in range(5000)]
    plan = Plan().aggregate({"s": op("sum", "x"), "v": op("variance", "x")}, by="g")
    columns = {name: [row[name] for row in rows] for name in ("g", "x")}
    kinds = {"g": "int64", "x": "float64"}
    found = {
        str(ran(engine, plan, table_of({n: (kinds[n], columns[n]) for n in kinds}, size), tmp_path, memory).to_pylist())
        for size in (100, 5000)
        for memory in (1 << 28, 4096)
    }
    assert len(found) == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_no_rows(engine: str, tmp_path: Path) -> None:
    plan = Plan().filter(col("id") < lit(0)).sort("x").deduplicate(by="id").join("right", on="part", how="left")
    found = ran(engine, plan, of_rows(ROWS, TYPES), tmp_path, right=of_rows(RIGHT[:0], RIGHT_TYPES))
    assert found.num_rows == 0 and found.column_names == [*TYPES, "weight", "name"]


def test_an_unknown_engine_is_named() -> None:
    with pytest.raises(InputError, match=r"there is no engine 'polar'. Did you mean 'polars'"):
        engines.engine("polar")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("memory", MEMORY)
def test_shuffle(engine: str, memory: int, tmp_path: Path) -> None:
    """The order is that of the keys' hashes, whatever the order was before; equal keys stay in theirs."""
    rows = [{**row, "id": row["id"] // 2} for row in ROWS]
    found = ran(engine, Plan().shuffle("id", seed=7), of_rows(rows, TYPES), tmp_path, memory)

    def drawn(row: dict[str, Any]) -> int:
        return int.from_bytes(hashlib.blake2b(b"7\0%d" % row["id"], digest_size=8).digest(), "little")

    compared(found, sorted(rows, key=drawn))


@pytest.mark.spark
def test_spark_and_polars_write_the_same_bytes(tmp_path: Path) -> None:
    """One writer makes the shards, so that a table's name does not depend on the engine."""
    from drivetrain.components.transform_data import transform_data
    from drivetrain.data.manifest import Manifest

    (tmp_path / "raw").mkdir()
    table = pa.table({name: pa.array([row[name] for row in ROWS], arrow_type(kind)) for name, kind in TYPES.items()})
    pa.parquet.write_table(table, tmp_path / "raw" / "rows.parquet")
    plan = (
        Plan()
        .filter(~op("is_null", "group"))
        .derive(twice=col("n") * 2, name=op("upper", "group"), bucket=op("bucket", "id", 7, "s"), half=col("x") / 2)
        .window({"before": op("lag", "n", 1)}, by="group", order_by="part")
        .deduplicate(by=("group", "n"), order_by="id")
        .sort("bucket", "x")
    )
    found = {}
    for engine in ("polars", "spark"):
        transform_data(tmp_path / "raw", tmp_path / engine, plan=plan.to_json(), engine=engine, rows_per_file=10)
        found[engine] = Manifest.read(tmp_path / engine)
    assert found["polars"].content_hash == found["spark"].content_hash
    assert found["polars"].statistics == found["spark"].statistics
    # Its hash is there, too: check_data has the same numbers of both.
    assert found["polars"].lineage["profile"] == found["spark"].lineage["profile"]
    assert found["spark"].engine.startswith("spark ") and len(found["spark"].shards) > 1


@pytest.mark.parametrize("engine", ENGINES)
def test_weights_by_class_are_equal_to_the_last_digit(engine: str, tmp_path: Path) -> None:
    """The plan of docs/data.md, which makes a column for `sampling: weighted`."""
    page = (Path(__file__).parents[2] / "docs/data.md").read_text(encoding="utf-8")
    (text,) = re.findall(r"`(\[.*\"weight\".*)`\.", page)
    labels = [random.Random(3).choice("aaaaaabbc") for _ in range(7)] + list("aab" * 30) + [None]
    given = table_of({"id": ("int64", list(range(len(labels)))), "label": ("string", labels)}, batch_rows=9)
    found = ran(engine, Plan.from_json(text), given, tmp_path)
    assert found.column("label").to_pylist() == labels
    assert found.column("weight").to_pylist() == [1.0 / labels.count(label) for label in labels]


@pytest.mark.parametrize("engine", ENGINES)
def test_filters_skip_no_row_by_file_statistics(engine: str, tmp_path: Path) -> None:
    """Those of Parquet leave NaN out, and may tell -0.0 from 0.0. No other row fits, so that a whole file would go."""
    for values, condition, rows in (
        ([math.nan, 0.5], op("greater", "x", 0.5), 1),
        ([math.nan, 0.5], op("not", op("less", "x", 1)), 1),
        ([-0.0, -0.0], op("equal", "x", 0.0), 2),
        ([0.0, 0.0], op("is_in", "x", -0.0, 3.0), 2),
        ([math.nan, math.nan], op("equal", "x", math.nan), 2),
    ):
        found = ran(engine, Plan().filter(condition), table_of({"x": ("float64", values)}), tmp_path)
        assert found.num_rows == rows, condition


@pytest.mark.parametrize("engine", ENGINES)
def test_days_before_the_gregorian_calendar_are_unchanged(engine: str, tmp_path: Path) -> None:
    days = [dt.date(1582, 10, 10), dt.date(1, 1, 1), dt.date(1899, 12, 31)]
    times = [dt.datetime(day.year, day.month, day.day, 23, 59, 59, 1) for day in days]
    given = table_of({"d": ("date32", days), "t": ("timestamp[us]", times), "z": ("timestamp[us, tz=UTC]", times)})
    found = ran(engine, Plan().derive(year=op("year", "d"), day=op("cast", "d", "string")), given, tmp_path)
    assert found.column("year").to_pylist() == [1582, 1, 1899]
    assert found.column("day").to_pylist() == ["1582-10-10", "0001-01-01", "1899-12-31"]
    assert found.column("t").to_pylist() == times
    assert [time.replace(tzinfo=None) for time in found.column("z").to_pylist()] == times


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
def test_times_beyond_the_calendar_of_polars_are_refused(zone: str | None, tmp_path: Path) -> None:
    """It made nulls of them, and of those with a zone a table without rows."""
    times = pa.array([0, 9 * 10**18], pa.timestamp("us", tz=zone))
    given = engines.Table(pa.schema([("t", times.type)]), lambda: iter(pa.table({"t": times}).to_batches()))
    for expression in (op("hour", "t"), op("truncate", "t", "day"), op("cast", "t", "date32")):
        with pytest.raises(InputError, match=r"Polars' calendar ends with the year 261000: filter such rows out"):
            ran("polars", Plan().derive(z=expression), given, tmp_path)


@pytest.mark.spark
def test_workers_get_functions_without_the_package() -> None:
    """Hosts of a cluster have PySpark alone: what they are sent is read here by a Python without any package."""
    spark = importlib.import_module("drivetrain.data.engines.spark.expressions")
    cloudpickle = importlib.import_module("pyspark.cloudpickle")
    sent = cloudpickle.dumps({name: spark._nearest_of(name).func for name in ("exp", "sin", "power", "rounded")})
    program = (
        "import pickle, sys; f = pickle.load(sys.stdin.buffer); "
        "print(f['exp'](1.0), f['sin'](1e22), f['power'](2.0, 1.5), f['rounded'](0.575, 2), f['exp'](None))"
    )
    place = str(Path(str(cloudpickle.__file__)).parents[2])
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], input=sent, env={"PYTHONPATH": place}, capture_output=True, check=True
    )
    assert done.stdout.decode().split() == [
        "2.718281828459045", "-0.8522008497671888", "2.8284271247461903", "0.57", "None"
    ]  # fmt: skip


@pytest.mark.spark
def test_rows_reach_workers_without_this_disk(tmp_path: Path) -> None:
    """Where Spark's file system is not this machine's, rows go through it; here by a view that has another folder."""
    spark = importlib.import_module("drivetrain.data.engines.spark.session").session({})
    (tmp_path / "cluster").mkdir()
    settings = spark._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.viewfs.mounttable.cluster.link./user", f"file://{tmp_path / 'cluster'}")
    settings.set("fs.defaultFS", "viewfs://cluster/")
    seen: list[str] = []

    def watched(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.extend(path.name for path in (tmp_path / "cluster").rglob("*.parquet"))
        return batch

    given = table_of({"id": ("int64", list(range(40))), "x": ("float64", [n / 4 for n in range(40)])}, batch_rows=7)
    plan = Plan().sort("x").map_batches(watched, {"id": "int64", "x": "float64"}).join("x", on="id")
    try:
        (tmp_path / "here").mkdir()
        found = ran(
            "spark", plan, given, tmp_path / "here", x=table_of({"id": ("int64", [9, 3]), "y": ("int64", [1, 2])})
        )
    finally:
        settings.set("fs.defaultFS", before)
    assert found.to_pydict() == {"id": [3, 9], "x": [0.75, 2.25], "y": [2, 1]}
    assert "rows.parquet" in seen, "what Spark read lay in the other file system"
    assert list((tmp_path / "cluster").glob("*/*")) == [], "and nothing is left there"
