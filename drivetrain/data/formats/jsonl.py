"""JSON Lines files: UTF-8, one object a line; a field that an object lacks is null.

Arrow parses blocks of lines. It accepts more than JSON Lines is (two objects on a line, bytes that are not UTF-8), so
blocks are checked; what it refuses is looked for line by line, to name the line and the field.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any, NoReturn, cast

from drivetrain.base.errors import InputError
from drivetrain.data.arrow import Array, Batch, DataType, Schema, arrow, plain_type
from drivetrain.data.convert import (
    OVERFLOW,
    BadValueError,
    converted,
    described,
    has_infinities,
    lost_digits,
    may_lose_digits,
)
from drivetrain.data.encodings import advice
from drivetrain.data.source import CellError, Source, damaged

BLOCK_BYTES = 4 << 20
MAX_DEPTH = 50
"""Levels of brackets and braces in a line. Lists that are nested deeper are written as Parquet, but not read again."""
_NESTED = (
    ": other numbers there are no int64, and a float64 does not hold all digits of this one. Write it as text, or with "
    "a fraction (.0) if 16 digits are enough"
)
_FLOAT32_MAX = (2 - 2**-23) * 2.0**127
_NEEDED = "JSON Lines needs one object a line."
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# A whole number of so many digits may be none that a float64 holds.
_MANY_DIGITS = re.compile(rb"[0-9]{16}")
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[{]|[\]}]')


def infer_jsonl(source: Source, *, whole: bool) -> Schema:
    """Fields in the order of their first appearance, with their types, in the first block or in the whole file."""
    pa = arrow()
    found = pa.schema([])
    for block in _blocks(source):
        try:
            schema = _parse(block, None, "infer").schema
            found = pa.unify_schemas([found, _as_written(schema)], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeDecodeError) as error:
            _explain(source, pa.schema([]), error, extra=True)
        if not whole:
            break
    return found


def jsonl_batches(
    source: Source, schema: Schema, *, written: Schema, drop: bool, inferred: frozenset[str] = frozenset()
) -> Iterator[Batch]:
    """The file's rows in the schema's columns and types.

    Args:
        source: the file.
        schema: the wanted columns.
        written: the types as they stand in the file (`infer_jsonl`).
        drop: leave out fields that are not wanted; otherwise they are an error.
        inferred: columns whose type was inferred: a whole number that a float64 does not hold is then none.

    Raises:
        CellError: a value that is not of its column's type, or a field that was not seen when types were inferred.
        InputError: the file is not UTF-8, not JSON Lines, or damaged.
    """
    pa = arrow()
    reading = pa.schema([(field.name, _reading_type(written, field)) for field in schema])
    first = 0
    for block in _blocks(source):
        try:
            table = _parse(block, reading, "ignore" if drop else "error")
            if table.num_rows != sum(1 for line in block.split(b"\n") if line.strip()):
                raise pa.ArrowInvalid("a line does not hold exactly one object")
        except (pa.ArrowInvalid, UnicodeDecodeError) as error:
            _explain(source, reading, error, extra=drop)
        chosen = table.select(schema.names).combine_chunks()
        _check_range(source, first, block, chosen, inferred)
        for batch in chosen.to_batches():
            try:
                yield converted(batch, schema, text=False)
            except BadValueError as error:
                raise CellError(f"{locate_jsonl(source, first + error.row)}, {error}.") from None
            first += batch.num_rows


def jsonl_row_numbers(source: Source) -> Iterator[int]:
    """The numbers of the lines that hold objects."""
    return (number for number, _ in _lines(source))


def locate_jsonl(source: Source, index: int) -> str:
    """The place of the object of this index (from 0) in the file, for messages."""
    return f"{source.name}, line {next(islice(jsonl_row_numbers(source), index, None))}"


def _reading_type(written: Schema, field: Schema) -> DataType:
    """The type in which Arrow is to read a field: as it is written, except that numbers are read as what is wanted."""
    pa = arrow()
    index = written.get_field_index(field.name)
    if index < 0:
        return pa.null()
    found = written.field(index).type
    if pa.types.is_decimal(field.type) and (pa.types.is_string(found) or pa.types.is_floating(found)):
        return field.type  # with all its digits
    numbers = all(pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64()) for kind in (found, field.type))
    return field.type if numbers else found


def _check_range(source: Source, first: int, block: bytes, table: Any, inferred: frozenset[str]) -> None:
    """
    Args:
        first: the index of the first row of `block`, whose rows are in `table`.

    Raises:
        CellError: a whole number that a float64 does not hold in a column of floats whose type was inferred, or a
            number that a float32 does not hold. Beyond float64 Arrow refuses it.
    """
    pa = arrow()
    columns = zip(table.schema, table.columns, strict=True)
    floats = [(field.name, leaf) for field, column in columns for leaf in _floats(column.combine_chunks())]
    wide = {name for name, leaf in floats if name in inferred and may_lose_digits(leaf)}
    overflown = {name for name, leaf in floats if leaf.type == pa.float32() and has_infinities(leaf)}
    lines = (line for line in block.split(b"\n") if line.strip())
    for index, line in enumerate(lines if wide or overflown else ()):
        if not overflown and not _MANY_DIGITS.search(line):
            continue
        fields = cast("dict[str, object]", json.loads(line)).items()
        places = [(name, given, table.schema.get_field_index(name)) for name, given in fields]
        found = [(n, v, g) for n, g, at in places if at >= 0 for v in _numbers(g, table.schema.field(at).type)]
        for name, value, given in found:
            wrong = lost_digits(value) if name in wide and isinstance(value, int) else ""
            wrong, kind = _NESTED if wrong and value is not given else wrong, pa.float64()
            if name in overflown and _FLOAT32_MAX < abs(value) < math.inf:
                wrong, kind = OVERFLOW, pa.float32()
            if wrong:
                where = locate_jsonl(source, first + index)
                raise CellError(f"{where}, column {name!r}: {_shown(value)} is not {described(kind)}{wrong}.")


def _floats(column: Array) -> Iterator[Array]:
    """The columns of floats within a column: itself, or those within its lists and objects."""
    kinds = arrow().types
    if kinds.is_floating(column.type):
        yield column
    elif kinds.is_list(column.type):
        yield from _floats(column.flatten())
    elif kinds.is_struct(column.type):
        for child in column.flatten():
            yield from _floats(child)


def _numbers(value: object, data_type: DataType) -> Iterator[int | float]:
    """The numbers of a field that are read as floats: itself, or those within its lists and objects."""
    kinds = arrow().types
    if isinstance(value, list) and kinds.is_list(data_type):
        for each in cast("list[object]", value):
            yield from _numbers(each, data_type.value_type)
    elif isinstance(value, dict) and kinds.is_struct(data_type):
        members = cast("dict[str, object]", value)
        for child in data_type:
            yield from _numbers(members.get(child.name), child.type)
    elif isinstance(value, int | float) and kinds.is_floating(data_type):
        yield value


def _as_written(schema: Schema) -> Schema:
    """Arrow guesses time stamps in text, block by block; text stays text unless the user gives a type."""
    pa = arrow()

    def written(data_type: DataType) -> DataType:
        if pa.types.is_timestamp(data_type):
            return pa.string()
        if pa.types.is_list(data_type):
            return pa.list_(written(data_type.value_type))
        if pa.types.is_struct(data_type):
            return pa.struct([(child.name, written(child.type)) for child in data_type])
        return plain_type(data_type)

    return pa.schema([(field.name, written(field.type)) for field in schema])


def _parse(block: bytes, schema: Schema | None, unexpected: str) -> Any:
    pa = arrow()
    block.decode()  # Arrow does not look
    for line in block.split(b"\n"):
        # Arrow takes a line `null` for a row.
        if not line.startswith(b"{") and line.strip() == b"null":
            raise pa.ArrowInvalid("a line is null")
        # Arrow follows nested values until its stack ends, and the process with it.
        if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _depth(line) > MAX_DEPTH:
            raise pa.ArrowInvalid("nested too deeply")
    return pa.json.read_json(
        pa.BufferReader(block),
        read_options=pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
        parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
    )


def _depth(line: bytes) -> int:
    deepest = depth = 0
    for token in _STRING_OR_BRACKET.finditer(line):
        depth += {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(token.group(), 0)
        deepest = max(deepest, depth)
    return deepest


def _blocks(source: Source) -> Iterator[bytes]:
    """Whole lines, about BLOCK_BYTES at a time; blocks of blank lines are left out."""
    try:
        with _opened(source) as file:
            start = file.read(3).removeprefix(_BYTE_ORDER_MARK)
            while block := start + file.read(BLOCK_BYTES) + file.readline():
                start = b""
                if not block.isspace():
                    yield block
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(source, error) from error


def _lines(source: Source) -> Iterator[tuple[int, bytes]]:
    """Numbers and bytes of the lines that are not blank."""
    number = 0
    try:
        with _opened(source) as file:
            for line in file:
                number += 1
                content = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
                if content.strip():
                    yield number, content
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(source, error) from error


def _opened(source: Source) -> IO[bytes]:
    return cast("IO[bytes]", gzip.open(source.path)) if source.gzipped else source.path.open("rb")


def _explain(source: Source, reading: Schema, error: Exception, *, extra: bool) -> NoReturn:
    """Find what Arrow stumbled over: the first line that is not an object of the types read so far.

    `extra` says whether there may be other fields; those must keep the kind of their first value.
    """
    pa = arrow()
    types: dict[str, DataType] = {field.name: field.type for field in reading if not pa.types.is_null(field.type)}
    first: dict[str, tuple[int, object]] = {}
    for number, line in _lines(source):
        where = f"{source.name}, line {number}"
        for name, value in _loaded(where, line).items():
            if not extra and name not in reading.names:
                raise CellError(f"{where}: field {name!r} is in no line before, or not in the schema.")
            if value is None:
                continue
            kind = _kind(value)
            first_number, first_value = first.setdefault(name, (number, value))
            expected = _expected_kind(pa, types[name]) if name in types else _kind(first_value)
            if expected is not None and kind != expected:
                # The first value may as well be the wrong one.
                before = f" Line {first_number} has {_shown(first_value)}." if first_number < number else ""
                raise CellError(
                    f"{where}, column {name!r}: {_shown(value)} is {kind}, where {expected} is expected.{before}"
                )
            if name in types and kind == "a number" and not _holds(pa, types[name], value):
                raise CellError(f"{where}, column {name!r}: {_shown(value)} is not {described(types[name])}.")
    raise CellError(f"{source.name} cannot be read as JSON Lines: {error}.") from error


def _loaded(where: str, line: bytes) -> dict[str, object]:
    """The object on a line; InputError unless it is exactly one."""

    def no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
        names = [name for name, _ in pairs]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise InputError(f"{where}: field {repeated!r} occurs twice. Leave one.")
        return dict(pairs)

    def finite(text: str) -> float:
        if math.isinf(value := float(text)):
            raise InputError(f"{where}: {text:.60} is not a float64{OVERFLOW}.")
        return value

    if line.count(b"{") + line.count(b"[") > MAX_DEPTH and _depth(line) > MAX_DEPTH:
        raise InputError(f"{where} is nested more than {MAX_DEPTH} levels deep, which is not read.")
    try:
        value: object = json.loads(line.decode(), object_pairs_hook=no_duplicates, parse_float=finite)
    except UnicodeDecodeError as error:
        text = line[: error.start].rpartition(b'"')[2] + line[error.start :].partition(b'"')[0].rstrip()
        raise InputError(
            f"{where} is not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1}). "
            f"{advice(text, where.rpartition(', line ')[0])}"
        ) from None
    except json.JSONDecodeError as error:
        hint = " Is this one JSON document?" if line.strip() in (b"[", b"{") else ""
        raise InputError(f"{where} is not JSON: {error.msg} at position {error.pos + 1}.{hint} {_NEEDED}") from None
    if not isinstance(value, dict):
        raise InputError(f"{where} is {_kind(value)}; {_NEEDED}")
    return cast("dict[str, object]", value)


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    return "a list" if isinstance(value, list) else "null" if value is None else "an object"


def _expected_kind(pa: Any, data_type: DataType) -> str | None:
    """The kind of JSON value for an Arrow type; None if there is no single one."""
    kinds = pa.types
    for holds, kind in (
        (kinds.is_boolean, "true or false"),
        (kinds.is_integer, "a number"),
        (kinds.is_floating, "a number"),
        (kinds.is_string, "text"),
        (kinds.is_list, "a list"),
        (kinds.is_struct, "an object"),
    ):
        if holds(data_type):
            return kind
    return None


def _holds(pa: Any, data_type: DataType, value: object) -> bool:
    """Return True if a number fits the type: no fraction in an integer, nothing beyond its range."""
    if isinstance(value, float) and pa.types.is_integer(data_type):
        return False
    try:
        if pa.types.is_decimal(data_type):
            pa.scalar(str(value)).cast(data_type)
        else:
            pa.scalar(value, data_type)
    except (pa.ArrowInvalid, OverflowError):
        return False
    return True


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."
