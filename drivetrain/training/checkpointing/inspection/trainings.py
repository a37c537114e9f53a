"""Finds the trainings in a place, and the checkpoint that a word such as `newest` means. Never changes anything."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from drivetrain.base.errors import InputError
from drivetrain.base.formatting import count
from drivetrain.data.manifest import MANIFEST_FILE as DATA_MANIFEST
from drivetrain.data.source import SCHEMA_FILE, SUFFIXES
from drivetrain.steps.trainings import RECORD
from drivetrain.training.checkpointing.inspection.own_files import described, is_ours
from drivetrain.training.checkpointing.places import Place, open_place
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE
from drivetrain.training.checkpointing.store.store import QUARANTINE, REPORT_FILE, STEP_FOLDER, Store, folders_of
from drivetrain.training.checkpointing.store.sync_lag import is_mark
from drivetrain.training.errors import unknown_name

NEWEST, BEST = "newest", "best"
_GIVE = "Give the folder that a training is given as --checkpoints."
# What lies beside the shards of a data folder.
_BESIDE_DATA = {DATA_MANIFEST, SCHEMA_FILE, "_SUCCESS"}
_HASH = re.compile(r"[0-9a-f]{16,}", re.ASCII)
_SHORT = (8, 12, 16)


@dataclass(frozen=True)
class Training:
    """The checkpoints of one training; `id` is the folder's name below the place that was given, "" for itself, and
    `name` as much of it as tells it from the others there."""

    id: str
    store: Store
    name: str = ""

    @property
    def place(self) -> Place:
        return self.store.place


class NoTrainingError(InputError):
    """A place without checkpoints of Drivetrain, but with other files. `recognised` names their tool."""

    def __init__(self, message: str, recognised: str | None) -> None:
        super().__init__(message)
        self.recognised = recognised


@dataclass(frozen=True)
class Found:
    """The trainings found at `uri`; `step` is set if `uri` is that of a single checkpoint."""

    uri: str
    trainings: tuple[Training, ...]
    step: int | None = None

    def choose(self, given: str | None) -> Training:
        """The training whose name or identity is, or begins as, given; the only one where none is given.

        Raises:
            InputError: none, or several.
        """
        if given is not None:
            fitting = [training for training in self.trainings if _begins(training.id, given)]
            exact = [training for training in fitting if given in (training.id, training.name)] or fitting
            if len(exact) == 1:
                return exact[0]
            if not exact:
                raise unknown_name(f"training in {self.uri}", given, [training.name for training in self.trainings])
        else:
            exact = list(self.trainings)
            if len(exact) == 1:
                return exact[0]
        shown = ", ".join(training.name for training in exact[:5]) + (", ..." if exact[5:] else "")
        raise InputError(
            f"{self.uri} holds the checkpoints of {len(exact)} trainings: {shown}. Name one by --training: "
            "`list` shows what is in each."
        )


def short_names(ids: Iterable[str]) -> dict[str, str]:
    """Identities -> names that are all different: hashes of at least 16 digits are cut, to 8 where that is enough."""
    ids = list(ids)
    for digits in _SHORT:
        names = {id: "-".join(part[:digits] if _HASH.fullmatch(part) else part for part in id.split("-")) for id in ids}
        if len(set(names.values())) == len(ids):
            return names
    return {id: id for id in ids}


def _begins(id: str, given: str) -> bool:
    """Return True if each part of what is given is the beginning of that part of the identity."""
    parts, wanted = id.split("-"), given.split("-")
    return len(wanted) <= len(parts) and all(map(str.startswith, parts, wanted))


@contextmanager
def held(store: Store, step: int) -> Generator[str]:
    """A checkpoint's folder, which nobody removes inside the context.

    Who may only read an object store cannot say there that they are reading: then files may go, and are found missing.

    Raises:
        DamagedError: there is no such checkpoint (any more).
    """
    folder = store.folder(step)
    with ExitStack() as stack:
        with suppress(PermissionError):
            stack.enter_context(store.place.reading(folder))
        yield folder


def find(uri: str) -> Found:
    """The trainings with checkpoints in a place or in its folders; or the training of one checkpoint's folder.

    Raises:
        InputError: no such place, or nothing of the kind in it (NoTrainingError: but files of another tool, which is
            named where it is known).
    """
    uri = uri.rstrip("/") or uri
    place = open_place(uri)
    is_folder = "://" not in uri
    if is_folder and os.path.isfile(uri):
        path = Path(uri)
        if path.name == "manifest.json" and STEP_FOLDER.fullmatch(path.parent.name):
            return find(str(path.parent))
        what = described([path.name])
        raise InputError(f"{uri} is {what}" if what else f"{uri} holds no checkpoint: it is a file. {_GIVE}")
    if is_folder and not os.path.isdir(uri):
        parent = next(path for path in Path(uri).absolute().parents if path.is_dir())
        names = [entry.name for entry in os.scandir(parent) if entry.is_dir()]
        if len(Path(uri).absolute().relative_to(parent).parts) == 1 and names:
            raise unknown_name(f"folder in {parent}:", Path(uri).name, names)
        raise InputError(f"there is no folder {uri}. Give one that a training writes its checkpoints to.")
    match = STEP_FOLDER.fullmatch(uri.rpartition("/")[2])
    if match and "/" in uri.strip("/"):
        return Found(uri, (Training("", Store(open_place(uri.rpartition("/")[0] or "/"))),), int(match.group(1)))
    names = _two_levels(Path(uri)) if is_folder else place.names()
    ids = {id for id in _training_folders(names) if not _is_emptied(place, id, names)}
    if not ids:
        _refuse(uri, names)
    # One training's folder holds no others.
    ids = [""] if "" in ids else sorted(ids)
    names_of = short_names(ids)
    return Found(uri, tuple(Training(id, Store(open_place(f"{uri}/{id}" if id else uri)), names_of[id]) for id in ids))


def choose_step(
    training: Training, given: str, *, newest: Callable[[], int | None], best: Callable[[], int | None]
) -> int:
    """The step of a checkpoint: `newest`, `best`, or a number.

    Args:
        newest: finds out what `newest` means here.
        best: what `best` means.

    Raises:
        InputError: the training has no such checkpoint; the closest is named.
    """
    place = training.place.uri
    if given == NEWEST:
        step = newest()
        if step is None:
            raise InputError(f"{place} has no whole checkpoint. `list` shows what there is.")
        return step
    if given == BEST:
        step = best()
        if step is None:
            raise InputError(f"no checkpoint in {place} has the metric by which one would be the best. Give a step.")
        return step
    digits = given.removeprefix("step-")
    if not (digits.isascii() and digits.isdecimal()):
        raise InputError(f"{given!r} is no checkpoint. Give a step (120), {NEWEST!r} or {BEST!r}.")
    step, steps = int(digits[:19]), training.store.steps()
    if step not in steps:
        reason = _why_not(training.place.names(), step)
        shown = ", ".join(map(str, steps[:10])) + (f", ... ({len(steps)} in all)" if steps[10:] else "")
        closest = f" The closest is {min(steps, key=lambda each: abs(each - step))}." if steps else ""
        raise InputError(
            f"there is no checkpoint of step {step} in {place}{reason}.{closest} There are: {shown or 'none'}."
        )
    return step


def _why_not(names: Mapping[str, int], step: int) -> str:
    """Why a step has no checkpoint, and what lies there instead."""
    incomplete = folders_of(step, names)
    if incomplete:
        return (
            f" that counts: {incomplete[-1]} has no {MANIFEST_FILE} (the save was interrupted or is under way, or not "
            "all files have arrived)"
        )
    below = f"{QUARANTINE}/"
    aside = folders_of(step, [name.removeprefix(below) for name in names if name.startswith(below)])
    return f": it was set aside as {below}{aside[-1]}, whose {REPORT_FILE} says why" if aside else ""


def _two_levels(folder: Path) -> list[str]:
    """Names in a folder and in its folders, no deeper: it may be any folder of the machine, with all that is in it."""
    found: list[str] = []
    for entry in _entries(folder):
        if entry.is_dir(follow_symlinks=False):
            found += [f"{entry.name}/{inner.name}" + "/" * inner.is_dir() for inner in _entries(Path(entry.path))]
            found.append(f"{entry.name}/")
        else:
            found.append(entry.name)
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except PermissionError:
        return []


def _training_folders(names: Iterable[str]) -> set[str]:
    """The folders, of those one level down or the place itself (""), in which a training keeps checkpoints."""
    found: set[str] = set()
    for name in names:
        parts = name.split("/")
        for level in (0, 1):
            if len(parts) > level + 1 and (STEP_FOLDER.fullmatch(parts[level]) or parts[level] == QUARANTINE):
                found.add("/".join(parts[:level]))
    return found


def _is_emptied(place: Place, id: str, names: Iterable[str]) -> bool:
    """True where a job has emptied the files of a training, since an object store keeps what an agent brought there."""
    record = f"{id}/{RECORD}" if id else RECORD
    if isinstance(names, Mapping):
        return names.get(record) == 0
    return os.path.isfile(f"{place.uri}/{record}") and os.path.getsize(f"{place.uri}/{record}") == 0


def _refuse(uri: str, names: Iterable[str]) -> NoReturn:
    names = [name for name in names if name.rstrip("/") and not is_mark(name)]
    what = described(names)
    if what:
        raise NoTrainingError(f"{uri} is {what}", what)
    held = "is empty" if not names else "holds no checkpoint"
    message = f"{uri} {held}: no folder step-........ of a training is in it, nor in a folder of it. {_GIVE}"
    if not names or is_ours(names):
        raise InputError(message)
    files = sorted(name for name in names if not name.endswith("/") and name.rpartition("/")[2] not in _BESIDE_DATA)
    if files and all(name.lower().endswith(tuple(SUFFIXES)) for name in files):
        raise InputError(f"{uri} holds data ({files[0]}), and no checkpoint. {_GIVE}")
    if not all(name.endswith("/") for name in names):
        entries = count(len({name.partition("/")[0] for name in names}), "entry", "entries")
        message += (
            f" The {entries} there are another program's: `list` shows them; what they mean and whether they are "
            "whole, only that program can tell."
        )
    raise NoTrainingError(message, None)
