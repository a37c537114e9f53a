"""Checkpoints of a training job: brought to every host before it starts, copied back while it runs.

What the service's agent does (https://docs.aws.amazon.com/sagemaker/latest/dg/model-checkpoints.html): files appear in
the store one by one, each whole; of hosts that write the same name the last wins. What the job deletes stays there,
until the job has succeeded: the service keeps it for ever, but this disk is the user's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from drivetrain.run_store.durable import copy
from drivetrain.run_store.objects import ObjectStore, StoredObject, walk

DEFAULT_PATH = "/opt/ml/checkpoints"
_INTERVAL_S = 1.0
_TICK_NS = 20_000_000
_MANIFEST = "manifest.json"


class CheckpointSync:
    """Keeps the store's copy of the checkpoint folders of a job's hosts."""

    def __init__(self, store: ObjectStore, uri: str, folders: Sequence[Path]) -> None:
        self._store = store
        self._uri = uri.rstrip("/")
        self._folders = folders
        self._copied: dict[Path, tuple[int, int]] = {}
        self._stored: set[str] = set()
        self._next = 0.0

    def restore(self) -> int:
        """Bring everything below the prefix to every host; gives the number of files."""
        objects = kept_below(self._store, self._uri)
        for folder in self._folders:
            self._copied |= {target: _version(target) for target in copies_of(objects, folder)}
        self._stored.update(item.name for item in objects)
        return len(objects)

    def finish(self) -> None:
        """Nothing writes any more: copy what is left, as it is."""
        self.copy_back(final=True)

    def forget_removed(self) -> None:
        """The job has succeeded: what it found or brought, and has removed since, goes from the store, too."""
        gone = {name for name in self._stored if not any((folder / name).exists() for folder in self._folders)}
        # The manifest goes first, since a checkpoint exists only with it: so no incomplete one is found.
        for name in sorted(gone, key=lambda name: (not name.endswith(_MANIFEST), name)):
            self._store.remove(f"{self._uri}/{name}", below=self._uri)
        self._stored -= gone

    def tick(self) -> None:
        """Copy what has changed, once a second."""
        if time.monotonic() >= self._next:
            self.copy_back()
            self._next = time.monotonic() + _INTERVAL_S

    def copy_back(self, *, final: bool = False) -> None:
        """Copy what has changed. A file that changes while it is copied is taken the next time; with `final`, when
        nothing writes any more, as it is."""
        for folder in self._folders:
            if not folder.is_dir():
                continue
            for name, path in list(walk(folder)):
                try:
                    version = _version(path)
                    if self._copied.get(path) == version or (not final and is_fresh(version[1])):
                        continue
                    if self._store.put(f"{self._uri}/{name}", path, unless=lambda v=version, p=path: _changed(p, v)):
                        self._copied[path] = version
                        self._stored.add(name)
                except FileNotFoundError:
                    if final:
                        raise
                    continue  # pruned by the job between two looks


def kept_below(store: ObjectStore, uri: str) -> list[StoredObject]:
    """The objects below the place of a training's checkpoints, which from now on belong to this run."""
    store.hold(uri)
    return store.find(uri + "/")  # with the slash: a prefix would also match the checkpoints of a sibling


def copies_of(objects: Iterable[StoredObject], folder: Path) -> Iterator[Path]:
    """Copy objects to a folder, one by one; gives the copies."""
    folder.mkdir(parents=True, exist_ok=True)
    for item in objects:
        target = folder / item.name
        target.parent.mkdir(parents=True, exist_ok=True)
        copy(item.path, target)
        yield target


def remove_emptied(store: ObjectStore, uri: str) -> None:
    """Remove trainings with emptied files: a job cannot delete files in an object store, so it empties them. Only while
    no job is at work."""
    from drivetrain.steps.trainings import RECORD

    uri = uri.rstrip("/")
    found = store.find(uri + "/")
    emptied = {item.name.removesuffix(RECORD) for item in found if item.name.endswith("/" + RECORD) and not item.bytes}
    for item in reversed(found):  # the record, by which it is known, at last
        if f"{item.name.partition('/')[0]}/" in emptied:
            store.remove(f"{uri}/{item.name}", below=uri)


def is_fresh(mtime_ns: int) -> bool:
    """Return True if a file was written a moment ago: a write that follows at once may leave it the same time of
    change, since the kernel's clock for files ticks every 1 to 10 ms."""
    return 0 <= time.time_ns() - mtime_ns < _TICK_NS


def _version(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


def _changed(path: Path, version: tuple[int, int]) -> bool:
    return _version(path) != version
