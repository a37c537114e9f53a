"""InputFilter and OutputFilter: the part of JSONPath that a batch transform takes.

    $   $.id   $['id']   $['id','SageMakerOutput']   $.id.*   $[0]   $[-1]   $[0,5:]   $[1:4]   $[*]

Slices include their end: `$[1:4]` is the second to the fifth column, as the service's page has it (JSONPath elsewhere
leaves the end out). What selects several values can only come last.
https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform-data-processing.html
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

WHOLE = "$"
LONGEST = 63  # characters, of the service
_ALLOWED = "Allowed: $ and then .name, ['name','other'], [0], [-1], [0,5:], [1:4] or *, such as $[1:]"
_DOTTED = re.compile(r"\.([^.\[\]'*]+)")
_WILDCARD = re.compile(r"\.\*|\.?\[\*\]")
_NAMES = re.compile(r"\.?\[\s*('[^']*'(?:\s*,\s*'[^']*')*)\s*\]")
_NUMBERS = re.compile(r"\.?\[([-\d:,\s]+)\]")
_NUMBER = re.compile(r"-?\d+")
_SLICE = re.compile(r"(-?\d+)?\s*:\s*(-?\d+)?")
_EVERYTHING: Final = "*"


class FilterError(ValueError):
    """A filter that cannot be read, or that selects what a record does not have."""


@dataclass(frozen=True)
class _Names:
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Places:
    """Places in a list; a pair is a slice with its end included, None open."""

    places: tuple[int | tuple[int | None, int | None], ...]


_Selector = _Names | _Places | str


@dataclass(frozen=True)
class Filter:
    """A filter that was read; `Filter.of(text)` reads one."""

    text: str
    selectors: tuple[_Selector, ...]

    @staticmethod
    @lru_cache(maxsize=64)
    def of(text: str) -> Filter:
        """
        Raises:
            FilterError: it has none of the allowed forms.
        """
        if not text.startswith(WHOLE) or len(text) > LONGEST:
            raise FilterError(f"{text!r:.80} is no filter of at most {LONGEST} characters from the root $. {_ALLOWED}")
        selectors: list[_Selector] = []
        at = 1
        while at < len(text):
            if selectors and _is_several(selectors[-1]):
                raise FilterError(f"{text!r}: nothing can follow what selects several values. {_ALLOWED}")
            for pattern, read in _FORMS:
                if (found := pattern.match(text, at)) and (selector := read(found)) is not None:
                    selectors.append(selector)
                    at = found.end()
                    break
            else:
                raise FilterError(f"{text!r}: cannot read {text[at:]!r}. {_ALLOWED}")
        return Filter(text, tuple(selectors))

    @property
    def whole(self) -> bool:
        """True if it selects everything."""
        return not self.selectors

    def apply(self, value: Any) -> Any:
        """Select from a record (a list of cells of a CSV line, or JSON).

        Raises:
            FilterError: the record has no such part.
        """
        for selector in self.selectors:
            value = self._select(value, selector)
        return value

    def _select(self, value: Any, selector: _Selector) -> Any:
        if isinstance(selector, str):
            if isinstance(value, dict):
                return list(cast("dict[str, Any]", value).values())
            if isinstance(value, list):
                return cast("list[Any]", value)
            raise FilterError(f"{self.text} selects the members of a single value, {value!r:.40}")
        if isinstance(selector, _Names):
            if not isinstance(value, dict):
                raise FilterError(f"{self.text} names members, and there is {_kind(value)}; a CSV line goes by numbers")
            given = cast("dict[str, Any]", value)
            if missing := [name for name in selector.names if name not in given]:
                raise FilterError(f"{self.text}: there is no {missing[0]!r} (there: {', '.join(given) or 'nothing'})")
            if len(selector.names) == 1:
                return given[selector.names[0]]
            return {name: given[name] for name in selector.names}
        if not isinstance(value, list):
            raise FilterError(f"{self.text} counts places, and there is {_kind(value)}")
        return self._places(cast("list[Any]", value), selector)

    def _places(self, value: list[Any], selector: _Places) -> Any:
        only = selector.places[0]
        if len(selector.places) == 1 and isinstance(only, int):
            return value[self._place(only, value)]
        found: list[Any] = []
        for place in selector.places:
            if isinstance(place, int):
                found.append(value[self._place(place, value)])
                continue
            first, last = place
            start = 0 if first is None else self._place(first, value)
            end = len(value) - 1 if last is None else self._place(last, value)
            found += value[start : end + 1]
        return found

    def _place(self, place: int, value: list[Any]) -> int:
        index = place + len(value) if place < 0 else place
        if not 0 <= index < len(value):
            raise FilterError(f"{self.text}: there is no [{place}] among {len(value)} values")
        return index


def _numbers(found: re.Match[str]) -> _Selector | None:
    places: list[int | tuple[int | None, int | None]] = []
    for part in found[1].split(","):
        part = part.strip()
        if _NUMBER.fullmatch(part):
            places.append(int(part))
        elif cut := _SLICE.fullmatch(part):
            places.append((None if cut[1] is None else int(cut[1]), None if cut[2] is None else int(cut[2])))
        else:
            return None
    return _Places(tuple(places))


# What each part of a filter looks like, and the selector that it is.
_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Selector | None]], ...] = (
    (_WILDCARD, lambda _: _EVERYTHING),
    (_NAMES, lambda found: _Names(tuple(re.findall(r"'([^']*)'", found[1])))),
    (_NUMBERS, _numbers),
    (_DOTTED, lambda found: _Names((found[1],))),
)


def _is_several(selector: _Selector) -> bool:
    if isinstance(selector, _Names):
        return len(selector.names) > 1
    return isinstance(selector, str) or not (len(selector.places) == 1 and isinstance(selector.places[0], int))


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "an object" if isinstance(value, dict) else f"{value!r:.40}"
