"""Quotes in CSV files are those of RFC 4180, or the file is refused with the row; what readers agree on is kept."""

import csv
import gzip
import io
import itertools
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.formats import csv as csv_format
from drivetrain.data.formats.csv_quotes import QuoteCheck
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")


def prepare(tmp_path: Path, text: str, **parameters: Any) -> list[dict[str, Any]]:
    """The rows that come of a file of columns id, label and t, by their ids."""
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "a.csv").write_text(text, encoding="utf-8", newline="")
    prepare_data(
        raw,
        *(tmp_path / side for side in SIDES),
        **{"key": "id", "validation_percent": 0, "test_percent": 0, **parameters},
    )
    shards = [tmp_path / "train" / shard.file for shard in Manifest.read(tmp_path / "train").shards]
    return [row for shard in shards for row in pq.read_table(shard).to_pylist()]


def is_malformed(blocks: list[bytes]) -> bool:
    check = QuoteCheck(",", 2)
    for block in blocks:
        check.add(block)
    check.end()
    return bool(check.malformed)


def is_refused_by_python(text: str) -> bool:
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), strict=True):
            pass
    except csv.Error:
        return True
    return False


def test_malformed_quotes_match_pythons_csv_for_any_block_size() -> None:
    found = 0
    for letters in itertools.product('a",\n', repeat=6):
        text = "".join(letters)
        wanted = is_refused_by_python(text)
        found += wanted
        cut = sum(map(ord, text)) % 5 + 1
        data = text.encode()
        assert is_malformed([data]) == wanted, text
        assert is_malformed([data[:cut], data[cut:]]) == wanted, (text, cut)
        assert is_malformed([data[i : i + 1] for i in range(6)]) == wanted, text
    assert 500 < found < 4**6 - 500


ROWS = "".join(f"{key},{key % 2},t{key}\n" for key in range(2, 30))


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ('"abc"def', r"""a\.csv, row 3 is not CSV: .* '"abc"def', but text follows it.*twice: "5"" pipe"\."""),
        ('"abc" ', r"a\.csv, row 3 is not CSV: .* but text follows it"),
        ('"', r"a\.csv, row 3 is not CSV: the quote at the beginning of a cell has none at its end"),
    ],
)
@pytest.mark.parametrize("rows", [ROWS, ""])
def test_a_malformed_quote_is_refused_with_its_row(tmp_path: Path, cell: str, rows: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        prepare(tmp_path, f"id,label,t\n0,0,x\n1,1,{cell}\n{rows}")
    assert not list((tmp_path / "train").rglob("*"))


def test_the_line_is_named_too_when_cells_span_lines(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.csv, row 3 \(line 5\) is not CSV"):
        prepare(tmp_path, 'id,label,t\n0,0,"x\ny\n"\n1,1,"z"z\n')


def test_quotes_that_all_readers_agree_on_are_kept(tmp_path: Path) -> None:
    found = prepare(tmp_path, 'id,label,t\n0,0,5" pipe\n1,1,a""b\n2,0, "c"\n3,0,"say ""so"""\n4,0,"two\r\nlines"\n')
    assert [row["t"] for row in found] == ['5" pipe', 'a""b', ' "c"', 'say "so"', "two\r\nlines"]


def swallowing(count: int) -> str:
    """A quote that is not closed, so many rows, and one that closes it by chance."""
    rows = "".join(f"{key},{key % 2},t\n" for key in range(2, 2 + count))
    return f'id,label,t\n0,0,x\n1,1,"t\n{rows}{2 + count},0,"\n99,0,x\n'


def test_a_cell_that_has_swallowed_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"row 3: .* holds 5,001 lines, which look like rows of the table. Close the"):
        prepare(tmp_path, swallowing(4999))


def test_a_cell_with_many_lines_is_kept_on_request(tmp_path: Path) -> None:
    cell = "1,2,3\n" * 12
    text = f'id,label,t\n0,0,x\n1,1,"{cell}"\n'
    for name in ("refused", "kept", "malformed"):
        (tmp_path / name).mkdir()
    with pytest.raises(InputError, match=r"If it really is one cell, give cells_like_rows=keep\.$"):
        prepare(tmp_path / "refused", text)
    assert prepare(tmp_path / "kept", text, cells_like_rows="keep")[1]["t"] == cell
    with pytest.raises(InputError, match=r"row 4 \(line 16\) is not CSV: .*quote not closed"):
        prepare(tmp_path / "malformed", text + '2,0,"open\n', cells_like_rows="keep")


def test_a_swallowed_row_is_found_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", 100)
    with pytest.raises(InputError, match=r"row 3: .* holds 14 lines"):
        prepare(tmp_path, swallowing(12))


def test_long_texts_are_kept_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "\n".join(f"line {number}, of a text" for number in range(1500)) + "\nthe end"
    found = prepare(tmp_path, f'id,label,t\n0,0,x\n1,1,"{text}"\n')
    assert found[1]["t"] == text
    assert capsys.readouterr().err.count("a.csv, row 3: a cell in quotes has 1,501 lines. Is a quote not closed?") == 1


@pytest.mark.parametrize("shift", range(12))
def test_line_ends_of_two_bytes_are_kept_at_borders_of_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    """Arrow loses the second byte where a block begins with it, also within quotes."""
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", 128)
    texts = [f"{'x' * shift}{number}\r\nb" for number in range(60)]
    rows = "".join(f'{number},1,"{text}"\r\n' for number, text in enumerate(texts))
    assert [row["t"] for row in prepare(tmp_path, f"id,label,t\r\n{rows}")] == texts


def test_a_two_byte_line_end_at_a_block_border_of_a_compressed_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_format, "BLOCK_BYTES", 128)
    text = 'id,label,t\n0,1,"' + "x" * (127 - len('id,label,t\n0,1,"')) + '\r\nb"\n1,1,"c"\n'
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.csv.gz").write_bytes(gzip.compress(text.encode()))
    with pytest.raises(InputError, match=r"a\.csv\.gz: a line end of two bytes .* Unpack the file"):
        prepare_data(tmp_path / "raw", *(tmp_path / side for side in SIDES), key="id")
