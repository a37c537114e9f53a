"""The trainings of a tuning, each kept in a file beside the attempts at the step, so that one which was killed goes on.

    runs/<execution>/<step>/trials/tuning.json      what the trainings belong to
    runs/<execution>/<step>/trials/001/trial.json   one of them

A training has ended when its file says so: that is written once its outputs are staged, with the moves that bring them
to their places, and a tuning which finds it only repeats the moves.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from drivetrain.run_store.home import write_whole
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.schema import ArtifactEntry, Move, ObjectEntry
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication

FOLDER = "trials"
_TRIAL, _TUNING = "trial.json", "tuning.json"
Status = Literal["InProgress", "Completed", "Stopped", "Failed"]


@dataclass(kw_only=True)
class Trial:
    """One training: `number` counts from 1, `place` among those of its definition from 0. Times are seconds since the
    epoch; `values` are the objective as it was logged, (seconds since the start, value); `reason` says why it failed or
    was stopped."""

    number: int
    place: int
    job: str
    definition: str | None
    parameters: dict[str, str]
    status: Status = "InProgress"
    objective: float | None = None
    values: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    reason: str | None = None
    created: float = 0.0
    started: float | None = None
    ended: float | None = None
    inputs: list[ArtifactEntry] = field(default_factory=list[ArtifactEntry])
    artifacts: list[ArtifactEntry] = field(default_factory=list[ArtifactEntry])
    objects: list[ObjectEntry] = field(default_factory=list[ObjectEntry])
    moves: list[Move] = field(default_factory=list[Move])
    folder: str = ""
    """Below which, from the trial's own folder, `moves` find what they move."""

    @property
    def label(self) -> str:
        return f"{self.number:03d}"

    @property
    def series(self) -> list[float]:
        """The objective epoch by epoch."""
        return [value for _, value in self.values]

    @property
    def done(self) -> bool:
        """True if the training ended as Completed or Stopped, not as Failed."""
        return self.status in ("Completed", "Stopped")

    @property
    def settled(self) -> bool:
        """True if the training has ended; a failure is a result, too."""
        return self.status != "InProgress"


class Trials:
    """The files of one step's trainings; `belongs_to` is all that makes a training another one."""

    def __init__(self, step_folder: Path, store: ObjectStore, belongs_to: Mapping[str, Any]) -> None:
        self.folder = step_folder / FOLDER
        self._store = store
        self._mark = hashlib.sha256(json.dumps(belongs_to, sort_keys=True).encode()).hexdigest()

    def take_up(self) -> tuple[list[Trial], float]:
        """The trainings of an earlier attempt at the same tuning, and for how many seconds that was at work. Those
        that failed are to be run again where the whole tuning `failed`. What another tuning left here is removed, with
        what it had brought to the store."""
        kept = _read(self.folder / _TUNING)
        if kept is not None and kept["tuning"] == self._mark:
            found = self._load()
            for trial in found:
                if trial.status == "Failed" and kept.get("failed"):
                    trial.status = "InProgress"
                    self.save(trial)
                self.publish(trial)
            return found, float(kept["seconds"])
        if self.folder.exists():
            for trial in self._load():
                for entry in trial.objects:
                    self._store.place(entry.uri).unlink(missing_ok=True)
            shutil.rmtree(self.folder)
        self.folder.mkdir(parents=True)
        self.worked(0.0)
        return [], 0.0

    def worked(self, seconds: float, *, failed: bool = False) -> None:
        """Note for how long the tuning has been at work, and whether it failed."""
        _write(self.folder / _TUNING, {"tuning": self._mark, "seconds": seconds, "failed": failed})

    def home(self, trial: Trial) -> Path:
        return self.folder / trial.label

    def save(self, trial: Trial) -> None:
        """Write a training's file, whole or not at all."""
        self.home(trial).mkdir(parents=True, exist_ok=True)
        _write(self.home(trial) / _TRIAL, asdict(trial))

    def stage(self, trial: Trial, publication: Publication) -> None:
        """Enter what a training leaves.

        Raises:
            UserError: it cannot lie where it belongs.
        """
        for move in publication.moves:
            self._store.check_place(publication.folder / move.staged, move.uri)
        trial.moves, trial.artifacts = publication.moves, publication.artifacts
        trial.objects, trial.folder = publication.objects, publication.folder.name

    def publish(self, trial: Trial) -> None:
        """Bring the outputs of a training that has ended to their places, and remove the rest but its file; may be
        repeated."""
        if trial.done:
            for move in trial.moves:
                self._store.adopt(self.home(trial) / trial.folder / move.staged, move.uri)
        for path in self.home(trial).iterdir():
            if path.is_dir():
                shutil.rmtree(path)

    def _load(self) -> list[Trial]:
        return sorted(read_trials(self.folder.parent), key=lambda trial: trial.number)


def read_trials(step_folder: Path) -> list[Trial]:
    """The trainings of a step as their files tell them now, for those who watch."""
    folder = step_folder / FOLDER
    if not folder.is_dir():
        return []
    found = [_read(path / _TRIAL) for path in sorted(folder.iterdir()) if path.is_dir()]
    return [_trial(given) for given in found if given is not None]


def _trial(given: Mapping[str, Any]) -> Trial:
    fields: dict[str, Any] = dict(given)
    fields["values"] = [(float(seconds), float(value)) for seconds, value in given["values"]]
    fields["inputs"] = [ArtifactEntry(**entry) for entry in given["inputs"]]
    fields["artifacts"] = [ArtifactEntry(**entry) for entry in given["artifacts"]]
    fields["objects"] = [ObjectEntry(**entry) for entry in given["objects"]]
    fields["moves"] = [Move(**move) for move in given["moves"]]
    return Trial(**fields)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def _write(path: Path, content: Mapping[str, Any]) -> None:
    write_whole(path, json.dumps(content))
