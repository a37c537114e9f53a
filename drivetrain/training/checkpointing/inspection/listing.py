"""The checkpoints of a training, one row each, from their manifests alone."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from drivetrain.base.bounds import is_number
from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.inspection.own_files import OwnFile, own_files
from drivetrain.training.checkpointing.inspection.trainings import Training
from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store import sync_lag
from drivetrain.training.checkpointing.store.lock import BEAT_S, LOCK_FILE, Watch
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError, Manifest, MissingError
from drivetrain.training.checkpointing.store.retention import seconds_of, watched
from drivetrain.training.checkpointing.store.store import QUARANTINE, REPORT_FILE, STEP_FOLDER, Store

_LOOK_S = 0.1


@dataclass(frozen=True)
class AtWork:
    """A training that holds the lock of a place; `since` is for people."""

    host: str
    pid: int
    since: str
    who: str

    def describe(self) -> str:
        return f"{self.who or 'a training'}, host {self.host}, process {self.pid}, since {self.since}"


def at_work(place: Place, names: Mapping[str, int]) -> AtWork | None:
    """The training that is at work in a place.

    One of this machine is asked of /proc. One of another is watched for a beat or two: it is alive if it beats.
    """
    if LOCK_FILE not in names:
        return None
    watch = Watch(place)
    watch.look()
    until = time.monotonic() + 2 * BEAT_S
    while watch.holder is not None and not watch.holds_nothing():
        if not watch.could_not_tell() or watch.changed:
            holder = watch.holder
            return AtWork(holder.host, holder.pid, holder.since, holder.who)
        if time.monotonic() > until:
            return None
        time.sleep(_LOOK_S)
        watch.look()
    return None


# Where in the training the metrics were measured, which is no metric.
_PLACE = ("epoch", "step")
GOOD, DAMAGED, INCOMPLETE, QUARANTINED = "good", "damaged", "incomplete", "quarantined"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A checkpoint. `state` is good (manifest and sizes hold), damaged, incomplete or quarantined; `problem` says why.
    One that is not `committed` has no manifest, or was `replaced` by a later save of its step: it never counts.

    `saved_at` is in seconds since the epoch, by the clock of the process that saved it; `bytes` is the size of its
    files.
    """

    step: int
    folder: str
    state: str
    problem: str | None = None
    saved_at: float | None = None
    bytes: int = 0
    files: int = 0
    epoch: int | None = None
    world_size: int | None = None
    strategy: str | None = None
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    finished: bool = False
    committed: bool = True
    replaced: bool = False
    newest: bool = False
    best: bool = False


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A training's rows, newest first. `at_work` is who writes there now; `behind` what a sync agent has not brought
    away yet; `arrival_seconds` how long the newest checkpoint took to the object store, where that is known.

    `run` is the execution that started the training last, at `started` (seconds since the epoch); `ended` says whether
    it ended well, `differs` what is otherwise in the training that was started last in the place (belonging.py).

    If the place holds no checkpoints of Drivetrain, `own` are the files of another program, `recognised` names its
    tool, if that is known, and there are no rows."""

    training: str
    place: str
    rows: tuple[Row, ...]
    at_work: AtWork | None
    behind: tuple[sync_lag.Behind, ...]
    arrival_seconds: float | None
    own: tuple[OwnFile, ...] = ()
    recognised: str | None = None
    run: str | None = None
    started: float | None = None
    ended: bool = False
    differs: tuple[str, ...] = ()


def list_training(training: Training) -> Listing:
    """All checkpoints of a training, by one list of its place. Nothing is moved, removed or locked."""
    place = training.place
    names = place.names()
    store = Store(cast("Place", _Listed(place, names)))
    working = at_work(place, names)
    rows: list[Row] = []
    manifests: dict[int, Manifest] = {}
    current: set[str] = set()
    for step in store.steps():
        try:
            folder = store.folder(step)
        except MissingError:
            continue  # retention was quicker
        current.add(folder)
        try:
            manifests[step] = store.manifest(step)
        except MissingError:
            continue  # now
        except (DamagedError, InputError) as problem:
            rows.append(_row(step, folder, names, DAMAGED, str(problem)))
            continue
        rows.append(_row_of(manifests[step], folder, names))
    newest = max(manifests.values(), key=lambda manifest: manifest.step, default=None)
    rows = _marked(rows, watched(newest.values) if newest else None)
    rows += _without_manifest(names, current, working)
    rows += _quarantined(place, names)
    files = {
        row.step: [f"{row.folder}/{name}" for name in (*(f.name for f in manifests[row.step].files), MANIFEST_FILE)]
        for row in rows
        if row.state == GOOD
    }
    return Listing(
        training=training.id,
        place=place.uri,
        rows=tuple(sorted(rows, key=lambda row: (-row.step, row.state == QUARANTINED, row.folder))),
        at_work=working,
        behind=tuple(sync_lag.behind(files, names)),
        arrival_seconds=_arrival(place, rows, files),
    )


def list_own_files(uri: str, recognised: str | None) -> Listing | None:
    """The files of another program; None without such files."""
    own = tuple(own_files(uri))
    nothing = Listing(training="", place=uri, rows=(), at_work=None, behind=(), arrival_seconds=None)
    return replace(nothing, own=own, recognised=recognised) if own else None


class _Listed:
    """A place whose names are those that were listed once: an object store takes its time for each list."""

    def __init__(self, place: Place, names: Mapping[str, int]) -> None:
        self._listed = names
        self.read = place.read

    def names(self, below: str = "") -> dict[str, int]:
        return {name: held for name, held in self._listed.items() if not below or name.startswith(f"{below}/")}


def best_step(training: Training) -> int | None:
    """The step marked as the best."""
    return next((row.step for row in list_training(training).rows if row.best), None)


def metrics_of(manifest: Manifest) -> dict[str, float]:
    """The numbers among a manifest's metrics; none where they say that they are of another step."""
    given = manifest.values.get("metrics")
    if not isinstance(given, dict) or given.get("step", manifest.step) != manifest.step:
        return {}
    return {name: value for name, value in given.items() if name not in _PLACE and is_number(value)}


def epoch_of(manifest: Manifest) -> int | None:
    """The epoch in which it was saved, counted from 1, where the writer says so."""
    metrics = manifest.values.get("metrics")
    measured = metrics.get("epoch") if isinstance(metrics, dict) and metrics.get("step") == manifest.step else None
    return _count(manifest.values.get("epoch", measured))


def newest_whole(training: Training) -> tuple[int | None, Row | None]:
    """The newest step whose manifest and sizes are right, and a newer step, if any, where they are wrong."""
    rows = [row for row in list_training(training).rows if row.committed]
    newest = next((row.step for row in rows if row.newest), None)
    return newest, next((row for row in rows if newest is None or row.step > newest), None)


def _row_of(manifest: Manifest, folder: str, names: Mapping[str, int]) -> Row:
    missing = [file.name for file in manifest.files if f"{folder}/{file.name}" not in names]
    wrong = [
        f"{file.name} has {names[f'{folder}/{file.name}']:,} bytes instead of {file.size:,}"
        for file in manifest.files
        if file.name not in missing and names[f"{folder}/{file.name}"] != file.size
    ]
    if wrong:
        state, problem = DAMAGED, _first(wrong)
    elif missing:
        state, problem = INCOMPLETE, f"{len(missing)} of {len(manifest.files)} files are missing ({missing[0]})"
    else:
        state, problem = GOOD, None
    values = manifest.values
    return replace(
        _row(manifest.step, folder, names, state, problem),
        saved_at=seconds_of(values.get("saved_at")),
        epoch=epoch_of(manifest),
        world_size=_count(values.get("world_size")),
        strategy=_strategy(values),
        metrics=metrics_of(manifest),
        finished=values.get("finished") is True,
    )


def _row(step: int, folder: str, names: Mapping[str, int], state: str, problem: str | None) -> Row:
    sizes = [held for name, held in names.items() if name.startswith(f"{folder}/") and not sync_lag.is_mark(name)]
    return Row(step=step, folder=folder, state=state, problem=problem, bytes=sum(sizes), files=len(sizes))


def _marked(rows: Sequence[Row], by: tuple[str, bool] | None) -> list[Row]:
    """With the newest good one marked, and the best good one by a metric and its better direction."""
    good = [row for row in rows if row.state == GOOD]
    newest = max((row.step for row in good), default=None)
    best = None
    if by and (measured := [row for row in good if by[0] in row.metrics]):
        name, higher = by
        best = max(measured, key=lambda row: (row.metrics[name] * (1 if higher else -1), row.step)).step
    return [replace(row, newest=row.step == newest, best=row.step == best) for row in rows]


def _without_manifest(names: Mapping[str, int], current: set[str], working: AtWork | None) -> list[Row]:
    """Folders that do not count: saves that were interrupted, or are under way; and earlier editions of a step."""
    folders = {name.partition("/")[0] for name in names}
    found: list[Row] = []
    for folder in folders - current:
        match = STEP_FOLDER.fullmatch(folder)
        if match is None:
            continue
        replaced = f"{folder}/{MANIFEST_FILE}" in names
        if replaced:
            problem = "replaced by a later save of the same step"
        elif working is not None:
            problem = f"no {MANIFEST_FILE} yet; a training is at work here"
        else:
            problem = f"no {MANIFEST_FILE}: the save was interrupted, or not all files have arrived"
        row = _row(int(match.group(1)), folder, names, INCOMPLETE, problem)
        found.append(replace(row, committed=False, replaced=replaced))
    return found


def _quarantined(place: Place, names: Mapping[str, int]) -> list[Row]:
    folders = {"/".join(name.split("/")[:2]) for name in names if name.startswith(f"{QUARANTINE}/")}
    found: list[Row] = []
    for folder in folders:
        match = STEP_FOLDER.fullmatch(folder.partition("/")[2])
        if match is None:
            continue
        try:
            report = json.loads(place.read(f"{folder}/{REPORT_FILE}"))
            problem = report["why"] if isinstance(report["why"], str) else None
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            problem = f"it has no {REPORT_FILE}"  # a person may have moved it there
        row = _row(int(match.group(1)), folder, names, QUARANTINED, problem)
        found.append(replace(row, committed=False))
    return found


def _arrival(place: Place, rows: Sequence[Row], files: Mapping[int, Sequence[str]]) -> float | None:
    """How long the newest checkpoint took to arrive, if the place knows when each file arrived."""
    newest = next((row for row in rows if row.newest), None)
    arrived_at = getattr(place, "arrived_at", None)
    if newest is None or newest.saved_at is None or arrived_at is None:
        return None
    times: Mapping[str, float] = arrived_at(newest.folder)
    return sync_lag.arrival_lag(newest.saved_at, [times[name] for name in files[newest.step] if name in times])


def _strategy(values: Mapping[str, Any]) -> str | None:
    """The strategy's name: as it is given, or with the degrees of its dimensions around it."""
    given = values.get("strategy")
    name = given.get("name") if isinstance(given, dict) else given
    return name if isinstance(name, str) else None


def _count(value: Any) -> int | None:
    return value if type(value) is int else None


def _first(problems: Sequence[str]) -> str:
    return problems[0] + (f" (and {len(problems) - 1} more files)" if problems[1:] else "")
