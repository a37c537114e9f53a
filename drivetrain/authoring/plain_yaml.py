"""YAML for settings: plain values only. No tags, no aliases, no key twice, bounded in size and depth."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError

MAX_BYTES = 1024 * 1024
MAX_DEPTH = 50
# What the parser says of a text; of 7 MB of Kubeflow's YAML, which is 4,000 tasks, it is 430,000.
MAX_EVENTS = 1_000_000
_MOST_BITS = 4_096


def read_yaml(file: Path) -> dict[str, Any]:
    """A mapping from a YAML file: no tags, no aliases, bounded size and depth.

    Raises:
        UserError: naming file, line and column.
    """
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_BYTES + 1)  # a device has no end
    except OSError as error:
        raise UserError(f"Settings file {file}: {error.strerror}. Give --config an existing file.") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"Settings file {file} is too large. Allowed: {MAX_BYTES:,} bytes.")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UserError(f"Settings file {file} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    value = load_yaml(text, str(file))
    if value is None:
        return {}
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):  # type: ignore[reportUnknownVariableType]
        raise UserError(f"Settings file {file}: the top level must be `key: value` lines.")
    return value  # type: ignore[reportUnknownVariableType]


def load_yaml(text: str, where: str) -> Any:
    """The plain value of a YAML text; `where` names it in messages."""
    found = load_documents(text, where)
    if len(found) > 1:
        raise UserError(f"{where}: {len(found)} documents. Write one: no line with `---` between values.")
    return found[0] if found else None


def load_documents(text: str, where: str) -> list[Any]:
    """The plain values of a text's documents.

    Raises:
        UserError: naming the line where it can.
    """
    import yaml

    depth = 0
    try:
        for count, event in enumerate(yaml.parse(text, Loader=_yaml_loader())):
            if count > MAX_EVENTS:
                raise UserError(f"{where}: more than {MAX_EVENTS:,} values.")
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise UserError(f"{_place(where, event)}: anchors and aliases are not allowed.")
            if getattr(event, "tag", None):
                raise UserError(f"{_place(where, event)}: tags are not allowed; write plain values.")
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
                if depth > MAX_DEPTH:
                    raise UserError(f"{where}: nested deeper than {MAX_DEPTH} levels.")
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
        values: list[Any] = []
        loader = _yaml_loader()(text)  # a SafeLoader
        while loader.check_node():
            root = loader.get_node()
            _refuse_duplicates(root, where)
            values.append(loader.construct_document(root))
        _refuse_large_numbers(values, where)
        return values
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        tab = " Indent with spaces, not with tabs." if mark and "\t" in _before(text, mark) else ""
        raise UserError(f"{where}{place}: not YAML: {_in_words(text, error) or error.problem}.{tab}") from None
    except yaml.YAMLError as error:
        raise UserError(f"{where}: not YAML: {str(error).splitlines()[0]}.") from None
    except ValueError as error:  # looks like a date or a number, but is invalid: 2026-13-45, 5,000 digits
        if isinstance(error, UserError):
            raise
        raise UserError(f"{where}: {str(error).partition(';')[0]}. Put text in quotes.") from None


def hint_on(error: Mapping[str, Any], source: str | None) -> str:
    """Advice on a refused value: what is allowed, and its line in its file.

    Args:
        error: as pydantic describes it.
        source: a file, or another place that settings come from.
    """
    given: Any = error.get("input")
    kind = error["type"]
    said = ""
    if kind == "string_type" and type(given) not in (dict, list, type(None)):
        said = " Put it in quotes."  # 2026-01-01 is a date to YAML
    elif kind == "float_parsing" and re.fullmatch(r"[-+]?\d+,\d+", str(given)):
        said = f" Write {str(given).replace(',', '.')}, with a decimal point."
    line = None if source is None else _line_of(Path(source), error["loc"])
    return said + (f" (line {line})" if line else "")


def _line_of(file: Path, path: Sequence[str | int]) -> int | None:
    """The line in which a file gives a value; None where it is no file that can be read, or says it in another way."""
    import yaml

    if not path or not file.is_file():
        return None
    try:
        node: Any = yaml.compose(file.read_text(encoding="utf-8"), Loader=_yaml_loader())
    except (OSError, ValueError, yaml.YAMLError):
        return None
    line = None
    for part in path:
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        found = next(((key, value) for key, value in pairs if key.value == str(part)), None)
        if found is None:
            return None
        line, node = found[0].start_mark.line + 1, found[1]
    return line


def _in_words(text: str, error: Any) -> str:
    """A usual mistake in plain words; empty for others, and where a tab is the mistake."""
    lines: list[str] = text.splitlines()
    mark: Any = error.problem_mark
    begun: Any = error.context_mark
    if mark is None or "\t" in _before(text, mark):
        return ""
    row, column = int(mark.line), int(mark.column)
    line = lines[row] if row < len(lines) else ""
    number, earlier = next(((n, lines[n]) for n in range(row - 1, -1, -1) if lines[n].strip()), (0, ""))
    steps_in = len(line) - len(line.lstrip()), len(earlier) - len(earlier.lstrip())
    problem = str(error.problem)
    if begun is not None and "quoted scalar" in str(error.context) and "end of stream" in problem:
        return f"the quote that opens in line {begun.line + 1} is never closed"
    if begun is not None and "flow" in str(error.context) and "did not find expected ',' or" in problem:
        return f"the {problem[-2].translate({93: 91, 125: 123})} that opens in line {begun.line + 1} is never closed"
    if problem == "mapping values are not allowed in this context":
        if earlier and line[:column].count(": ") == 0 and steps_in[0] > steps_in[1]:
            return f"line {row + 1} is indented deeper than line {number + 1}"
        if line[:column].count(": "):
            return "two of `: ` in one line; put a value that holds one in quotes"
        return f"line {number + 1} is no `name: value`; a blank follows the colon" if earlier else ""
    if problem == "found character that cannot start any token":
        return f"a value that begins with {line[column : column + 1]} needs quotes"
    if "block" in str(error.context) and problem == "did not find expected key" and steps_in[0] != steps_in[1]:
        return f"line {row + 1} does not line up with the lines above it"
    return ""


@cache
def _yaml_loader() -> Any:
    """A loader of plain values, without YAML 1.1's numbers to base 60 and 8: 12:30 is a text, and not 750; so is 010,
    which a number's field takes for 10, and not for 8."""
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    numbers = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    resolvers = {
        first: [
            (tag, re.compile(rf"(?![-+0-9_]*:|[-+]?0[0-9_]+$){kind.pattern}", re.VERBOSE) if tag in numbers else kind)
            for tag, kind in kinds
        ]
        for first, kinds in base.yaml_implicit_resolvers.items()
    }
    return type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})


def _before(text: str, mark: Any) -> str:
    """The line of a mark as far as the character there."""
    return "".join(text.splitlines()[mark.line : mark.line + 1])[: mark.column + 1]


def _place(where: str, node: Any) -> str:
    return f"{where}, line {node.start_mark.line + 1}"


def _refuse_large_numbers(value: Any, where: str) -> None:
    """A whole number that cannot be written as text again."""
    pending: list[Any] = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, int) and one.bit_length() > _MOST_BITS:
            raise UserError(f"{where}: a number of {one.bit_length():,} bits. Allowed: {_MOST_BITS:,}.")
        if isinstance(one, dict | list):
            given = cast("dict[Any, Any] | list[Any]", one)
            pending += (*given, *given.values()) if isinstance(given, dict) else given


def _refuse_duplicates(root: Any, where: str) -> None:
    """A key given twice: YAML would silently take the last."""
    pending: list[Any] = [root]
    while pending:
        children: Any = getattr(pending.pop(), "value", None)
        if not isinstance(children, list):
            continue
        seen: set[str] = set()
        for child in cast(list[Any], children):
            if not isinstance(child, tuple):
                pending.append(child)
                continue
            key, value = cast(tuple[Any, Any], child)
            if not isinstance(key.value, str):
                raise UserError(f"{_place(where, key)}: a list or mapping cannot be a key. Write `name: value`.")
            if key.value in seen:
                raise UserError(f"{_place(where, key)}: {key.value!r} is given twice.")
            seen.add(key.value)
            pending.append(value)
