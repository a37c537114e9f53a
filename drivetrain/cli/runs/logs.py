"""The logs of a step, as they are or as they grow."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.run.options import masking_of

if TYPE_CHECKING:
    from drivetrain.run_store.model import StepRun
    from drivetrain.run_store.reader import Ledger

POLL_S = 0.2


class LinePrinter:
    """Prints lines of a log: as they are, of several hosts with whose each is; as JSON an object a line."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._hosts: set[str] = set()

    def __call__(self, host: str, text: str) -> None:
        self._hosts.add(host)
        if self.as_json:
            shown = json.dumps({"host": host, "text": text}, ensure_ascii=False)
        else:
            shown = f"{host}: {text}" if len(self._hosts) > 1 else text
        sys.stdout.write(f"{shown}\n")
        sys.stdout.flush()


def print_logs(
    ledger: Ledger,
    execution: str,
    step: str | None,
    *,
    attempt: int | None,
    follow: bool,
    num_lines: int | None,
    as_json: bool = False,
) -> None:
    """Print what a step's hosts have logged; with `follow`, go on until it ends.

    Raises:
        UserError: no such execution, step or attempt, or one that has no log.
    """
    run = ledger.execution(execution)
    row = ledger.step(run.id, step) if step is not None else _interesting(ledger, run.id)
    while row is None and follow and ledger.execution(run.id).status == "Executing":
        time.sleep(POLL_S)
        row = _interesting(ledger, run.id)
    if row is None:
        raise UserError(f"No step of {run.id} has a log. Name one: drivetrain runs logs {run.id} STEP")
    made_by = row.cache_of or run.id
    numbers = [item.number for item in ledger.attempts(made_by, row.name)]
    if attempt is not None and numbers and attempt not in numbers:
        raise UserError(f"Step {row.name!r} has no attempt {attempt}. Allowed: 1 to {numbers[-1]}.")

    def folder() -> Path:
        """The log folder of the wanted attempt; of the latest one if none is named."""
        latest = ledger.step(made_by, row.name).attempts or 1
        return ledger.home.logs(made_by, row.name, attempt or latest)

    def is_over() -> bool:
        ended = ledger.step(run.id, row.name).status not in ("Waiting", "Executing")
        return ended or ledger.execution(run.id).status != "Executing"

    if not any(folder().glob("*.log")) and (not follow or is_over()):
        raise UserError(f"Step {row.name!r} of {run.id} has no log: {_why_none(row)}.")
    if row.cache_of:
        print(f"(cached: the log of {made_by})", file=sys.stderr)
    without = masking_of(ledger.home.run(made_by)).message

    printed = LinePrinter(as_json=as_json)

    def write(host: str, line: bytes) -> None:
        printed(host, without(line.decode("utf-8", "replace")))

    over = False
    while not over:
        place = folder()
        with LogReader(place, num_lines, write) as reader:
            # Looked at before the last copy, so that nothing written before the end is missed.
            over = not follow or is_over()
            reader.copy()
            while not over and folder() == place:
                time.sleep(POLL_S)
                over = is_over()
                reader.copy()


def _interesting(ledger: Ledger, execution: str) -> StepRun | None:
    """The step that a person wants to read about: one that failed, one that runs, the last that has logged."""
    rows = ledger.steps(execution)
    for status in ("Failed", "Executing"):
        found = [row for row in rows if row.status == status and row.attempts]
        if found:
            return found[0]
    logged = [row for row in rows if any(ledger.home.logs(execution, row.name, row.attempts).glob("*.log"))]
    if not logged:  # no program was started: what the cache gave was logged by others
        cached = [row for row in rows if row.cache_of and _origin_has_log(ledger, row.cache_of, row.name)]
        return cached[-1] if cached else None
    begun = {attempt.step: place for place, attempt in enumerate(ledger.attempts(execution))}
    return max(logged, key=lambda row: begun.get(row.name, -1))


def _origin_has_log(ledger: Ledger, execution: str, step: str) -> bool:
    return any(ledger.home.logs(execution, step, ledger.step(execution, step).attempts or 1).glob("*.log"))


def _why_none(row: StepRun) -> str:
    if row.status in ("Waiting", "NotExecuted"):
        return "it has not run"
    return "it starts no program" if row.type in ("Condition", "Fail", "RegisterModel") else "nothing was written"


class LogReader:
    """Copies the logs of a folder, each time what is new: `write` is given the host and its line."""

    def __init__(self, folder: Path, num_lines: int | None, write: Callable[[str, bytes], object]) -> None:
        self.folder = folder
        self.num_lines = num_lines
        self._files: dict[str, BinaryIO] = {}
        self._rest: dict[str, bytes] = {}
        self._write = write

    def __enter__(self) -> LogReader:
        return self

    def __exit__(self, *_: object) -> None:
        for host, rest in self._rest.items():
            if rest:
                self._write(host, rest)
        for file in self._files.values():
            file.close()

    def copy(self) -> None:
        """Write what has come since the last call, whole lines only."""
        for path in sorted(self.folder.glob("*.log")):
            host = path.stem
            if host not in self._files:
                self._files[host] = path.open("rb")
                if self.num_lines is not None:
                    self._skip_to_last(self._files[host], self.num_lines)
            *whole, rest = (self._rest.get(host, b"") + self._files[host].read()).split(b"\n")
            self._rest[host] = rest
            for line in whole:
                self._write(host, line)

    @staticmethod
    def _skip_to_last(file: BinaryIO, num_lines: int) -> None:
        """Move to the start of the last lines."""
        starts: deque[int] = deque([0], maxlen=num_lines + 1)
        for line in file:
            starts.append(starts[-1] + len(line))
        file.seek(starts[0] if num_lines else starts[-1])
