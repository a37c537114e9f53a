"""The checkpoints of a training, as its loop uses them.

    with Checkpointer(open_place(folder), process) as checkpoints:
        values = checkpoints.load_newest(strategy)       # None: a fresh start
        ...
        checkpoints.save(step, {...}, strategy)          # returns when the tensors are copied; a thread does the rest
        checkpoints.wait()                               # until it is durable, where that matters

Every rank calls the same methods. No rank ever holds more than its own part.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.lock import Lock
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer
from drivetrain.training.checkpointing.tensors.loading import GENERATORS, Check, Loaded, Vote
from drivetrain.training.checkpointing.tensors.pieces import Piece
from drivetrain.training.checkpointing.tensors.plans import share_out
from drivetrain.training.checkpointing.tensors.rank_file import RankFile, file_name
from drivetrain.training.checkpointing.tensors.shared_folder import first_ranks
from drivetrain.training.checkpointing.tensors.writing import Job, Writer
from drivetrain.training.framework import Framework
from drivetrain.training.launch.processes.heartbeat import beat
from drivetrain.training.problem import Problem
from drivetrain.training.process import Process
from drivetrain.training.strategy import Strategy

# How long a wait for the disk counts as getting on. Afterwards the launcher may see that this process hangs.
PATIENCE = 600.0
# How long the end of a training that failed waits for the checkpoint that is being written.
GRACE = 2.0


@dataclass(frozen=True, kw_only=True)
class CheckpointOptions:
    """How checkpoints are kept."""

    asynchronous: bool = True
    """Write in a thread while training goes on."""
    retention: Retention = field(default_factory=Retention)
    """The rule that says which checkpoints stay."""
    lock: bool = True
    """Refuse a second training in the same place."""
    seed: int = 0
    """The seed of generators after a restart on another number of processes."""


class Checkpointer:
    """See the module. Making one takes part in a collective, and takes the lock of the place.

    Attributes:
        stall_seconds: how long the last save kept this rank from training.
        durable_seconds: how long it took until the last checkpoint was durable.

    Raises:
        InputError: another run keeps its checkpoints there, or the place cannot be written.
        AwayError: the place is a service that does not answer.
    """

    def __init__(
        self,
        place: Place,
        process: Process,
        *,
        options: CheckpointOptions | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.place, self.process, self.options = place, process, options or CheckpointOptions()
        self.say = say if process.is_main else _nothing
        self.exchange = process.group.twin()
        self.folders = first_ranks(place, self.exchange)
        self.keeps_folder = self.folders[process.rank] == process.rank
        self._lock = self._take_lock() if self.options.lock else None
        self.store = Store(place, shared=len(set(self.folders)) == 1, fence=self._lock)
        self._writer = Writer(self.store, self.exchange, self.folders, self.options.retention, self.say)
        self.stall_seconds = self.durable_seconds = 0.0
        self._thread: threading.Thread | None = None
        self._durable = True
        self._failure: BaseException | None = None
        self._file: RankFile | None = None
        self._buffer: HostBuffer | None = None
        self._views: Any = None
        self._signature: dict[str, Any] = {}
        self._has_best = False

    def load_newest(
        self, strategy: Strategy, *, best: dict[str, Any] | None = None, check: Check | None = None
    ) -> dict[str, Any] | None:
        """Load the newest checkpoint that is whole on all ranks; damaged ones are quarantined, with a report.

        Args:
            strategy: gets the model's, the optimizer's and the average's state.
            best: gets this rank's parts of the best model so far, if there was one.
            check: is given the values before anything is loaded, and may refuse them with an InputError.

        Returns:
            The values of `save`, with "strategy"; None where there is no checkpoint: the strategy is as it was.

        Raises:
            InputError: it is of another training; or some rank cannot read what it needs, of any checkpoint.
            AwayError: the place is a service that does not answer.
        """
        vote = Vote(self.store, self.exchange, self.folders, self.say)
        with beating():
            loaded = vote.newest(strategy, check)
            if self.keeps_folder:
                try:
                    self.store.clean()
                except OSError as error:  # what does not count is in nobody's way
                    self.say(f"old files stay in {self.place.uri}: {error}")
        if loaded is None:
            return None
        self.say(f"resuming from {self.place.uri}/{loaded.folder}")
        found = adopt(loaded, strategy, self.process, self.options.seed, self.say)
        if best is not None:
            best.clear()
            best.update(found)
        return loaded.values

    def save(
        self,
        step: int,
        values: dict[str, Any],
        strategy: Strategy,
        *,
        best: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        finished: bool = False,
    ) -> None:
        """Save the state after `step`; returns when it is copied. A save that is still being written is waited for.

        Where it cannot be written (a full disk, on any rank) a line says so, and the checkpoint before it stands.

        Args:
            values: plain JSON; rank 0's is kept.
            strategy: whose tensors are kept.
            best: this rank's parts of the best model so far (its framework's `model_parts`).
            metrics: by which retention finds the best checkpoints.
            finished: the training is over.

        Raises:
            InputError: the optimizer keeps what cannot be saved.
            RuntimeError: another rank is lost; or this one has lost the place to another run.
        """
        started = time.monotonic()
        self.wait()
        strategy.settle()  # as the next step would: then all replicas are equal, and any may write them
        framework = strategy.framework
        tensors = framework.tensors_of(strategy, best)
        prefix = f"{GENERATORS}{self.process.rank:05d}/"
        tensors |= {prefix + name: state for name, state in framework.generator_states(self.process.device).items()}
        tensors = framework.parts(tensors)
        file, buffer = self._prepare(framework, tensors, has_best=bool(best))
        framework.copy_all(self._views, [tensors[place.name] for place in file.places])
        described = {
            "consumed": values.get("consumed"),
            "epoch": values.get("epoch"),
            "world_size": self.process.world_size,
            "folders": len(set(self.folders)),
            "strategy": {"name": strategy.name, **strategy.layout.degrees},
            "config": values.get("config", {}),
            **({"watch": values["watch"]} if "watch" in values else {}),
            "finished": finished,
            "metrics": dict(metrics or {}),
        }
        job = Job(
            step,
            json.loads(json.dumps(values, allow_nan=False)),
            framework.values_of(strategy) if framework.speaks_for_stage(strategy) else None,
            described,
            file,
            buffer,
            started,
        )
        self._durable = False
        self._thread = threading.Thread(target=self._write, args=(job,), name="checkpoint", daemon=True)
        self._thread.start()
        if not self.options.asynchronous:
            self.wait()
        self.stall_seconds = time.monotonic() - started

    @property
    def is_writing(self) -> bool:
        """True if the last save is not durable yet."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> bool:
        """Return when the last save is durable; False where it failed, which has been said.

        Raises:
            RuntimeError: another rank is lost; or this one has lost the place to another run.
        """
        if self._thread is not None:
            patient_until = time.monotonic() + PATIENCE
            while self._thread.is_alive():
                self._thread.join(0.2)
                if time.monotonic() < patient_until:
                    beat()
            self._thread = None
        if self._failure is not None:
            raise RuntimeError(f"no more checkpoints can be saved: {self._failure}") from self._failure
        return self._durable

    def close(self) -> None:
        """Wait for the last save and release the place. Must be called: a process may end without running
        destructors."""
        try:
            self.wait()
        finally:
            self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or kind is SystemExit:
            self.close()
            return
        # A peer may be gone that the thread waits for. What it has not committed does not count.
        if self._thread is not None:
            self._thread.join(GRACE)
        if self._thread is None or not self._thread.is_alive():
            self._leave()

    def _prepare(self, framework: Framework, tensors: dict[str, Any], *, has_best: bool) -> tuple[RankFile, HostBuffer]:
        """The layout of this rank's file. Ranks plan together at the first save, and when there is a best model for
        the first time; entries that an optimizer makes later on a rank are added to what it writes, without asking."""
        signature = {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()}
        name = file_name(self.process.rank, self.process.world_size)
        if self._file is None or has_best != self._has_best:
            self._file = RankFile(name, share_out(_held(framework, tensors), self.exchange, self.folders))
        elif signature != self._signature:
            same = {name for name, what in signature.items() if self._signature.get(name) == what}
            kept = [piece for piece in self._file.pieces if piece.held_as in same]
            new = {name: tensor for name, tensor in tensors.items() if name not in same}
            self._file = RankFile(name, [*kept, *_held(framework, new)])
        elif self._buffer is not None:
            return self._file, self._buffer
        self._signature, self._has_best = signature, has_best
        if self._buffer is None or self._buffer.size < self._file.size:
            self._release_buffer()
            self._buffer = HostBuffer(self._file.size, pin=framework.pin_of(self.process.device))
        self._file.write_header(self._buffer)
        self._views = framework.views(self._buffer, self._file.places)
        return self._file, self._buffer

    def _write(self, job: Job) -> None:
        """In the thread."""
        try:
            problem = self._writer.write(job)
        except BaseException as error:  # whatever it is, the main thread is told
            self._failure = error
            return
        self.durable_seconds = time.monotonic() - job.started
        self._durable, self._failure = not problem, self._writer.lost
        if problem:
            self.say(
                f"checkpoint {job.step} could not be saved: {problem}. Training continues; the one before it remains."
            )

    def _take_lock(self) -> Lock | None:
        lock = Lock(self.place) if self.keeps_folder else None

        def take() -> Problem | None:
            if lock is None:
                return None
            try:
                lock.acquire()
            except (InputError, DamagedError) as error:
                return Problem(str(error))
            except OSError as error:
                text = f"{self.place.uri} cannot keep checkpoints: {error}. Give a place that can be written."
                return Problem.of(error, text)
            return None

        problem = self.exchange.meanwhile(take)
        answers = self.exchange.gather_json([problem, lock.term if lock is not None else 0])
        if found := next((each for each, _ in answers if each), None):
            if lock is not None and not problem:
                lock.release()
            raise Problem(*found).raised()
        if lock is not None:
            lock.raise_term(max(term for _, term in answers))  # folders are named after it: on all hosts alike
        return lock

    def _leave(self) -> None:
        self._release_buffer()
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _release_buffer(self) -> None:
        self._views = None
        if self._buffer is not None:
            self._buffer.release()
            self._buffer = None


def adopt(
    loaded: Loaded, strategy: Strategy, process: Process, seed: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Set the strategy's tensors and this rank's generators; returns this rank's parts of the best model so far."""
    framework = strategy.framework
    best = framework.adopt(strategy, loaded.tensors, loaded.values["strategy"])
    prefix = f"{GENERATORS}{process.rank:05d}/"
    states = {n.removeprefix(prefix): state for n, state in loaded.tensors.items() if n.startswith(prefix)}
    if states:
        if said := framework.restore_generators(states, process.device):
            say(said)
        return best
    was = loaded.manifest.values.get("world_size")
    say(f"random numbers are seeded anew: {was} processes wrote the checkpoint, now {process.world_size} run")
    framework.seed_everything(seed, process.rank, loaded.manifest.step)
    return best


def _held(framework: Framework, tensors: Mapping[str, Any]) -> list[Piece]:
    """The pieces that this rank could write."""
    pieces = [framework.piece_of(name, tensor) for name, tensor in tensors.items()]
    return [piece for piece in pieces if not piece.is_nothing]


@contextmanager
def beating() -> Generator[None]:
    """Count reading and writing inside the block as progress, for at most `PATIENCE` seconds."""
    over = threading.Event()

    def keep_beating() -> None:
        until = time.monotonic() + PATIENCE
        while not over.wait(0.5) and time.monotonic() < until:
            beat()

    thread = threading.Thread(target=keep_beating, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _nothing(line: str) -> None:
    """Print nothing: the lines for people are the first rank's."""
