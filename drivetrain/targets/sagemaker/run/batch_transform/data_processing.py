"""The data processing of a batch transform around the model: InputFilter, JoinSource, OutputFilter.

A CSV line is a list of its cells; a joined one has the answer's cells after the input's. JSON gets the answer as a
member `SageMakerOutput`, and where the input is no object, it goes into `SageMakerInput`. Of JSONPath, filters take

    $   $.id   $['id']   $['id','SageMakerOutput']   $.id.*   $[0]   $[-1]   $[0,5:]   $[1:4]   $[*]

Slices include their end: `$[1:4]` is the second to the fifth column, as the service's page has it (JSONPath elsewhere
leaves the end out). What selects several values can only come last.
https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform-data-processing.html
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, cast

Kind = Literal["csv", "json"]
KINDS: dict[str, Kind] = {"text/csv": "csv", "application/json": "json", "application/jsonlines": "json"}
INPUT, OUTPUT = "SageMakerInput", "SageMakerOutput"
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


class ProcessingError(ValueError):
    """Data that cannot be filtered or joined."""


def kind_of(content_type: str | None) -> Kind | None:
    """The kind of data of a content type; None for one that is neither CSV nor JSON."""
    return KINDS.get((content_type or "").partition(";")[0].strip().lower())


_ALL = Filter.of(WHOLE)


@dataclass(frozen=True)
class DataProcessing:
    """The filters and the join of one job; `kind` is None where there are none, and data pass as they are."""

    kind: Kind | None = None
    input_filter: Filter = _ALL
    output_filter: Filter = _ALL
    join: bool = False

    @property
    def shapes_output(self) -> bool:
        """True if answers are read, to be joined or filtered."""
        return self.join or not self.output_filter.whole

    def payload(self, record: bytes) -> bytes:
        """Return what to send of a record.

        Raises:
            ProcessingError: it is no CSV or JSON, or lacks what the filter selects.
        """
        if self.input_filter.whole or self.kind is None:
            return record
        return self._write(self._filtered(self.input_filter, self._read(record, "the record")))

    def output(self, records: Sequence[bytes], answer: bytes) -> list[bytes]:
        """Return the pieces to write of the answer to one request: one a record, or the whole answer if it is not read.

        Raises:
            ProcessingError: the answer has another number of lines than the request; it is no CSV or JSON, or lacks
                what the filter selects.
        """
        if not self.shapes_output or self.kind is None:
            return [answer]
        answers = self._answers(records, answer)
        return [
            self._write(self._filtered(self.output_filter, self._joined(record, value)))
            for record, value in zip(records, answers, strict=True)
        ]

    def _joined(self, record: bytes, answer: Any) -> Any:
        if not self.join:
            return answer
        given = self._read(record, "the record")
        if self.kind == "csv":
            return [*given, *answer]
        if isinstance(given, dict):
            return {**cast("dict[str, Any]", given), OUTPUT: answer}
        return {INPUT: given, OUTPUT: answer}

    def _answers(self, records: Sequence[bytes], answer: bytes) -> list[Any]:
        if self.kind == "json" and len(records) == 1:
            return [self._read(answer, "the answer")]
        lines = [line for line in answer.split(b"\n") if line.strip()]
        if len(lines) != len(records):
            raise ProcessingError(
                f"the answer has {len(lines)} lines to a request of {len(records)} records, so they cannot be joined. "
                "The server must answer a line a record; or send one at a time (BatchStrategy SingleRecord)"
            )
        return [self._read(line, "the answer") for line in lines]

    def _read(self, text: bytes, what: str) -> Any:
        try:
            if self.kind == "json":
                return json.loads(text)
            rows = list(csv.reader([text.decode("utf-8")], strict=True))
        except (ValueError, csv.Error, RecursionError) as error:
            raise ProcessingError(f"{what} is no {str(self.kind).upper()}: {error} ({text[:60]!r})") from None
        return rows[0] if rows else []

    def _write(self, value: Any) -> bytes:
        if self.kind == "json":
            return json.dumps(value, ensure_ascii=False).encode()
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(cast("list[Any]", value) if isinstance(value, list) else [value])
        return text.getvalue().encode()

    def _filtered(self, chosen: Filter, value: Any) -> Any:
        try:
            return chosen.apply(value)
        except FilterError as error:
            raise ProcessingError(str(error)) from None
