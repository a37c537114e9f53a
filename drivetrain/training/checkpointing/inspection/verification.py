"""Compares every byte of a checkpoint with its manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from drivetrain.training.checkpointing.inspection.listing import DAMAGED, GOOD, INCOMPLETE, list_training
from drivetrain.training.checkpointing.inspection.trainings import Training, held
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError, Manifest, MissingError
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors.index import INDEX_FILE, Index


@dataclass(frozen=True)
class Problem:
    """A problem of one file."""

    file: str
    problem: str
    expected: object = None
    found: object = None


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """On one checkpoint: `state` is good, damaged or incomplete (files are not there, and nothing else is wrong).

    A folder that has no manifest does not count: no training ever goes on from it.
    """

    training: str
    step: int
    state: str
    files: int
    bytes: int
    seconds: float
    problems: tuple[Problem, ...]
    quarantined: str | None = None
    counts: bool = True


# Told before each file: its name, bytes read so far, bytes of the whole checkpoint.
Progress = Callable[[str, int, int], None]


def verify(store: Store, training: str, step: int, progress: Progress) -> Verdict:
    """Read all files of a checkpoint; each damaged one is named. It is held against retention meanwhile.

    Raises:
        InputError: it is of a later format.
        FileNotFoundError: it was removed in between.
    """
    begun = time.monotonic()
    with held(store, step):
        try:
            manifest = store.manifest(step)
        except DamagedError as damage:
            verdict = (_problem(damage, MANIFEST_FILE),)
            return Verdict(training=training, step=step, state=DAMAGED, files=0, bytes=0, seconds=0.0, problems=verdict)
        found: list[tuple[Problem, bool]] = []
        done = 0
        for file in manifest.files:
            progress(file.name, done, manifest.size)
            try:
                store.verify(step, [file.name])
            except DamagedError as damage:
                found.append((_problem(damage, file.name), isinstance(damage, MissingError)))
            done += file.size
        progress("", done, manifest.size)
        if not found:
            found += [(problem, False) for problem in _contradictions(store, step, manifest)]
    only_missing = all(missing for _, missing in found)
    return Verdict(
        training=training,
        step=step,
        state=GOOD if not found else INCOMPLETE if only_missing else DAMAGED,
        files=len(manifest.files),
        bytes=manifest.size,
        seconds=time.monotonic() - begun,
        problems=tuple(problem for problem, _ in found),
    )


def without_manifest(training: Training) -> list[Verdict]:
    """On each folder that is no checkpoint, because its save has not come to an end; newest first."""
    return [
        Verdict(
            training=training.id,
            step=row.step,
            state=INCOMPLETE,
            files=row.files,
            bytes=row.bytes,
            seconds=0.0,
            problems=(Problem(MANIFEST_FILE, f"{row.folder}: {row.problem}"),),
            counts=False,
        )
        for row in list_training(training).rows
        if row.state == INCOMPLETE and not row.committed and not row.replaced
    ]


def as_damage(problems: Iterable[Problem]) -> DamagedError:
    """The first problem, for a quarantine's report."""
    first = next(iter(problems))
    return DamagedError(first.problem, file=first.file, expected=first.expected, found=first.found)


def read_index(store: Store, step: int) -> Index | None:
    """Read the index of a checkpoint's tensors; None if no training of ours wrote it.

    Raises:
        DamagedError: it is no index.
    """
    manifest = store.manifest(step)
    if all(file.name != INDEX_FILE for file in manifest.files):
        return None
    return Index.from_bytes(store.place.read(f"{store.folder(step)}/{INDEX_FILE}"))


def contradiction(index: Index, manifest: Manifest) -> str | None:
    """Describe where an index contradicts the files of the manifest, which no checksum can find."""
    if problem := index.misplaced({file.name: file.size for file in manifest.files}):
        return problem
    missing = index.incomplete()
    return None if missing is None else f"{INDEX_FILE} lacks a part of {missing}"


def _contradictions(store: Store, step: int, manifest: Manifest) -> Iterable[Problem]:
    try:
        index = read_index(store, step)
    except DamagedError as damage:
        yield _problem(damage, INDEX_FILE)
        return
    found = None if index is None else contradiction(index, manifest)
    if found is not None:
        yield Problem(INDEX_FILE, found)


def _problem(damage: DamagedError, file: str) -> Problem:
    return Problem(damage.file or file, str(damage), damage.expected, damage.found)
