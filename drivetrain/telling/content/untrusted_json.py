"""Untrusted JSON: read within bounds, with every type checked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.base.json_text import as_list

MAX_BYTES = 16 * 1024 * 1024
MAX_TEXT = 200
# What is looked for is among the first, and models lie in other archives.
MAX_MEMBERS = 2_000


class UnreadableError(ValueError):
    """A file that is there and cannot be shown; the message is a clause that says why."""


def read_object(path: Path, most_bytes: int = MAX_BYTES) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is no such file. NaN and Infinity, which JSON has not, are None.

    Raises:
        UnreadableError: it is too large, no JSON object, or cannot be read.
    """
    content = read_bytes(path, most_bytes)
    if content is None:
        return None
    try:
        found: Any = json.loads(content, parse_constant=lambda _: None)
    except (ValueError, RecursionError):  # not UTF-8, not JSON, an integer of thousands of digits
        raise UnreadableError("is no JSON") from None
    if not isinstance(found, dict):
        raise UnreadableError("is no JSON object")
    return cast("dict[str, Any]", found)


def read_bytes(path: Path, most_bytes: int) -> bytes | None:
    """The content of a file; None if there is no such file.

    Raises:
        UnreadableError: it is too large, or cannot be read.
    """
    try:
        if not path.is_file():
            return None
        with path.open("rb") as file:
            content = file.read(most_bytes + 1)
    except OSError as error:
        raise UnreadableError(f"cannot be read ({error.strerror or error})") from None
    if len(content) > most_bytes:
        raise UnreadableError(f"is larger than {most_bytes / 1024 / 1024:.0f} MB")
    return content


def read_members(
    archive: Path, wanted: Callable[[str], bool], *, last: str, most_bytes: int = MAX_BYTES, sorted_: bool = False
) -> dict[str, bytes]:
    """Files of an archive that lists its members in the order of their names, as ours do; those that are not too large.

    Args:
        last: the greatest name that is wanted. Behind it nothing more is looked for once something was found;
            `sorted_`: nothing at all.

    Raises:
        ValueError: it is no archive.
        OSError: it cannot be read.
    """
    found: dict[str, bytes] = {}
    if not archive.is_file():
        return found
    import tarfile  # (only where there is one to be opened)

    try:
        with tarfile.open(archive) as opened:
            for number, member in enumerate(opened):
                name = member.name.removeprefix("./")
                if number > MAX_MEMBERS or (name > last and (found or sorted_)):
                    break
                if wanted(name) and member.isfile() and member.size <= most_bytes:
                    source = opened.extractfile(member)
                    if source is not None:
                        found[name] = source.read()
    except tarfile.TarError as error:
        raise ValueError(str(error)) from error
    return found


def finite(value: object) -> float | None:
    """A finite number; None for anything else, also for an integer beyond the range of floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def drawable(value: object) -> float | None:
    """A finite number with which a picture's scale can be reckoned: of at most 1e100."""
    number = finite(value)
    return number if number is not None and abs(number) <= 1e100 else None


def whole(value: object) -> int | None:
    """A count: a whole number that is not negative and has at most 15 digits."""
    number = finite(value)
    return int(number) if number is not None and number.is_integer() and 0 <= number < 1e15 else None


def text(value: object, most: int = MAX_TEXT) -> str:
    """A text, or a number as one; empty for anything else. A long one is cut."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    try:
        said = str(value)
    except ValueError:  # an integer of thousands of digits
        return ""
    return said if len(said) <= most else said[: most - 1] + "…"


def objects(value: object, most: int) -> Iterator[dict[str, Any]]:
    """The objects in a list, at most so many entries of it."""
    for entry in as_list(value)[:most]:
        if isinstance(entry, dict):
            yield cast("dict[str, Any]", entry)


def texts(value: Mapping[str, Any], most: int, most_characters: int = MAX_TEXT) -> dict[str, str]:
    """Names and texts, at most so many of them."""
    told = ((text(name), text(said, most_characters)) for name, said in list(value.items())[:most])
    return {name: said for name, said in told if said}
