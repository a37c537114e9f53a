"""The interruptions of one training job: when its machines go, and what each of its starts did.

The job is the same from its first start to its last; what has been rehearsed is kept in a file beside the step's
attempts, so that a run that was killed in the middle of it does not begin again.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from drivetrain.pipelines.targets.local.logged_metrics import MetricReader
from drivetrain.pipelines.targets.local.rehearsal.interruptions import Interruption

# Our training creates the file when it has taken the step, and waits for what comes then.
STEP_VARIABLE, FILE_VARIABLE = "DRIVETRAIN_REHEARSE_STEP", "DRIVETRAIN_REHEARSE_FILE"
FOLDER = "rehearsal"
JOURNAL = "interruptions.json"
FRUITLESS = 5  # starts in a row without a step, after which it is said
_LOGGED_STEP = {"Name": "step", "Regex": r"(?i)\bstep[ =:]*(\d+)"}


@dataclass
class Start:
    """One start of the job, as far as it got. Steps are those of the training."""

    number: int
    first_logged: int | None = None
    last_logged: int | None = None
    gap: int = 0
    """Steps between two that were logged."""
    told: Mapping[str, Any] | None = None
    """What it said of itself (attempts.py)."""
    ended: float | None = None
    """When its machines had gone, in seconds since the epoch."""

    def logged(self, step: int) -> None:
        """A line says this step. Of several hosts, one may be ahead."""
        if self.first_logged is None or self.last_logged is None:
            self.first_logged = self.last_logged = step
        elif step > self.last_logged:
            gap = step - self.last_logged
            self.gap = min(self.gap or gap, gap)
            self.last_logged = step

    @property
    def first_step(self) -> int | None:
        """The step that it went on from: by its own word, else by its log, which is some steps off at most."""
        given = _whole((self.told or {}).get("first_step"))
        if given is not None or self.first_logged is None:
            return given
        return max(self.first_logged - max(self.gap, 1), 0)

    @property
    def took_a_step(self) -> bool:
        last = self.last_step
        return last is not None and (self.first_step is None or last > self.first_step)

    @property
    def last_step(self) -> int | None:
        """The last step that it is known to have taken."""
        known = [step for step in (_whole((self.told or {}).get("step")), self.last_logged) if step is not None]
        return max(known, default=None)


class Rehearsal:
    """
    Args:
        wanted: the interruptions of this step.
        folder: the step's in the run, where the journal lies.
        logs: the hosts' logs.
        tells: whether the program itself says when it has taken a step; else its log does.
    """

    def __init__(self, wanted: Sequence[Interruption], folder: Path, logs: Sequence[Path], *, tells: bool) -> None:
        self._wanted, self._journal, self._tells = wanted, folder / JOURNAL, tells
        self._log = MetricReader([_LOGGED_STEP], logs)
        self.records: list[dict[str, Any]] = _read(self._journal)
        self._before = len(self.records)
        done = [str(record.get("given")) for record in self.records]
        left = [one for one in wanted if one.at_step is not None and one.text not in done]
        self._steps = sorted(left, key=lambda one: one.at_step or 0)
        self._waits = {one.text: _waits(one, done.count(one.text)) for one in wanted if one.mean_s is not None}
        self._due = {text: next(waits) for text, waits in self._waits.items()}
        self._worked_s = 0.0
        self.starts: list[Start] = []
        self._signs: list[Path] = []
        self._fruitless = 0

    @property
    def seed(self) -> str:
        """For the sync agent of the present start."""
        return f"{self._wanted[0].seed}-{self._before + len(self.starts)}"

    def begin(self, roots: Sequence[Path]) -> None:
        """The job starts (again), on hosts whose /opt/ml is in these folders."""
        self.starts.append(Start(self._before + len(self.starts) + 1))
        self._signs = [root / FOLDER for root in roots]
        for folder in self._signs:
            folder.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """What tells the program at which step to wait, with paths as the container sees them."""
        if not self._steps or not self._tells:
            return {}
        step = str(self._steps[0].at_step)
        return {STEP_VARIABLE: step, FILE_VARIABLE: f"/opt/ml/{FOLDER}/step-{step}"}

    def due(self, seconds: float) -> Interruption | None:
        """What interrupts the job now, `seconds` after this start began to work."""
        self.read_log(seconds)
        if self._steps:
            first = self._steps[0]
            assert first.at_step is not None
            last = self.starts[-1].last_logged
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
            self.starts[-1].logged(int(found.value))

    def interrupted(
        self, by: Interruption, seconds: float, *, spot: bool, last_words: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """The machines are gone, after so many seconds of this start; gives what is known of the interruption."""
        self.read_log(seconds, final=True)
        start = self.starts[-1]
        start.told, start.ended = last_words, time.time()
        self._fruitless = 0 if start.took_a_step else self._fruitless + 1
        self._worked_s += seconds
        self._resumed()
        if by.at_step is not None:
            self._steps.remove(by)
        else:
            self._due[by.text] = self._worked_s + next(self._waits[by.text])
        known = [step for step in (start.last_step, by.at_step if self._tells else None) if step is not None]
        self.records.append(
            {
                "given": by.text,
                "at_step": max(known, default=None),
                "resumed_step": None,
                "steps_lost": None,
                "notice_s": by.notice_s,
                "seconds_down": None,
                "reason": f"{'spot machines taken back' if spot else 'machines lost'}, rehearsed ({by.text})",
            }
        )
        self._write()
        return self.records[-1]

    def warning(self, by: Interruption) -> str | None:
        """Of a mean that is shorter than a start, said when as many starts in a row as it takes to be sure took no
        step; once in such a row."""
        if by.mean_s is None or self._fruitless != FRUITLESS:
            return None
        return (
            f"warning: {FRUITLESS} starts in a row took no step: with {by.text} the machines go before the training is "
            "at work. Give a longer mean."
        )

    def down(self, seconds: float) -> None:
        """The job is at work again, so long after its processes had ended."""
        self.records[-1]["seconds_down"] = round(seconds, 3)
        self._write()

    def completed(self, seconds: float, last_words: Mapping[str, Any]) -> dict[str, Any]:
        """What the response says of it all; the job has ended by itself."""
        self.read_log(seconds, final=True)
        self.starts[-1].told = last_words
        self._resumed()
        self._write()
        attempts = [self._attempt(place, start.told) for place, start in enumerate(self.starts) if start.told]
        return {"interruptions": _shown(self.records), "attempts": attempts}

    def in_a_word(self) -> str:
        """`2 interruptions`, and which of those that were wanted never came."""
        first = self.starts[0].first_step or 0
        missed = [
            f"step {one.at_step} was done before: it went on from step {first} of an earlier run"
            if first >= (one.at_step or 0)
            else f"never came to step {one.at_step}"
            for one in self._steps
        ]
        return ", ".join([number_of(self.records), *missed])

    def _attempt(self, place: int, told: Mapping[str, Any]) -> dict[str, Any]:
        """What a start said, brought up to its end: it may have been killed a second after its last word."""
        start = self.starts[place]
        known: dict[str, Any] = {"number": start.number, "first_step": start.first_step, "step": self._last_step(place)}
        if start.ended is not None and told.get("ended") is None:
            known["time"] = round(start.ended, 3)
        return {**told, **known}

    def _last_step(self, place: int) -> int | None:
        """Of an interrupted start, what its interruption says: its own last word may be a second old."""
        record = self.records[self._before + place] if self._before + place < len(self.records) else {}
        known = [step for step in (self.starts[place].last_step, record.get("at_step")) if step is not None]
        return max(known, default=None)

    def _resumed(self) -> None:
        """Where the present start went on, of which the interruptions before it did not know. A start that was
        interrupted before it took a step left things as they were."""
        resumed = self.starts[-1].first_step
        for record in reversed(self.records):
            if resumed is None or record["resumed_step"] is not None:
                break
            if record["at_step"] is None:
                record["at_step"] = resumed
            record["resumed_step"], record["steps_lost"] = resumed, max(record["at_step"] - resumed, 0)

    def _write(self) -> None:
        self._journal.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._journal.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(self.records, indent=1), encoding="utf-8")
        os.replace(unfinished, self._journal)


def _waits(one: Interruption, used: int) -> Iterator[float]:
    """Exponential waits of an interruption at random times, without those that were used before."""
    assert one.mean_s is not None
    draws = random.Random(one.seed)
    for number in count():
        wait = draws.expovariate(1.0 / one.mean_s)
        if number >= used:
            yield wait


def rehearsed_before(folder: Path) -> dict[str, Any] | None:
    """What the response says of a job that is no longer interrupted, but was before it was resumed."""
    records = _read(folder / JOURNAL)
    return {"interruptions": _shown(records)} if records else None


def number_of(interruptions: Sequence[object]) -> str:
    """`2 interruptions`."""
    return f"{len(interruptions)} interruption" + ("" if len(interruptions) == 1 else "s")


def _shown(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in record.items() if key != "given"} for record in records]


def _read(journal: Path) -> list[dict[str, Any]]:
    try:
        return json.loads(journal.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
