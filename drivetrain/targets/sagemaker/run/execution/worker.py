"""Runs one step in a thread: attempts, retries, and moving its outputs to their places.

What a job prints is masked as it is written (processes/scribe.py). An attempt's logs are masked once more, for
what others write to a log, and for a secret of a name that only the end of a step made known.
"""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.base.errors import ERROR, UserError
from drivetrain.base.masking import MASK, SAID, Masking
from drivetrain.base.records import dataclass
from drivetrain.processes.supervised import FAILURE_FILES, mask_files, mask_logs
from drivetrain.run_store.durable import DiskFullError, go_on, make_durable, no_space
from drivetrain.run_store.events import Event, StepFinished, StepRetrying, StepStarted, StepStatus
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, stored
from drivetrain.run_store.schema import LedgerFullError, Move, ObjectEntry
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import Retry, StepNode
from drivetrain.targets.sagemaker.run.execution import StepFailedError, StepStoppedError, for_run
from drivetrain.targets.sagemaker.run.execution.context import Control, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.job_data import STAGE
from drivetrain.targets.sagemaker.run.options import Options
from drivetrain.targets.sagemaker.run.step_types import find


def _mask_failures(hosts: Path, masking: Masking) -> None:
    """Rewrite what the programs wrote for the platform of why they failed, where it holds a secret."""
    found = [path for name in FAILURE_FILES for path in hosts.glob(f"*/{name}")]
    mask_files([path for path in found if path.is_file() and not path.is_symlink()], masking)


def _masked_words(folder: Path, reason: str | None = None) -> str | None:
    """Say where secrets of a step were masked: in a log below the folder, which says so at its end, or in its reason;
    None if in neither."""
    said = SAID.encode()
    for log in folder.rglob("*.log"):
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - len(said)))
            if file.read() == said:
                return "secrets masked in its log"
    return "secrets masked in its reason" if reason and MASK in reason else None


# Data that this user may not read, names that no file can have: the step's trouble, not the runner's.
_REFUSALS = frozenset((errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR))


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a step ended; `fatal` is what ends the whole run."""

    step: StepNode
    status: StepStatus
    response: Mapping[str, Any]
    reason: str | None = None
    fatal: BaseException | None = None


@dataclass(frozen=True, kw_only=True)
class Worker:
    """Runs steps of one execution; `post` hands events and ends to the main thread."""

    facts: Facts
    home: Home
    store: ObjectStore
    options: Options
    ledger: LedgerWriter
    control: Control
    post: Callable[[Event | Done], None]

    def run(self, step: StepNode, arguments: Mapping[str, Any], fields: Mapping[str, Any], number: int) -> None:
        """Run a step, whose first attempt the ledger has, to its end, and post it. Raises nothing."""
        try:
            done = self._attempts(step, arguments, fields, number)
        except BaseException as error:
            # Not hidden: the main thread raises it once the other steps have been stopped.
            done = Done(step=step, status="Failed", response={}, fatal=error)
        self.post(done)

    def _attempts(self, step: StepNode, arguments: Mapping[str, Any], fields: Mapping[str, Any], number: int) -> Done:
        retries = Retries(step.retry_policies)
        while True:
            context = self.context(step, arguments, fields, number)
            try:
                result = self._attempt(context)
                return self.succeed(context, result)
            except StepStoppedError:
                return self.end(step, "Stopped", number, "stopped by the user")
            except StepFailedError as error:
                wait_s = retries.wait_s(error.error_type)
                reason = for_run(self.ledger.masking.message(error.reason), self.facts.id)
                if wait_s is None:
                    return self.end(
                        step, "Failed", number, reason, error.error_type, _masked_words(context.logs, reason)
                    )
                self.ledger.end_attempt(self.facts.id, step.name, number, "Failed", reason, error.error_type)
                self.post(StepRetrying(step.name, number, reason, wait_s))
            if self.control.stopping.wait(wait_s):
                return self.end(step, "Stopped", None, "stopped by the user")
            number = self.ledger.retry_step(self.facts.id, step.name)
            self.post(StepStarted(step.name, number))

    def context(
        self, step: StepNode, arguments: Mapping[str, Any], fields: Mapping[str, Any], number: int
    ) -> StepContext:
        return StepContext(
            facts=self.facts,
            step=step,
            arguments=arguments,
            fields=fields,
            attempt=number,
            folder=self.home.attempt(self.facts.id, step.name, number),
            logs=self.home.logs(self.facts.id, step.name, number),
            home=self.home,
            store=self.store,
            options=self.options,
            ledger=self.ledger,
            control=self.control,
            post=self.post,
        )

    def _attempt(self, context: StepContext) -> StepResult:
        try:
            with no_space(f"step {context.step.name!r}", go_on(self.facts.id)):
                for earlier in range(1, context.attempt):
                    discard(self.home.attempt(self.facts.id, context.step.name, earlier))
                    mask_logs(self.home.logs(self.facts.id, context.step.name, earlier), self.ledger.masking)
                context.folder.mkdir(parents=True)
                try:
                    return self._run(context)
                finally:
                    mask_logs(context.logs, self.ledger.masking)
                    _mask_failures(context.folder / jobs.HOSTS, self.ledger.masking)
        except (DiskFullError, LedgerFullError):
            raise
        except UserError as error:
            raise StepFailedError(f"{ERROR}{error}") from error
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
            raise StepFailedError(f"{ERROR}{error.filename}: {error.strerror}.") from error

    @staticmethod
    def _run(context: StepContext) -> StepResult:
        if context.step.name in context.options.stubs:
            from drivetrain.targets.sagemaker.run.stubs import run

            return run(context)
        module = find(context.step.type)
        assert module is not None, "checked before the run"
        return module.run(context)

    def succeed(self, context: StepContext, result: StepResult) -> Done:
        """Record the result, move the outputs to their places, and end the step."""
        publication = result.publication
        moves = publication.moves if publication else []
        said = [self.ledger.masking.message(result.value)] if result.value else []
        said += filter(None, [_masked_words(context.logs)])
        for move in moves:
            try:
                self.store.check_place(context.folder / move.staged, move.uri)
            except UserError as error:
                raise StepFailedError(str(error)) from error
            if number := self.store.covered(context.folder / move.staged, move.uri):
                said.append(f"{move.uri} lies over {number} of the files given with --data, which stay as they are")
        value = ", ".join(said) or None
        run = self.home.run(self.facts.id)
        staged = {folder for move in moves for folder in (context.folder / move.staged).parents}
        for folder in staged:
            if folder.is_relative_to(run):
                make_durable(folder)
        self.ledger.publish(
            self.facts.id,
            context.step.name,
            context.attempt,
            response=result.response,
            value=value,
            moves=moves,
            artifacts=[*result.inputs, *(publication.artifacts if publication else [])],
            objects=publication.objects if publication else [],
        )
        with no_space(f"step {context.step.name!r}", go_on(self.facts.id)):
            publish(self.store, context.folder, moves)
        settle_outputs(self.facts.id, context.step.name, self.store, self.ledger)
        seconds = self.ledger.finish_step(self.facts.id, context.step.name, "Succeeded", number=context.attempt)
        self.post(StepFinished(context.step.name, "Succeeded", seconds, value=value))
        return Done(step=context.step, status="Succeeded", response=result.response)

    def end(
        self,
        step: StepNode,
        status: StepStatus,
        number: int | None,
        reason: str,
        error_type: str | None = None,
        value: str | None = None,
    ) -> Done:
        """Record that a step did not succeed."""
        response = {"FailureReason": reason, f"{step.type}JobStatus": status}
        seconds = self.ledger.finish_step(
            self.facts.id, step.name, status, number=number, reason=reason, error_type=error_type, value=value
        )
        self.post(StepFinished(step.name, status, seconds, reason=reason, value=value))
        return Done(step=step, status=status, response=response, reason=reason)


def publish(store: ObjectStore, folder: Path, moves: list[Move]) -> None:
    """Move staged outputs to their places; repeatable, since what has been moved is no longer staged."""
    for move in moves:
        store.adopt(folder / move.staged, move.uri)
    discard(folder)


def settle_outputs(execution: str, step: str, store: ObjectStore, ledger: LedgerWriter) -> None:
    """Note the times of what a step has written, which moving it to its place has changed."""
    settled: list[ObjectEntry] = []
    for written in ledger.written(execution, step):
        path = store.place(written.uri)
        if not path.exists():  # lost since in a power failure: resuming the run finds that out
            continue
        item = stored(path.name, written.uri, path)
        if (item.bytes, item.mtime_ns) == (written.bytes, written.mtime_ns):
            settled.append(replace(written, ctime_ns=item.ctime_ns))
    if settled:
        with ledger.transaction() as db:
            ObjectEntry.enter(db, settled, execution, step)


def discard(folder: Path) -> None:
    """Remove an attempt's files, except its logs."""
    for name in (jobs.HOSTS, STAGE):
        if (folder / name).exists():
            shutil.rmtree(folder / name)


class Retries:
    """The retries of one step in one execution. Every policy counts its own attempts, as the service does.

    A policy applies when it lists the word for what went wrong; a program's own failure has no word here, since the
    service retries no such failure by these policies either.
    """

    def __init__(self, policies: Sequence[Retry], clock: Callable[[], float] = time.monotonic) -> None:
        self._policies = policies
        self._used = [0] * len(policies)
        self._clock = clock
        self._started = clock()

    def wait_s(self, error_type: str | None) -> float | None:
        """Seconds until the next attempt after this error; None when the step has failed for good."""
        for index, policy in enumerate(self._policies):
            if error_type is None or error_type not in policy.exceptions:
                continue
            if policy.max_attempts is not None and self._used[index] >= policy.max_attempts:
                return None
            wait = policy.interval_seconds * policy.backoff_rate ** self._used[index]
            if (
                policy.expire_after_seconds is not None
                and self._clock() - self._started + wait > policy.expire_after_seconds
            ):
                return None
            self._used[index] += 1
            return wait
        return None
