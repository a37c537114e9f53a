"""When the machines of a training job go: at a step, or at random moments.

The job is the same from its first start to its last; what has been rehearsed is in the journal, so that a run that was
killed in the middle of it does not begin again.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import Interruption
from drivetrain.targets.sagemaker.run.interruption_simulation.journal import Journal
from drivetrain.targets.sagemaker.run.jobs.logged_metrics import MetricReader

# Our training creates the file when it has taken the step, and waits for what comes then.
STEP_VARIABLE, FILE_VARIABLE = "DRIVETRAIN_REHEARSE_STEP", "DRIVETRAIN_REHEARSE_FILE"
FOLDER = "rehearsal"
FRUITLESS = 5  # starts in a row without progress, after which it is said
_LOGGED_STEP = {"Name": "step", "Regex": r"(?i)\bstep[ =:]*(\d+)"}


class Rehearsal:
    """
    Args:
        wanted: the interruptions of this step.
        journal: of the step.
        logs: the hosts' logs.
        tells: whether the program itself says when it has taken a step; else its log does.
    """

    def __init__(self, wanted: Sequence[Interruption], journal: Journal, logs: Sequence[Path], *, tells: bool) -> None:
        self._wanted, self._journal, self._tells = wanted, journal, tells
        self._log = MetricReader([_LOGGED_STEP], logs)
        done = [str(one["given"]) for one in journal.interruptions]
        left = [one for one in wanted if one.at_step is not None and one.text not in done]
        self._steps = sorted(left, key=lambda one: one.at_step or 0)
        self._waits = {one.text: _waits(one, done.count(one.text)) for one in wanted if one.mean_s is not None}
        self._due = {text: next(waits) for text, waits in self._waits.items()}
        self._worked_s = 0.0
        self._signs: list[Path] = []
        self._fruitless = 0
        self._saved_before: Mapping[str, int] = {}
        self._furthest = 0

    @property
    def seed(self) -> str:
        """For the sync agent of the next start."""
        return f"{self._wanted[0].seed}-{len(self._journal.interruptions)}"

    def lay_out(self, roots: Sequence[Path], saved: Mapping[str, int] | None = None) -> None:
        """The job is going to start (again) on hosts with /opt/ml in these folders; `saved` are the names of the
        checkpoints' files, and when they were written."""
        self._saved_before = saved or {}
        self._signs = [root / FOLDER for root in roots]
        for folder in self._signs:
            folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Variables that tell the program at which step to wait, with paths as the container sees them; empty if it
        need not wait."""
        if not self._steps or not self._tells:
            return {}
        step = str(self._steps[0].at_step)
        return {STEP_VARIABLE: step, FILE_VARIABLE: f"/opt/ml/{FOLDER}/step-{step}"}

    def due(self, seconds: float) -> Interruption | None:
        """The interruption that is due now, `seconds` after this start began to work; None if none is."""
        self.read_log(seconds)
        if self._steps:
            first = self._steps[0]
            assert first.at_step is not None
            last = self._journal.present.last_logged
            if self._tells:
                reached = any((folder / f"step-{first.at_step}").exists() for folder in self._signs)
            else:
                reached = last is not None and last >= first.at_step
            if reached:
                return first
        worked = self._worked_s + seconds
        return next((one for one in self._wanted if one.text in self._due and worked >= self._due[one.text]), None)

    def read_log(self, seconds: float, *, final: bool = False) -> None:
        """Take note of the steps that were logged since."""
        for found in self._log.read(seconds, final=final):
            self._journal.present.logged(int(found.value))

    def interrupted(
        self, by: Interruption, seconds: float, *, spot: bool, saved: Mapping[str, int] | None = None
    ) -> Mapping[str, Any]:
        """The machines are gone, after so many seconds of this start; gives what is known of the interruption."""
        self._fruitless = 0 if self._has_progressed(saved or {}) else self._fruitless + 1
        self._worked_s += seconds
        if by.at_step is not None:
            self._steps.remove(by)
        else:
            self._due[by.text] = self._worked_s + next(self._waits[by.text])
        return self._journal.interrupted(
            by.text,
            reached=by.at_step if self._tells else None,
            notice_s=by.notice_s,
            reason=f"{'spot machines taken back' if spot else 'machines lost'}, rehearsed ({by.text})",
        )

    def _has_progressed(self, saved: Mapping[str, int]) -> bool:
        """Return True if the present start brought the training on. Our training says which steps it took. A script
        did if it saved a file that was not there, or its log shows that it went on from a later step than any start
        before: steps and files that each start makes anew are no progress. Where the log says no step, files written
        anew are."""
        present = self._journal.present
        if self._says_steps:
            return present.took_a_step
        first = present.first_step or 0
        further, self._furthest = first > self._furthest, max(first, self._furthest)
        if further or saved.keys() - self._saved_before.keys():
            return True
        return present.first_logged is None and saved != self._saved_before

    @property
    def _says_steps(self) -> bool:
        return self._tells or bool(self._journal.present.told)

    def warning(self, by: Interruption) -> str | None:
        """Warn that the mean is shorter than a start takes, when FRUITLESS starts in a row made no
        progress; once in such a row."""
        if by.mean_s is None or self._fruitless != FRUITLESS:
            return None
        if not self._says_steps:
            return (
                f"warning: {FRUITLESS} starts in a row saved no new checkpoint and went on from no later step: the "
                "script seems to begin anew each time. Save to the folder of its checkpoints more often, and read it "
                f"at the start; or give a longer mean than {by.text}."
            )
        return (
            f"warning: {FRUITLESS} starts in a row took no step: with {by.text} the machines go before the training is "
            "at work. Give a longer mean."
        )

    def in_a_word(self) -> str:
        """`2 interruptions`, and which of those that were wanted never came."""
        first = self._journal.starts[0].first_step or 0
        missed = [
            f"step {one.at_step} was done before: it went on from step {first} of an earlier run"
            if first >= (one.at_step or 0)
            else f"never came to step {one.at_step}"
            for one in self._steps
        ]
        return ", ".join([self._journal.in_a_word(), *missed])


def _waits(one: Interruption, used: int) -> Iterator[float]:
    """Exponential waits of an interruption at random times, without those that were used before."""
    assert one.mean_s is not None
    draws = random.Random(one.seed)
    for number in count():
        wait = draws.expovariate(1.0 / one.mean_s)
        if number >= used:
            yield wait
