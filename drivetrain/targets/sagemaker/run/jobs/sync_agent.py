"""The service's checkpoint agent as it is met in the wild, for rehearsals; checkpoints.py is its quick sibling.

It copies the checkpoint folder of every host to the store while files change: one at a time, in no order (a seeded one
here), each after a delay, and again where the file changed under its hands. Beside a file on its way stands an empty
NAME.sagemaker-uploading in the job's own folder, afterwards NAME.sagemaker-uploaded. What the job deletes stays in the
store. When the machine goes, what was not yet copied is lost, and the file that was on its way leaves a torn
NAME.sagemaker-uploading in the store. On a restart everything comes back to every host, in another order, so that the
files' times say nothing.

https://docs.aws.amazon.com/sagemaker/latest/dg/model-checkpoints.html. The marks are in no reference; programs that
list their checkpoint folder meet them, and public ones (transformers, smdebug) have code for it.
"""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from drivetrain.run_store.objects import ObjectStore, walk
from drivetrain.targets.sagemaker.run.jobs.checkpoints import copies_of, is_fresh, kept_below

UPLOADING, UPLOADED = ".sagemaker-uploading", ".sagemaker-uploaded"
# Mean seconds before a file's turn: short enough for a rehearsal, long enough for a checkpoint to be torn apart.
DELAY_S = 0.02
_LOOK_EVERY_S = 0.05
_CHUNK = 256 * 1024


class _Version(NamedTuple):
    size: int
    mtime_ns: int
    inode: int


class SyncAgent:
    """Keeps the store's copy of the checkpoint folders of a job's hosts, from a thread of its own.

    restore(), then start(), and at the end finish() or cut(); all three from one thread.

    Args:
        uri: the prefix, with or without its final slash.
        staging: a folder of its own on the store's file system.
        seed: decides orders and delays.
    """

    def __init__(
        self,
        store: ObjectStore,
        uri: str,
        folders: Sequence[Path],
        staging: Path,
        *,
        seed: str,
        delay_s: float = DELAY_S,
    ) -> None:
        self._store, self._uri, self._folders, self._staging = store, uri.rstrip("/"), folders, staging
        self._random = random.Random(seed)
        self._delay_s = delay_s
        self._copied: dict[Path, _Version] = {}
        self._gone = threading.Event()  # the machine is gone
        self._last_round = threading.Event()  # nothing writes any more
        self._hurry = threading.Event()  # either of them
        self._trouble: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="checkpoint agent", daemon=True)

    def restore(self) -> int:
        """Bring everything below the prefix to every host, torn files included; gives the number of files."""
        objects = kept_below(self._store, self._uri)
        for folder in self._folders:
            self._random.shuffle(objects)
            self._copied |= {target: _version(target) for target in copies_of(objects, folder)}
        return len(objects)

    def start(self) -> None:
        """Watch the folders from now on."""
        self._staging.mkdir(parents=True, exist_ok=True)
        self._thread.start()

    def finish(self, within_s: float | None = None) -> bool:
        """Nothing writes any more: copy what is left, at most so many seconds, and end. Whether all was copied.

        Raises:
            Exception: what went wrong in the thread, such as a full disk.
        """
        self._last_round.set()
        self._hurry.set()
        self._thread.join(within_s)
        return self.cut()

    def cut(self) -> bool:
        """The machine goes this instant. Whether everything had been copied.

        Raises:
            Exception: what went wrong in the thread, such as a full disk.
        """
        done = not self._thread.is_alive()
        self._gone.set()
        self._hurry.set()
        self._thread.join()
        shutil.rmtree(self._staging, ignore_errors=True)
        if self._trouble is not None:
            raise self._trouble
        return done

    def _work(self) -> None:
        try:
            while not self._gone.is_set():
                last = self._last_round.is_set()
                changed = self._changed(settled=not last)
                self._random.shuffle(changed)
                for name, path in changed:
                    self._hurry.wait(self._random.uniform(0.0, 2 * self._delay_s))
                    if self._gone.is_set() or not self._upload(name, path):
                        return
                if last and not self._changed():
                    return
                if not changed:
                    self._hurry.wait(_LOOK_EVERY_S)
        except Exception as error:  # told to the job's thread, which ends the agent
            self._trouble = error

    def _changed(self, *, settled: bool = False) -> list[tuple[str, Path]]:
        """Files whose present content is not in the store; with `settled` only those that were not written a moment
        ago. The agent's own marks do not count."""
        found: list[tuple[str, Path]] = []
        for folder in self._folders:
            try:
                names = list(walk(folder)) if folder.is_dir() else []
            except FileNotFoundError:
                continue  # a folder was pruned between two looks
            for name, path in names:
                version = None if name.endswith((UPLOADING, UPLOADED)) else _version_or_none(path)
                if version is None or (settled and is_fresh(version.mtime_ns)):
                    continue
                if self._copied.get(path) != version:
                    found.append((name, path))
        return sorted(found)

    def _upload(self, name: str, path: Path) -> bool:
        """Copy one file, unless it goes or changes meanwhile; False when the machine has gone."""
        before = _version_or_none(path)
        if before is None or not _mark(path, UPLOADING):
            return True
        staged = self._staging / "file"
        try:
            whole = self._copy(path, staged)
            if not whole:
                self._store.adopt(staged, f"{self._uri}/{name}{UPLOADING}")
                return False
            if _version_or_none(path) == before:  # else it is taken again in the next round
                self._store.adopt(staged, f"{self._uri}/{name}")
                self._copied[path] = before
                _mark(path, UPLOADED)
        except FileNotFoundError:
            return True  # pruned by the job
        finally:
            path.with_name(path.name + UPLOADING).unlink(missing_ok=True)
        return True

    def _copy(self, source: Path, target: Path) -> bool:
        """Copy in pieces; False when the machine goes in between: the target then holds what had been sent."""
        with open(source, "rb") as reader, open(target, "wb") as writer:
            while chunk := reader.read(_CHUNK):
                half = len(chunk) // 2
                writer.write(chunk[:half])
                # So that a small file, too, can be met half on its way.
                self._hurry.wait(self._random.uniform(0.0, self._delay_s))
                if self._gone.is_set():
                    return False
                writer.write(chunk[half:])
                if self._gone.is_set():
                    return False
        return True


def _mark(path: Path, suffix: str) -> bool:
    """Put an empty file beside; False where the folder is gone."""
    try:
        path.with_name(path.name + suffix).touch()
    except FileNotFoundError:
        return False
    return True


def _version(path: Path) -> _Version:
    stat = path.stat()
    return _Version(stat.st_size, stat.st_mtime_ns, stat.st_ino)


def _version_or_none(path: Path) -> _Version | None:
    try:
        return _version(path)
    except FileNotFoundError:
        return None
