"""transform_data from end to end: tables in, Parquet out, in any order of memory; what is wrong is one error."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.transform_data import transform_data
from drivetrain.data.formats import csv as tabular_csv
from drivetrain.data.manifest import Manifest
from drivetrain.data.shards import ShardWriter
from drivetrain.data.transform.expressions import col, op
from drivetrain.data.transform.plan import Plan

ORDERS = "id,user,price,count\n" + "".join(f"{row},u{row % 7},{row}.5,{row % 3}\n" for row in range(100))
USERS = "".join(json.dumps({"user": f"u{user}", "city": "Bern" if user % 2 else "Oslo"}) + "\n" for user in range(6))
PLAN = (
    Plan()
    .filter(col("count") > 0)
    .join("users", on="user", how="left")
    .derive(total=col("price") * col("count"), city=op("fill_null", "city", op("lower", "user")))
    .deduplicate(by=("user", "count"), order_by="price")
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "orders.csv").write_text(ORDERS)
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "users.jsonl").write_text(USERS)
    return tmp_path


def transform(place: Path, plan: Plan = PLAN, **parameters: Any) -> list[dict[str, Any]]:
    transform_data(place / "raw", place / "out", place / "tables", plan=plan.to_json(), **parameters)
    return rows(place / "out")


def rows(folder: Path) -> list[dict[str, Any]]:
    return [row for shard in Manifest.read(folder).shards for row in pq.read_table(folder / shard.file).to_pylist()]


def test_tables_are_read_and_parquet_is_written(place: Path) -> None:
    found = transform(place, rows_per_file=5)
    manifest = Manifest.read(place / "out")
    assert [shard.file for shard in manifest.shards] == [
        f"{manifest.version}/part-{number:05d}.parquet" for number in range(3)
    ]
    seen: dict[tuple[str, int], dict[str, Any]] = {}
    for row in range(100):
        user, count = row % 7, row % 3
        if count and (f"u{user}", count) not in seen:
            city = "u6" if user == 6 else "Bern" if user % 2 else "Oslo"
            seen[(f"u{user}", count)] = {
                **{"id": row, "user": f"u{user}", "price": row + 0.5, "count": count, "city": city},
                "total": (row + 0.5) * count,
            }
    assert found == list(seen.values())


def test_a_transform_can_be_repeated_in_place_and_prepared(place: Path) -> None:
    first = transform(place, rows_per_file=5)
    assert transform(place) == first
    assert len(Manifest.read(place / "out").shards) == 1
    sides = [place / side for side in ("train", "validation", "test")]
    prepare_data(place / "out", *sides, key="id", validation_percent=0, test_percent=0)
    assert Manifest.read(place / "train").rows == 14


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"plan": Plan().select("prize")}, "select: there is no column 'prize'. Did you mean 'price'?"),
        ({"plan": Plan().join("user", on="user")}, "join with 'user': there is no such table. Did you mean 'users'?"),
        ({"plan": Plan().filter(col("price") < 0)}, "no row is left"),
        ({"engine": "sparc"}, "there is no engine 'sparc'"),
        ({"memory_mib": 0}, "memory_mib is 0. Allowed: 1 and more."),
        ({"plan": Plan().cast({"price": "int64"}).cast({"price": "int8", "id": "int8"}).derive(
            id=op("cast", col("id") * 2, "int8"))}, "the transformation failed: verb 2, cast of 'price' or "
            "verb 2, cast of 'id' or verb 3, derive of 'id': 128 is not cast to int8"),
        ({"plan": Plan().derive(y=(col("id") + 2**62) * 2, z=col("price") * 2)},
            "the transformation failed: verb 1, derive of 'y': 9223372036854775808 is beyond int64"),
    ],
)  # fmt: skip
def test_errors_are_single_and_keep_the_output(place: Path, change: dict[str, Any], expected: str) -> None:
    before = transform(place)
    with pytest.raises(InputError) as caught:
        transform(place, **change)
    assert expected in str(caught.value)
    assert rows(place / "out") == before


def test_tables_have_names_of_their_own(place: Path) -> None:
    (place / "tables" / ".DS_Store").write_bytes(b"0")
    (place / "tables" / "README.md").write_text("users")
    assert transform(place)
    (place / "tables" / "users.2024.csv").write_text("user,city\nu1,Bern\n")
    with pytest.raises(InputError, match=r"^tables: users\.2024\.csv and users\.jsonl are both called 'users'"):
        transform(place)
    with pytest.raises(InputError, match=r"users\.jsonl, a file\. Give the folder"):
        transform_data(place / "raw", place / "out", place / "tables" / "users.jsonl", plan=PLAN.to_json())


def test_a_column_that_no_engine_takes_is_left_out_by_the_schema(place: Path) -> None:
    (place / "raw" / "orders.csv").unlink()
    pq.write_table(pa.table({"id": [1], "tags": [["a"]]}), place / "raw" / "orders.parquet")
    with pytest.raises(InputError, match=r"^column 'tags' is of the type list<.*give extra_columns=drop\.$"):
        transform(place, Plan())
    assert transform(place, Plan(), schema="id:int64", extra_columns="drop") == [{"id": 1}]


def test_types_are_those_of_all_rows(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", 200)
    (place / "raw" / "orders.csv").write_text(ORDERS.replace("99,u1,99.5,0", "99,u1,99.5,0.25"))
    assert transform(place, Plan().filter(op("equal", "id", 99)).select("count")) == [{"count": 0.25}]
    (place / "raw" / "orders.csv").write_text(ORDERS.replace("99,u1,99.5,0", "99,u1,soon,0"))
    with pytest.raises(InputError, match=r"^orders\.csv, row 101, column 'price': 'soon' is not a float64\.$"):
        transform(place, Plan().select("price"), schema="price:float64")


def test_cells_that_look_like_rows_are_kept_on_request(place: Path) -> None:
    cell = "1,2,3,4\n" * 12
    (place / "raw" / "orders.csv").write_text(f'id,user,price,count\n1,"{cell}",0.5,1\n2,u1,0.5,1\n')
    with pytest.raises(InputError, match=r"give cells_like_rows=keep\.$"):
        transform(place, Plan().select("id", "user"))
    found = transform(place, Plan().select("id", "user"), cells_like_rows="keep")
    assert found == [{"id": 1, "user": cell}, {"id": 2, "user": "u1"}]


@pytest.mark.parametrize("output", ["raw", "raw/inner", "tables", "."])
def test_the_output_must_not_be_an_input(place: Path, output: str) -> None:
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="are one, or one inside the other"):
        transform_data(place / "raw", place / output, place / "tables", plan=PLAN.to_json())
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def test_a_table_is_read_where_the_manifest_says(place: Path) -> None:
    """Versions that stay in the folder are not read again."""
    transform(place, Plan().select("id", "user"), keep_versions=3)
    expected = transform(place, Plan().select("id", "user").filter(col("id") < 9), keep_versions=3)
    assert len(list((place / "out").glob("*/manifest.json"))) == 2
    transform_data(place / "out", place / "again", plan="[]")
    assert rows(place / "again") == expected
    lineage = Manifest.read(place / "again").lineage
    assert lineage["plan"] == [] and [each["name"] for each in lineage["sources"]] == ["part-00000.parquet"]
    (place / "out" / Manifest.read(place / "out").shards[0].file).unlink()
    with pytest.raises(InputError, match=r"shard .*part-00000\.parquet is missing, but manifest\.json lists it"):
        transform_data(place / "out", place / "again", plan="[]")
    assert rows(place / "again") == expected


def test_versions_that_were_replaced_are_kept_by_number(place: Path) -> None:
    for number in range(4):
        transform(place, Plan().filter(col("id") < 10 + number), keep_versions=2)
    assert len(list((place / "out").glob("*/manifest.json"))) == 3
    transform(place, keep_versions=0)
    assert len(list((place / "out").glob("*/manifest.json"))) == 1
    assert {path.name for path in (place / "out").iterdir()} == {"manifest.json", Manifest.read(place / "out").version}


def test_a_folder_has_one_writer_at_a_time(place: Path) -> None:
    before = transform(place)
    writer = ShardWriter(place / "out", pa.schema([("id", pa.int64())]), key=None, label=None, rows_per_shard=5)
    writer.start()
    with pytest.raises(InputError, match=r"^another run is writing into .*out now\. Wait until it has ended"):
        transform(place, Plan().select("id"))
    assert rows(place / "out") == before and list((place / "out").glob(".*"))  # what the writer has staged
    writer.discard()
    assert transform(place, Plan().filter(col("id") < 2).select("id")) == [{"id": 0}, {"id": 1}]
