"""Rules for rows, as prepare_data applies them: what they find, what they say, and which rows go on."""

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")
ROWS = 200
RULES: Mapping[str, Any] = {
    "columns": {
        "id": {"unique": "fail"},
        "price": {"type": "float64", "nulls": {"share": 0.01}, "min": 0, "max": 1000},
        "country": {"values": ["CH", "DE"]},
        "at": {"type": "timestamp[us]", "max": "2026-11-30T00:00:00"},
    },
    "rows": {"min": 150},
}


def night(seed: int = 0, rows: int = ROWS) -> dict[str, list[Any]]:
    """The columns of one clean night; the first key is that of its seed."""
    draw = np.random.default_rng(seed)
    return {
        "id": list(range(seed * ROWS, seed * ROWS + rows)),
        "price": [round(float(each), 2) for each in draw.gamma(2.0, 50.0, rows).clip(0, 900)],
        "country": draw.choice(["CH", "DE"], rows).tolist(),
        "at": [f"2026-11-{1 + int(each):02d}T08:00:00" for each in draw.integers(0, 29, rows)],
    }


def csv(columns: Mapping[str, list[Any]]) -> str:
    return (
        ",".join(columns)
        + "\n"
        + "".join(",".join(map(str, row)) + "\n" for row in zip(*columns.values(), strict=True))
    )


def prepare(tmp_path: Path, text: str | None = None, rules: Any = RULES, **parameters: Any) -> None:
    if text is not None:
        (tmp_path / "raw").mkdir(exist_ok=True)
        (tmp_path / "raw" / "b.csv").write_text(text)
    folders = [tmp_path / "out" / side for side in SIDES]
    given = rules if isinstance(rules, str) else json.dumps(rules)
    prepare_data(tmp_path / "raw", *folders, key="id", rules=given, **{"quarantine": tmp_path / "q", **parameters})


def keys(tmp_path: Path) -> list[int]:
    folders = [tmp_path / "out" / side for side in SIDES]
    found = [pq.read_table(each / shard.file)["id"] for each in folders for shard in Manifest.read(each).shards]
    return sorted(key for column in found for key in column.to_pylist())


def entries(tmp_path: Path) -> list[dict[str, Any]]:
    shards = Manifest.read(tmp_path / "q").shards
    return [row for shard in shards for row in pq.read_table(tmp_path / "q" / shard.file).to_pylist()]


def changed(column: str, rows: Mapping[int, Any]) -> Callable[[], str]:
    def text() -> str:
        made = night()
        for row, value in rows.items():
            made[column][row] = value
        return csv(made)

    return text


def _without(column: str) -> str:
    return csv({name: values for name, values in night().items() if name != column})


FAULTS: dict[str, tuple[Callable[[], str], str]] = {
    "missing column": (lambda: _without("price"), r"rules: b\.csv has no column 'price'"),
    "changed type": (changed("price", {7: "cheap"}), r"b\.csv, row 9, column 'price': 'cheap' is not a float64"),
    "another unit": (
        lambda: csv({**night(), "price": [each * 1000 for each in night()["price"]]}),
        r"column 'price' is greater than 1000 in 200 of 200 rows \(100 %; allowed: 0\), first in b\.csv, row 2\.",
    ),
    "empty night": (lambda: csv(night(rows=0)), r"there are 0 rows in b\.csv; allowed: 150 to any number"),
    "a third of the rows": (lambda: csv(night(rows=67)), r"there are 67 rows in b\.csv; allowed: 150"),
    "open quote": (changed("country", {5: '"CH'}), r"b\.csv, row 7"),
    "doubled keys": (
        lambda: csv(night()) + csv(night()).partition("\n")[2],
        r"'id' is there in an earlier row in 200 of 400 rows .* first in b\.csv, row 202\.",
    ),
    "new category": (
        changed("country", {3: "FR"}), r"'country' is none of the allowed values in 1 of 200 rows .* b\.csv, row 5\."
    ),
    "future time stamps": (
        changed("at", {9: "2027-01-01T00:00:00"}), r"'at' is greater than 2026-11-30T00:00:00 in 1 .* b\.csv, row 11\."
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def accepted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sets of a clean night."""
    folder = tmp_path_factory.mktemp("accepted")
    prepare(folder, csv(night()))
    return folder


@pytest.mark.parametrize("fault", [*FAULTS, "truncated Parquet"])
def test_a_planted_fault_is_named_and_the_earlier_sets_stay(accepted: Path, tmp_path: Path, fault: str) -> None:
    shutil.copytree(accepted / "out", tmp_path / "out")
    before = {side: (tmp_path / "out" / side / "manifest.json").read_bytes() for side in SIDES}
    if fault in FAULTS:
        made, said = FAULTS[fault]
        (tmp_path / "raw").mkdir()
        (tmp_path / "raw" / "b.csv").write_text(made())
    else:
        said = r"b\.parquet cannot be read as Parquet"
        (tmp_path / "raw").mkdir()
        pq.write_table(pa.table(night()), tmp_path / "raw" / "b.parquet")
        data = (tmp_path / "raw" / "b.parquet").read_bytes()
        (tmp_path / "raw" / "b.parquet").write_bytes(data[: len(data) // 2])
    with pytest.raises(InputError, match=said) as caught:
        prepare(tmp_path)
    assert "\n" not in str(caught.value)
    assert {side: (tmp_path / "out" / side / "manifest.json").read_bytes() for side in SIDES} == before
    assert len(keys(tmp_path)) == ROWS and not (tmp_path / "q" / "manifest.json").exists()


def test_clean_nights_raise_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "raw").mkdir()
    for seed in range(20):
        (tmp_path / "raw" / f"{seed:02d}.csv").write_text(csv(night(seed)))
        rules = {**RULES, "then": "quarantine"} if seed % 2 else RULES
        prepare_data(
            tmp_path / "raw" / f"{seed:02d}.csv",
            *(tmp_path / str(seed) / side for side in SIDES),
            quarantine=tmp_path / str(seed) / "q",
            key="id",
            rules=json.dumps(rules),
        )
    assert "warning: rules" not in capsys.readouterr().out


QUARANTINE: Mapping[str, Any] = {
    "then": "quarantine",
    "columns": {
        "id": {"unique": "quarantine"},
        "price": {"type": "float64", "unreadable": "quarantine", "min": 0},
        "country": {"values": ["CH", "DE"], "mask": True},
    },
    "quarantine": {"keep_days": 7, "whole_rows": True},
}


def faulty() -> str:
    made = night()
    made["price"][3], made["price"][8], made["country"][8] = "cheap", -5.0, "FR"
    made["id"][20] = made["id"][2]
    return csv(made).replace("\n", "\n\n", 1)  # a blank line below the header moves all lines


def test_rows_that_break_a_rule_go_to_the_quarantine_and_the_rest_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prepare(tmp_path, faulty(), QUARANTINE)
    found = entries(tmp_path)
    assert [(each["rule"], each["column"], each["row"], each["line"], each["cell"]) for each in found] == [
        ("unreadable", "price", 4, 6, "cheap"),
        ("min", "price", 9, 11, "-5"),
        ("values", "country", 9, 11, "***"),
        ("unique", "id", 21, 23, "2"),
    ]
    assert {each["file"] for each in found} == {"b.csv"}
    assert found[1]["whole_row"] == {"id": 8, "price": -5.0, "country": None, "at": found[1]["whole_row"]["at"]}
    assert keys(tmp_path) == [key for key in range(ROWS) if key not in (3, 8, 20)]
    lineage = Manifest.read(tmp_path / "out" / "train").lineage
    assert {each["rule"]: each["rows"] for each in lineage["rules"]} == dict.fromkeys(
        ("unique", "unreadable", "min", "values"), 1
    )
    assert Manifest.read(tmp_path / "q").lineage["keep_days"] == 7
    said = capsys.readouterr().out
    assert (
        "warning: rules: column 'price' is less than 0 in 1 of 200 rows (0.5 %; allowed: 10), first in b.csv, row 11."
        in said
    )
    assert "quarantine: 3 rows, 4 entries" in said


def test_a_quarantine_beyond_its_share_ends_the_night(tmp_path: Path) -> None:
    rules = {"columns": {"price": {"type": "float64", "min": {"is": 0, "then": "quarantine", "share": 0.5, "rows": 3}}}}
    made = night()
    made["price"][:4] = [-1.0] * 4
    with pytest.raises(InputError, match=r"less than 0 in 4 of 200 rows \(2 %; allowed: 3\), first in b\.csv, row 2\."):
        prepare(tmp_path, csv(made), rules)
    assert not (tmp_path / "q" / "manifest.json").exists()
    made["price"][0] = 1.0
    prepare(tmp_path, csv(made), rules)
    assert len(keys(tmp_path)) == ROWS - 3


def test_entries_beyond_the_bound_are_counted(tmp_path: Path) -> None:
    rules = {"columns": {"price": {"min": {"is": 0, "then": "quarantine"}}}, "quarantine": {"max_rows": 2}}
    made = night()
    made["price"][:5] = [-1.0] * 5
    prepare(tmp_path, csv(made), rules)
    assert [each["row"] for each in entries(tmp_path)] == [1, 2]
    assert Manifest.read(tmp_path / "q").lineage["rows_beyond"] == 3


def test_a_quarantine_keeps_earlier_nights_for_its_days(tmp_path: Path) -> None:
    versions: list[str] = []
    for age, bad in ((9, 1), (3, 2), (0, 3)):
        made = night()
        made["price"][:bad] = [-1.0] * bad
        prepare(tmp_path, csv(made), {**QUARANTINE, "columns": {"price": {"min": 0}}})
        versions.append(Manifest.read(tmp_path / "q").version)
        for path in (tmp_path / "q" / "manifest.json", tmp_path / "q" / versions[-1] / "manifest.json"):
            since = path.stat().st_mtime - age * 86_400
            os.utime(path, (since, since))
    assert [(tmp_path / "q" / version).is_dir() for version in versions] == [False, True, True]


def test_a_run_that_goes_on_judges_new_rows_alone_and_other_rules_read_all_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = {"columns": {"price": {"min": {"is": 0, "then": "quarantine"}}}, "rows": {"max": 210}}
    made = night()
    made["price"][0] = -1.0
    prepare(tmp_path, csv(made), rules, incremental=True)
    (tmp_path / "raw" / "c.csv").write_text(csv(night(1)))
    later: dict[str, Any] = {"incremental": True, "previous": tmp_path / "out"}
    prepare(tmp_path, None, rules, **later)
    lineage = Manifest.read(tmp_path / "out" / "train").lineage
    assert lineage["parent"] and lineage["rules"][0]["rows"] == 0 and entries(tmp_path) == []
    assert keys(tmp_path) == list(range(1, 2 * ROWS))
    capsys.readouterr()
    prepare(tmp_path, None, {"columns": {"price": {"min": {"is": -2, "then": "quarantine"}}}}, **later)
    assert re.search(r"all is prepared anew: rules was '\w{12}', and is '\w{12}' now", capsys.readouterr().out)
    assert keys(tmp_path) == list(range(2 * ROWS))


@pytest.mark.parametrize(
    ("rule", "values", "kind", "broken"),
    [
        ({"nulls": "warn"}, [1.0, None, float("nan")], pa.float64(), [1, 2]),
        ({"blanks": "warn"}, ["a", "", " \t", None], pa.string(), [1, 2]),
        ({"min": 2.5}, [2, 3, None], pa.int64(), [0]),
        ({"above": 2}, [2, 3, None], pa.int64(), [0]),
        ({"below": 2.5}, [2, 3, None], pa.int64(), [1]),
        ({"max": 2.5}, [2.5, float("nan"), 3.0], pa.float64(), [2]),
        ({"max": "2026-01-01"}, ["2026-01-01", "2026-01-02"], pa.date32(), [1]),
        ({"min": 0.125}, [Decimal("0.12"), Decimal("0.13"), None], pa.decimal128(10, 2), [0]),
        ({"max": "night"}, ["2026-11-30T01:00:00", "2026-11-30T03:00:00"], pa.timestamp("us"), [1]),
        ({"values": [1, 2]}, [1, 3, None], pa.int64(), [1]),
        ({"values": ["a"]}, [*["a"] * 5000, "b"], pa.string(), [5000]),
        ({"pattern": "[a-z]+|x1"}, ["ab", "ab1", "x1", None, ""], pa.string(), [1, 4]),
        ({"min_length": 2}, ["é", "éa", None], pa.string(), [0]),
        ({"max_length": 2}, ["ééé", "éa", None], pa.string(), [0]),
        ({"unique": "warn"}, ["a", "b", "a", None, None, "a"], pa.string(), [2, 5]),
    ],
    ids=lambda each: str(each)[:24] if isinstance(each, dict) else "",
)
def test_each_rule_finds_the_rows_that_break_it(
    tmp_path: Path, rule: dict[str, Any], values: list[Any], kind: Any, broken: list[int]
) -> None:
    """Rows are quarantined one after the other, so that the table lists them."""
    column = pa.array(values).cast(kind) if pa.types.is_temporal(kind) else pa.array(values, kind)
    (tmp_path / "raw").mkdir()
    ids = list(range(len(values)))
    pq.write_table(pa.table({"id": ids, "x": column}), tmp_path / "raw" / "a.parquet")
    name, value = next(iter(rule.items()))
    limits = {"then": "quarantine", "share": 1}
    rules = {"columns": {"x": {name: limits if value == "warn" else {"is": value, **limits}}}}
    prepare(
        tmp_path, None, rules, night="2026-11-30T02:00:00", validation_percent=0, test_percent=0, on_leakage="ignore"
    )
    assert [each["row"] - 1 for each in entries(tmp_path)] == broken
    assert keys(tmp_path) == [key for key in ids if key not in broken]


def test_sums_and_references_look_at_other_columns_and_tables(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "customers.csv").write_text("number,name\n1,a\n2,b\n")
    text = "id,net,tax,total,customer\n0,1,0.1,1.1,1\n1,1,0.1,1.2,2\n2,1,0.1,1.11,3\n3,1,,1,\n4,2,1,3,1\n"
    limits = {"then": "quarantine", "share": 1}
    rules = {
        "columns": {"customer": {"found_in": {"is": "customers.number", **limits}}},
        "sums": {"total": {"is": ["net", "tax"], "tolerance": 0.02, **limits}},
    }
    one_side: dict[str, Any] = {"validation_percent": 0, "test_percent": 0}
    prepare(tmp_path, text, rules, tables=tmp_path / "tables", **one_side)
    found = [(each["row"], each["rule"], each["column"], each["cell"]) for each in entries(tmp_path)]
    assert found == [(3, "found_in", "customer", "3"), (2, "sum", "total", "1.2")]
    for missing, said in (("orders.number", "no table 'orders'"), ("customers.id", "no column 'id'")):
        with pytest.raises(InputError, match=said):
            prepare(tmp_path, None, {"columns": {"customer": {"found_in": missing}}}, tables=tmp_path / "tables")


@pytest.mark.parametrize(
    ("columns", "parameters", "said"),
    [
        ({"prise": {"min": 0}}, {}, r"b\.csv has no column 'prise'\. Did you mean 'price'"),
        ({"country": {"min": 0}}, {}, "'country' is a string column; min is for numbers, dates"),
        ({"price": {"max_length": 3}}, {}, "'price' is a float64 column; max_length is for text"),
        ({"id": {"max": 1e30}}, {}, r"max is 10{16}19884624838656, which is not an int64"),
        ({"price": {"values": ["a"]}}, {}, "'price' is a double column|one of its values is not"),
        ({"country": {"pattern": "("}}, {}, r"pattern is '\('"),
        ({"price": {"unreadable": "quarantine"}}, {}, "say the type that its cells must have"),
        ({"at": {"type": "timestamp[us]", "max": "night"}}, {}, "Give the step night=2026-11-25"),
        ({"price": {"min": {"is": 0, "then": "quarantine"}}}, {"quarantine": None}, "Give --quarantine"),
        ({"price": {"min": {"is": 0, "then": "quarantine"}}}, {"split_by": "strata:country"}, "split_by=strata"),
        ({"price": {"type": "int64"}}, {"schema": "price:float64", "extra_columns": "keep"}, "another one in rules"),
    ],
)
def test_rules_that_do_not_go_with_the_data_are_refused(
    tmp_path: Path, columns: Any, parameters: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        prepare(tmp_path, csv(night()), {"columns": columns}, **parameters)
    assert "\n" not in str(caught.value)
