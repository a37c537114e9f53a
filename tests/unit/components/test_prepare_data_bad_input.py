"""Each bad input is one clear error that names file, row and column, and leaves nothing in the outputs."""

import bz2
import errno
import gzip
import lzma
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data import shard_files as tabular_shard_files
from drivetrain.data import shards as tabular_shards
from drivetrain.data.formats import csv as tabular_csv
from drivetrain.data.formats import jsonl as tabular_jsonl
from drivetrain.data.source import find_sources

SIDES = ("train", "validation", "test")
GOOD = "id,label,x\n" + "".join(f"{key},{key % 2},{key}.5\n" for key in range(100))
LINES = "".join(f'{{"id": {key}, "label": {key % 2}, "x": {key}.5}}\n' for key in range(100))
GZ = gzip.compress(GOOD.encode())


def run(tmp_path: Path, files: dict[str, str | bytes], **parameters: Any) -> str:
    """Run prepare_data on these files; the message it refuses them with."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, data in files.items():
        (raw / name).parent.mkdir(exist_ok=True)
        (raw / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    parameters = {"key": "id", "label": "label", **parameters}
    with pytest.raises(InputError) as caught:
        prepare_data(raw, *(tmp_path / side for side in SIDES), **parameters)
    assert [path for side in SIDES for path in (tmp_path / side).rglob("*")] == []
    message = str(caught.value)
    assert "\n" not in message and len(message) < 500
    return message


CSV_FILES: dict[str, tuple[str | bytes, str]] = {
    "not UTF-8": (
        GOOD.encode() + b"100,1,caf\xe9\n",
        r"a\.csv, row 102, column 'x': b'caf\\xe9' is not UTF-8 \(byte 0xe9\)\. It reads 'café' in cp1252\. "
        r"Save the file as UTF-8 from the encoding that it has: iconv -f cp1252 -t utf-8 a\.csv$",
    ),
    "not UTF-8 in the header": (b"id,label,caf\xe9\n1,2,3\n", r"a\.csv, row 1, column '3': b'caf\\xe9' is not UTF-8"),
    "UTF-16": (GOOD.encode("utf-16"), r"a\.csv is UTF-16\. Save it as UTF-8"),
    "UTF-32": (GOOD.encode("utf-32"), r"a\.csv is UTF-32\. .*iconv -f utf-32"),
    "a line for spreadsheets": ("sep=;\n" + GOOD.replace(",", ";"), r"line `sep=`: take this line out, and give delim"),
    "too many cells": (GOOD + "\n100,1,2,3\n", r"a\.csv, row 103 has 4 cells; the header names 3 columns"),
    "too few cells": ("id,label,x\n1,2\n" + GOOD[11:], r"a\.csv, row 2 has 2 cells"),
    "a quote that the next one closes": (
        'id,label,t\n0,1,"a"\n1,0,"b\n2,1,"c"\n3,0,"d"\n',
        r"a\.csv, row 3 is not CSV: .*quote not closed",
    ),
    "two quotes that close each other": (
        'id,label,t\n0,1,a\n1,0,"b\n2,1,"c\n3,0,d\n',
        r"a\.csv, row 3 is not CSV: .*quote not closed",
    ),
    "a quote that never closes": (GOOD + '100,1,"2\n101,0,3\n', r"a\.csv, row 102 is not CSV: .*quote not closed"),
    "no key": (GOOD + ",1,2\n", r"a\.csv, row 102: the key 'id' is missing"),
    "NA as a key": (GOOD + "\nNA,1,2\n", r"a\.csv, row 103: the key 'id' is missing"),
    "no label": (GOOD + "100,,2\n", r"a\.csv, row 102: the label 'label' is missing"),
    "a key twice": (GOOD + "\n42,1,2\n", r"a\.csv, row 103: the key 'id' is 42, as it is in a\.csv, row 44\."),
    "fractions as keys": (
        GOOD.replace("\n7,", "\n7.0,"),
        r"key: column 'id' is a float64 column\. Allowed: integers or text",
    ),
    "header only": ("id,label,x\n", r"the data has no rows"),
    "header only, no line end": ("id,label,x", r"the data has no rows"),
    "blank lines only": ("\n\n\n", r"a\.csv is empty: it has no header"),
    "zero bytes": ("", r"a\.csv is empty \(0 bytes\)"),
    "a name twice": ("id,label,id\n1,2,3\n", r"a\.csv, row 1: two columns are called 'id'"),
    "a column without a name": (",id,label\n0,1,2\n", r"a\.csv, row 1: column 1 has no name\."),
    "no such key": (
        "Id,label,x\n1,2,3\n",
        r"key: there is no column 'id'\. Did you mean 'Id'\? There are: Id, label, x",
    ),
    "another delimiter": (
        "id;label;x\n1;2;3\n",
        r"There are: id;label;x\. The header has one column: give delimiter=';'",
    ),
    "a class that is not in train": (
        GOOD.replace("\n0,0,", "\n0,7,"),
        r"label 'label': class 7 has no row in train, but 1 in (test|validation)\. .* schema=\"label:float64\"",
    ),
}


@pytest.mark.parametrize("case", CSV_FILES)
def test_bad_csv(tmp_path: Path, case: str) -> None:
    data, expected = CSV_FILES[case]
    parameters: dict[str, Any] = {}
    if case == "a class that is not in train":
        parameters = {"salt": salt_that_keeps_out_of_train("0")}
    assert re.search(expected, run(tmp_path, {"a.csv": data}, **parameters))


def salt_that_keeps_out_of_train(key: str) -> str:
    from drivetrain.data.split import key_digests, threshold

    digests = {salt: int.from_bytes(key_digests([key.encode()], salt), "little") for salt in map(str, range(200))}
    return next(salt for salt, digest in digests.items() if digest < threshold(20))


JSON_FILES: dict[str, tuple[str | bytes, str]] = {
    "malformed": (LINES + '\n{"id": 100,\n', r"a\.jsonl, line 102 is not JSON: .* at position 1[0-9]\."),
    "not UTF-8": (LINES.encode() + b'{"id": "\xe9"}\n', r"a\.jsonl, line 101 is not UTF-8 \(byte 0xe9 at position 9\)"),
    "another kind than before": (
        '{"id": 1, "x": "n/a"}\n{"id": 2, "x": 0.5}\n',
        r"line 2, column 'x': 0\.5 is a number, where text is expected\. Line 1 has \"n/a\"\.$",
    ),
    "Shift-JIS": (
        LINES.encode() + '{"id": "町"}\n'.encode("cp932"),
        r"line 101 is not UTF-8 \(byte 0x92 at position 9\)\. It reads '町' in cp932, ",
    ),
    "a list": (LINES + "[1, 2]\n", r"a\.jsonl, line 101 is a list; JSON Lines needs one object a line"),
    "one document": ('[\n{"id": 1}\n]\n', r"a\.jsonl, line 1 is not JSON: .* Is this one JSON document\?"),
    "two objects on a line": (LINES + '{"id": 100} {"id": 101}\n', r"a\.jsonl, line 101 is not JSON: Extra data"),
    "an object on two lines": ('{"id": 1,\n"label": 2}\n', r"a\.jsonl, line 1 is not JSON"),
    "a field twice": (LINES + '{"id": 100, "id": 101}\n', r"a\.jsonl, line 101: field 'id' occurs twice"),
    "text among numbers": (
        LINES + '{"id": 100, "label": 1, "x": "many"}\n',
        r"a\.jsonl, line 101, column 'x': \"many\" is text, where a number is expected",
    ),
    "a key that is text among numbers": (
        LINES + '{"id": "100"}\n',
        r"a\.jsonl, line 101, column 'id': \"100\" is text",
    ),
    "no key": (LINES + '{"label": 1}\n', r"a\.jsonl, line 101: the key 'id' is missing"),
    "a key twice": (
        LINES + '\n{"id": 3, "label": 1}\n',
        r"a\.jsonl, line 102: the key 'id' is 3, as it is in a\.jsonl, line 4",
    ),
    "nesting of 100,000 levels": (
        LINES + '{"id": 100, "label": 1, "x": ' + "[" * 100_000 + "]" * 100_000 + "}\n",
        r"a\.jsonl, line 101 is nested more than 50 levels deep",
    ),
    "blank lines only": ("\n \n", r"key: there is no column 'id'|the data has no rows"),
}


@pytest.mark.parametrize("case", JSON_FILES)
def test_bad_json_lines(tmp_path: Path, case: str) -> None:
    data, expected = JSON_FILES[case]
    assert re.search(expected, run(tmp_path, {"a.jsonl": data}))


FOLDERS: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no data": ({"README.md": "nothing here", "_SUCCESS": ""}, r"raw holds no data file\. Allowed: \.csv, \.csv\.gz, "),
    "another format": ({"a.csv": GOOD, "b.xlsx": "PK"}, r"raw holds b\.xlsx, which is not read\. Allowed: \.csv"),
    "JSON": ({"a.json": LINES}, r"raw holds a\.json, which is not read"),
    "text of no known format": (
        {"a.txt": GOOD},
        r"If a\.txt is a table, call it \.csv \(give the delimiter if it is no comma\) or \.tsv; texts to train",
    ),
    "arrays": ({"a.npz": GZ}, r"raw holds a\.npz, which is not read.* Training reads \.npz itself: give it the folder"),
    "gzip by another name": ({"sub/a.csv": GZ}, r"sub/a\.csv is compressed by gzip, .*: call it sub/a\.csv\.gz\."),
    "gzip by another name, JSON": ({"a.jsonl": GZ}, r"a\.jsonl is compressed by gzip, .*: call it a\.jsonl\.gz\."),
    "a spreadsheet as CSV": (
        {"a.csv": b"PK\x03\x04" + GZ},
        r"a\.csv is a zip archive, or a spreadsheet such as",
    ),
    "xz": ({"a.csv": lzma.compress(GOOD.encode())}, r"a\.csv is compressed by xz, .*: unpack it \(xz -d\)\."),
    "bzip2": ({"a.tsv": bz2.compress(GOOD.encode())}, r"a\.tsv is compressed by bzip2, .*: unpack it"),
    "zstd": (
        {"a.csv": pa.compress(GOOD.encode(), "zstd", asbytes=True)},
        r"a\.csv is compressed by zstd, .*: unpack",
    ),
    "Parquet and Arrow by another name": (
        {},
        r"parquet\.csv is Parquet, whatever its name says: let its name end",
    ),
    "a column that one file lacks": (
        {"a.csv": GOOD, "b.csv": "id,label\n100,1\n"},
        r"b\.csv has no column 'x', which a\.csv has\. All files must have the same columns",
    ),
    "text in one Parquet file, numbers in another": (
        {},
        r"column 'x' is an int64 column in a\.parquet and a string column in b\.parquet",
    ),
    "gzip cut short": ({"a.csv.gz": GZ[:-20]}, r"a\.csv\.gz cannot be read: .*damaged, or cut short"),
    "gzip cut short, JSON": (
        {"a.jsonl.gz": gzip.compress(LINES.encode())[:-20]},
        r"a\.jsonl\.gz cannot be read: .*cut short",
    ),
    "not gzip": ({"a.csv.gz": GOOD}, r"a\.csv\.gz cannot be read: .*damaged"),
    "not Parquet": ({"a.parquet": GOOD}, r"a\.parquet cannot be read as Parquet: .*damaged"),
    "not Arrow": ({"a.arrow": GOOD}, r"a\.arrow cannot be read as Arrow: .*damaged"),
    "an empty file among others": ({"a.csv": GOOD, "b.csv": ""}, r"b\.csv is empty \(0 bytes\)"),
    "a key in two files": (
        {"a.csv": GOOD, "sub/b.csv": "id,label,x\n100,1,2\n5,1,2\n"},
        r"sub/b\.csv, row 3: the key 'id' is 5, as it is in a\.csv, row 7",
    ),
    "a key in two formats": (
        {"a.csv": GOOD, "b.jsonl": '{"id": 5, "label": 0, "x": 1}\n'},
        r"b\.jsonl, line 1: the key 'id' is 5, as it is in a\.csv, row 7",
    ),
    "gigantic rows": ({"a.csv": GOOD + f"100,1,{'x' * 10_000_000}\n"}, r"a\.csv has a row of more than 4 MiB"),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_bad_folders(tmp_path: Path, case: str) -> None:
    files, expected = FOLDERS[case]
    if case.startswith("text in one Parquet"):
        for name, values in (("a", [1, 2]), ("b", ["1", "2"])):
            pq.write_table(pa.table({"id": [ord(name), ord(name) + 9], "label": [1, 1], "x": values}), tmp_path / name)
        files = {f"{name}.parquet": (tmp_path / name).read_bytes() for name in "ab"}
    if case.startswith("Parquet and Arrow"):
        pq.write_table(table := pa.table({"id": [1]}), tmp_path / "parquet")
        with pa.ipc.new_file(str(tmp_path / "arrow"), table.schema) as opened:
            opened.write_table(table)
        with pytest.raises(InputError, match=r"arrow\.csv is Arrow, whatever its name says"):
            find_sources((tmp_path / "arrow").rename(tmp_path / "arrow.csv"))
        files = {"parquet.csv": (tmp_path / "parquet").read_bytes()}
    assert re.search(expected, run(tmp_path, files))


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("label", [1.0, float("nan")], r"a\.parquet, row 2: the label 'label' is missing"),
        ("label", ["x", ""], r"a\.parquet, row 2: the label 'label' is missing"),
        (
            "label",
            [b"x", b"y"],
            r"label: column 'label' is a binary column\. Allowed: integers, bools or text for classes",
        ),
        ("id", ["x", ""], r"a\.parquet, row 2: the key 'id' is missing"),
        ("id", [None, None], r"a\.parquet, row 1: the key 'id' is missing"),
        ("id", [True, False], r"key: column 'id' is a bool column\. Allowed: integers or text"),
    ],
)
def test_keys_and_labels_of_parquet(tmp_path: Path, column: str, values: list[Any], expected: str) -> None:
    table = {"id": [1, 2], "label": [1, 2], column: values}
    pq.write_table(pa.table(table), tmp_path / "good")
    assert re.search(expected, run(tmp_path, {"a.parquet": (tmp_path / "good").read_bytes()}))


@pytest.mark.parametrize("kind", [pa.ipc.new_file, pa.ipc.new_stream])
def test_damaged_arrow_files_are_refused(tmp_path: Path, kind: Any) -> None:
    table = pa.table({"id": range(100), "label": ["é"] * 100})
    with kind(str(tmp_path / "good"), table.schema) as opened:
        opened.write_table(table)
    data = (tmp_path / "good").read_bytes()
    text = data.index("éé".encode())
    damaged = {"cut": data[: len(data) // 2], "not UTF-8": data[:text] + b"\xff" + data[text + 1 :]}
    for name, content in damaged.items():
        (tmp_path / name).mkdir()
        wanted = (
            "row 1, column 'label': .* is not UTF-8" if name == "not UTF-8" else "cannot be read as Arrow: .*damaged"
        )
        assert re.search(rf"a\.arrow,? {wanted}", run(tmp_path / name, {"a.arrow": content}))


def test_a_row_of_an_arrow_file_is_named(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2, 2], "label": ["a", "b", "c"]})
    with pa.ipc.new_file(str(tmp_path / "good"), table.schema) as opened:
        opened.write_table(table)
    found = run(tmp_path, {"a.arrow": (tmp_path / "good").read_bytes()})
    assert re.search(r"a\.arrow, row 3: the key 'id' is 2, as it is in a\.arrow, row 2\.", found)


def test_a_damaged_parquet_page_is_found(tmp_path: Path) -> None:
    table = pa.table({"id": range(5000), "label": [0] * 5000})
    pq.write_table(table, tmp_path / "good", write_page_checksum=True)
    data = bytearray((tmp_path / "good").read_bytes())
    data[1000] ^= 1
    assert re.search(r"a\.parquet cannot be read as Parquet: .*damaged", run(tmp_path, {"a.parquet": bytes(data)}))


def test_links_to_folders_are_refused_rather_than_passed_over(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv").write_text(GOOD)
    (tmp_path / "raw" / "more").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="more is a link to a folder"):
        prepare_data(tmp_path / "raw", *(tmp_path / side for side in SIDES), key="id")


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (
            {"validation_percent": 60, "test_percent": 40},
            "validation_percent 60 and test_percent 40 leave nothing to train",
        ),
        ({"validation_percent": -1}, "validation_percent is -1. Allowed: 0 to 99"),
        ({"test_percent": 100}, "test_percent is 100. Allowed: 0 to 99"),
        ({"rows_per_shard": 0}, "rows_per_shard is 0. Allowed: 1 and more"),
        ({"delimiter": ";;"}, "delimiter is ';;'. Allowed: one character"),
        ({"delimiter": '"'}, "delimiter is '\"'"),
        ({"key": "idd"}, "key: there is no column 'idd'. Did you mean 'id'? There are: id, label, x."),
        ({"label": "lable"}, "label: there is no column 'lable'. Did you mean 'label'?"),
        ({"label": "id"}, "label: column 'id' is the key already"),
    ],
)
def test_bad_parameters(tmp_path: Path, parameters: dict[str, Any], expected: str) -> None:
    assert expected in run(tmp_path, {"a.csv": GOOD}, **parameters)


@pytest.mark.parametrize("count", [1, 3])
def test_a_side_without_rows(tmp_path: Path, count: int) -> None:
    message = run(tmp_path, {"a.csv": "\n".join(GOOD.splitlines()[: count + 1])}, validation_percent=1, test_percent=1)
    assert re.search(rf"no row falls into (validation|test|train): {count} rows? (is|are) too few for \d+ %", message)


def test_unmeasurable_classes_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A class with one row that is in train can be trained on; that test knows nothing of it must be seen."""
    rows = "".join(f"{key},{9 if key == 50 else key % 2}\n" for key in range(1000))
    (tmp_path / "raw.csv").write_text("id,label\n" + rows)
    folders = [tmp_path / side for side in SIDES]
    prepare_data(tmp_path / "raw.csv", *folders, key="id", label="label", on_leakage="ignore")
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")] == [
        "warning: validation has no row of 1 of 3 classes: 9. With split_by=strata:label each side has its share",
        "warning: test has no row of 1 of 3 classes: 9. With split_by=strata:label each side has its share",
    ]


COMMAS = "id;x;label\n" + "".join(f"{key};{key}{',5' if key else ''};{key % 2}\n" for key in range(100))


def test_decimal_commas_need_another_delimiter_first(tmp_path: Path) -> None:
    """What a spreadsheet in German writes: the comma that separates no cells separates them for us."""
    message = run(tmp_path, {"a.csv": COMMAS})
    assert "The header has one column: give delimiter=';'." in message
    assert message.endswith("1,5 has a decimal comma: write 1.5.")


@pytest.mark.parametrize(
    ("table", "delimiter", "warning"),
    [
        (COMMAS, ";", "warning: a.csv, row 3, column 'x' is read as text: 1,5 has a decimal comma: write 1.5"),
        (
            COMMAS.replace("7,5", "1.234,5"),
            ";",
            "warning: a.csv, row 3, column 'x' is read as text: 1,5 has a decimal comma: write 1.5",
        ),
        (
            "id,x,label\n" + "".join(f'{key},"{key},25",{key % 2}\n' for key in range(100)),
            ",",
            "warning: a.csv, row 2, column 'x' is read as text: 0,25 has a decimal comma: write 0.25",
        ),
        (COMMAS.replace("7,5", "seven"), ";", None),
        (COMMAS.replace("7,5", "7,5,6"), ";", None),
        (COMMAS.replace(",5", ".5"), ";", None),
        (COMMAS.replace(",5", "a,5"), ";", None),
        (COMMAS.replace(",", ", "), ";", None),
    ],
)
def test_columns_with_decimal_commas_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, delimiter: str, warning: str | None
) -> None:
    (tmp_path / "a.csv").write_text(table)
    folders = [tmp_path / side for side in SIDES]
    prepare_data(tmp_path / "a.csv", *folders, key="id", label="label", delimiter=delimiter)
    said = [line for line in capsys.readouterr().out.splitlines() if "decimal" in line]
    assert said == ([] if warning is None else [warning])


def test_a_column_that_is_declared_as_text_may_hold_commas(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.csv").write_text(COMMAS)
    folders = [tmp_path / side for side in SIDES]
    types = {"schema": "x:string", "extra_columns": "keep"}
    prepare_data(tmp_path / "a.csv", *folders, key="id", label="label", delimiter=";", **types)
    assert "decimal" not in capsys.readouterr().out


def test_a_quantity_has_no_classes(tmp_path: Path) -> None:
    raw = tmp_path / "raw.csv"
    raw.write_text("id,price\n" + "".join(f"{key},{key * 100}\n" for key in range(100)))
    folders = [tmp_path / side for side in SIDES]
    with pytest.raises(InputError, match=r"class .* has no row in train"):
        prepare_data(raw, *folders, key="id", label="price")
    prepare_data(raw, *folders, key="id", label="price", schema="price:float64", extra_columns="keep")
    assert (tmp_path / "train" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("train", "test"), [("out", "out"), ("out", "out/test"), ("raw/out", "test"), ("raw", "test"), (".", "test")]
)
def test_folders_inside_each_other_are_refused(tmp_path: Path, train: str, test: str) -> None:
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "part-00000.parquet").write_bytes(b"precious")
    with pytest.raises(InputError, match="are one, or one inside the other"):
        prepare_data(tmp_path / "raw", tmp_path / train, tmp_path / "validation", tmp_path / test, key="id")
    assert (tmp_path / "raw" / "part-00000.parquet").read_bytes() == b"precious"


def test_an_output_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(GOOD)
    (tmp_path / "test").write_text("a file")
    with pytest.raises(InputError, match="test is a file; it must be a folder"):
        prepare_data(tmp_path / "raw.csv", *(tmp_path / side for side in SIDES), key="id")


def noise(count: int) -> str:
    """Rows that hardly compress."""
    return "id,x\n" + "".join(f"{key},{os.urandom(20).hex()}\n" for key in range(count))


@pytest.mark.parametrize("failing", ["write", "flush", "fsync"])
def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    """The disk fills up while the second shard is written, or when the system is told to keep it."""
    real = tabular_shard_files._HashingSink
    made: list[object] = []

    class Full(real):
        def __init__(self, path: Path) -> None:
            super().__init__(path)
            made.append(path)

        def write(self, data: Any, /) -> int:
            if failing == "write" and len(made) > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(data)

        def close_durably(self) -> None:
            if failing == "flush" and len(made) > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            super().close_durably()

    def no_room(descriptor: int) -> None:
        if len(made) > 1:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(tabular_shard_files, "_HashingSink", Full)
    if failing == "fsync":
        monkeypatch.setattr(os, "fsync", no_room)
    message = run(tmp_path, {"a.csv": noise(2000)}, label=None, rows_per_shard=500)
    assert len(made) > 1
    assert re.search(r"the disk is full: (No space left on device|Disk quota exceeded) while writing to ", message)


@pytest.mark.slow
def test_a_file_size_limit_ends_with_code_2(tmp_path: Path) -> None:
    """A real failing write, seen from outside: one line, exit code 2, empty folders."""
    (tmp_path / "raw.csv").write_text(noise(20_000))
    folders = [argument for side in SIDES for argument in (f"--{side}", str(tmp_path / side))]
    program = (
        "import resource\n"
        "from drivetrain.components.prepare_data import prepare_data\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        f"prepare_data.main({['--raw', str(tmp_path / 'raw.csv'), *folders, '--key', 'id']!r})"
    )
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: the disk is full: File too large while writing to .*\n", done.stderr)
    assert [path for side in SIDES for path in (tmp_path / side).rglob("*")] == []


@pytest.mark.slow
def test_a_real_full_disk_is_reported(tmp_path: Path) -> None:
    """A small file system of its own, where the kernel lets an ordinary user mount one."""
    (tmp_path / "raw.csv").write_text(noise(20_000))
    folders = [argument for side in SIDES for argument in (f"--{side}", str(tmp_path / "disk" / side))]
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=256k tmpfs {tmp_path / 'disk'}"
    unshare = [shutil.which("unshare") or "unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        subprocess.run([*unshare, mount], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no private mounts here")
    program = f'{mount} && {{ "$@"; echo $?; find {tmp_path / "disk"} -type f; }}'
    step = [
        sys.executable,
        "-m",
        "drivetrain.components.prepare_data",
        "--raw",
        str(tmp_path / "raw.csv"),
        "--key",
        "id",
    ]
    done = subprocess.run([*unshare, program, "sh", *step, *folders], capture_output=True, text=True, check=True)
    assert done.stdout == "2\n"
    assert re.fullmatch(r"error: the disk is full: No space left on device while writing to .*\n", done.stderr)


def test_an_interrupted_run_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "raw.csv").write_text(GOOD)

    def interrupt(self: object, lineage: object, **more: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tabular_shards.ShardWriter, "stage", interrupt)
    with pytest.raises(KeyboardInterrupt):
        prepare_data(tmp_path / "raw.csv", *(tmp_path / side for side in SIDES), key="id", rows_per_shard=10)
    assert [path for side in SIDES for path in (tmp_path / side).rglob("*")] == []


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_bad_cell_far_down_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Blocks of a few rows, so that the place is counted over many of them."""
    monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", 200)
    monkeypatch.setattr(tabular_jsonl, "BLOCK_BYTES", 200)
    bad = "77,1,soon" if name == "a.csv" else '{"id": 77, "label": 1, "x": "soon"}'
    good = "77,1,77.5" if name == "a.csv" else '{"id": 77, "label": 1, "x": 77.5}'
    files: dict[str, str | bytes] = {name: (GOOD if name == "a.csv" else LINES).replace(good, bad)}
    message = run(tmp_path, files, schema="x:float64", extra_columns="keep")
    place = (
        r"a\.csv, row 79, column 'x': 'soon' is not a float64" if name == "a.csv" else r"a\.jsonl, line 78, column 'x'"
    )
    assert re.search(place, message)
