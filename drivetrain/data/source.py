"""The files of a data set: which there are, in which order, and in which format."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from drivetrain.base.errors import InputError, first_line
from drivetrain.base.os_refusals import refusal
from drivetrain.data.arrow import Schema, plain_schema
from drivetrain.data.manifest import MANIFEST_FILE, Manifest, Shard
from drivetrain.data.versions import is_data_set

Format = Literal["csv", "jsonl", "parquet", "ipc"]

SUFFIXES: dict[str, tuple[Format, bool]] = {
    ".csv": ("csv", False),
    ".csv.gz": ("csv", True),
    ".tsv": ("csv", False),
    ".tsv.gz": ("csv", True),
    ".jsonl": ("jsonl", False),
    ".jsonl.gz": ("jsonl", True),
    ".ndjson": ("jsonl", False),
    ".ndjson.gz": ("jsonl", True),
    ".parquet": ("parquet", False),
    ".arrow": ("ipc", False),
    ".feather": ("ipc", False),
}
SUPPORTED = ", ".join(SUFFIXES)
# What a file of text does not begin with -> what it is then, and what to do.
_NOT_TEXT = {
    b"\x1f\x8b": ("compressed by gzip", "call it {name}.gz"),
    b"PK\x03\x04": ("a zip archive, or a spreadsheet such as .xlsx", "unpack it, or save the sheet as CSV"),
    b"\xfd7zXZ\x00": ("compressed by xz", "unpack it (xz -d)"),
    b"\x28\xb5\x2f\xfd": ("compressed by zstd", "unpack it (zstd -d)"),
    b"BZh91AY&SY": ("compressed by bzip2", "unpack it (bzip2 -d)"),
    b"\xd0\xcf\x11\xe0": ("a spreadsheet of Excel (.xls)", "save the sheet as CSV"),
    b"PAR1\x15": ("Parquet", "let its name end with .parquet"),
    b"ARROW1\x00\x00": ("Arrow", "let its name end with .arrow"),
}
# What training_scripts/readers read as it is.
_OF_READERS = frozenset({".npz", ".tar", ".png", ".jpg", ".jpeg"})
# The value of a partition whose rows have none.
_MISSING_PARTITION = "__HIVE_DEFAULT_PARTITION__"
# A folder may hold these beside the data.
SCHEMA_FILE = "schema.json"
_DOCUMENT_SUFFIXES = frozenset({".md", ".rst", ".html", ".pdf"})
_DOCUMENT_STEMS = frozenset({"readme", "license", "licence", "copying", "notice", "citation", "changelog"})


@dataclass(frozen=True)
class Source:
    """One file of rows.

    `name` is its path below the input folder, as messages show it; `partition` are the columns that stand in the names
    of its folders (`year=2026/month=11`), None for a missing value. The next two are of CSV files: what separates
    cells, and whether cells in quotes that hold lines like rows of the table are no fault. `shard` is what a manifest
    says of the file, where one of our steps wrote it.
    """

    path: Path
    name: str
    format: Format
    gzipped: bool
    partition: tuple[tuple[str, str | None], ...] = ()
    delimiter: str = ","
    keeps_cells_like_rows: bool = False
    shard: Shard | None = None


class CellError(InputError):
    """A value that its column's type does not allow.

    It may be no fault of the data when the type was only inferred from the first rows: reading all rows before
    choosing the type tells.
    """


def find_sources(raw: Path) -> Sequence[Source]:
    """The data files of a folder and its subfolders, sorted by name, or the one file given. Of a folder that one of our
    steps wrote they are the shards of the version that its manifest names.

    Documents (README.md, LICENSE, ...), `schema.json` and names that begin with a dot or an underscore (`_SUCCESS`)
    are passed over. Subfolders whose names are `COLUMN=VALUE`, as Hive writes them, carry values.

    Raises:
        InputError: no data file, an empty one, or one of a format that is not read (passing over it would lose rows).
    """
    if raw.is_file():
        source = _source(raw, raw.name)
        if source is None:
            raise InputError(f"{raw} is not a data file. Allowed: {SUPPORTED}.{_advice(raw)}")
        found = [source]
    elif is_data_set(raw):
        shards = Manifest.read(raw, checksums=False).shards
        found = [Source(raw / shard.file, shard.name, "parquet", False, shard=shard) for shard in shards]
        if not found:
            raise InputError(f"{raw} holds no row: its {MANIFEST_FILE} lists no shard.")
    else:
        found: list[Source] = []
        for path, name in _files(raw):
            source = _source(path, name)
            if source is not None:
                found.append(source)
            elif path.name != SCHEMA_FILE and not _is_document(path):
                _check_link(path, name)
                raise InputError(
                    f"{raw} holds {name}, which is not read. Allowed: {SUPPORTED} (and documents such as README.md). "
                    f"Convert it or take it out of the folder.{_advice(path)}"
                )
        if not found:
            raise InputError(f"{raw} holds no data file. Allowed: {SUPPORTED}.")
        _check_partitions(found)
    for source in found:
        _check_file(source.path, source.name)
        if source.format in ("csv", "jsonl") and not source.gzipped:
            _check_text(source)
    return found


def _check_file(path: Path, name: str) -> None:
    """
    Raises:
        InputError: it is a link to nothing, no file, or empty.
    """
    _check_link(path, name)
    if not stat.S_ISREG((found := path.stat()).st_mode):
        raise InputError(f"{name} is a pipe, a socket or a device. Write what it gives into a file.")
    if not found.st_size:
        raise InputError(f"{name} is empty (0 bytes). Was its upload cut short? Replace it or take it out.")


def _check_link(path: Path, name: str) -> None:
    if path.is_symlink() and not path.exists():
        raise InputError(
            f"{name} is a link to {str(path.readlink())!r}, where no file is. Copy the file, or take the link out."
        )


def _check_text(source: Source) -> None:
    """
    Raises:
        InputError: the first bytes show that the file is not text.
    """
    with source.path.open("rb") as file:
        start = file.read(max(map(len, _NOT_TEXT)))
    for magic, (what, advice) in _NOT_TEXT.items():
        if start.startswith(magic):
            raise InputError(f"{source.name} is {what}, whatever its name says: {advice.format(name=source.name)}.")


def _advice(path: Path) -> str:
    """Advice on a file of another kind."""
    suffix = path.suffix.lower()
    if suffix in _OF_READERS:
        return f" Training reads {suffix} itself: give it the folder, without this step."
    if suffix not in (".txt", ".dat", ".data"):
        return ""
    return (
        f" If {path.name} is a table, call it .csv (give the delimiter if it is no comma) or .tsv; texts to train on "
        "need no preparation (readers text and tokenized)."
    )


def _files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Files below the folder with their names, in an order that no file system decides."""
    names: list[str] = []

    def unreadable(error: OSError) -> None:
        raise InputError(refusal(error) or str(error)) from error

    for parent, subfolders, files in os.walk(folder, onerror=unreadable):
        subfolders[:] = [name for name in subfolders if not _is_hidden(name)]
        for name in subfolders:
            if (Path(parent) / name).is_symlink():
                raise InputError(f"{Path(parent) / name} is a link to a folder, which is not followed. Copy the files.")
        names += [(Path(parent) / name).relative_to(folder).as_posix() for name in files if not _is_hidden(name)]
    for name in sorted(names):
        if not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name):
            raise InputError(f"{folder} holds {name!r}, a file whose name is not UTF-8. Rename it.")
        yield folder / name, name


def is_passed_over(name: str) -> bool:
    """Return True if a file of this path below a folder is no data: hidden, or a document."""
    return any(map(_is_hidden, name.split("/"))) or _is_document(Path(name))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _partition(name: str) -> tuple[tuple[str, str | None], ...]:
    """The columns in the names of a file's folders (https://hive.apache.org: `COLUMN=VALUE`, percent-encoded)."""
    found: list[tuple[str, str | None]] = []
    for folder in name.split("/")[:-1]:
        column, equals, value = folder.partition("=")
        if equals and column:
            try:
                column, value = (unquote(text, errors="strict") for text in (column, value))
            except UnicodeDecodeError:
                raise InputError(f"{name}: what the percent signs in {folder!r} stand for is not UTF-8.") from None
            found.append((column, None if value == _MISSING_PARTITION else value))
    names = [column for column, _ in found]
    if repeated := next((column for column in names if names.count(column) > 1), None):
        raise InputError(f"{name}: two of its folders give the column {repeated!r}. Rename one.")
    return tuple(found)


def _check_partitions(sources: Sequence[Source]) -> None:
    first = sources[0]
    wanted = {column for column, _ in first.partition}
    for source in sources:
        if {column for column, _ in source.partition} != wanted:
            raise InputError(
                f"the folders of {first.name} and {source.name} do not give the same columns. Either all files lie in "
                "folders such as year=2026/month=11, or none."
            )


def _is_document(path: Path) -> bool:
    return path.suffix.lower() in _DOCUMENT_SUFFIXES or path.stem.lower() in _DOCUMENT_STEMS


def _source(path: Path, name: str) -> Source | None:
    lower = path.name.lower()
    suffix = next((suffix for suffix in SUFFIXES if lower.endswith(suffix)), None)
    if suffix is None:
        return None
    file_format, gzipped = SUFFIXES[suffix]
    delimiter = "\t" if suffix.startswith(".tsv") else ","
    return Source(path, name, file_format, gzipped, _partition(name), delimiter)


def named_once(source: Source, schema: Schema) -> Schema:
    """The columns of a file that says their types itself, with plain types.

    Raises:
        InputError: two have one name.
    """
    if repeated := next((name for name in schema.names if schema.names.count(name) > 1), None):
        raise InputError(f"{source.name}: two columns are called {repeated!r}. Rename one.")
    return plain_schema(schema)


def locate_row(source: Source, index: int) -> str:
    """The place of the row of this index (from 0) in a file whose rows are numbered from 1, for messages."""
    return f"{source.name}, row {index + 1}"


def damaged(source: Source, error: Exception, kind: str = "") -> InputError:
    """The error for a file that cannot be read, as of a `kind` where its name alone does not say it."""
    read = f"read as {kind}" if kind else "read"
    return InputError(f"{source.name} cannot be {read}: {first_line(error)}. Is it damaged, or cut short?")
