"""Work through the trials of a family in a few processes, and keep count."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import multiprocessing.connection
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from drivetrain.processes.process_table import descendants, send
from tests.faults.harness.families import Family
from tests.faults.harness.line import Line
from tests.faults.harness.progress import Made, Progress
from tests.faults.harness.worker import work

_PREFIX = "drivetrain-faults-"
_TRIALS_EACH = 4


@dataclass
class _Worker:
    process: Any
    connection: Connection
    lifeline: Connection
    scratch: Path
    at: int | None = None  # the trial that it makes; None while it prepares, or has nothing to do
    since: float = field(default_factory=time.monotonic)


class PreparationError(Exception):
    """A family could not set up what its trials need."""


@contextlib.contextmanager
def scratch_folder() -> Generator[Path]:
    """A folder that is removed afterwards, as are those that killed campaigns left."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{_PREFIX}[0-9]*-*"):
        pid = left.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            shutil.rmtree(left, ignore_errors=True)  # another campaign may be at it, too
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def forkserver(families: Sequence[Family]) -> Any:
    """The context of workers: forked from one process that has imported what the families need, which takes seconds."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(sorted({name for family in families for name in family.preload}))
    return context


def run(
    family: Family,
    progress: Progress,
    context: Any,
    scratch: Path,
    kept: Path,
    line: Line,
    *,
    only: int | None = None,
    until: float = math.inf,
) -> None:
    """Make the trials that `progress` lacks, or `only` one of them; none begins after `until` (time.monotonic).

    Raises:
        PreparationError: with the reason.
    """
    assert progress.seed is not None
    waiting = list(reversed(progress.missing)) if only is None else [only]
    workers: list[_Worker] = []
    started = 0
    if time.monotonic() >= until:
        return

    def start() -> None:
        nonlocal started
        ours, theirs = context.Pipe()
        lifeline, held = context.Pipe(duplex=False)
        place = scratch / f"{family.name}-{started}"
        started += 1
        process = context.Process(target=work, args=(family.name, progress.seed, place, kept, theirs, lifeline))
        process.start()
        theirs.close()
        lifeline.close()
        workers.append(_Worker(process, ours, held, place))

    try:
        # A process prepares for itself, which a few trials are not worth.
        for _ in range(min(family.at_once, math.ceil(len(waiting) / _TRIALS_EACH))):
            start()
        while workers:
            ready = multiprocessing.connection.wait([worker.connection for worker in workers], timeout=1.0)
            now = time.monotonic()
            if now >= until:
                waiting.clear()
            for worker in list(workers):
                if worker.connection in ready:
                    try:
                        answer = worker.connection.recv()
                    except EOFError:
                        answer = "its process died"
                    if isinstance(answer, Made):
                        progress.add(answer)
                    elif answer is not None and worker.at is None:
                        raise PreparationError(answer)
                    elif answer is not None:
                        progress.add(Made(worker.at or 0, round(now - worker.since, 3), {}, [answer]))
                        end(worker.process)
                        workers.remove(worker)
                        if waiting:
                            start()
                        continue
                    worker.at, worker.since = (waiting.pop() if waiting else None), now
                    worker.connection.send(worker.at)
                    if worker.at is None:
                        worker.process.join()
                        workers.remove(worker)
                elif now - worker.since > family.patience_s:
                    end(worker.process)
                    workers.remove(worker)
                    if worker.at is None:
                        raise PreparationError(f"not done after {family.patience_s:.0f} s")
                    _keep(worker, family, progress, kept)
                    text = f"it hangs: not done after {family.patience_s:.0f} s"
                    progress.add(Made(worker.at, round(now - worker.since, 3), {}, [text]))
                    if waiting:
                        start()
            line.show(family, progress)
    finally:
        for worker in workers:
            end(worker.process)


def _keep(worker: _Worker, family: Family, progress: Progress, kept: Path) -> None:
    folder, target = worker.scratch / f"trial-{worker.at}", kept / f"{family.name}-{progress.seed}-{worker.at}"
    if folder.exists():
        shutil.rmtree(target, ignore_errors=True)
        kept.mkdir(parents=True, exist_ok=True)
        shutil.move(folder, target)


def end(process: Any) -> None:
    """SIGKILL a worker and all that it started."""
    below = descendants(process.pid)
    process.kill()
    for pid in below:
        send(pid, signal.SIGKILL)
    process.join()
