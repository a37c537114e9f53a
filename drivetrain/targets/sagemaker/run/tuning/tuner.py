"""The loop of a tuning: which training is next, how many at a time, which are stopped, and when it is over.

It runs in the step's thread; each training has a thread of its own. One training has the step's own place among the
jobs that the run may have at work, each further one takes a place that is free.
"""

from __future__ import annotations

import hashlib
import queue
import threading
import time
from dataclasses import dataclass

from drivetrain.run_store.events import StepNoted
from drivetrain.targets.sagemaker.run.execution import StepStoppedError
from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.tuning import completion, strategies, telling
from drivetrain.targets.sagemaker.run.tuning.config import JobDefinition, TuningConfig
from drivetrain.targets.sagemaker.run.tuning.strategies import Search, Tried
from drivetrain.targets.sagemaker.run.tuning.trial_job import Processes, run_trial
from drivetrain.targets.sagemaker.run.tuning.trials import Trial, Trials

# A place that another step gives back is seen this late.
_LOOK_EVERY_S = 0.5


@dataclass
class _Running:
    """A training at work. `borrowed` says that it has a place beside the step's own; `judged` counts the epochs after
    which it was let go on."""

    trial: Trial
    borrowed: bool
    thread: threading.Thread | None = None
    error: BaseException | None = None
    judged: int = 0


class Tuner:
    """One tuning, by the step's attempt `context`.

    Attributes:
        ended: the trainings in the order of their ends.
        over: why there are no more, where not all were begun.
    """

    def __init__(self, context: StepContext, config: TuningConfig, trials: Trials, name: str) -> None:
        self._context, self._config, self._trials, self._name = context, config, trials, name
        self._rule = completion.rule(config)
        self.seed = config.seed if config.seed is not None else _own_seed(context)
        self._processes = Processes(context.record_processes)
        self._inbox: queue.SimpleQueue[_Running] = queue.SimpleQueue()
        self._running: dict[int, _Running] = {}
        self._guard = threading.Lock()  # of the list of trainings, which their threads look at
        self._all: dict[int, Trial] = {}
        self.ended: list[Trial] = []
        self._again: list[Trial] = []
        self.over: str | None = None
        self._abandoned = False
        self._began, self._seconds_before = time.monotonic(), 0.0
        self._log = telling.Log(context.logs, context.ledger.masking)

    def run(self) -> None:
        """
        Raises:
            StepStoppedError: the user stopped the run.
            UserError: the trainings cannot run at all.
        """
        earlier, self._seconds_before = self._trials.take_up()
        self._all = {trial.number: trial for trial in earlier}
        self.ended = sorted((trial for trial in earlier if trial.settled), key=lambda trial: trial.ended or 0.0)
        self._again = [trial for trial in earlier if not trial.settled]
        self._log.began(self._name, self._config, self.seed, self.ended)
        try:
            for trial in self.ended:
                self._enter_again(trial)
            self._tell()
            self._loop()
        except BaseException:
            self._end_the_others()
            raise
        finally:
            self._trials.worked(self.seconds)
        self._log.over(self.over)

    @property
    def seconds(self) -> float:
        """For how long this tuning has been at work, earlier attempts included."""
        return self._seconds_before + time.monotonic() - self._began

    def _loop(self) -> None:
        while True:
            self._look_whether_it_is_over()
            while self._is_wanted() and (borrowed := self._take_place()) is not None:
                self._start(borrowed)
            if not self._running:
                if self._is_more():  # and still none is at work: the run is being stopped
                    raise StepStoppedError
                return
            try:
                ended = self._inbox.get(timeout=_LOOK_EVERY_S)
            except queue.Empty:
                continue
            self._settle(ended)

    def _look_whether_it_is_over(self) -> None:
        if self.over is None and self.ended:
            self.over = completion.hopeless(self.ended)
        if self.over is None and (self._running or self.ended):
            self.over = completion.enough(self._config, self.ended, self.seconds)

    def _is_more(self) -> bool:
        """Return True if the tuning has trainings left."""
        return self.over is None and bool(self._again or len(self._all) < self._config.num_trainings)

    def _is_wanted(self) -> bool:
        """Return True if one more training should be at work now."""
        stopping = self._context.control.stopping.is_set()
        return self._is_more() and not stopping and len(self._running) < self._config.max_parallel

    def _take_place(self) -> bool | None:
        """A place for one more: the step's own (False) or a borrowed one (True); None while no place is free."""
        if all(one.borrowed for one in self._running.values()):
            return False
        return True if self._context.control.slots.take() else None

    def _next(self) -> Trial:
        """A training that was begun before, or a new one."""
        if self._again:
            return self._again.pop(0)
        number = len(self._all) + 1
        definitions = self._config.definitions
        definition, place = self._deal(number)
        search = Search(
            definition=definition,
            number=place,
            total=-(-self._config.num_trainings // len(definitions)),
            seed=self.seed,
            earlier=[
                Tried(
                    trial.parameters, trial.objective, failed=trial.objective is None and trial.status != "InProgress"
                )
                for trial in self._all.values()
                if trial.definition == definition.name
            ],
        )
        trial = Trial(
            number=number,
            place=place,
            job=job_name(self._name, self._context.facts.id, number),
            definition=definition.name,
            parameters=strategies.find(self._config.strategy).suggest(search),
        )
        with self._guard:
            self._all[number] = trial
        return trial

    def _deal(self, number: int) -> tuple[JobDefinition, int]:
        """The definition of the `number`-th training, and its place among that definition's trainings, from 0:
        definitions take turns as long as they have any left."""
        limits = [self._config.most(definition) for definition in self._config.definitions]
        taken = [0] * len(limits)
        dealt = -1
        for _ in range(number):
            dealt = next(
                index
                for step in range(1, len(limits) + 1)
                if taken[index := (dealt + step) % len(limits)] < limits[index]
            )
            taken[dealt] += 1
        return self._config.definitions[dealt], taken[dealt] - 1

    def _start(self, borrowed: bool) -> None:
        try:
            trial = self._next()
        except BaseException:
            if borrowed:
                self._context.control.slots.give()
            raise
        definition = self._config.definition(trial.definition)
        running = _Running(trial, borrowed)

        def work() -> None:
            try:
                run_trial(
                    self._context,
                    definition,
                    trial,
                    self._trials,
                    self._processes,
                    stop_early=lambda: self._shall_end(running),
                    is_kept=lambda: not self._abandoned,
                )
            except BaseException as error:  # not hidden: the step's thread raises it
                running.error = error
            self._inbox.put(running)

        running.thread = threading.Thread(target=work, name=f"training {trial.job}")
        self._running[trial.number] = running
        self._log.started(trial)
        running.thread.start()

    def _shall_end(self, running: _Running) -> bool:
        """Asked in the training's thread after its metrics were read: whether it is stopped now."""
        trial = running.trial
        if self._abandoned:
            return True
        if self.over is not None:
            trial.reason = f"the tuning is over: {self.over}"
            return True
        if self._config.max_seconds is not None and self.seconds >= self._config.max_seconds:
            trial.reason = f"MaxRuntimeInSeconds {self._config.max_seconds} of the tuning is over"
            return True
        if self._rule is None:
            return False
        with self._guard:
            ended = [one.series for one in self._all.values() if one.done]
            others = [one.series for one in self._all.values() if one.status == "InProgress" and one is not trial]
        series = trial.series
        while running.judged < len(series):
            running.judged += 1
            reason = self._rule.verdict(series[: running.judged], ended, others)
            if reason is not None:
                trial.reason = reason
                return True
        return False

    def _settle(self, running: _Running) -> None:
        self._join(running)
        if running.error is not None:
            raise running.error
        self.ended.append(running.trial)
        self._enter_objective(running.trial)
        self._trials.worked(self.seconds)
        self._log.ended(running.trial)
        # The note also wakes the execution's loop: the place that was given back may be another step's now.
        self._tell()

    def _join(self, running: _Running) -> None:
        assert running.thread is not None
        running.thread.join()
        del self._running[running.trial.number]
        if running.borrowed:
            self._context.control.slots.give()

    def _end_the_others(self) -> None:
        """End what is at work, before an error leaves this thread; it will be run again."""
        self._abandoned = True
        while self._running:
            self._join(self._inbox.get())

    def _enter_objective(self, trial: Trial) -> None:
        if trial.objective is not None:
            metric = self._metric(trial)
            self._context.ledger.log_metrics(
                *(self._context.facts.id, self._context.step.name, self._context.attempt),
                [(metric, self.seconds, trial.objective)],
            )

    def _enter_again(self, trial: Trial) -> None:
        """The ledger shows the metrics of a step's last attempt: those of earlier ones' trainings belong to it."""
        metric = self._metric(trial)
        values = [(f"{trial.label} {metric}", seconds, value) for seconds, value in trial.values]
        if values:
            self._context.ledger.log_metrics(
                self._context.facts.id, self._context.step.name, self._context.attempt, values
            )
        self._enter_objective(trial)

    def _metric(self, trial: Trial) -> str:
        return self._config.definition(trial.definition).objective.metric

    def _tell(self) -> None:
        note = telling.note(self._config, self.ended)
        self._context.ledger.note_step(self._context.facts.id, self._context.step.name, note)
        self._context.post(StepNoted(self._context.step.name, self._context.attempt, note))


def job_name(tuning: str, execution: str, number: int) -> str:
    """The name of a training job: that of the tuning, its number, and eight digits that only this one has."""
    mark = hashlib.sha256(f"{execution}/{tuning}/{number}".encode()).hexdigest()[:8]
    return f"{tuning}-{number:03d}-{mark}"


def _own_seed(context: StepContext) -> int:
    """A seed for this run of the step, the same when it is resumed."""
    text = f"{context.facts.id}/{context.step.name}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
