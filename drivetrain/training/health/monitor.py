"""The loop's view of health: time the steps, record them, ask the rules, and do what they demand.

    with open_health(config, strategy, ...) as health:      # opening.py
        for batch in health.timed(batches):
            if step >= health.due:
                health.before_step(step)
            result = strategy.train_step(...)
            health.took(step, result, ...)  # `stops` then says on all ranks that the training is to end
            ...
        health.finish()

Every rank calls the same methods at the same steps. Of most steps nothing is recorded, and each call takes microseconds
of them: hence `due`.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from drivetrain.training import trees
from drivetrain.training.config import Config
from drivetrain.training.errors import StoppedError
from drivetrain.training.framework import Watcher
from drivetrain.training.health import clock as phases
from drivetrain.training.health.cadence import Cadence
from drivetrain.training.health.clock import Clock
from drivetrain.training.health.flight import COLUMNS, FlightRecorder
from drivetrain.training.health.flight import FOLDER as FLIGHT_FOLDER
from drivetrain.training.health.record import PHASES, RANK_COLUMNS, Floats, Names, Record
from drivetrain.training.health.recording import FOLDER, Recording
from drivetrain.training.health.rule import Finding, load_rules, see
from drivetrain.training.health.summary import Summary
from drivetrain.training.health.vector import Own, Vectors, joined
from drivetrain.training.health.verdict import seconds_of_steps
from drivetrain.training.launch.machine import Accelerator, resident, samples
from drivetrain.training.loop.journal import Journal
from drivetrain.training.process import Process
from drivetrain.training.strategy import Strategy

T = TypeVar("T")
_DATA, _FORWARD, _QUEUED = (COLUMNS.index(name) for name in ("data", "forward", "queued"))


class _Taken(NamedTuple):
    """This rank's sums of a step, on their way from the device; `full` with tensors."""

    own: Own
    full: bool
    sums: Callable[[], tuple[Floats, Floats]] | None


class _Reducing(NamedTuple):
    """A reduction over all ranks that is under way."""

    own: Own
    full: bool
    vector: Floats
    finish: Callable[[], None]


class Health:
    """See the module.

    Args:
        output: gets health/; None keeps nothing.
        num_classes: of labels that are classes, else 0.
        truth: takes these labels out of a tree of targets.

    Attributes:
        stops: the finding for which all ranks are to save and end, once there is one.
        due: nothing is recorded before this step.

    Raises:
        InputError: `health_rules` that cannot be.
    """

    def __init__(
        self,
        config: Config,
        strategy: Strategy,
        process: Process,
        output: Path | None,
        journal: Journal,
        num_classes: int,
        truth: Callable[[Any], Any] | None = None,
    ) -> None:
        self._process, self._strategy, self._journal = process, strategy, journal
        self._folder = output / FOLDER if output else None
        self._truth, self._rules = truth, load_rules(config.health_rules)
        self._bound, self._given_rules = config.health_cost, config.health_rules
        self._clock = Clock()
        self._watcher: Watcher | None = strategy.framework.watcher(strategy, self._clock)
        self._group = process.group.twin(config.collective_timeout)
        own = Names(num_classes=num_classes)
        if self._watcher:
            watcher = self._watcher
            own = Names(
                tensors=watcher.tensors,
                matrices=watcher.matrices,
                layers=watcher.layers,
                num_classes=num_classes,
                scaled=watcher.is_scaled,
            )
        names = joined([Names(**given) for given in self._group.gather_json(asdict(own))])
        self._vectors = Vectors(names, own, process.rank)
        # A float of a number on a GPU would wait for it, so the sum stays there.
        self._on_host = strategy.framework.device_kind(process.device) == "cpu"
        self._flight, self._recording = FlightRecorder(None, process.rank), None
        self._to_time_of_day = time.time() - self._clock.last
        tells = self._watcher is not None and self._watcher.tells_phases
        self._last_phase = phases.OPTIMIZER if tells else phases.COMPUTE
        self._note_last = self._clock.noting(self._last_phase)
        self.summary = Summary(self._rules, self._folder if process.is_main else None)
        self.stops: Finding | None = None
        self._taken: _Taken | None = None
        self._reducing: _Reducing | None = None
        self._is_full = self._records = False
        self._nonfinite_step = self._step = 0
        self._idle: deque[float] = deque(maxlen=9)
        self._accelerator, self._cadence = Accelerator(), Cadence(self._bound)
        self.due = self._cadence.due

    def begin(self, step: int) -> None:
        """Steps are taken from here on, `step` of them are behind us."""
        self._cadence, self._step = Cadence(self._bound, step), step
        self.due = self._cadence.due
        if self._folder is not None:
            with self._complaining():
                self._flight = FlightRecorder(self._folder / FLIGHT_FOLDER, self._process.rank)
            if self._process.is_main:
                with self._complaining():
                    self._recording = Recording(self._folder, self._vectors.names, step, rules=self._given_rules)
        self._clock.restart()
        self._start_anew()

    # Around each step.

    def timed(self, batches: Iterable[T]) -> Iterator[T]:
        """The batches; what they are waited for is noted."""
        iterator, now = iter(batches), self._clock.now
        note_other, note_data = self._clock.noting(phases.OTHER), self._clock.noting(phases.DATA)
        while True:
            note_other((phases.OTHER, now()))
            try:
                batch = next(iterator)
            except StopIteration:
                return
            note_data((phases.DATA, now()))
            yield batch

    def before_step(self, step: int) -> None:
        """A step is about to be taken that may be recorded (`due`)."""
        # (One at a time: what a GPU has summed up is fetched a step later, and must not be written over before.)
        if self._taken is not None or not self._cadence.records(step):
            return
        self._records, self._is_full = True, self._cadence.sums_tensors(step)
        self._cadence.begins(step, full=self._is_full)
        if self._is_full and self._watcher:
            self._watcher.begin()

    def took(
        self,
        step: int,
        loss: Any,
        batch: Any,
        *,
        consumed: int,
        num_samples: int,
        weight: Any,
        learning_rate: float,
        factor: float,
    ) -> None:
        """A step was taken: note it, and ask the rules as soon as what they look at has come together.

        Args:
            loss: the sum of this rank's losses, a scalar of the framework; where that is on the host, a float.
            batch: this rank's part, on the host.
            num_samples: of its samples, how many count.
            weight: what the samples of the global batch weigh together, a number or a scalar of the framework.
        """
        clock, watcher = self._clock, self._watcher
        self._note_last((self._last_phase, clock.now()))
        seconds = clock.seconds
        self._loss, self._weight, self._factor = self._loss + loss, self._weight + weight, factor
        self._step = step
        now, known = self._to_time_of_day + clock.last, loss if self._on_host else math.nan
        self._flight.add(step, consumed, now, learning_rate, known, num_samples, *seconds, clock.queued)
        if watcher and watcher.nonfinite and not self._nonfinite_step:
            self._nonfinite_step = step
        if self._records:
            self._take(batch, num_samples)
        if self._taken is not None or self._reducing is not None:
            self._bring_together(step)

    def _bring_together(self, step: int) -> None:
        begun = time.perf_counter()
        if self._reducing is not None and self._reducing.own.step < step:
            self._come_together()
        taken = self._taken
        # On a GPU the sums are waited for one step later, when they have long been there.
        if taken is not None and self._reducing is None and (self._on_host or taken.own.step < step):
            self._reduce(taken)
            if self._process.world_size == 1:
                self._come_together()
        self._cost += time.perf_counter() - begun

    def validated(self, step: int, metrics: Mapping[str, float]) -> None:
        """A validation is done; `metrics` are the same on all ranks."""
        self._look(Record(step=step, time=time.time(), validation=dict(metrics)))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """`validation` or `save`: what is done inside takes its time for that."""
        self._clock.mark(phases.OTHER)
        yield
        self._clock.mark(PHASES.index(name))
        self._saves += name == "save"

    def finish(self) -> None:
        """The training is over: let what is on its way come together, and say how it was."""
        self._settle()
        of_host = samples() if self._process.local_rank == 0 else []
        self.summary.machines = [one for one in self._group.gather_json(of_host) if one]
        self.summary.write(self._journal, self._cadence.share)
        self._journal.say(self.summary.describe(self._cadence.share))

    def why_not_finite(self) -> str:
        """The origin of the first number that is not finite, as far as some rank knows; else "". Every
        rank must ask for it."""
        self._settle()
        return self._reason()

    def _reason(self) -> str:
        own = self._watcher.nonfinite if self._watcher else ""
        said = self._group.gather_json([self._nonfinite_step, own])
        found = [(step, rank, text) for rank, (step, text) in enumerate(said) if text]
        if not found:
            return ""
        step, rank, text = min(found)
        return f"on rank {rank}{f' in step {step}' if step else ''} {text}"

    def state(self) -> dict[str, Any]:
        """The state for a later start."""
        return self.summary.state()

    def load_state(self, state: Mapping[str, Any]) -> None:
        self.summary.load_state(state)

    def about_model(self) -> dict[str, Any]:
        """For model.json."""
        return self.summary.about_model()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watcher:
            self._strategy.watcher = None  # type: ignore[attr-defined]
        if error is not None:
            with self._complaining():
                self._flight.ends(f"{type(error).__name__}: {error}")
            if kind is not StoppedError:
                self.summary.write(self._journal, self._cadence.share)
        self._flight.close()
        self._clock.close()
        if self._recording:
            self._recording.close()

    # From a step to a record.

    def _start_anew(self) -> None:
        self._loss, self._weight, self._factor, self._cost, self._saves = 0.0, 0.0, 1.0, 0.0, 0
        self._seconds, self._queued = np.array(self._clock.seconds), self._clock.queued
        self._starved = self._clock.in_queue()
        self._marked_step = self._step

    def _take(self, batch: Any, num_samples: int) -> None:
        begun = time.perf_counter()
        # What `took` has taken until now, and as much again for the marks that the step has set: each finds the caches
        # cold.
        self._idle.append(2 * (begun - self._clock.last))
        self._records = False
        full, watcher = self._is_full, self._watcher
        sums = None
        if full and watcher:
            sums = watcher.end()
            self._cost += watcher.seconds
        row = np.zeros(len(RANK_COLUMNS))
        row[: len(PHASES)] = np.array(self._clock.seconds) - self._seconds
        steps = self._step - self._marked_step
        shortest = _shortest(self._flight.last(steps)) if watcher is not None and watcher.computes_alone else 0.0
        used, queued = self._accelerator.utilisation(), self._clock.queued - self._queued
        starved = self._clock.in_queue() - self._starved
        row[len(PHASES) :] = steps, shortest, resident(), self._nonfinite_step, self._saves, used, queued, starved
        classes = self._classes(batch, num_samples) if full else None
        loss, weight, cost, factor = self._loss, self._weight, self._cost, self._factor
        self._start_anew()
        self._cost = time.perf_counter() - begun
        idle = median(self._idle)
        own = Own(self._step, steps, factor, loss, weight, row, cost, idle, time.time(), classes=classes)
        self._taken = _Taken(own, full, sums)

    def _classes(self, batch: Any, num_samples: int) -> Floats | None:
        number = self._vectors.names.num_classes
        if not number or not self._strategy.layout.counts:
            return None
        truth = batch.targets if self._truth is None else self._truth(batch.targets)
        if not trees.is_tensor(truth):
            return None
        targets = self._strategy.framework.array(truth)[:num_samples]
        if targets.ndim != 1 or targets.dtype.kind not in "iu":
            return None
        return np.bincount(targets, minlength=number)[:number].astype(np.float64)

    def _reduce(self, taken: _Taken) -> None:
        tensors, layers = taken.sums() if taken.sums else (None, None)
        known = {"tensors": tensors, "layers": layers}
        known |= {"loss": float(taken.own.loss), "weight": float(taken.own.weight)}
        own = Own(**{**vars(taken.own), **known})
        vector = self._vectors.to_vector(own, full=taken.full)
        self._taken = None
        self._reducing = _Reducing(own, taken.full, vector, self._group.start_sum(vector))

    def _come_together(self) -> None:
        assert self._reducing is not None
        own, full, vector, finish = self._reducing
        self._reducing = None
        finish()
        record, cost, idle = self._vectors.to_record(vector, own, full=full)
        assert record.ranks is not None
        seconds = seconds_of_steps(record.ranks)
        self._cadence.recorded(
            own.step,
            self._step,
            steps=max(float(record.ranks["steps"].mean()), 1.0),
            seconds=float(seconds.mean()),
            worked=float((seconds - record.ranks["data"]).mean()),
            cost=cost,
            idle=idle,
            full=full,
        )
        self.due = self._cadence.due
        self._look(record)

    def _settle(self) -> None:
        """Let everything that is on its way come together, on all ranks."""
        if self._reducing is not None:
            self._come_together()
        if self._taken is not None:
            self._reduce(self._taken)
            self._come_together()

    def _look(self, record: Record) -> None:
        if self._recording:
            with self._complaining():
                self._recording.add(record)
        for finding in see(self._rules, record):
            if finding.spoils and finding.rule not in self.summary.findings:
                why = self._reason()
                finding.text += f" ({why})" if why else ""
            if self.summary.add(finding):
                self._journal.finding(finding.step, finding.rule, finding.action, finding.describe())
            if finding.action == "stop" and self.stops is None:
                self.stops = finding
        self.summary.recorded(record)
        if record.tensors is not None:
            self._journal.scalars(record.step, self.summary.scalars(record))

    @contextmanager
    def _complaining(self) -> Iterator[None]:
        """A training that can go on is not to be lost for what is said about it."""
        try:
            yield
        except OSError as error:
            self._journal.say(f"health cannot be written to {self._folder} ({error.strerror}): training goes on.")


def _shortest(steps: Floats) -> float:
    """The least that one of the steps (rows of flight.py) took before the rank met others [s]."""
    return float((steps[:, _DATA] + steps[:, _FORWARD] - steps[:, _QUEUED]).min())
