"""A training job from its first start to its end: one start, or as many as its interruptions make of it.

Each start has fresh folders, fresh processes, and its checkpoints from the store, as on the service.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.json_text import object_in
from drivetrain.processes.mounts import host_path
from drivetrain.run_store.events import StepInterrupted, StepNoted, StepRestarted
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.run_store.starting_point import StartingPoint
from drivetrain.spec.steps import TRAIN
from drivetrain.targets.sagemaker.run.execution import StepFailedError, StepStoppedError
from drivetrain.targets.sagemaker.run.execution.context import StepContext, raise_unless_succeeded
from drivetrain.targets.sagemaker.run.interruption_simulation import journal
from drivetrain.targets.sagemaker.run.interruption_simulation.course import Transitions, limit
from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption, of_step
from drivetrain.targets.sagemaker.run.interruption_simulation.simulation import Rehearsal
from drivetrain.targets.sagemaker.run.jobs import job_data
from drivetrain.targets.sagemaker.run.jobs import programs as jobs
from drivetrain.targets.sagemaker.run.jobs.checkpoints import DEFAULT_PATH, CheckpointSync, remove_emptied
from drivetrain.targets.sagemaker.run.jobs.job_data import entries, member
from drivetrain.targets.sagemaker.run.jobs.logged_metrics import MetricReader
from drivetrain.targets.sagemaker.run.jobs.sync_agent import SyncAgent

if TYPE_CHECKING:
    from drivetrain.processes.container import Host, Job, JobResult

_LOOK_EVERY_S = 0.25
_REHEARSE_EVERY_S = 0.02
_HEAR_EVERY_S = 1.0
# What the service gives a job that it stops to save its model.
STOP_NOTICE_S = 120.0
AGENT = "agent"
MakeJob = Callable[[tuple["Host", ...]], "Job"]


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a job that succeeded went. `trained_s` goes from the first start of its program to the last end, `worked_s`
    leaves out the time without machines. `told` is what the journal has of it, `value` says how it went in a few words.
    `stopped` is the SecondaryStatus of one that was stopped early or at its limit; what it had saved is its model."""

    hosts: tuple[Host, ...]
    inputs: tuple[ArtifactEntry, ...]
    transitions: Transitions
    metrics: Mapping[str, float]
    trained_s: float
    worked_s: float
    told: Mapping[str, Any] | None
    value: str | None
    stopped: str | None = None


class TrainingJob:
    """The job of one attempt at a training step, or of one training of a tuning. `make_job` says what starts on hosts
    that are laid out; `stop_early`, of a tuning, is asked a few times a second, after the metrics, whether it shall end
    now. A tuning takes what a training has at its time limit, too: that is stopped then, and has not failed."""

    def __init__(
        self, context: StepContext, make_job: MakeJob, *, stop_early: Callable[[], bool] | None = None
    ) -> None:
        self._context, self._make_job, self._stop_early = context, make_job, stop_early
        self._stopped: str | None = None
        self._exceeded: str | None = None
        arguments = context.arguments
        self._resources = object_in(arguments, "ResourceConfig")
        self._num_hosts = jobs.host_count(context.step.name, self._resources)
        self._checkpoint = member(arguments, "CheckpointConfig")
        self._checkpoint_path = str((self._checkpoint or {}).get("LocalPath") or DEFAULT_PATH)
        self._is_spot = arguments.get("EnableManagedSpotTraining") is True
        logs = [context.logs / f"{host.name}.log" for host in jobs.hosts(context, self._num_hosts)]
        algorithm = arguments["AlgorithmSpecification"]
        definitions = entries(algorithm, "MetricDefinitions")
        self._metrics = MetricReader(definitions, logs)
        self._starting_point = StartingPoint(logs[0])
        self._looks = self._checkpoint is not None or bool(definitions) or stop_early is not None
        self._journal = journal.Journal(
            context.folder.parent,
            job=context.attempt,
            spot=self._is_spot,
            checkpoints=str(self._checkpoint["S3Uri"]) if self._checkpoint else None,
        )
        wanted = of_step(context.options.interruptions, context.step)
        tells = TRAIN in (algorithm.get("ContainerArguments") or ())
        self._rehearsal = Rehearsal(wanted, self._journal, logs, tells=tells) if wanted else None
        self._transitions = Transitions()
        self._began = time.monotonic()
        self._worked_s = self._watched_s = 0.0
        self._down_since: float | None = None
        self._where = ""
        self._warnings: list[str] = []

    def run(self) -> Ran:
        """
        Raises:
            StepFailedError: the job failed or ran out of time.
            StepStoppedError: the user stopped the run.
            UserError: another training is at work with the same checkpoints.
        """
        if self._checkpoint is None:
            return self._run()
        context = self._context
        with context.home.checkpoint_lock(str(self._checkpoint["S3Uri"]), context.facts.id, context.step.name):
            return self._run()

    def _run(self) -> Ran:
        while True:
            self._transitions.enter("Starting")
            hosts = self._lay_out()
            self._transitions.enter("Downloading")
            inputs = jobs.bring_inputs(self._context, job_data.training_channels(self._context.arguments), hosts)
            folders = [host_path(self._checkpoint_path, host.root) for host in hosts]
            sync = self._sync(folders)
            try:
                result, interruption = self._start(hosts, folders, sync)
            except StepFailedError:
                if self._journal.interruptions:
                    self._note(self._journal.in_a_word())
                raise
            if interruption is None or not result.interrupted:
                break
            self._interrupted(interruption, result)
        if isinstance(sync, CheckpointSync):
            sync.forget_removed()
        if self._checkpoint is not None:
            remove_emptied(self._context.store, str(self._checkpoint["S3Uri"]))
        self._transitions.enter("Uploading")
        if self._rehearsal is not None:
            value = self._rehearsal.in_a_word()
        else:
            value = self._journal.in_a_word() if self._journal.interruptions else self._exceeded
        value = "; ".join(filter(None, (self._starting_point.text, value, *self._warnings))) or None
        return Ran(
            hosts=hosts,
            inputs=inputs,
            transitions=self._transitions,
            metrics=self._metrics.last,
            trained_s=time.time() - self._transitions.began("Training"),
            worked_s=self._worked_s,
            told=journal.told(self._context.folder.parent),
            value=value,
            stopped=self._stopped,
        )

    def _lay_out(self) -> tuple[Host, ...]:
        """Hosts as new as the first ones were: nothing of an earlier start is left on them."""
        from drivetrain.processes import container

        context = self._context
        if (context.folder / jobs.HOSTS).exists():
            shutil.rmtree(context.folder / jobs.HOSTS)
        hosts = jobs.hosts(context, self._num_hosts)
        cluster = container.Cluster(tuple(host.name for host in hosts), jobs.instance_type(self._resources))
        for host in hosts:
            container.lay_out_training(
                host.root,
                cluster,
                host.name,
                hyperparameters=object_in(context.arguments, "HyperParameters"),
                input_data_config=entries(context.arguments, "InputDataConfig"),
                checkpoint_path=self._checkpoint_path,
                debug_hook=object_in(context.arguments, "DebugHookConfig"),
            )
        if self._rehearsal is not None:
            self._rehearsal.lay_out([host.root for host in hosts], self._saved())
        return hosts

    def _sync(self, folders: Sequence[Path]) -> CheckpointSync | SyncAgent | None:
        """The checkpoints, brought to the hosts."""
        if self._checkpoint is None:
            return None
        context, uri = self._context, str(self._checkpoint["S3Uri"])
        if self._rehearsal is None:
            sync: CheckpointSync | SyncAgent = CheckpointSync(context.store, uri, folders)
        else:
            sync = SyncAgent(context.store, uri, folders, context.folder / AGENT, seed=self._rehearsal.seed)
        remove_emptied(context.store, uri)  # a job that failed has left them
        sync.restore()
        return sync

    def _start(
        self, hosts: tuple[Host, ...], folders: Sequence[Path], sync: CheckpointSync | SyncAgent | None
    ) -> tuple[JobResult, Interruption | None]:
        """One start, to its end or its interruption.

        Raises:
            StepFailedError: it failed, or no time is left.
            StepStoppedError: the user stopped the run.
        """
        context, rehearsal = self._context, self._rehearsal
        left = limit(context.arguments, worked_s=self._worked_s, elapsed_s=time.monotonic() - self._began)
        if left is not None and left.left_s <= 0:
            raise StepFailedError(left.exceeded)
        job = replace(self._make_job(hosts), time_limit_s=None if left is None else left.left_s)
        if rehearsal is not None:
            job = replace(job, environment={**job.environment, **rehearsal.environment()})
        self._transitions.enter("Training")
        self._say_that_it_is_back()
        agent = sync if isinstance(sync, SyncAgent) else None
        by: Interruption | None = None
        # Not those that it worked: the end of a start is seen a moment late, and times of metrics never go back.
        noticed, before_s, hear_next = 0.0, self._watched_s, _HEAR_EVERY_S
        seen = journal.starts_seen(folders)

        def tick(seconds: float, final: bool) -> None:
            nonlocal hear_next
            self._watched_s = before_s + seconds
            context.log_metrics(self._metrics.read(self._watched_s, final=final))
            if self._checkpoint is not None and (text := self._starting_point.read()):
                self._note(text)
                context.post(StepNoted(context.step.name, context.attempt, text))
            self._tell_warnings()
            if isinstance(sync, CheckpointSync) and not final:
                sync.tick()
            if final and rehearsal is not None:
                rehearsal.read_log(seconds, final=True)
            if seconds >= hear_next:
                self._journal.heard(journal.latest_start(folders, seen))
                hear_next = seconds + _HEAR_EVERY_S

        def interrupt(seconds: float) -> float | None:
            nonlocal by, noticed
            if rehearsal is None:
                assert self._stop_early is not None
                self._stopped = "Stopped" if self._stop_early() else None
                return STOP_NOTICE_S if self._stopped else None
            by = rehearsal.due(seconds)
            if by is None:
                return None
            noticed = time.monotonic()
            if by.notice_s == 0 and agent is not None:
                agent.cut()
            return by.notice_s

        if agent is not None:
            agent.start()
        self._journal.begin()
        try:
            result = context.watch_job(
                job,
                tick,
                every_s=_REHEARSE_EVERY_S if rehearsal else _LOOK_EVERY_S if self._looks else None,
                interrupt=interrupt if rehearsal or self._stop_early else None,
            )
        except BaseException:
            if sync is not None:
                sync.finish()
            raise
        finally:
            self._journal.ended(journal.latest_start(folders, seen))
        if agent is not None and by is not None and result.interrupted:
            agent.finish(max(0.0, noticed + by.notice_s - time.monotonic()))
        elif sync is not None:  # what a failed or stopped job saved is what its retry starts from
            sync.finish()
        self._worked_s += result.wall_s
        if not result.interrupted:
            if not result.timed_out or left is None:
                raise_unless_succeeded(result)
            elif self._stop_early is None:
                raise StepFailedError(left.exceeded)
            else:
                self._stopped, self._exceeded = left.secondary_status, left.exceeded
        return result, by

    def _interrupted(self, by: Interruption, result: JobResult) -> None:
        """Tell of it, and go on."""
        context, rehearsal = self._context, self._rehearsal
        assert rehearsal is not None
        record = rehearsal.interrupted(by, result.wall_s, spot=self._is_spot, saved=self._saved())
        start = len(self._journal.starts) + 1
        self._where = f"interrupted at step {record['at_step']}" if record["at_step"] is not None else "interrupted"
        self._transitions.enter("Interrupted", f"{self._where}: {record['reason']}")
        self._down_since = time.monotonic()
        self._note(f"{self._where}, restarting ({start})")
        warning = rehearsal.warning(by)
        reason = record["reason"] if warning is None else f"{record['reason']}; {warning}"
        context.post(StepInterrupted(context.step.name, context.attempt, record["at_step"], start, reason))
        # Without a step's number, for which the log is read.
        self._log(f"interrupted (a rehearsal); the job starts again on new hosts, start {start}")
        if warning is not None:
            self._log(warning)
        if context.control.stopping.is_set():
            raise StepStoppedError

    def _saved(self) -> dict[str, int]:
        """The files of the checkpoints, and when each was written; none without a place for them."""
        found = self._context.store.find(str(self._checkpoint["S3Uri"])) if self._checkpoint is not None else []
        return {item.name: item.mtime_ns for item in found}

    def _say_that_it_is_back(self) -> None:
        if self._down_since is None:
            return
        context, start = self._context, len(self._journal.starts) + 1
        self._journal.down(time.monotonic() - self._down_since)
        self._note(f"{self._where}, start {start}")
        context.post(StepRestarted(context.step.name, context.attempt, start))

    def _tell_warnings(self) -> None:
        """Write new warnings of the reader of metrics to the log, and keep them for the step's value at its end."""
        for text in self._metrics.warnings[len(self._warnings) :]:
            self._warnings.append(text)
            self._log(f"warning: {text}")
            self._note(text)

    def _log(self, text: str) -> None:
        for log in self._context.logs.glob("*.log"):
            with open(log, "a", encoding="utf-8") as file:
                file.write(f"drivetrain: {text}\n")

    def _note(self, text: str) -> None:
        self._context.ledger.note_step(self._context.facts.id, self._context.step.name, text)
