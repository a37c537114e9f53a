"""One table a word: its keywords and the places in the service's JSON where they stand, read in both directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import field
from typing import Any, NamedTuple, cast

from drivetrain.base.errors import SpecError, did_you_mean, shown
from drivetrain.base.json_text import as_object
from drivetrain.base.records import dataclass
from drivetrain.spec.values import Join, ParameterRef, Reference, as_value


class Call(NamedTuple):
    """A word with what it is given: how code spells a part of a definition."""

    word: str
    positional: tuple[Any, ...]
    keywords: dict[str, Any]


class MisfitError(Exception):
    """A value that a keyword does not take; the table's row says what it does."""


@dataclass(frozen=True)
class Spelling:
    """The two ways between a keyword's value and JSON."""

    allowed: str
    """The values that the keyword takes, for messages."""
    write: Callable[[Any], Any]
    """Raises MisfitError or SpecError for anything else."""
    read: Callable[[Any], Any]
    """Raises MisfitError for JSON that the keyword cannot give."""


class Row(NamedTuple):
    """A keyword; the path of its JSON, whose absence is None; its default."""

    keyword: str
    path: str
    spelling: Spelling
    default: Any = None


@dataclass(frozen=True)
class Table:
    """The rows of a word; the first `positional` of them can be given without their keyword.

    The word of a step has the step's `type`, and `outputs` that each such step has: name -> path in the service's
    description of it.
    """

    word: str
    rows: tuple[Row, ...]
    positional: int = 0
    type: str = ""
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    order: str = ""
    """Keywords in the order in which the SDK writes their JSON; the others follow as they stand in `rows`."""

    def write(self, given: Mapping[str, Any], where: str) -> dict[str, Any]:
        """The JSON of keywords.

        Raises:
            SpecError: an unknown keyword, or a value that one does not take; `where` begins the message.
        """
        keywords = [row.keyword for row in self.rows]
        for name in given:
            if name not in keywords:
                advice = did_you_mean(name, keywords)
                raise SpecError(f"{where} does not take {name!r}. {advice} Other fields go into other={{...}}.")
        built: dict[str, Any] = {}
        first = self.order.split()
        for row in sorted(self.rows, key=lambda row: first.index(row.keyword) if row.keyword in first else len(first)):
            value = given.get(row.keyword, row.default)
            if value is None:
                continue
            try:
                json = row.spelling.write(value)
            except MisfitError:
                allowed = row.spelling.allowed
                raise SpecError(f"{where}: {row.keyword}={shown(value)}. Give {allowed}.") from None
            *parents, last = row.path.split(".")
            at = built
            for parent in parents:
                at = at.setdefault(parent, {})
            at[last] = json
        return built

    def read(self, json: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The keywords that give the JSON, without those at their default, and what is left of it."""
        rest = deepcopy(dict(json))
        keywords: dict[str, Any] = {}
        for row in self.rows:
            value = _taken(rest, row)
            if not _same(value, row.default):
                keywords[row.keyword] = value
        return keywords, rest


def _taken(rest: dict[str, Any], row: Row) -> Any:
    """The value at a row's path, taken out of the JSON with the objects that it leaves empty; None if there is none."""
    *parents, last = row.path.split(".")
    chain: list[dict[str, Any]] = [rest]
    for parent in parents:
        if not isinstance(inner := chain[-1].get(parent), dict):
            return None
        chain.append(cast("dict[str, Any]", inner))
    if last not in chain[-1]:
        return None
    try:
        value = row.spelling.read(chain[-1][last])
    except MisfitError:
        return None
    del chain[-1][last]
    for outer, name in zip(reversed(chain[:-1]), reversed(parents), strict=True):
        if outer[name]:
            break
        del outer[name]
    return value


def _same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


def is_function(json: Any) -> bool:
    """Return True for JSON that the service evaluates: Get, or a function such as Std:Join."""
    return len(found := as_object(json)) == 1 and str(next(iter(found))).startswith(("Get", "Std:"))


def json_of(given: Any) -> Any:
    """JSON with references inside; parameters stand for their reference.

    Raises:
        MisfitError: something else.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        return {_text(name): json_of(value) for name, value in _object(cast("object", given)).items()}
    if isinstance(given, list | tuple):
        return [json_of(item) for item in _list(cast("object", given))]
    try:
        return as_value(given)
    except SpecError:
        raise MisfitError from None


def _object(given: object) -> dict[Any, Any]:
    if not isinstance(given, Mapping):
        raise MisfitError
    return cast("dict[Any, Any]", given)


def _list(given: object) -> list[Any]:
    if not isinstance(given, list | tuple):
        raise MisfitError
    return cast("list[Any]", given)


def _text(name: Any) -> str:
    if not isinstance(name, str):
        raise MisfitError
    return name


def _of(*kinds: type) -> Callable[[Any], Any]:
    """Plain values of these types, and what only the run knows."""

    def checked(given: Any) -> Any:
        json = json_of(given)
        if type(json) in kinds or isinstance(json, Reference) or is_function(json):
            return json
        raise MisfitError

    return checked


def _listed(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(given: Any) -> Any:
        return [item(each) for each in _list(given)]

    return checked


def mapped(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def checked(given: Any) -> Any:
        if is_function(given):
            raise MisfitError
        return {_text(name): item(value) for name, value in _object(given).items()}

    return checked


def _as_text(given: Any) -> Any:
    if isinstance(given, bool):
        return "true" if given else "false"
    if isinstance(given, int | float):
        return str(given)
    json: Any = _of(str)(given)
    is_number = isinstance(json, Reference) and json.value_type() != "String"
    return Join(values=(cast("ParameterRef", json),)) if is_number else json


def _cache(given: Any) -> Any:
    if isinstance(given, bool):
        return {"Enabled": given}
    return {"Enabled": True, "ExpireAfter": _of(str)(given)}


def _read_cache(json: Any) -> Any:
    if json in ({"Enabled": True}, {"Enabled": False}) and type(json["Enabled"]) is bool:
        return json["Enabled"]
    if isinstance(json, dict) and json.keys() == {"Enabled", "ExpireAfter"} and json["Enabled"] is True:
        return _of(str)(json["ExpireAfter"])
    raise MisfitError


TEXT = Spelling("a text or a reference", _of(str), _of(str))
COUNT = Spelling("a whole number or a reference", _of(int), _of(int))
FLAG = Spelling("True, False or a reference", _of(bool), _of(bool))
TEXTS = Spelling("a list of texts or references", _listed(_as_text), _listed(_of(str)))
TEXT_OF_NAME = Spelling("texts by name, such as {'a': '1'}", mapped(_as_text), mapped(_of(str)))
OBJECT = Spelling("JSON by name, as the service has it", mapped(json_of), mapped(json_of))
OBJECTS = Spelling("a list of JSON, as the service has it", _listed(mapped(json_of)), _listed(mapped(json_of)))
CACHE = Spelling("True, False, or how long a result is kept, such as '30d'", _cache, _read_cache)


def named(key: str, item: Spelling, *, last: bool = False) -> Spelling:
    """A list of objects that have a name each, in the first or the last field, as a dict: name -> the rest."""

    def write(given: Any) -> Any:
        written = mapped(item.write)(given).items()
        return [{**value, key: name} if last else {key: name, **value} for name, value in written]

    def read(json: Any) -> Any:
        found: dict[str, Any] = {}
        for each in _listed(mapped(lambda value: value))(json):
            name = each.get(key)
            if not isinstance(name, str) or name in found:
                raise MisfitError
            found[name] = item.read({field: value for field, value in each.items() if field != key})
        return found

    return Spelling(f"{item.allowed} by name", write, read)


def entry(table: Table, *, bare: bool = False) -> Spelling:
    """JSON, as a word such as At(...) gives it; with `bare` also the first value of that word alone."""

    def write(given: Any) -> Any:
        json = json_of(given)
        if bare and (isinstance(json, str | Reference) or is_function(json)):
            return table.write({table.rows[0].keyword: json}, table.word)
        return mapped(json_of)(json)

    def read(json: Any) -> Any:
        keywords, rest = table.read(_object(json))
        first = [row.keyword for row in table.rows[: table.positional]]
        if rest or any(keywords.get(name) is None for name in first):
            return json
        if bare and keywords.keys() == {*first}:
            return keywords[first[0]]
        return Call(table.word, tuple(keywords.pop(name) for name in first), keywords)

    return Spelling(f"{table.word}(...)", write, read)


def fields(*keys: str, of: Spelling = TEXT, last: str = "") -> Spelling:
    """An object of exactly these fields, as a tuple of them in this order; of a single one the value itself.

    Args:
        last: the field that the SDK writes last, if that is another one.
    """

    def write(given: Any) -> Any:
        values = [given] if len(keys) == 1 else _list(given)
        if len(values) != len(keys):
            raise MisfitError
        return dict(sorted(zip(keys, map(of.write, values), strict=True), key=lambda pair: pair[0] == last))

    def read(json: Any) -> Any:
        if _object(json).keys() != {*keys}:
            raise MisfitError
        values = tuple(of.read(json[key]) for key in keys)
        return values[0] if len(keys) == 1 else values

    return Spelling(of.allowed if len(keys) == 1 else f"({', '.join(keys)})", write, read)
