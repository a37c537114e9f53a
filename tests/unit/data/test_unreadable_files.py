"""Files that cannot be read as a table: one line says which, why, and what to do, whatever the format."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.data.reading import TableOptions, open_table

ROWS = "id,x\n1,2\n"


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    (tmp_path / "1.csv").write_text(ROWS)
    return tmp_path


def refusal(raw: Path) -> str:
    """The message with which reading all rows ends."""
    with pytest.raises(InputError) as found:
        for _ in open_table(raw, TableOptions(key=None, label=None), whole=False).batches():
            pass
    assert "\n" not in str(found.value)
    return str(found.value)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def bound_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        before = Path.cwd()
        os.chdir(path.parent)  # the name of a socket is at most 107 bytes long
        try:
            made.bind(path.name)
        finally:
            os.chdir(before)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.symlink_to("gone.csv"), "2.csv is a link to 'gone.csv', where no file is. Copy the file"),
        (lambda path: path.symlink_to("2.csv"), "2.csv is a link to '2.csv', where no file is"),
        (lambda path: path.parent.joinpath("sub").symlink_to("gone"), "sub is a link to 'gone', where no file is"),
        (pipe, "2.csv is a pipe, a socket or a device. Write what it gives into a file"),
        (bound_socket, "2.csv is a pipe, a socket or a device"),
        (
            lambda path: Path(os.fsdecode(b"%s/\xff.csv" % bytes(path.parent))).write_text(ROWS),
            "whose name is not UTF-8",
        ),
    ],
    ids=["dangling", "loop", "dangling folder", "pipe", "socket", "name"],
)
def test_a_path_that_is_not_a_file_is_refused(raw: Path, make: Callable[[Path], object], words: str) -> None:
    make(raw / "2.csv")
    assert words in refusal(raw)


def test_a_folder_that_cannot_be_listed(raw: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows would be lost without a word."""
    (raw / "sub").mkdir()
    (raw / "sub" / "2.csv").write_text(ROWS)
    scan = os.scandir

    def denied(path: str) -> object:
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", denied)
    message = refusal(raw)
    assert message.startswith(f"{raw / 'sub'}: Permission denied.") and "right" in message


@pytest.mark.parametrize(
    ("name", "content"),
    [("1.csv", b"id,x\0y\n1,2\n"), ("1.jsonl", b'{"id": 1, "x\\u0000y": 2}\n')],
    ids=["CSV", "JSON Lines"],
)
def test_a_nul_in_the_name_of_a_column(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert f"{name}: the name of column 2 holds a NUL: 'x\\x00y'. Rename it" in refusal(tmp_path)


def texts(kind: str = "i", data: bytes = b"a\xff\xfeb") -> pa.Array:
    """Three texts, of which the second is not UTF-8."""
    made = pa.StringArray if kind == "i" else pa.LargeStringArray
    return made.from_buffers(3, pa.py_buffer(struct.pack(f"<4{kind}", 0, 1, 3, 4)), pa.py_buffer(data))


def written(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        parquet.write_table(table, path)
        return
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


@pytest.mark.parametrize("name", ["1.parquet", "1.arrow"])
@pytest.mark.parametrize("kind", ["i", "q"], ids=["text", "large text"])
def test_text_that_is_not_utf_8(tmp_path: Path, name: str, kind: str) -> None:
    written(pa.table({"id": [1, 2, 3], "x": texts(kind)}), tmp_path / name)
    assert f"{name}, row 2, column 'x': b'\\xff\\xfe' is not UTF-8. Write it as UTF-8" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["1.parquet", "1.arrow"])
@pytest.mark.parametrize(
    "column",
    [
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), texts()),
        pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts()),
    ],
    ids=["categories", "lists"],
)
def test_text_within_values_that_is_not_utf_8(tmp_path: Path, name: str, column: pa.Array) -> None:
    written(pa.table({"id": [1, 2, 3], "x": column}), tmp_path / name)
    message = refusal(tmp_path)
    assert message.startswith(f"{name} cannot be read as ") and "column 'x' holds text that is not UTF-8" in message


def test_a_name_in_parquet_that_is_not_utf_8(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"id": [1], "xx": [1]}), tmp_path / "1.parquet", compression="none")
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole.replace(b"xx", b"x\xff"))
    assert "1.parquet cannot be read as Parquet: " in refusal(tmp_path)


@pytest.mark.parametrize("value", ["{}", "[{}]", '{"a": {}}'])
def test_a_column_of_empty_objects(tmp_path: Path, value: str) -> None:
    (tmp_path / "1.jsonl").write_text(f'{{"id": 1, "x": {value}}}\n')
    assert "column 'x' holds only empty objects ({}), which Parquet cannot hold. Write null" in refusal(tmp_path)


def test_a_column_of_empty_structs_in_arrow(tmp_path: Path) -> None:
    written(pa.table({"id": [1], "x": pa.array([{}], pa.struct([]))}), tmp_path / "1.arrow")
    assert "column 'x' holds only empty objects ({})" in refusal(tmp_path)


def test_objects_that_are_empty_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first block alone does not tell."""
    monkeypatch.setattr("drivetrain.data.formats.jsonl.BLOCK_BYTES", 8)
    (tmp_path / "1.jsonl").write_text('{"id": 1, "x": {}}\n{"id": 2, "x": {"a": 3}}\n')
    table = open_table(tmp_path, TableOptions(key=None, label=None), whole=False)
    assert [row["x"] for _, _, batch in table.batches() for row in batch.to_pylist()] == [{"a": None}, {"a": 3}]


def test_an_empty_row_group_is_skipped(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2]})
    with parquet.ParquetWriter(tmp_path / "1.parquet", table.schema) as file:
        for part in (table[:0], table, table[:0]):
            file.write_table(part)
    opened = open_table(tmp_path, TableOptions(key=None, label=None), whole=False)
    assert [batch.num_rows for _, _, batch in opened.batches()] == [2]
