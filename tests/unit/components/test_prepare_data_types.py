"""Which types columns get: declared ones, inferred ones, and both against the data."""

import csv
import datetime
import io
import json
import re
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.convert import INT64
from drivetrain.data.formats import csv as tabular_csv
from drivetrain.data.formats import jsonl as tabular_jsonl
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")


def prepared(folder: Path, files: dict[str, str], **parameters: Any) -> tuple[dict[str, str], dict[str, list[Any]]]:
    """All rows in train: the types and values of the columns."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    for name, data in files.items():
        (raw / name).write_bytes(data.encode())
    parameters = {"key": "id", "validation_percent": 0, "test_percent": 0, **parameters}
    prepare_data(raw, *(folder / side for side in SIDES), **parameters)
    manifest = Manifest.read(folder / "train")
    tables = [pq.read_table(folder / "train" / shard.file) for shard in manifest.shards]
    values = pa.concat_tables(tables).to_pydict()
    return {column.name: column.type for column in manifest.schema}, values


def refused(folder: Path, files: dict[str, str], **parameters: Any) -> str:
    with pytest.raises(InputError) as caught:
        prepared(folder, files, **parameters)
    return str(caught.value)


def test_csv_cells_are_inferred(tmp_path: Path) -> None:
    text = (
        "id,whole,real,yes,word,code,late,none,mixed\n"
        "1,-5,1e3,true,NA,007,,,1\n"
        "2, 6 ,NA,False,,1,,NA,true\n"
        "3,NaN,.5,,x y,2,soon,,2\n"
    )
    types, values = prepared(tmp_path, {"a.csv": text})
    assert types == {
        **{"id": "int64", "whole": "int64", "real": "double", "yes": "bool", "word": "string", "code": "string"},
        **{"late": "string", "none": "string", "mixed": "string"},
    }
    assert values == {
        "id": [1, 2, 3],
        "whole": [-5, 6, None],
        "real": [1000.0, None, 0.5],
        "yes": [True, False, None],
        "word": ["NA", None, "x y"],
        "code": ["007", "1", "2"],
        "late": [None, None, "soon"],
        "none": [None, None, None],
        "mixed": ["1", "true", "2"],
    }


CELLS_OF_ONE_COLUMN: dict[str, tuple[list[str], str, list[Any]]] = {
    "signs": (["+1", "-1", " +0 ", "NA"], "int64", [1, -1, 0, None]),
    "signs of fractions": (["+1.5", "-1", "+2"], "double", [1.5, -1.0, 2.0]),
    "telephone numbers": (["+41791234567", "+41447654321"], "string", ["+41791234567", "+41447654321"]),
    "a telephone number among signs": (["+1", "-1", "+41791234567"], "string", ["+1", "-1", "+41791234567"]),
    "hexadecimal digits": (["10", "0x10"], "string", ["10", "0x10"]),
    "leading zeros behind a sign": (["-1", "-007"], "string", ["-1", "-007"]),
    "leading zeros behind a plus": (["1", "+01"], "string", ["1", "+01"]),
    "numbers beside true": (["true", "1", "0"], "string", ["true", "1", "0"]),
    "bools": (["true", "FALSE", "", "NA"], "bool", [True, False, None, None]),
    "exact whole numbers beside fractions": (["9007199254740994", "0.5"], "double", [9007199254740994.0, 0.5]),
    "long whole numbers alone": (["9007199254740993", "1"], "int64", [9007199254740993, 1]),
    "nothing": (["NA", "", "nan"], "string", [None, None, None]),
}


@pytest.mark.parametrize("case", CELLS_OF_ONE_COLUMN)
def test_no_value_changes_by_an_inferred_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Whether all cells are looked at at once, or the last one comes when the type was chosen by the others."""
    cells, expected_type, expected = CELLS_OF_ONE_COLUMN[case]
    shown = [f"{index},{cell}" for index, cell in enumerate(cells)]
    for name, filler, block in (("at_once", [], 1 << 20), ("late", [f"{9 + n},{cells[0]}" for n in range(40)], 128)):
        monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", block)
        (tmp_path / name).mkdir()
        types, values = prepared(tmp_path / name, {"a.csv": "\n".join(["id,x", *filler, *shown])})
        assert (types["x"], values["x"]) == (expected_type, expected[:1] * len(filler) + expected)


@pytest.mark.parametrize("late", [False, True])
def test_a_whole_number_that_a_float_does_not_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", 128)
    rows = [f"{9 + n},0.5" for n in range(40 if late else 1)]
    text = "\n".join(["id,x", *rows, "500,9007199254740993"])
    place = f"a.csv, row {len(rows) + 2}, column 'x': '9007199254740993' is not a float64: other cells of the column"
    assert place in refused(tmp_path, {"a.csv": text})
    _, values = prepared(tmp_path, {"a.csv": text}, schema="id:int64,x:decimal(38, 6)")
    assert values["x"][-1] == Decimal(9007199254740993)
    lines = '{"id": 1, "x": 0.5}\n\n{"id": 2, "x": 9007199254740994}\n{"id": 3, "x": 9007199254740993}\n'
    (tmp_path / "raw" / "a.csv").unlink()
    assert "a.jsonl, line 4, column 'x': 9007199254740993 is not a float64" in refused(tmp_path, {"a.jsonl": lines})


LATE = {
    "a fraction": ("12.5", "double", 12.5),
    "a word": ("twelve", "string", "twelve"),
    "a leading zero": ("012", "string", "012"),
    "nothing": ("", "int64", None),
    "beyond 64 bits": ("1.8446744073709551616e19", "double", 18446744073709551616.0),
}


@pytest.mark.parametrize("case", LATE)
@pytest.mark.parametrize("later_file", [False, True])
def test_all_rows_decide_the_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, later_file: bool) -> None:
    """The first block, and the first file, hold whole numbers only."""
    cell, expected_type, expected_value = LATE[case]
    monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", 256)
    lines = [f"{key},{key}" for key in range(200)]
    if later_file:
        files = {"a.csv": "\n".join(["id,x", *lines]), "b.csv": f"id,x\n500,{cell}\n"}
    else:
        files = {"a.csv": "\n".join(["id,x", *lines, f"500,{cell}"])}
    types, values = prepared(tmp_path, files)
    assert types["x"] == expected_type
    assert values["x"][-1] == expected_value
    assert values["x"][7] == {"int64": 7, "double": 7.0, "string": "7"}[expected_type]


def test_keys_that_turn_into_text_keep_their_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", 64)
    keys = [*(str(key) for key in range(50)), "0051", "A52"]
    types, values = prepared(tmp_path, {"a.csv": "id\n" + "\n".join(keys)})
    assert (types, values) == ({"id": "string"}, {"id": keys})


def test_json_fields_are_inferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_jsonl, "BLOCK_BYTES", 64)
    objects: list[dict[str, Any]] = [
        {"id": 1, "real": 1, "word": "2026-01-01", "list": [1, 2]},
        {"id": 2, "real": 1, "yes": True, "list": []},
        {"id": 3, "real": 2.5, "yes": None, "nested": {"a": 1, "when": "2026-01-01"}},
        {"id": 4, "word": "x", "list": [2.5]},
    ]
    text = "".join(json.dumps(each) + "\n" for each in objects)
    types, values = prepared(tmp_path, {"a.jsonl": text})
    assert {name: types[name] for name in ("id", "real", "word", "yes")} == {
        **{"id": "int64", "real": "double", "word": "string", "yes": "bool"}
    }
    names = ("id", "real", "word", "yes", "list", "nested")
    assert values == {name: [each.get(name) for each in objects] for name in names}


def test_declared_types_are_kept(tmp_path: Path) -> None:
    schema = "id:string,a:float32,b:uint8,c:bool,d:date32,e:timestamp[us],f:string"
    text = "id,a,b,c,d,e,f\n007,1,255,1,2026-01-31,2026-01-31 10:00:00.5,12\n8,,,,,,\n"
    types, values = prepared(tmp_path, {"a.csv": text}, schema=schema)
    assert list(types.values()) == ["string", "float", "uint8", "bool", "date32[day]", "timestamp[us]", "string"]
    assert [column[0] for column in values.values()] == [
        *("007", 1.0, 255, True, datetime.date(2026, 1, 31), datetime.datetime(2026, 1, 31, 10, 0, 0, 500000), "12")
    ]
    assert [column[1] for column in values.values()] == ["8", *[None] * 6]


def test_declared_types_of_json_and_parquet(tmp_path: Path) -> None:
    schema = "id:string,x:float32,day:date32,n:int16"
    line = '{"id": 7, "x": 1, "day": "2026-01-31", "n": 5}\n{"id": 8, "x": 0.5, "day": null}\n'
    (tmp_path / "raw").mkdir()
    table = pa.table({"id": [9], "x": ["2.5"], "day": [datetime.date(2026, 2, 1)], "n": pa.array([6], pa.int64())})
    pq.write_table(table, tmp_path / "raw" / "b.parquet")
    types, values = prepared(tmp_path, {"a.jsonl": line}, schema=schema)
    assert list(types.values()) == ["string", "float", "date32[day]", "int16"]
    assert values == {
        "id": ["7", "8", "9"],
        "x": [1.0, 0.5, 2.5],
        "day": [datetime.date(2026, 1, 31), None, datetime.date(2026, 2, 1)],
        "n": [5, None, 6],
    }


def test_a_type_in_rules_is_that_of_the_schema_by_any_of_its_names(tmp_path: Path) -> None:
    rules = [json.dumps({"columns": {"x": {"type": kind}}}) for kind in ("double", "float32")]
    files = {"a.csv": "id,x\n1,2\n"}
    assert prepared(tmp_path, files, schema="id:int64,x:float64", rules=rules[0])[0]["x"] == "double"
    with pytest.raises(InputError, match=r"column 'x' has a type in .*, and another one in rules"):
        prepared(tmp_path, files, schema="id:int64,x:float64", rules=rules[1])


def test_declared_zones_and_decimals(tmp_path: Path) -> None:
    schema = "when:timestamp[us, tz=Europe/Zurich], price:decimal(24,3),id:int64"
    files = {
        "a.csv": "id,when,price\n1,2026-01-31 10:00:00.5Z,1.5\n2,2026-01-31T10:00:00+02:00,NA\n",
        "b.jsonl": '{"id": 3, "when": "2026-01-31T10:00:00Z", "price": 123456789012345678901.125}\n{"id": 4}\n',
    }
    types, values = prepared(tmp_path, files, schema=schema)
    assert types == {"id": "int64", "when": "timestamp[us, tz=Europe/Zurich]", "price": "decimal128(24, 3)"}
    ten = datetime.datetime(2026, 1, 31, 10, tzinfo=datetime.UTC)
    later = datetime.timedelta(microseconds=500_000), datetime.timedelta(hours=-2)
    assert values["when"] == [ten + later[0], ten + later[1], ten, None]
    assert values["price"] == [Decimal("1.500"), None, Decimal("123456789012345678901.125"), None]


WIDE = {
    "csv": "id,x\n1,5\n2,{}\n3,1.5\n",
    "jsonl": '{{"id": 1, "x": 5}}\n{{"id": 2, "x": {}}}\n{{"id": 3, "x": 1.5}}\n',
}


@pytest.mark.parametrize("block", [8, 1 << 20])
@pytest.mark.parametrize("name", WIDE)
def test_whole_numbers_beyond_int64_do_not_become_floats_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, block: int
) -> None:
    monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", max(block, 32))
    monkeypatch.setattr(tabular_jsonl, "BLOCK_BYTES", block)
    wide = -(1 << 63) - 1
    message = refused(tmp_path, {f"a.{name}": WIDE[name].format(wide)})
    place = "a.csv, row 3" if name == "csv" else "a.jsonl, line 2"
    assert f"{place}, column 'x': " in message and f"{wide}" in message
    assert "it is a whole number beyond int64, and a float64 does not hold all its digits. Give the column" in message
    _, values = prepared(tmp_path, {}, schema="id:int64,x:decimal(38, 1)")
    assert values["x"] == [5, wide, Decimal("1.5")]
    _, values = prepared(tmp_path, {}, schema="id:int64,x:float64")
    assert values["x"] == [5, float(wide), 1.5]
    (tmp_path / "raw" / f"a.{name}").write_text(WIDE[name].format("1e30"))
    assert prepared(tmp_path, {})[1]["x"] == [5, 1e30, 1.5]


@pytest.mark.parametrize(
    ("name", "text", "schema", "expected"),
    [
        ("a.csv", "id,x\n1,2\n\n3,2.5\n", "x:int64", r"a\.csv, row 4, column 'x': '2\.5' is not an int64"),
        ("a.csv", "id,x\n1,300\n", "x:uint8", r"a\.csv, row 2, column 'x': '300' is not a uint8"),
        ("a.csv", "id,x\n1,yes\n", "x:bool", r"a\.csv, row 2, column 'x': 'yes' is not a bool"),
        (
            "a.csv",
            "id,x\n1,31.1.2026\n",
            "x:date32",
            r"a\.csv, row 2, column 'x': '31\.1\.2026' is not a date32\[day\]",
        ),
        (
            "a.csv",
            'id,x\n1,"a\nb"\n2,soon\n',
            "id:int64,x:float32",
            r"a\.csv, row 2, column 'x': 'a\\nb' is not a float32",
        ),
        (
            "a.csv",
            "id,x\n1,2026-01-31T10:00:00\n",
            "x:timestamp[us, tz=UTC],id:int64",
            r"'2026-01-31T10:00:00' is not a timestamp\[us, tz=UTC\] \(it has no offset, such as Z or \+01:00\)",
        ),
        (
            "a.csv",
            "id,x\n1,2026-01-31T10:00:00Z\n",
            "x:timestamp[s]",
            r"is not a timestamp\[s\] \(it has an offset: give the type timestamp\[s, tz=UTC\]\)",
        ),
        (
            "a.csv",
            "id,x\n1,1.5\n2,1.125\n",
            "x:decimal(4, 2)",
            r"row 3, column 'x': '1.125' is not a decimal128\(4, 2\)",
        ),
        ("a.jsonl", '{"id": 1, "x": 2.5}\n', "x:int64", r"a\.jsonl, line 1, column 'x': 2\.5 is not an int64"),
        ("a.jsonl", '{"id": 1, "x": 300}\n', "x:uint8", r"a\.jsonl, line 1, column 'x': 300 is not a uint8"),
        ("a.jsonl", '{"id": 1, "x": "no"}\n', "x:int64", r"a\.jsonl, line 1, column 'x': 'no' is not an int64"),
        ("a.jsonl", '\n{"id": 1, "x": [1]}\n', "x:int64", r"a\.jsonl, line 2, column 'x': \[1\] is not an int64"),
    ],
)
def test_a_cell_of_a_wrong_type_is_named(tmp_path: Path, name: str, text: str, schema: str, expected: str) -> None:
    assert re.search(expected, refused(tmp_path, {name: text}, schema=schema, extra_columns="keep"))


def test_a_cell_of_a_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    pq.write_table(pa.table({"id": [1, 2, 3], "x": [1.0, 2.5, 3.0]}), tmp_path / "raw" / "a.parquet")
    message = refused(tmp_path, {}, schema="id:int64,x:int64")
    assert message == "a.parquet, row 2, column 'x': 2.5 is not an int64."


TEXT = "id,label,p0,p1,note\n1,0,5,6,x\n2,1,7,8,y\n"


def test_patterns_name_many_columns(tmp_path: Path) -> None:
    types, _ = prepared(tmp_path, {"a.csv": TEXT}, schema="p1:int8,p*:float32,note:string", label="label")
    assert types == {"id": "int64", "label": "int64", "p0": "float", "p1": "int8", "note": "string"}


def test_columns_missing_from_the_schema(tmp_path: Path) -> None:
    files = {"a.csv": TEXT}
    assert refused(tmp_path, files, schema="p*:float32", label="label") == (
        "a.csv: column 'note' is not in schema. Add it there, or give extra_columns=keep (types are inferred) or "
        "extra_columns=drop."
    )
    kept, _ = prepared(tmp_path, files, schema="p*:float32", extra_columns="keep")
    assert kept == {"id": "int64", "label": "int64", "p0": "float", "p1": "float", "note": "string"}
    dropped, _ = prepared(tmp_path, files, schema="p*:float32", extra_columns="drop")
    assert dropped == {"id": "int64", "p0": "float", "p1": "float"}


def test_dropped_fields_of_json_may_be_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_jsonl, "BLOCK_BYTES", 16)
    lines = '{"id": 1, "x": 1}\n{"id": 2, "x": 2, "new": "text"}\n{"id": 3, "x": 3}\n'
    types, values = prepared(tmp_path, {"a.jsonl": lines}, schema="x:int64", extra_columns="drop")
    assert (types, values) == ({"id": "int64", "x": "int64"}, {"id": [1, 2, 3], "x": [1, 2, 3]})
    assert re.search(
        r"a\.jsonl: column 'new' is not in schema", refused(tmp_path, {"a.jsonl": lines}, schema="x:int64")
    )


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (
            "notes:int64",
            "schema: no file has a column 'notes'. Did you mean 'note'? There are: id, label, p0, p1, note.",
        ),
        ("q*:int64", "schema: no column fits 'q*'. There are: id, label, p0, p1, note."),
        ("p0:int46", "schema: column 'p0' has the type 'int46'. Did you mean 'int64'?"),
        ("p0", "schema: 'p0' is not \"column:type\""),
        ("", "schema: '' is not \"column:type\""),
        ("p0:timestamp[us, tz=Mars]", "there is no time zone 'Mars'"),
        ("p0:timestamp[us, tz=UTC", "schema: 'p0:timestamp[us' is not \"column:type\""),
        ("p0:decimal(2, 3)", "schema: column 'p0' has the type 'decimal(2, 3)'. There are: int8"),
        ("p0:int64,", "schema: it ends with a comma"),
        ("p0:int64,p0:int8", "schema: column 'p0' occurs twice"),
        (
            "id:float64",
            "key: column 'id' is a float64 column. Allowed: integers or text. Give it a type, for example "
            'schema="id:string"',
        ),
        ("label:date32", "label: column 'label' is a date32[day] column. Allowed: integers, bools or text for classes"),
    ],
)
def test_invalid_schemas_are_refused(tmp_path: Path, schema: str, expected: str) -> None:
    message = refused(tmp_path, {"a.csv": TEXT}, schema=schema, extra_columns="keep", label="label")
    assert expected in message


def test_the_advice_for_a_quantity_that_is_the_label_works_as_it_stands(tmp_path: Path) -> None:
    text = "id,sex,rings\n" + "".join(f"{row},M,{row}\n" for row in range(40))
    message = refused(tmp_path, {"a.csv": text}, label="rings", validation_percent=30)
    given = re.search(r'give it a float type: schema="(.+)", extra_columns="(.+)"', message)
    assert given is not None, message
    schema, extra = given.groups()
    types, _ = prepared(tmp_path, {}, label="rings", validation_percent=30, schema=schema, extra_columns=extra)
    assert types == {"id": "int64", "sex": "string", "rings": "double"}


def test_a_schema_file_in_both_forms(tmp_path: Path) -> None:
    files = {"a.csv": TEXT, "schema.json": '{"id": "int32", "label": "bool", "p*": "float32", "note": "string"}'}
    types, _ = prepared(tmp_path, files)
    assert types == {"id": "int32", "label": "bool", "p0": "float", "p1": "float", "note": "string"}
    manifest = json.loads((tmp_path / "train" / "manifest.json").read_bytes())
    again, _ = prepared(tmp_path, {"a.csv": TEXT, "schema.json": json.dumps(manifest["schema"])})
    assert again == types
    assert "is given, and" in refused(tmp_path, {"a.csv": TEXT}, schema="id:int64")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not a schema"),
        ('"id"', "is not a schema"),
        ('[{"name": "id"}]', "is not a schema"),
        ('{"id": 5}', "'id': 5 is not a column with its type"),
        ('{"id": "int64", "id": "int8"}', "column 'id' occurs twice"),
        ("{}", "names no column"),
    ],
)
def test_invalid_schema_files_are_refused(tmp_path: Path, text: str, expected: str) -> None:
    message = refused(tmp_path, {"a.csv": TEXT, "schema.json": text})
    assert "schema.json" in message and expected in message


@pytest.mark.parametrize(("delimiter", "given_as"), [(";", ";"), ("\t", "tab"), ("\t", "\\t"), ("|", "|")])
def test_delimiters(tmp_path: Path, delimiter: str, given_as: str) -> None:
    text = TEXT.replace(",", delimiter)
    types, values = prepared(tmp_path, {"a.csv": text}, delimiter=given_as)
    assert (types["note"], values["p1"]) == ("string", [6, 8])


def test_a_tsv_has_tabs_unless_another_delimiter_is_given(tmp_path: Path) -> None:
    text = TEXT.replace(",", "\t")
    types, values = prepared(tmp_path, {"a.TSV": text, "b.csv": TEXT.replace("\n", "\n7", 2)})
    assert (types["note"], values["p1"]) == ("string", [6, 8, 6, 8])
    for file in (tmp_path / "raw").iterdir():
        file.unlink()
    _, values = prepared(tmp_path, {"a.tsv": TEXT.replace(",", ";")}, delimiter=";")
    assert values["p1"] == [6, 8]


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=12), st.sampled_from(["\n", "\r\n"]))
def test_any_text_comes_through_csv(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str]], line_end: str
) -> None:
    """Quotes, delimiters, line ends and blanks within cells; only the empty cell becomes null."""
    folder = tmp_path_factory.mktemp("csv")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end)
    writer.writerow(["id", "a", "b"])
    writer.writerows([index, *pair] for index, pair in enumerate(cells))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tabular_csv, "BLOCK_BYTES", 512)
        _, values = prepared(folder, {"a.csv": text.getvalue()}, schema="a:string,b:string", extra_columns="keep")
    assert values == {
        "id": list(range(len(cells))),
        "a": [pair[0] or None for pair in cells],
        "b": [pair[1] or None for pair in cells],
    }


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.booleans()), min_size=1)
)
def test_numbers_come_through_csv(tmp_path_factory: pytest.TempPathFactory, cells: list[Any]) -> None:
    """Whatever the type is inferred to be, values that are one kind of thing keep their value."""
    folder = tmp_path_factory.mktemp("csv")
    shown = ["" if cell is None else str(cell) for cell in cells]
    text = "id,x\n" + "".join(f"{index},{cell}\n" for index, cell in enumerate(shown))
    present = [cell for cell in cells if cell is not None]
    whole = [cell for cell in present if type(cell) is int]
    is_float = any(type(cell) is float for cell in present) or any(cell not in INT64 for cell in whole)
    lost = [cell for cell in whole if cell not in INT64 or float(cell) != cell]
    if is_float and lost and not any(type(cell) is bool for cell in present):
        expected = "other cells of the column are no int64" if lost[0] in INT64 else "beyond int64"
        assert expected in refused(folder, {"a.csv": text})
        return
    types, values = prepared(folder, {"a.csv": text})
    if types["x"] == "string":
        assert values["x"] == [cell or None for cell in shown]
        assert len({type(cell) for cell in present}) != 1
    elif types["x"] == "double":
        assert values["x"] == [None if cell is None else float(cell) for cell in cells]
    else:
        assert values["x"] == cells
        assert types["x"] == ("bool" if isinstance(present[0], bool) else "int64")


OPEN_END, BEYOND = 5373484, 2**31 - 1  # Julian days: of 9999-12-31, and one that no 64 bits of microseconds reach


def with_int96(path: Path, days: list[int], nanoseconds: int = 0, *, lists: bool = False) -> None:
    """A Parquet file such as Spark writes: Arrow itself writes no such days."""
    given = [datetime.datetime(2000 + place, 1, 1) for place in range(len(days))]
    column = pa.array([[each] for each in given] if lists else given)
    table = pa.table({"id": range(len(days)), "t": column})
    options: Any = {"use_dictionary": False, "compression": "none", "store_schema": False, "write_statistics": False}
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=2, **options)
    data = path.read_bytes()
    for each, julian in zip(given, days, strict=True):
        written = struct.pack("<qi", 0, each.toordinal() + 1721425)
        assert data.count(written) == 1
        data = data.replace(written, struct.pack("<qi", nanoseconds, julian))
    path.write_bytes(data)


@pytest.mark.parametrize("lists", [False, True])
def test_time_stamps_of_spark_reach_beyond_nanoseconds(lists: bool, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with_int96(tmp_path / "raw" / "a.parquet", [OPEN_END, 2415021, 2451545, 0], 123_456_000, lists=lists)
    types, values = prepared(tmp_path, {})
    assert types["t"] == ("list<element: timestamp[us]>" if lists else "timestamp[us]")
    found = [value[0] for value in values["t"]] if lists else values["t"]
    expected = [datetime.datetime(*day) for day in ((9999, 12, 31), (1900, 1, 1), (2000, 1, 1))]
    assert found[:3] == [day + datetime.timedelta(microseconds=123_456) for day in expected]
    if not lists:
        statistics = Manifest.read(tmp_path / "train").statistics["t"]
        assert statistics["sentinels"] == {"1900-01-01": 1, "9999-12-31": 1}


@pytest.mark.parametrize("lists", [False, True])
def test_a_time_stamp_that_would_wrap_is_refused(lists: bool, tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with_int96(tmp_path / "raw" / "a.parquet", [OPEN_END, OPEN_END, 2451545, BEYOND], lists=lists)
    message = refused(tmp_path, {})
    assert message.startswith("a.parquet, row 4, column 't': a time stamp lies beyond what 64 bits of us hold.")


def test_nanoseconds_are_kept_where_they_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    with_int96(tmp_path / "raw" / "a.parquet", [2451545], 789)
    sides = (tmp_path / side for side in SIDES)
    prepare_data(tmp_path / "raw", *sides, key="id", validation_percent=0, test_percent=0, schema="t:timestamp[ns]")
    assert Manifest.read(tmp_path / "train").statistics["t"]["min"] == "2000-01-01T00:00:00.000000789"
    with_int96(tmp_path / "raw" / "a.parquet", [2451545, OPEN_END])
    assert "row 2, column 't': a time stamp lies beyond what 64 bits of ns hold" in refused(
        tmp_path, {}, schema="t:timestamp[ns]"
    )


LONG = "9007199254740993"


@pytest.mark.parametrize(
    "lines",
    [
        f'{{"id":1,"v":[{LONG},0.5]}}',
        f'{{"id":1,"v":{{"a":{LONG}}}}}\n{{"id":2,"v":{{"a":0.5}}}}',
        f'{{"id":1,"v":[{{"a":[null,{LONG}]}}]}}\n{{"id":2,"v":[{{"a":[0.5]}}]}}',
    ],
)
def test_whole_numbers_within_lists_and_objects_keep_their_digits(lines: str, tmp_path: Path) -> None:
    message = refused(tmp_path, {"a.jsonl": lines + "\n"})
    assert message.startswith(f"a.jsonl, line 1, column 'v': {LONG} is not a float64: other numbers there are no int64")
    types, values = prepared(tmp_path, {"a.jsonl": lines.replace("0.5", "7") + "\n"})
    assert "double" not in types["v"] and LONG in str(values["v"])
    prepared(tmp_path, {"a.jsonl": lines.replace(LONG, f"{LONG}.0") + "\n"})


@pytest.mark.parametrize("line", ["null", " null", "null \r"])
def test_a_line_that_is_null_is_no_row(line: str, tmp_path: Path) -> None:
    message = refused(tmp_path, {"a.jsonl": '{"id":1,"v":"null"}\n' + line + "\n"})
    assert message == "a.jsonl, line 2 is null; JSON Lines needs one object a line."


@pytest.mark.parametrize("brackets", ["[]", '{"a":}'])
def test_nested_values_are_written_if_readable(brackets: str, tmp_path: Path) -> None:
    def nested(levels: int) -> str:
        return (
            '{"id":1,"v":' + brackets[:-1] * levels + ("" if brackets == "[]" else "1") + brackets[-1] * levels + "}\n"
        )

    _, values = prepared(tmp_path, {"a.jsonl": nested(49)})
    assert len(values["v"]) == 1
    assert "nested more than 50 levels deep" in refused(tmp_path, {"a.jsonl": nested(50)})


def test_lists_of_another_file_are_not_nested_deeper_than_parquet_is_read(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    column = pa.array([1])
    for _ in range(60):
        column = pa.ListArray.from_arrays([0, 1], column)
    table = pa.table({"id": [1], "v": column})
    with pa.ipc.new_file(tmp_path / "raw" / "a.arrow", table.schema) as file:
        file.write_table(table)
    assert refused(tmp_path, {}).startswith("column 'v' is nested so deeply that Parquet would not be read again")


def with_columns(folder: Path, **columns: Any) -> None:
    (folder / "raw").mkdir()
    for place, (name, column) in enumerate(columns.items()):
        ids = pa.array(range(10 * place, 10 * place + len(column)))
        pq.write_table(pa.table({"id": ids, "v": column}), folder / "raw" / f"{name}.parquet")


def test_decimals_beside_floats_have_no_common_type(tmp_path: Path) -> None:
    decimals = pa.array([Decimal("12345678901234567.89")], pa.decimal128(30, 2))
    with_columns(tmp_path, a=decimals, b=pa.array([0.5]))
    assert refused(tmp_path, {}).startswith(
        "column 'v' is a decimal128(30, 2) column in a.parquet and a float64 column in b.parquet. Give it a type"
    )
    types, _ = prepared(tmp_path, {}, schema="v:float64", extra_columns="keep")
    assert types["v"] == "double"


@pytest.mark.parametrize("whole", [pa.int32(), pa.int64(), pa.uint64()])
def test_whole_numbers_beside_decimals_are_decimals(whole: Any, tmp_path: Path) -> None:
    largest = {"int32": 2**31 - 1, "int64": 2**63 - 1, "uint64": 2**64 - 1}[str(whole)]
    with_columns(tmp_path, a=pa.array([Decimal("1.50")], pa.decimal128(10, 2)), b=pa.array([1, largest], whole))
    assert prepared(tmp_path, {})[1]["v"] == [Decimal("1.50"), Decimal(1), Decimal(largest)]
    message = refused(tmp_path, {}, schema="v:decimal(10, 2)", extra_columns="keep")
    assert message == f"b.parquet, row 2, column 'v': {largest} is not a decimal128(10, 2)."


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (("c=9223372036854775808", "c=1"), "column 'c': '9223372036854775808' is not a float64: it is a whole number"),
        (("c=9007199254740993", "c=0.5"), "column 'c': '9007199254740993' is not a float64: other cells"),
        (("c=%FF", "c=%FE"), "c=%FE/a.csv: what the percent signs in 'c=%FE' stand for is not UTF-8."),
    ],
)
def test_names_of_folders_are_read_as_strictly_as_cells(folders: tuple[str, ...], message: str, tmp_path: Path) -> None:
    for folder in folders:
        (tmp_path / "raw" / folder).mkdir(parents=True)
        (tmp_path / "raw" / folder / "a.csv").write_text(f"id,v\n{len(folder)},a\n")
    assert message in refused(tmp_path, {})
