"""Training metrics, found in a growing log by the regular expressions of MetricDefinitions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.jobs.bounded_matching import Matcher, PatternTooSlowError

# A progress bar may write for hours without a line's end; no metric stands that far from it. An ordinary pattern that
# begins with `.*` takes quadratic time, which is a quarter of a second for such a line.
_MAX_LINE = 16 * 1024
_BATCH = 64 * 1024
# Of a log is read at once; so a million lines between two looks take no more memory than a few thousand.
_PIECE = 256 * 1024
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+))([eE][-+]?\d+)?")
# The service's limit for a Regex.
_MAX_PATTERN = 500
# `step 120`, `step=120`, `global_step: 120`.
_POSITION = r"(?i)(?:\b|_)step['\"]?[ =:]+(\d+)"


class Logged(NamedTuple):
    """A value found, `seconds` after the start; `position` is the step that its line, or the last one before that had
    one, says; None where no line has."""

    name: str
    seconds: float
    value: float
    position: float | None = None


class MetricReader:
    """Reads what was added to the logs of all hosts since it was last asked.

    A metric whose expression takes too long is given up: it is not read any more, and `warnings` says so. Values that
    are not finite are left out, as from everything that is decided or drawn; of each metric `warnings` says it once.

    Raises:
        UserError: a definition without Name, or an expression that cannot be read.
    """

    def __init__(self, definitions: Sequence[Mapping[str, Any]], logs: Sequence[Path]) -> None:
        self._patterns = [_pattern(definition) for definition in definitions]
        self._matcher = Matcher()
        self._logs = dict.fromkeys(logs, 0)
        self._rest: dict[Path, bytes] = dict.fromkeys(logs, b"")
        self.last: dict[str, float] = {}
        self.warnings: list[str] = []
        self._warned: set[str] = set()
        self._position: float | None = None

    def read(self, seconds: float, *, final: bool = False) -> Iterator[Logged]:
        """The metrics in lines that were finished since; with `final`, in the last line, too. A piece of a log is read
        when what was found in the one before has been taken."""
        for log in self._logs if self._patterns else ():
            end = log.stat().st_size if log.exists() else 0  # it may grow faster than it is read
            while self._logs[log] < end:
                yield from self._in(self._added(log), seconds)
            if final:
                rest, self._rest[log] = self._rest[log], b""
                yield from self._in([rest], seconds)
        if final:
            self._matcher.close()

    def _added(self, log: Path) -> list[bytes]:
        """The next lines of a log that were finished."""
        with open(log, "rb") as file:
            file.seek(self._logs[log])
            added = file.read(_PIECE)
        self._logs[log] += len(added)
        # A carriage return ends a line, too: that is how progress bars write over themselves.
        lines = (self._rest[log] + added).replace(b"\r", b"\n").split(b"\n")
        self._rest[log] = lines.pop()[-_MAX_LINE:]
        return lines

    def _in(self, lines: Sequence[bytes], seconds: float) -> Iterator[Logged]:
        for batch in _batches([line[-_MAX_LINE:].decode("utf-8", "replace") for line in lines]):
            yield from self._match(batch, seconds)

    def _match(self, lines: Sequence[str], seconds: float) -> Iterator[Logged]:
        found: list[tuple[int, str, float]] = []
        for name, pattern in list(self._patterns):
            try:
                values = self._matcher.values(pattern, lines)
            except PatternTooSlowError:
                self._patterns.remove((name, pattern))
                self.warnings.append(
                    f"metric {name!r} is no longer read: its Regex took more than {self._matcher.cpu_s:g} s of CPU "
                    "time for a few lines of the log. Replace nested repetition such as (a+)+ in it by a single one"
                )
                continue
            self._warn_of(name, [value for _, value in values if not math.isfinite(value)])
            self._warn_of_cut(name, [(lines[place], value) for place, value in values])
            found += [(place, name, value) for place, value in values if math.isfinite(value)]
        found.sort(key=lambda one: one[0])  # stable: the definitions of one line keep their order
        self.last.update((name, value) for _, name, value in found)
        return self._placed(found, self._matcher.values(_POSITION, lines), seconds)

    def _placed(
        self, found: Sequence[tuple[int, str, float]], positions: Sequence[tuple[int, float]], seconds: float
    ) -> Iterator[Logged]:
        """Each value with the last step that was logged up to its line."""
        number = 0
        for place, name, value in found:
            while number < len(positions) and positions[number][0] <= place:
                self._position = positions[number][1]
                number += 1
            yield Logged(name, seconds, value, self._position)
        if positions:
            self._position = positions[-1][1]

    def _warn_of(self, name: str, not_finite: Sequence[float]) -> None:
        if not_finite and name not in self._warned:
            self._warned.add(name)
            self.warnings.append(f"metric {name!r} was {not_finite[0]} in the log; such values are left out")

    def _warn_of_cut(self, name: str, read: Sequence[tuple[str, float]]) -> None:
        """Warn of a pattern such as [0-9.]+, which takes 4.9 of 4.9e-05."""
        if f"cut {name}" in self._warned:
            return
        for line, value in read:
            numbers = {float(whole[0]): whole for whole in _NUMBER.finditer(line)}
            cut = [whole[0] for whole in numbers.values() if whole[2] and float(whole[1]) == value]
            if cut and value not in numbers:
                self._warned.add(f"cut {name}")
                self.warnings.append(
                    f"metric {name!r} was read as {value} where the log has {cut[0]}. Let the group of its Regex take "
                    "the exponent, too: ([-+0-9.e]+)"
                )
                return


def _batches(lines: Sequence[str]) -> Iterator[list[str]]:
    """The lines that are not empty, in lists of about 64 KiB: the time limit holds for each."""
    batch: list[str] = []
    size = 0
    for line in filter(None, lines):
        if batch and size + len(line) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += len(line)
    if batch:
        yield batch


def _pattern(definition: Mapping[str, Any]) -> tuple[str, str]:
    name, regex = definition.get("Name"), definition.get("Regex")
    if not isinstance(name, str) or not isinstance(regex, str):
        raise UserError(f"MetricDefinitions has {dict(definition)!r:.80}. Allowed: Name and Regex, both text.")
    if len(regex) > _MAX_PATTERN:
        raise UserError(
            f"MetricDefinitions: the Regex of {name!r} has {len(regex):,} characters. Allowed: {_MAX_PATTERN}, as on "
            "the service."
        )
    try:
        re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(f"MetricDefinitions: the Regex of {name!r} cannot be read: {error} ({regex!r}).") from None
    return name, regex
