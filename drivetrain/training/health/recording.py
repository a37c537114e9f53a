"""The records of a training in a file, so that rules can be applied to them again.

<output>/health/records.jsonl     the names of what is recorded, then a record a line (record.py)
<output>/health/rules.json        the training's health_rules

It stays below a bound: when it is too long, every second record of the first half goes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.health.record import Names, Record, from_fields, to_line
from drivetrain.training.loop.appended import AppendedFile, records_until

FOLDER = "health"
RECORDS_FILE, RULES_FILE = "records.jsonl", "rules.json"
MOST_BYTES = 32 * 1024 * 1024
_VERSION = 1


class Recording:
    """Written on rank 0.

    Args:
        folder: `health` in the output folder.
        step: what is there of later steps is of an attempt that was cut off, and goes.
        rules: the training's `health_rules`.
    """

    def __init__(
        self, folder: Path, names: Names, step: int, *, rules: str = "{}", most_bytes: int = MOST_BYTES
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / RULES_FILE).write_text(rules, encoding="utf-8")
        self.path, self._most = folder / RECORDS_FILE, most_bytes
        self._head = json.dumps({"version": _VERSION, **asdict(names)}, separators=(",", ":"))
        self._write(_lines_until(self.path, self._head, step) if step else [])

    def add(self, record: Record) -> None:
        """
        Raises:
            OSError: there is no room.
        """
        line = to_line(record).encode() + b"\n"
        self._bytes += len(line)
        if self._bytes > self._most:
            self._file.close()
            lines = self.path.read_text(encoding="utf-8").splitlines()[1:]
            half = len(lines) // 2
            self._write([*lines[:half:2], *lines[half:]])
            self._bytes += len(line)
        self._file.append(line)

    def close(self) -> None:
        self._file.close()

    def _write(self, lines: list[str]) -> None:
        data = "".join(line + "\n" for line in [self._head, *lines]).encode()
        temporary = self.path.with_suffix(".partial")
        temporary.write_bytes(data)
        temporary.replace(self.path)
        self._file, self._bytes = AppendedFile(self.path), len(data)


def read(path: Path) -> tuple[Names, Iterator[Record]]:
    """The names, and one record after the other.

    Raises:
        InputError: it is no such file; from the iterator, too, with the line.
    """
    lines = enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1)
    try:
        names = _names(json.loads(next(lines)[1]))
    except (StopIteration, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is no recording of ours: its first line does not name what is recorded.") from None
    return names, _records(path, names, lines)


def rules_of(folder: Path) -> str:
    """The `health_rules` of the training that was recorded there; those of nobody where it does not say."""
    path = folder / RULES_FILE
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else "{}"


def _records(path: Path, names: Names, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
    for number, line in lines:
        try:
            yield from_fields(json.loads(line), names)
        except (ValueError, KeyError, TypeError, RecursionError, AttributeError) as error:
            raise InputError(
                f"{path}, line {number} is no record ({error}). Give a file that a training wrote."
            ) from None


def _names(head: Any) -> Names:
    if head["version"] != _VERSION:
        raise ValueError(head["version"])
    return Names(
        tensors=tuple(map(str, head["tensors"])),
        matrices=tuple(map(bool, head["matrices"])),
        layers=tuple(map(str, head["layers"])),
        num_classes=int(head["num_classes"]),
        num_ranks=int(head["num_ranks"]),
        scaled=bool(head["scaled"]),
        of_table=bool(head.get("of_table")),
    )


def _lines_until(path: Path, head: str, step: int) -> list[str]:
    """The records of an earlier attempt up to `step`; none where other things were recorded (another strategy)."""
    if not path.is_file():
        return []
    first, *lines = path.read_text(encoding="utf-8", errors="replace").splitlines() or [""]
    return records_until(lines, step) if first == head else []
