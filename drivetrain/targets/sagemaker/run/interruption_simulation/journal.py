"""The journal of a training: each start of its job, and each interruption.

    {"checkpoints": "s3://bucket/checkpoints/train/",
     "interruptions": [{"start": 1, "at_step": 120, "resumed_step": 100, "steps_lost": 20, ...}],
     "attempts": [{"number": 1, "job": 1, "spot": true, "training": "1f2e-5d4c", "started": 1763688012.5, ...}]}

A file beside the attempts at the step, brought up to date while the training runs: a job that failed or was killed has
no description, and the job that goes on from its checkpoint counts as the same training for readers.

A training (or, for programs that do not know of it, the launcher) records its starts itself: `attempts/NNNNN.json` in
its checkpoint folder, one file a start; drivetrain/training/checkpointing tells what is in them. They are read on the
host before it goes: what was written last may never reach the store.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from drivetrain.run_store.home import write_whole

FILE = "journal.json"
_MAX_BYTES = 64 * 1024
Seen = Mapping[Path, bytes]


def starts_seen(folders: Iterable[Path]) -> Seen:
    """The files of earlier starts, as they lie in the checkpoint folders now."""
    return {path: _content(path) for folder in folders for path in _files(folder)}


def latest_start(folders: Iterable[Path], before: Seen) -> dict[str, Any]:
    """Read the record of the latest start whose file is new or differs from `before`. Its `training` is the name of the
    subfolder with its checkpoints ("": the checkpoint folder itself). Empty without such a record."""
    changed = [
        (path.name, content, "" if path.parents[1] == folder else path.parents[1].name)
        for folder in folders
        for path in _files(folder)
        if (content := _content(path)) and before.get(path) != content
    ]
    for _, content, training in sorted(changed, reverse=True):
        try:
            given = json.loads(content)
        except (ValueError, RecursionError):
            continue  # half of it was written
        if isinstance(given, dict):
            return {**cast("dict[str, Any]", given), "training": training}
    return {}


def _files(folder: Path) -> list[Path]:
    found = [*folder.glob("attempts/*.json"), *folder.glob("*/attempts/*.json")]
    # A launcher's own count of starts (.drivetrain/) knows of no steps.
    return [path for path in found if not path.parents[1].name.startswith(".") or path.parents[1] == folder]


def _content(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""  # it is no file, or went meanwhile


@dataclass
class Start:
    """One start of the job, as far as it got. Steps are those of the training, moments seconds since the epoch."""

    began: float
    """When its machines were at work."""
    first_logged: int | None = None
    last_logged: int | None = None
    gap: int = 0
    """Steps between two that were logged."""
    told: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Its own record."""
    reached: int | None = None
    """The step at which it was interrupted, where that is known exactly."""
    gone: float | None = None
    """When its processes had ended."""

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
        given = _whole(self.told.get("first_step"))
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
        if self.reached is not None:
            return self.reached
        known = (_whole(self.told.get("step")), self.last_logged)
        return max((step for step in known if step is not None), default=None)

    def record(self) -> dict[str, Any]:
        """Build the record of the start: its own report, and the times when its machines came and went; without a
        report, these times alone."""
        times: dict[str, Any] = {"started": round(self.began, 3)}
        if self.gone is not None:
            times["gone"] = round(self.gone, 3)
            if self.told.get("ended") is None:  # it may have been killed a second after its last word
                times["time"] = times["gone"]
        if not self.told:
            return times
        late = max(_seconds(self.told.get("started")) - self.began, 0.0)
        times["restart_seconds"] = round(_seconds(self.told.get("restart_seconds")) + late, 3)
        return {**self.told, **times, "first_step": self.first_step, "step": self.last_step}


class Journal:
    """
    Args:
        folder: the step's in the run.
        job: the number of the job: a training that failed and goes on is more than one.
        spot: whether this job's machines can be taken away.
        checkpoints: where the training keeps them; with others it is another training, and the journal begins anew.
    """

    def __init__(self, folder: Path, *, job: int, spot: bool, checkpoints: str | None) -> None:
        self._path, self._job, self._spot = folder / FILE, job, spot
        self._kept: dict[str, Any] = _read(self._path)
        if self._kept["checkpoints"] != checkpoints:
            self._kept = {"checkpoints": checkpoints, "interruptions": [], "attempts": []}
        self.interruptions: list[dict[str, Any]] = self._kept["interruptions"]
        self._attempts: list[dict[str, Any]] = self._kept["attempts"]
        self.starts: list[Start] = []

    @property
    def present(self) -> Start:
        return self.starts[-1]

    def begin(self) -> None:
        """The machines of a start are at work."""
        self.starts.append(Start(time.time()))
        self._attempts.append({})
        self._write()

    def heard(self, told: Mapping[str, Any]) -> None:
        """Take over the present start's latest report of itself."""
        if told != self.present.told:
            self.present.told = told
            self._resumed()
            self._write()

    def ended(self, told: Mapping[str, Any]) -> None:
        """Its processes have ended, with these last words."""
        self.present.told, self.present.gone = told, time.time()
        self._resumed()
        self._write()

    def interrupted(self, given: str, *, reached: int | None, notice_s: float, reason: str) -> Mapping[str, Any]:
        """The start that has just ended lost its machines; gives what is known of the interruption."""
        self.present.reached = reached
        self.interruptions.append(
            {
                "given": given,
                "start": len(self._attempts),
                "at_step": self.present.last_step,
                "resumed_step": None,
                "steps_lost": None,
                "notice_s": notice_s,
                "seconds_down": None,
                "reason": reason,
            }
        )
        self._write()
        return self.interruptions[-1]

    def down(self, seconds: float) -> None:
        """The job is at work again, so long after the processes of its interrupted start had ended."""
        self.interruptions[-1]["seconds_down"] = round(seconds, 3)
        self._write()

    def in_a_word(self) -> str:
        """`2 interruptions`."""
        number = len(self.interruptions)
        return f"{number} interruption" + ("" if number == 1 else "s")

    def _resumed(self) -> None:
        """Write the step from which the present start went on into the interruptions before it that lack one. A start
        that was interrupted before it took a step left things as they were."""
        resumed = self.present.first_step
        for one in reversed(self.interruptions):
            if resumed is None or one["resumed_step"] is not None:
                break
            if one["at_step"] is None:
                one["at_step"] = resumed
            one["resumed_step"], one["steps_lost"] = resumed, max(one["at_step"] - resumed, 0)

    def _write(self) -> None:
        number = len(self._attempts)
        self._attempts[-1] = {**self.present.record(), "number": number, "job": self._job, "spot": self._spot}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self._path, json.dumps(self._kept))


def own_training(folder: Path) -> str | None:
    """The folder, below the place of its checkpoints, of the training that the step was at last; None if unknown."""
    names = [one["training"] for one in _read(folder / FILE)["attempts"] if isinstance(one.get("training"), str)]
    return names[-1] if names else None


def told(folder: Path) -> dict[str, Any] | None:
    """The interruptions and starts for the step's response; None for a training that was neither interrupted nor could
    have been, and that no other job went on with."""
    kept = _read(folder / FILE)
    goes_on = any(_whole(one.get("first_step")) for one in kept["attempts"][1:])
    if not kept["interruptions"] and not goes_on and not any(one["spot"] for one in kept["attempts"]):
        return None
    shown = [{key: value for key, value in one.items() if key != "given"} for one in kept["interruptions"]]
    return {"interruptions": shown, "attempts": kept["attempts"]}


def _read(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError):  # not yet there, or the machine stopped while it was written
        return {"checkpoints": None, "interruptions": [], "attempts": []}


def _seconds(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e15 else 0.0


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
