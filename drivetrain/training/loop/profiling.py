"""Profile a few steps with the profiler of the framework.

<output>/profile/rank0-trace.json       for https://ui.perfetto.dev or chrome://tracing
<output>/profile/all-ranks-trace.json   the same of the first 16 ranks, one below the other, by their hosts' clocks
<output>/profile/rank0-operators.txt    the operators that took longest
<output>/profile/operators.json         the same, for the run's page
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.training.framework import Framework, Operator
from drivetrain.training.process import Process

FOLDER = "profile"
TRACE_FILE, MERGED_FILE = "rank0-trace.json", "all-ranks-trace.json"
TABLE_FILE, OPERATORS_FILE = "rank0-operators.txt", "operators.json"
# The first steps allocate, compile and warm up: they are not like the others.
SKIPPED_STEPS = 2
ROWS = 15
# The first ones: a trace takes a megabyte and more a rank.
MOST_RANKS = 16
# So many processes of one rank's trace, and numbers of its arrows, are told apart from those of the next.
_PROCESSES, _ARROWS = 1_000, 1 << 32


class Profile:
    """Records `num_steps` steps, from the third on; 0 records nothing and costs nothing. All ranks take their steps
    together.

    Raises:
        InputError: no folder to write to, or a framework without a profiler.
    """

    def __init__(self, framework: Framework, process: Process, output: Path | None, num_steps: int) -> None:
        if num_steps and output is None:
            raise InputError(f"profile={num_steps} has nowhere to write to. Give --output, or leave profile out.")
        self._folder = output / FOLDER if output and num_steps else None
        self._num_steps, self._process = num_steps, process
        self._on_gpu = framework.device_kind(process.device) != "cpu"
        self._seen, self._is_done = 0, False
        self._profiler = framework.profiler(process.device) if num_steps else None
        if num_steps and self._profiler is None:
            raise InputError(f"profile={num_steps}: {framework.name} has no profiler. Leave profile out.")
        if process.rank >= MOST_RANKS:
            self._profiler = None

    def step(self) -> None:
        """A step was taken."""
        if self._folder is None:
            return
        self._seen += 1
        if self._seen == SKIPPED_STEPS and self._profiler is not None:
            self._profiler.start()
        elif self._seen == SKIPPED_STEPS + self._num_steps:
            self._write(self._folder, together=True)

    def _write(self, folder: Path, *, together: bool) -> None:
        """`together`: all ranks come here, so that their traces can be merged."""
        if self._is_done or self._seen < SKIPPED_STEPS:
            return
        self._is_done = True
        process, trace = self._process, b""
        if self._profiler is not None:
            trace, found = self._profiler.stop()
            if process.is_main:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / TRACE_FILE).write_bytes(trace)
                self._write_operators(folder, longest(found))
        if together and process.world_size > 1:
            traces = process.group.to_main(gzip.compress(trace, 1) if trace else b"")
            if traces is not None:
                of_ranks = [json.loads(gzip.decompress(one)) for one in traces if one]
                (folder / MERGED_FILE).write_text(json.dumps(merged(of_ranks)), encoding="utf-8")

    def _write_operators(self, folder: Path, rows: Sequence[dict[str, Any]]) -> None:
        steps, on_gpu = self._seen - SKIPPED_STEPS, self._on_gpu
        table = operators(rows, on_gpu=on_gpu)
        (folder / TABLE_FILE).write_text(table + "\n", encoding="utf-8")
        said = {"steps": steps, "on_gpu": on_gpu, "operators": rows}
        (folder / OPERATORS_FILE).write_text(json.dumps(said) + "\n", encoding="utf-8")
        print(f"{steps} steps recorded in {folder / TRACE_FILE}; what took longest:\n{table}", flush=True)

    def __enter__(self) -> Profile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is None:
            return
        if error is None and self._process.is_main and self._seen <= SKIPPED_STEPS:
            print(
                f"profile={self._num_steps}: nothing was recorded. The first {SKIPPED_STEPS} steps are left out, and "
                f"there were {self._seen}.",
                flush=True,
            )
        # A training that ends early, also one that fails, has recorded what it did.
        self._write(self._folder, together=error is None)


def merged(traces: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Traces of ranks (Chrome's trace events) as one, whose processes are named by their rank."""
    first, events = traces[0], list[dict[str, Any]]()
    for rank, trace in enumerate(traces):
        numbers: dict[Any, int] = {}
        # Microseconds since the base, which is the same for all that start in the same months.
        later = (trace.get("baseTimeNanoseconds", 0) - first.get("baseTimeNanoseconds", 0)) / 1000
        for event in trace["traceEvents"]:
            pid = numbers.setdefault(event.get("pid"), rank * _PROCESSES + len(numbers) + 1)
            changed = {**event, "pid": pid}
            if "ts" in event and event["ph"] != "M":
                changed["ts"] = event["ts"] + later
            if isinstance(event.get("id"), int):
                changed["id"] = event["id"] + rank * _ARROWS
            if event.get("name") == "process_name":
                changed["args"] = {"name": f"rank {rank}: {event['args']['name']}"}
            if event.get("name") == "process_sort_index":
                changed["args"] = {"sort_index": pid}
            events.append(changed)
    return {**first, "traceEvents": events}


def longest(found: Iterable[Operator]) -> list[dict[str, Any]]:
    """The operators by their own time, longest first."""
    rows = sorted(found, key=lambda operator: operator.seconds, reverse=True)
    total = sum(operator.seconds for operator in rows) or 1.0
    return [
        {"name": name, "ms": 1000 * seconds, "share": seconds / total, "calls": calls}
        for name, seconds, calls in rows[:ROWS]
    ]


def operators(rows: Sequence[dict[str, Any]], *, on_gpu: bool) -> str:
    """`longest` as a table."""
    lines = [f"{'ms':>10} {'share':>6} {'calls':>7}  operator" + (" (GPU time)" if on_gpu else "")]
    lines += [f"{row['ms']:10.2f} {row['share']:6.1%} {row['calls']:7d}  {row['name'][:70]}" for row in rows]
    return "\n".join(lines)
