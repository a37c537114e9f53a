"""Decides when checkpoints are saved and when a training stops in order, and records what each start did.

    with Saving(config, place, process, say=print) as saving:
        saved = saving.load_newest(strategy, best=best)
        saving.begin(step)                              # from here on SIGTERM is a request
        ...
            saving.took(step, position)                 # after each step: what is due, and whether to stop
            if saving.keeps and saving.is_due: saving.save(step, {...}, strategy)
            if saving.stops: saving.leave(step)

Every rank calls the same methods at the same steps. Without a place for checkpoints nothing is saved, and SIGTERM ends
a rank like any other process.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import leave_by
from drivetrain.training.checkpointing.attempts import Attempt, Record, exposure, process_age
from drivetrain.training.checkpointing.checkpointer import Checkpointer, CheckpointOptions
from drivetrain.training.checkpointing.interval import parse_every
from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.config import Config
from drivetrain.training.errors import StoppedError
from drivetrain.training.launch.cluster import positive
from drivetrain.training.launch.job import Options
from drivetrain.training.launch.processes.failure import is_lost_peer
from drivetrain.training.loop.agreement import Agreement
from drivetrain.training.loop.cadence import Cadence
from drivetrain.training.loop.continuing import publish_state
from drivetrain.training.loop.saved_state import check_state
from drivetrain.training.loop.setup import Position
from drivetrain.training.process import Process
from drivetrain.training.strategy import Strategy


class Saving:
    """See the module. Creating one takes the lock of the place.

    Args:
        greater_is_better: of the metric that is watched.

    Attributes:
        keeps: whether there is a place to keep anything in.
        is_due: whether a checkpoint is to be saved after this step.
        stops: whether all ranks leave after this step.

    Raises:
        InputError: another run keeps its checkpoints there, or the place cannot be written.
    """

    def __init__(
        self,
        config: Config,
        place: Place | None,
        process: Process,
        *,
        greater_is_better: bool = False,
        say: Callable[[str], None] = print,
    ) -> None:
        self._config, self._place, self._process, self._say = config, place, process, say
        self._stack = ExitStack()
        self._step, self._ends_epoch, self._saved_step, self._begun_step = 0, False, 0, 0
        self._measures = False  # a save is being written whose cost is not yet noted
        self._stop_window, self._has_warned = stop_window(os.environ), False
        self._quickest_save = math.inf  # in seconds: one that had to wait for its place says nothing
        self.keeps, self.is_due = place is not None, False
        self._record: Record | None = None
        self._agreement: Agreement | None = None
        self._cadence = Cadence(parse_every(config.checkpoint_every), mtbf_seconds=config.mtbf_hours * 3600)
        self._rehearsal = Rehearsal()
        self._checkpoints: Checkpointer | None = None
        if place is not None:
            retention = Retention(
                last=config.keep_last,
                best=config.keep_best_n,
                every_hours=config.keep_every_hours,
                metric=config.monitor,
                greater_is_better=greater_is_better,
            )
            options = CheckpointOptions(asynchronous=config.async_checkpoints, retention=retention, seed=config.seed)
            self._checkpoints = self._stack.enter_context(Checkpointer(place, process, options=options, say=say))

    def __enter__(self) -> Saving:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)
        if self._record:
            self._note_save()
            if kind is None:
                self._record.end("finished", self._step)
            elif kind is StoppedError:
                self._record.end("stopped", self._step)
            elif isinstance(error, Exception) and not is_lost_peer(error):
                self._record.end("failed", self._step)
        leave_by(math.inf)  # nothing is saved any more

    @property
    def stops(self) -> bool:
        return self._agreement is not None and self._agreement.stops

    def load_newest(self, strategy: Strategy, *, best: dict[str, Any]) -> dict[str, Any] | None:
        """See Checkpointer.load_newest; None, too, where nothing is kept.

        Raises:
            InputError: what the strategy has could not be kept.
        """
        if self._checkpoints is None:
            return None
        strategy.framework.values_of(strategy)  # which tells it before the first step, and on every rank
        return self._checkpoints.load_newest(strategy, best=best, check=check_state)

    def publish(self, folder: Path, given: Place | None) -> None:
        """Copy the newest checkpoint beside the model; each host copies its own files. If no step was taken, and so
        nothing saved, the `given` checkpoint is copied."""
        if (
            self._checkpoints is not None
            and self._checkpoints.keeps_folder
            and publish_state(self._checkpoints.place, folder, keeps_common=self._process.is_main)
        ):
            return
        if given is not None and self._process.is_main:
            publish_state(given, folder, keeps_common=True)

    def begin(self, step: int) -> None:
        """Steps begin; `step` of them have been taken before.

        Raises:
            StoppedError: all ranks were told to stop meanwhile.
        """
        if self._checkpoints is None or self._place is None:
            return
        self._step = self._saved_step = step
        timeout = self._config.collective_timeout
        self._agreement = Agreement(
            self._process, save_is_due=self._asks_for_save, timeout=timeout, on_stop=self._lose_patience
        )
        self._stack.enter_context(self._agreement)
        if self._process.is_main:
            self._record = Record(self._place, first_step=step, restart_seconds=process_age(), say=self._say)
            self._cadence = Cadence(
                self._cadence.every,
                mtbf_seconds=self._config.mtbf_hours * 3600,
                seen=exposure(self._record.earlier),
                measured=_measured(self._record.earlier),
            )
        self._agreement.now()
        self.is_due = False
        if self.stops:
            self.leave(step)

    def took(self, step: int, position: Position) -> None:
        """A step was taken. Before a validation and at the end of an epoch, which take long, all ranks are asked."""
        agreement = self._agreement
        if agreement is None:
            return
        self._step, self._ends_epoch = step, position.ends_epoch
        if step == self._rehearsal.step:
            if self._process.is_main:
                self._rehearsal.wait(lambda: agreement.is_told)
            agreement.now()
        elif position.ends_epoch or position.validates:
            agreement.now()
        else:
            agreement.step()
        keeps_best = position.validates and self._config.keep_best_n > 0
        known = position.ends or keeps_best or self._cadence.falls_on(step, ends_epoch=position.ends_epoch)
        self.is_due = known or agreement.saves or agreement.stops

    def evaluated(self) -> bool:
        """A validation batch was evaluated; returns whether to stop validating."""
        if self._agreement is not None:
            self._agreement.step()
            self.is_due = self.is_due or self._agreement.saves or self._agreement.stops
        return self.stops

    def validated(self) -> None:
        """The validation has ended; steps follow."""
        if self._agreement is not None:
            self._agreement.restart()
            self.is_due = self.is_due or self._agreement.stops
            self._cadence.restart()

    def save(
        self,
        step: int,
        values: dict[str, Any],
        strategy: Strategy,
        *,
        best: Mapping[str, Any],
        metrics: Mapping[str, float],
        finished: bool,
    ) -> None:
        """See Checkpointer.save. The last one, and one before leaving, is durable when this returns."""
        assert self._checkpoints is not None
        self._checkpoints.wait()
        self._note_save()
        self._cadence.begins()
        self._begun_step = step
        self._checkpoints.save(step, values, strategy, best=best, metrics=metrics, finished=finished)
        self._measures, self.is_due = True, False
        if (finished or self.stops) and not self._checkpoints.wait():
            return
        self._saved_step = step

    def leave(self, step: int) -> NoReturn:
        """End the training in order, on all ranks.

        Raises:
            StoppedError: always.
        """
        if not step:
            what = "before the first step: there is nothing to save yet"
        elif self._saved_step == step:
            what = f"at step {step}, which is saved"
        else:
            what = f"at step {step}, which could not be saved: an earlier checkpoint remains"
        self._say(f"stopped by SIGTERM {what}")
        raise StoppedError(f"stopped by SIGTERM {what}")

    def _lose_patience(self) -> None:
        """A place that is away is waited for as long as a save can still be made in the window."""
        save = 0.0 if math.isinf(self._quickest_save) else self._quickest_save
        leave_by(time.monotonic() + max(0.0, self._stop_window - save))

    def _asks_for_save(self) -> bool:
        """Return True if a save is due; called on rank 0 at every exchange of the ranks."""
        assert self._checkpoints is not None and self._record is not None
        if self._measures and not self._checkpoints.is_writing:
            self._note_save()
        self._cadence.reached(self._step, is_writing=self._checkpoints.is_writing)
        self._record.reached(self._step)
        return self._cadence.is_due(ends_epoch=self._ends_epoch)

    def _note_save(self) -> None:
        """Write down what the last save cost, once it is known."""
        if not self._measures or self._checkpoints is None:
            return
        self._measures = False
        stall, durable = self._checkpoints.stall_seconds, self._checkpoints.durable_seconds
        self._cadence.saved(stall, durable)
        self._quickest_save = min(self._quickest_save, durable)
        if durable > self._stop_window and not self._has_warned:
            self._has_warned = True
            self._say(
                f"a save took {durable:.0f} s, but a machine that is taken away leaves only {self._stop_window} s for "
                "the last one: it will be incomplete, and the next start resumes from the one before. Save more often "
                "(checkpoint_every), to a faster disk, or from more hosts (fsdp), where each writes a part."
            )
        if self._record:
            self._record.saved(self._step, stall, durable, of_step=self._begun_step)


def stop_window(environment: Mapping[str, str]) -> int:
    """Seconds from SIGTERM to SIGKILL for processes, by launch/job.py."""
    return positive(environment, "DRIVETRAIN_STOP_TIMEOUT", default=Options.stop_timeout)


def _measured(attempts: list[Attempt]) -> tuple[float, float] | None:
    """Stall and time until durable of a save, in seconds, from the last attempt that saved."""
    last = next((attempt for attempt in reversed(attempts) if attempt.saves), None)
    return (last.stall_seconds / last.saves, last.save_seconds / last.saves) if last else None


STEP, FILE = "DRIVETRAIN_REHEARSE_STEP", "DRIVETRAIN_REHEARSE_FILE"
# After this the simulated interruption is given up.
PATIENCE_SECONDS = 20.0


class Rehearsal:
    """Simulates an interruption: the training waits at `step`, on every rank, for the signal; 0 for none.

        DRIVETRAIN_REHEARSE_STEP=120     after this step the first rank makes the file and waits
        DRIVETRAIN_REHEARSE_FILE=/...    once it is there, no later start waits again

    The local runner (`drivetrain run ... --interrupt "train@step=120"`) watches for the file and sends the signal.

    Raises:
        InputError: a step that is no number, or no file.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        text, file = environment.get(STEP, ""), environment.get(FILE, "")
        if text and not (text.isascii() and text.isdigit() and file):
            raise InputError(f"{STEP}={text!r} and {FILE}={file!r}; give the number of a step, and a file to make.")
        self.step, self.file = int(text or 0), Path(file)

    def wait(self, is_told: Callable[[], bool], *, patience: float = PATIENCE_SECONDS) -> None:
        """Say that the step has been taken, and wait for the signal; on the first rank, at the step."""
        try:
            self.file.touch(exist_ok=False)
        except FileExistsError:
            return
        deadline = time.monotonic() + patience
        while not is_told() and time.monotonic() < deadline:
            time.sleep(0.005)  # a handler runs between two of them; what it must not do is take a lock
