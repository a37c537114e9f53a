"""Training metrics, found in a growing log by the regular expressions of MetricDefinitions."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.pipelines.errors import UserError

# A progress bar may write for hours without a line's end; no metric stands that far from it.
_MAX_LINE = 64 * 1024


class Logged(NamedTuple):
    """A value found, `seconds` after the start."""

    name: str
    seconds: float
    value: float


class MetricReader:
    """Reads what was added to the logs of all hosts since it was last asked.

    Raises:
        UserError: a definition without Name, or an expression that cannot be read.
    """

    def __init__(self, definitions: Sequence[Mapping[str, Any]], logs: Sequence[Path]) -> None:
        self._patterns = [_pattern(definition) for definition in definitions]
        self._logs = dict.fromkeys(logs, 0)
        self._rest: dict[Path, bytes] = dict.fromkeys(logs, b"")
        self.last: dict[str, float] = {}

    def read(self, seconds: float, *, final: bool = False) -> list[Logged]:
        """The metrics in lines that were finished since; with `final`, in the last line, too."""
        if not self._patterns:
            return []
        found: list[Logged] = []
        for log, offset in self._logs.items():
            try:
                with open(log, "rb") as file:
                    file.seek(offset)
                    added = file.read()
            except FileNotFoundError:
                continue
            self._logs[log] = offset + len(added)
            # A carriage return ends a line, too: that is how progress bars write over themselves.
            lines = (self._rest[log] + added).replace(b"\r", b"\n").split(b"\n")
            rest = lines.pop()
            self._rest[log] = rest[-_MAX_LINE:]
            if final:
                lines.append(rest)
            for line in lines:
                found += self._match(line[-_MAX_LINE:].decode("utf-8", "replace"), seconds)
        return found

    def _match(self, line: str, seconds: float) -> list[Logged]:
        found: list[Logged] = []
        for name, pattern in self._patterns:
            for match in pattern.finditer(line):
                try:
                    value = float(match.group(1) if pattern.groups else match.group())
                except (TypeError, ValueError):
                    continue  # the service, too, passes over what is no number
                if math.isfinite(value):
                    self.last[name] = value
                    found.append(Logged(name, seconds, value))
        return found


def _pattern(definition: Mapping[str, Any]) -> tuple[str, re.Pattern[str]]:
    name, regex = definition.get("Name"), definition.get("Regex")
    if not isinstance(name, str) or not isinstance(regex, str):
        raise UserError(f"MetricDefinitions has {dict(definition)!r:.80}. Allowed: Name and Regex, both text.")
    try:
        return name, re.compile(regex)
    except re.error as error:
        raise UserError(f"MetricDefinitions: the Regex of {name!r} cannot be read: {error} ({regex!r}).") from None
