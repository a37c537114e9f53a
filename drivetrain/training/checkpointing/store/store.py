"""Checkpoints in a place: each is a folder, and exists when its manifest does, whichever ranks wrote its files.

    step-00000120/...                files, then manifest.json
    step-00000120.2/...              the same step saved again: the first stands until the second is committed
    step-00000130.101/...            of a training that took over from one which may still write (lock.Holder.term)
    quarantine/step-00000100.1/...   a damaged one, with report.json

Order of a save, and why a kill, a full disk or a loss of power at any instant leaves the earlier ones as they were:

1. `begin` chooses a folder that no manifest is in. What an interrupted save left there goes first, durably, so that no
   file of the old attempt can be taken for one of the new.
2. The files are written (Place.write): the content and name of each are durable before its checksum goes to the rank
   that writes the manifest. Until then there is no manifest: the folder counts for nothing.
3. `commit` creates the manifest, atomically and durably. From that instant the checkpoint exists; before it, whatever
   subset of the files the disk has kept, it does not. The manifest lists every file with size and checksum, so that a
   disk which broke its word is noticed, and the next older checkpoint is taken.
4. Only after that `retain` removes older ones: the manifest first, durably, then the files. A checkpoint that is half
   removed has no manifest.

Steps order checkpoints: by number, never by name or by a clock. Deletions are assumed not to reach the store that a
sync agent copies to: whatever was removed may come back, and is valid then; `clean` and `retain` remove it again.

A file that is listed but not there is no damage that a reader can be certain of (files may be restored in any order,
and a host may hold only what its own ranks wrote), so `verify` says MissingError and nothing is moved. It is certain,
and the folder is removed, when a newer checkpoint is known to be good: then nobody will ever want this one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.lock import LOCK_FILE, Lock
from drivetrain.training.checkpointing.store.manifest import (
    MANIFEST_FILE,
    DamagedError,
    FileEntry,
    Manifest,
    MissingError,
    check_size,
    is_leftover,
)
from drivetrain.training.checkpointing.store.retention import Retention, to_remove

QUARANTINE = "quarantine"
REPORT_FILE = "report.json"
STEP_FOLDER = re.compile(r"step-(\d{8,18})(?:\.([1-9]\d{0,5}))?", re.ASCII)
_NUMBERS_OF_A_TERM = 100
# Each restart may bring a damaged checkpoint back; so many of a step are kept to be looked at.
_QUARANTINED_OF_A_STEP = 3
# The disk's own way to say that what it holds is damaged.
DISK_SAYS_DAMAGED = (errno.EIO, errno.EUCLEAN, errno.ENODATA)


class Store:
    """The checkpoints of one training.

    One process may write at a time (lock.Lock); any number may read. On hosts that do not share the folder each has a
    store of its own, which holds a part of the files; then `shared` is False, and a missing file means nothing. `fence`
    is the lock that says if this process may still write, and by whose term it names folders.
    """

    def __init__(self, place: Place, *, shared: bool = True, fence: Lock | None = None) -> None:
        self.place = place
        self.shared = shared
        self._fence = fence
        self._begun: dict[int, str] = {}
        self._good: set[int] = set()

    def steps(self) -> list[int]:
        """The steps that have a manifest, newest first."""
        return sorted(self._committed(self.place.names()), reverse=True)

    def folder(self, step: int) -> str:
        """The folder of a step's checkpoint; of one that was saved more than once, the last.

        Raises:
            MissingError: that step has no manifest.
        """
        found = self._committed(self.place.names()).get(step)
        if found is None:
            raise MissingError(f"there is no checkpoint of step {step}", file=MANIFEST_FILE)
        return found[-1]

    def manifest(self, step: int) -> Manifest:
        """The manifest of a step's checkpoint.

        Raises:
            DamagedError: the manifest is damaged, or another step's; MissingError: it is not there (any more).
            InputError: it is of a later format.
        """
        return self._manifest(self.folder(step), step)

    def begin(self, step: int) -> str:
        """Make room for a checkpoint; gives the folder that its files are to be written to.

        For the one process of a folder that will commit; it tells the others. A checkpoint of that step that exists
        stays until the new one is committed. Whatever else lies there of the step goes.
        """
        self._check_fence()
        names = self.place.names()
        taken = self._committed(names).get(step, [])
        # A name of this term's own: a process of an earlier one, that only slept, may still write into its folder.
        first = 1 + _NUMBERS_OF_A_TERM * (self._fence.term if self._fence is not None else 0)
        number = max([first, *(1 + _parse(folder)[1] for folder in taken)])
        folder = f"step-{step:08d}" if number == 1 else f"step-{step:08d}.{number}"
        for unfinished in folders_of(step, names):
            if unfinished not in taken:
                self._discard(unfinished, names)
        self._begun[step] = folder
        return folder

    def agree(self, step: int, folders: Iterable[str]) -> str:
        """Write the checkpoint that was begun to the last of the folders that the stores of several hosts gave, which
        no manifest is in here, either: copies of their parts in one place are one checkpoint, and not of two savings.
        """
        folder = max(folders, key=_parse)
        if step in self._begun:
            self._begun[step] = folder
        return folder

    def commit(self, manifest: Manifest) -> None:
        """Commit the checkpoint that was begun for the manifest's step. Durable when this returns.

        Raises:
            DamagedError: a file is not there, or not of the size that the manifest states: nothing is committed.
            LostLockError: this process has lost the right to write: nothing is committed.
            OSError: the disk or the network fails; whether the checkpoint exists is then unknown, but it is whole or
                not there.
        """
        self._check_fence()  # for the sake of the message: the process that took over has removed the files
        folder = self._begun[manifest.step]
        self._check_sizes(folder, manifest.files, self.place.names(folder))
        # Last before the manifest: a process that slept too long must not commit.
        self._check_fence()
        self.place.create(f"{folder}/{MANIFEST_FILE}", manifest.to_bytes())
        del self._begun[manifest.step]
        self._good.add(manifest.step)

    def abandon(self, step: int) -> None:
        """Remove the files of a failed save; they never counted."""
        self._check_fence()
        folder = self._begun.pop(step, None)
        if folder is not None:
            self._discard(folder, self.place.names(folder))

    def verify(self, step: int, names: Iterable[str] | None = None) -> None:
        """Read files of a checkpoint (all of them unless named) and compare them with the manifest.

        Raises:
            DamagedError: one differs (which, what was expected, what was found); MissingError: one is not there.
            KeyError: a name that the manifest does not list.
        """
        folder = self.folder(step)
        manifest = self._manifest(folder, step)
        for entry in manifest.files if names is None else [manifest.file(name) for name in names]:
            self._verify(folder, entry)
        if names is None:
            self.vouch(step)

    def vouch(self, step: int) -> None:
        """Note that a checkpoint is good, as `verify` and `commit` do: all its files have been read and hold."""
        self._good.add(step)

    def quarantine(self, step: int, why: DamagedError) -> str:
        """Quarantine the checkpoint of a step, with a report; returns its new folder."""
        self._check_fence()
        folder = self.folder(step)
        self._good.discard(step)
        number = 1 + max((number for _, number in self._quarantined(step)), default=0)
        target = f"{QUARANTINE}/step-{step:08d}.{number}"
        self.place.move(folder, target)
        report = {
            "step": step,
            "why": str(why),
            "file": why.file.removeprefix(f"{folder}/"),  # as the manifest has it; a place knows the whole name
            "expected": why.expected,
            "found": why.found,
            "when": datetime.now(UTC).isoformat(timespec="seconds"),
            "who": {"host": socket.gethostname(), "pid": os.getpid()},
        }
        try:
            self.place.replace(f"{target}/{REPORT_FILE}", json.dumps(report, indent=1, default=str).encode())
            for old, _ in self._quarantined(step)[:-_QUARANTINED_OF_A_STEP]:
                self.place.remove(list(self.place.names(old)))
        except OSError as error:  # a full disk must not keep a training from the checkpoint before this one
            print(f"the report of {target} could not be written: {error}", file=sys.stderr, flush=True)
        return target

    def clean(self) -> list[str]:
        """Remove what does not count: leftovers of sync agents and killed writers, folders without a manifest, earlier
        editions of a step; gives the names of the files removed.

        For the holder of the lock, before it saves anything: files of a save that is under way have no manifest either.
        """
        self._check_fence()
        names = self.place.names()
        committed = self._committed(names)
        current = {folders[-1] for folders in committed.values()}
        going: list[str] = []
        for name in names:
            top, _, rest = name.partition("/")
            if rest and STEP_FOLDER.fullmatch(top):
                if top not in current or is_leftover(name):
                    going.append(name)
            elif is_leftover(name) and not rest and not top.startswith(LOCK_FILE):  # a lock may be tried
                going.append(name)
        superseded = [folder for folders in committed.values() for folder in folders[:-1]]
        kept = [folder for folder in superseded if not self.place.retire(folder)]
        going = [name for name in going if name.partition("/")[0] not in kept]
        self.place.remove(going)
        return going

    def retain(self, policy: Retention) -> list[int]:
        """Remove the checkpoints that the policy does not keep; gives their steps.

        A checkpoint that is being read stays until the next time; so does everything while none is known to be good.
        Those that cannot become whole any more (older than a good one, with files missing) go, too.
        """
        self._check_fence()
        names = self.place.names()
        committed = self._committed(names)
        whole: dict[int, Manifest] = {}
        hopeless: list[int] = []
        for step, folders in committed.items():
            try:
                manifest = self._manifest(folders[-1], step)
                self._check_sizes(folders[-1], manifest.files, names)
                whole[step] = manifest
            except DamagedError:
                hopeless.append(step)
        newest_good = max((step for step in whole if step in self._good), default=-1)
        going = to_remove(whole, policy, good=self._good)
        going += [step for step in hopeless if step < newest_good]
        removed = [step for step in sorted(going) if all(self._remove(folder, names) for folder in committed[step])]
        self._good -= set(removed)
        for folders in committed.values():
            for folder in folders[:-1]:
                self._remove(folder, names)
        return removed

    def _manifest(self, folder: str, step: int) -> Manifest:
        try:
            manifest = Manifest.from_bytes(self.place.read(f"{folder}/{MANIFEST_FILE}"))
        except FileNotFoundError:
            raise MissingError(f"{folder} has no {MANIFEST_FILE}", file=MANIFEST_FILE) from None
        except OSError as error:
            raise _unreadable(error, MANIFEST_FILE) from error
        if manifest.step != step:
            raise DamagedError(
                f"{folder} holds the manifest of step {manifest.step}",
                file=MANIFEST_FILE,
                expected=step,
                found=manifest.step,
            )
        return manifest

    def _verify(self, folder: str, entry: FileEntry) -> None:
        try:
            size, checksum = self.place.checksum(f"{folder}/{entry.name}")
        except FileNotFoundError:
            raise _missing(folder, entry) from None
        except OSError as error:
            raise _unreadable(error, entry.name) from error
        check_size(f"{folder}/{entry.name}", entry.size, size, file=entry.name)
        if checksum != entry.crc32:
            raise DamagedError(
                f"{folder}/{entry.name} has the checksum {checksum:08x} instead of {entry.crc32:08x}",
                file=entry.name,
                expected=f"{entry.crc32:08x}",
                found=f"{checksum:08x}",
            )

    def _check_sizes(self, folder: str, files: Sequence[FileEntry], sizes: dict[str, int]) -> None:
        for entry in files:
            name = f"{folder}/{entry.name}"
            if name in sizes:
                check_size(name, entry.size, sizes[name], file=entry.name)
            elif self.shared:
                raise _missing(folder, entry)

    def _remove(self, folder: str, names: dict[str, int]) -> bool:
        """Remove a checkpoint, the manifest first; returns False if it is being read."""
        if not self.place.retire(folder):
            return False
        self.place.remove(_below(folder, names))
        return True

    def _discard(self, folder: str, names: dict[str, int]) -> None:
        """Remove what lies in a folder that does not count, or must not; the manifest first."""
        manifest = f"{folder}/{MANIFEST_FILE}"
        try:
            if manifest in names:
                self.place.remove([manifest])
        finally:  # on a disk that fails, too: a manifest without its files is no checkpoint, and the room is wanted
            if below := _below(folder, names):
                self.place.remove(below)

    def _committed(self, names: Iterable[str]) -> dict[int, list[str]]:
        """The folders with a manifest, by step; those of one step in the order in which they were saved."""
        found: dict[int, list[str]] = {}
        for name in names:
            folder, _, rest = name.partition("/")
            if rest == MANIFEST_FILE and STEP_FOLDER.fullmatch(folder):
                found.setdefault(_parse(folder)[0], []).append(folder)
        return {step: sorted(folders, key=_parse) for step, folders in found.items()}

    def _quarantined(self, step: int) -> list[tuple[str, int]]:
        """The folders in quarantine of a step with their numbers, oldest first."""
        found: set[tuple[int, str]] = set()
        for name in self.place.names(QUARANTINE):
            folder = name.split("/")[1]
            if STEP_FOLDER.fullmatch(folder) and _parse(folder)[0] == step:
                found.add((_parse(folder)[1], f"{QUARANTINE}/{folder}"))
        return [(folder, number) for number, folder in sorted(found)]

    def _check_fence(self) -> None:
        if self._fence is not None:
            self._fence.check()


def folders_of(step: int, names: Iterable[str]) -> list[str]:
    """The folders of a step that files lie in, with a manifest or without, in the order in which they were begun."""
    found = {name.partition("/")[0] for name in names if "/" in name}
    return sorted((each for each in found if STEP_FOLDER.fullmatch(each) and _parse(each)[0] == step), key=_parse)


def _parse(folder: str) -> tuple[int, int]:
    """The step of a folder, and which saving of that step it is, from 1."""
    match = STEP_FOLDER.fullmatch(folder)
    assert match is not None
    return int(match.group(1)), int(match.group(2) or 1)


def _below(folder: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(f"{folder}/")]


def _missing(folder: str, entry: FileEntry) -> MissingError:
    return MissingError(f"{folder}/{entry.name} is not there", file=entry.name, expected=entry.size, found=None)


def _unreadable(error: OSError, file: str) -> Exception:
    """The disk reports that a file is damaged. Other failures say nothing about the checkpoint."""
    if error.errno not in DISK_SAYS_DAMAGED:
        return error
    return DamagedError(f"{file} cannot be read: {error.strerror}", file=file, found=error.strerror)
