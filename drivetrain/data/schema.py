"""The columns of a data set: what the user declares, what the files hold, and what comes of both."""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from drivetrain.base.errors import InputError, nearest
from drivetrain.data.arrow import DataType, Schema, arrow
from drivetrain.data.convert import described, typed, wider_text_type
from drivetrain.data.source import SCHEMA_FILE, Source
from drivetrain.data.transform.types import known_zone

ExtraColumns = Literal["refuse", "keep", "drop"]

# Arrow's names, float32 and float64 besides its float and double.
TYPES = (
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *("float32", "float64", "float", "double", "bool", "string", "binary", "date32"),
    *(f"timestamp[{unit}]" for unit in ("s", "ms", "us", "ns")),
)
# A manifest spells this in Arrow's own way, and its schema may be given back to us.
_ARROW_SPELLINGS = {"date32[day]": "date32"}
MAX_LEVELS = 98  # Arrow reads Parquet of up to 100, with the root and a value
_ZONED = re.compile(r"timestamp\[(s|ms|us|ns), ?tz=([^\]]+)\]")
_DECIMAL = re.compile(r"decimal(?:128)?\((\d+), ?(\d+)\)")
# "column:type" pairs; a comma within a type's brackets is a part of it.
_PAIR = re.compile(r"(?P<name>[^,]*):(?P<type>[^,:\[(]+(?:\[[^\]]*\]|\([^)]*\))?)\s*(?:,|$)")


@dataclass(frozen=True)
class DeclaredSchema:
    """The user's types: column names, or patterns such as `p*`, each with the name of an Arrow type, in order."""

    types: Mapping[str, str]
    origin: str

    def type_of(self, column: str) -> str | None:
        """The type given for a column: by its name, else by the first pattern that fits."""
        if column in self.types:
            return self.types[column]
        return next((kind for pattern, kind in self.types.items() if fnmatch.fnmatchcase(column, pattern)), None)

    def differs(self, column: str, kind: str) -> bool:
        """True where a column has another type; `double` is float64."""
        given = self.type_of(column)
        return given is not None and given != kind and _arrow_type(given) != _arrow_type(kind)


def declared_schema(text: str | None, raw: Path) -> DeclaredSchema | None:
    """Read the user's declaration of columns, from `schema` or from the input folder's schema.json.

    Raises:
        InputError: both are given, the text or file is malformed, a column occurs twice, a type is unknown.
    """
    file = raw / SCHEMA_FILE
    if raw.is_dir() and file.is_file():
        if text is not None:
            raise InputError(f"the parameter schema is given, and {file} as well. Keep one.")
        return DeclaredSchema(checked_types(_pairs_of_file(file), str(file)), str(file))
    return None if text is None else DeclaredSchema(checked_types(_pairs_of_text(text), "schema"), "schema")


def resolved_schema(
    found: Sequence[tuple[Source, Schema]],
    declared: DeclaredSchema | None,
    extra_columns: ExtraColumns,
    key: str | None,
    label: str | None,
) -> Schema:
    """The columns of the prepared data, in the order of the first file that has them, with their types.

    Raises:
        InputError: a column is missing, unexpected, or of types that do not go together; the key or label is of a type
            that cannot be one. File and column are named.
    """
    pa = arrow()
    names = list(dict.fromkeys(name for _, schema in found for name in schema.names))
    for role, name in (("key", key), ("label", label)):
        if name is not None and name not in names:
            raise InputError(f"{role}: there is no column {name!r}{suggestion(name, names)}{delimiter_hint(names)}")
    if label is not None and label == key:
        raise InputError(f"label: column {key!r} is the key already. Name another column, or leave label out.")
    if declared is not None:
        names = _declared_names(found, names, declared, extra_columns, keep={key, label})
    _check_files(found, names)
    fields = [(name, _type_of(name, found, declared)) for name in names]
    types = dict(fields)
    for name, kind in fields:
        if _levels(kind) > MAX_LEVELS:
            raise InputError(f"column {name!r} is nested so deeply that Parquet would not be read again. Flatten it.")
        if has_empty_objects(kind):
            raise InputError(
                f"column {name!r} holds only empty objects ({{}}), which Parquet cannot hold. Write null instead, or "
                "leave the column out: name the others with types in the schema, and give extra_columns=drop."
            )
    # A column without a value has no type yet; that its values are missing is said when rows are read.
    if key is not None and not any(
        is_kind(types[key]) for is_kind in (pa.types.is_integer, pa.types.is_string, pa.types.is_null)
    ):
        raise InputError(
            f"key: column {key!r} is {described(types[key])} column. Allowed: integers or text. Give it a type, for "
            f"example {typed(key, 'string')}, or name another column."
        )
    if label is not None and not any(
        is_kind(types[label])
        for is_kind in (
            *(pa.types.is_integer, pa.types.is_boolean, pa.types.is_string, pa.types.is_floating, pa.types.is_null),
        )
    ):
        raise InputError(
            f"label: column {label!r} is {described(types[label])} column. Allowed: integers, bools or text for "
            "classes, floats for quantities."
        )
    return pa.schema(fields)


def has_empty_objects(data_type: DataType) -> bool:
    """Return True if a type is, or holds, objects without members."""
    if arrow().types.is_nested(data_type):
        children = [data_type.field(index).type for index in range(data_type.num_fields)]
        return not children or any(map(has_empty_objects, children))
    return False


def _levels(data_type: DataType) -> int:
    """The columns of a Parquet schema."""
    kinds = arrow().types
    if kinds.is_struct(data_type):
        return 1 + max((_levels(child.type) for child in data_type), default=0)
    if kinds.is_map(data_type):
        return 2 + max(_levels(data_type.key_type), _levels(data_type.item_type))
    return 2 + _levels(data_type.value_type) if kinds.is_list(data_type) or kinds.is_large_list(data_type) else 0


def suggestion(given: str, allowed: Iterable[str]) -> str:
    """`. Did you mean 'x'? There are: ...`"""
    names = list(allowed)
    close = nearest(given, names)
    meant = f" Did you mean {close!r}?" if close else ""
    listed = ", ".join(names[:10]) + (f", ... ({len(names)} in all)" if len(names) > 10 else "")
    return f".{meant} There are: {listed}."


def delimiter_hint(names: Sequence[str]) -> str:
    if len(names) == 1 and names[0].lower().startswith("sep="):
        return " The file begins with a spreadsheet's line `sep=`: take this line out, and give delimiter=';'."
    if len(names) == 1 and (found := next((mark for mark in (";", "\t", "|") if mark in names[0]), None)):
        return f" The header has one column: give delimiter={'tab' if found == chr(9) else found!r}."
    return ""


def _declared_names(
    found: Sequence[tuple[Source, Schema]],
    names: Sequence[str],
    declared: DeclaredSchema,
    extra_columns: ExtraColumns,
    keep: set[str | None],
) -> list[str]:
    """The names that remain when the declaration is held against the files."""
    # Rules are of a night, whose files a person can look at.
    none = f"{found[0][0].name} has no" if declared.origin == "rules" else "no file has a"
    for pattern in declared.types:
        if not any(name == pattern or fnmatch.fnmatchcase(name, pattern) for name in names):
            raise InputError(
                f"{declared.origin}: {none} column {pattern!r}{suggestion(pattern, names)}"
                if not set(pattern) & set("*?[")
                else f"{declared.origin}: no column fits {pattern!r}. There are: {', '.join(names[:10])}."
            )
    extra = [name for name in names if declared.type_of(name) is None and name not in keep]
    if extra and extra_columns == "refuse":
        source = next(source for source, schema in found if extra[0] in schema.names)
        raise InputError(
            f"{source.name}: column {extra[0]!r} is not in {declared.origin}. Add it there, or give "
            "extra_columns=keep (types are inferred) or extra_columns=drop."
        )
    return [name for name in names if extra_columns != "drop" or name not in extra]


def _check_files(found: Sequence[tuple[Source, Schema]], names: Sequence[str]) -> None:
    """Each file has each column; only JSON Lines may leave out what is null."""
    for source, schema in found:
        known = set(schema.names)  # (a list that Arrow makes each time)
        missing = [name for name in names if name not in known]
        if missing and source.format != "jsonl":
            other = next(source for source, schema in found if missing[0] in schema.names)
            raise InputError(
                f"{source.name} has no column {missing[0]!r}, which {other.name} has. All files must have the same "
                "columns."
            )


def _type_of(name: str, found: Sequence[tuple[Source, Schema]], declared: DeclaredSchema | None) -> DataType:
    pa = arrow()
    given = None if declared is None else declared.type_of(name)
    if given is not None:
        return _arrow_type(given)
    merged, first = pa.null(), found[0][0]
    for source, schema in found:
        place = schema.get_field_index(name)
        if place < 0:
            continue
        column = schema.field(place)
        try:
            merged = type_of_both(merged, column.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            if {first.format, source.format} != {"csv"}:
                raise InputError(
                    f"column {name!r} is {described(merged)} column in {first.name} and {described(column.type)} "
                    f"column in {source.name}. Give it a type, for example {typed(name, 'string')}."
                ) from None
            merged = wider_text_type(merged, column.type)
        first = source
    return merged


def type_of_both(first: DataType, second: DataType) -> DataType:
    """The type that holds the values of two types.

    Raises:
        pyarrow.ArrowTypeError, pyarrow.ArrowInvalid: there is no such type. Decimals and floats have none: Arrow would
            make floats, which lose digits.
    """
    pa = arrow()
    both = pa.unify_schemas([pa.schema([("", each)]) for each in (first, second)], promote_options="permissive")
    found = both.field(0).type
    texts = [str(each) for each in (first, second)]
    if any("decimal" in text for text in texts) and "decimal" not in str(found):
        raise pa.ArrowTypeError("decimals and floats have no common type")
    if pa.types.is_decimal128(found):  # Arrow counts a digit or two of an integer too few
        whole = [each for each in (first, second) if pa.types.is_integer(each)]
        digits = [found.scale + {8: 3, 16: 5, 32: 10}.get(each.bit_width, 20) for each in whole]
        return pa.decimal128(min(38, max([found.precision, *digits])), found.scale)
    return found


def _pairs_of_text(text: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    place = 0
    while place < len(text) or not pairs:
        found = _PAIR.match(text, place)
        if not found or not found["name"].strip() or not found["type"].strip():
            part = text[place:].split(",")[0].strip()
            raise InputError(f'schema: {part!r} is not "column:type". Example: schema="id:int64,p*:float32".')
        pairs.append((found["name"].strip(), found["type"].strip()))
        place = found.end()
    if text.endswith(","):
        raise InputError('schema: it ends with a comma. Example: schema="id:int64,p*:float32".')
    return pairs


def _is_type(name: str) -> bool:
    """Return True if columns may be declared to be of a type; asked where Arrow may not be installed."""
    if zoned := _ZONED.fullmatch(name):
        return bool(known_zone(zoned[2]))
    decimal = _DECIMAL.fullmatch(name)
    return name in TYPES or (decimal is not None and int(decimal[2]) <= int(decimal[1]) in range(1, 39))


def _arrow_type(name: str) -> DataType | None:
    """The Arrow type of a declared name; None for none that columns may be declared to have."""
    pa = arrow()
    if name in TYPES:
        return pa.type_for_alias(name)
    if zoned := _ZONED.fullmatch(name):
        return pa.timestamp(zoned[1], tz=known_zone(zoned[2]))
    if _is_type(name) and (decimal := _DECIMAL.fullmatch(name)):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return None


class _Object(list[tuple[str, object]]):
    """A JSON object as its pairs, so that a name which occurs twice is seen."""


def _pairs_of_file(file: Path) -> list[tuple[str, str]]:
    """Both forms that people write: {"id": "int64"}, and the manifest's [{"name": "id", "type": "int64"}]."""
    advice = 'Allowed: {"column": "type", ...} or [{"name": "column", "type": "type"}, ...].'
    try:
        content: object = json.loads(file.read_bytes(), object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON ({error}). {advice}") from None
    pairs: list[tuple[object, object]] = []
    if isinstance(content, _Object):
        pairs += content
    else:
        for entry in cast("list[object]", content) if isinstance(content, list) else [None]:
            members = dict(entry) if isinstance(entry, _Object) else {}
            if members.keys() != {"name", "type"}:
                raise InputError(f"{file} is not a schema. {advice}")
            pairs.append((members["name"], members["type"]))
    for name, kind in pairs:
        if not isinstance(name, str) or not isinstance(kind, str):
            raise InputError(f"{file}: {name!r}: {kind!r} is not a column with its type. {advice}")
    return cast("list[tuple[str, str]]", pairs)


def checked_types(pairs: Sequence[tuple[str, str]], origin: str) -> dict[str, str]:
    types: dict[str, str] = {}
    for name, given in pairs:
        kind = _ARROW_SPELLINGS.get(given, given)
        if not _is_type(kind):
            raise InputError(
                f"{origin}: column {name!r} has the type {given!r}{suggestion(given, TYPES)} Also: "
                "timestamp[us, tz=Europe/Zurich], decimal(10, 2)."
            )
        if name in types:
            raise InputError(f"{origin}: column {name!r} occurs twice.")
        types[name] = kind
    if not types:
        raise InputError(f"{origin} names no column.")
    return types
