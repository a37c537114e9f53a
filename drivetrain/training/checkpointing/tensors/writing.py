"""Writes and commits a checkpoint in the background, after `save` has returned.

    begin      the first rank of each folder makes room, and tells a name for it; the last of these is everyone's
    write      every rank its file, durably; rank 0 gets the checksums, and hears what went wrong where
    commit     index and values, then the manifest: by rank 0, or by the first rank of each of several folders
    retain     older ones go

Where there is no room, older ones go first, all but the newest good one and those that are kept for a reason, and it is
tried once more: else a disk that is too small for all that are to be kept would keep the oldest, and no other.

Whatever waits for a disk is done within Group.meanwhile: a slow one is no rank that stands still.

A failure on one rank reaches all ranks in place of the message that they wait for: no rank waits in vain, and no
incomplete checkpoint is committed.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from drivetrain.training.checkpointing.store.lock import LostLockError
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.store.sync_lag import SyncWatch, is_mark
from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer
from drivetrain.training.checkpointing.tensors.index import (
    INDEX_FILE,
    STATE_FILE,
    Index,
    TensorEntry,
    merge,
    part_from_json,
    part_to_json,
)
from drivetrain.training.checkpointing.tensors.rank_file import RankFile
from drivetrain.training.group import Group

# What can go wrong with a folder, and does not end a training.
FAILURES = (OSError, ValueError, LostLockError)
# What other ranks hear of it is words.
NO_ROOM = tuple(os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))


@dataclass(frozen=True)
class Job:
    """A checkpoint to write.

    Attributes:
        values: what goes into state.json, rank 0's.
        strategy: its framework's `values_of`, of a rank that speaks for its stage.
        described: what goes into the manifest, rank 0's.
        file: the layout of what lies in `buffer`.
        started: time.monotonic() when the save began.
    """

    step: int
    values: dict[str, Any]
    strategy: dict[str, Any] | None
    described: dict[str, Any]
    file: RankFile
    buffer: HostBuffer
    started: float


class Writer:
    """Writes one checkpoint after the other, together with the writers of the other ranks."""

    def __init__(
        self, store: Store, exchange: Group, folders: list[int], retention: Retention, say: Callable[[str], None]
    ) -> None:
        self.store, self.exchange, self.folders, self.retention, self.say = store, exchange, folders, retention, say
        self.rank = exchange.rank
        self.keeps_folder = folders[self.rank] == self.rank
        self.shared = len(set(folders)) == 1
        self.lost: LostLockError | None = None  # another training has taken the place over
        self._told: RankFile | None = None  # the layout that rank 0 knows of
        self._parts: dict[int, dict[str, TensorEntry]] = {}
        self._index = b""
        self._agent = SyncWatch()

    def write(self, job: Job) -> str:
        """Why there is no such checkpoint; empty where there is one. The same on every rank.

        Raises:
            RuntimeError: another rank is lost.
        """
        problem = self._write(job)
        if any(words in problem for words in NO_ROOM):
            self.exchange.meanwhile(lambda: self._tend(self._make_room, job.step))
            problem = self._write(job)
        self.exchange.meanwhile(lambda: self._tend(self.store.abandon if problem else self._retain, job.step))
        return problem

    def _tend(self, work: Callable[[int], None], step: int) -> None:
        """Housekeeping by the first rank of each folder; its failures never end a training."""
        if not self.keeps_folder:
            return
        try:
            work(step)
        except LostLockError as error:
            self.lost = error
        except FAILURES as error:
            self.say(f"old files stay in {self.store.place.uri}: {error}")

    def _make_room(self, step: int) -> None:
        self.store.abandon(step)
        if removed := self.store.retain(replace(self.retention, last=1)):
            steps = ", ".join(map(str, removed))
            self.say(
                f"no room for checkpoint {step}: removed what was of step {steps}, which "
                f"keep_last={self.retention.last} would keep. Free some, or keep fewer."
            )

    def _retain(self, step: int) -> None:
        self.store.retain(self.retention)
        self._watch_agent(step)

    def _watch_agent(self, step: int) -> None:
        """Warn once if the agent that copies the folder elsewhere has stopped."""
        if "://" in self.store.place.uri:
            return
        names, folder, now = self.store.place.names(), self.store.folder(step), time.monotonic()
        self._agent.committed(step, [n for n in names if n.startswith(f"{folder}/") and not is_mark(n)], now)
        if warning := self._agent.look(names, now):
            self.say(warning)

    def _write(self, job: Job) -> str:
        begun = self.exchange.gather_json(self.exchange.meanwhile(lambda: self._begin(job.step)))
        if problem := _first_of(each[1] for each in begun):
            return problem
        folder = self.store.agree(job.step, (name for name, _ in begun if name))
        report = self.exchange.meanwhile(lambda: self._write_own(job, folder))
        reports = self.exchange.to_main(json.dumps(report).encode())
        outcome = self.exchange.meanwhile(lambda: self._compose(job, folder, reports) if reports is not None else None)
        outcome = json.loads(self.exchange.from_main(None if outcome is None else json.dumps(outcome).encode()))
        if outcome["problem"] or self.shared:
            return outcome["problem"]
        return self._commit_everywhere(job.step, folder, outcome)

    def _begin(self, step: int) -> tuple[str, str]:
        """The name of a folder, by the first rank of each; and the reason if there is no folder."""
        try:
            return (self.store.begin(step) if self.keeps_folder else ""), ""
        except FAILURES as error:
            return "", str(error)

    def _write_own(self, job: Job, folder: str) -> dict[str, Any]:
        report: dict[str, Any] = {"problem": "", "strategy": job.strategy}
        if self._told is not job.file:
            report["part"] = part_to_json(job.file.part)
        try:
            checksum = self.store.place.write(f"{folder}/{job.file.name}", job.buffer.view(job.file.size))
            report["file"] = [job.file.name, job.file.size, checksum]
        except FAILURES as error:
            report["problem"] = str(error)
        self._told = job.file
        return report

    def _compose(self, job: Job, folder: str, given: list[bytes]) -> dict[str, Any]:
        """On rank 0: what is to be committed; and, where there is one folder, the commit."""
        reports: list[dict[str, Any]] = [json.loads(each) for each in given]
        for rank, report in enumerate(reports):
            if "part" in report:
                name = job.file.name.replace(f"rank-{0:05d}", f"rank-{rank:05d}")
                self._parts[rank] = part_from_json(report["part"], name)
                self._index = b""
        if problem := _first_of(report["problem"] for report in reports):
            return {"problem": problem}
        try:
            if not self._index:
                index = Index(merge(self._parts.values()))
                if lacking := index.incomplete():
                    return {"problem": f"no rank has all of {lacking}"}
                self._index = index.to_bytes()
            strategy = merge_values([report["strategy"] for report in reports if report["strategy"]])
            outcome = {
                "problem": "",
                "index": self._index.decode(),
                "state": json.dumps(job.values | {"strategy": strategy}, indent=1, allow_nan=False),
                "files": [report["file"] for report in reports],
                "described": job.described
                | {
                    "saved_at": datetime.now(UTC).isoformat(timespec="seconds"),
                    "save_seconds": round(time.monotonic() - job.started, 3),
                },
            }
            if self.shared:
                self.store.commit(self._manifest(job.step, outcome, self._write_common(folder, outcome)))
                return {"problem": ""}
        except FAILURES as error:
            return {"problem": str(error)}
        return outcome

    def _write_common(self, folder: str, outcome: dict[str, Any]) -> list[FileEntry]:
        """Index and values."""
        entries: list[FileEntry] = []
        for name, text in ((INDEX_FILE, outcome["index"]), (STATE_FILE, outcome["state"])):
            data = text.encode()
            entries.append(FileEntry(name, len(data), self.store.place.write(f"{folder}/{name}", data)))
        return entries

    def _manifest(self, step: int, outcome: dict[str, Any], common: list[FileEntry]) -> Manifest:
        files = (*(FileEntry(*entry) for entry in outcome["files"]), *common)
        return Manifest(step=step, files=files, values=outcome["described"])

    def _commit_everywhere(self, step: int, folder: str, outcome: dict[str, Any]) -> str:
        """The same manifest in every folder, once everything else is durable in all of them: a folder that lacks it
        then, as its host was stopped in between, can go by that of another."""
        manifest: Manifest | None = None

        def write() -> None:
            nonlocal manifest
            if self.keeps_folder:
                manifest = self._manifest(step, outcome, self._write_common(folder, outcome))

        def commit() -> None:
            if manifest is not None:
                self.store.commit(manifest)

        return self._together(write) or self._together(commit)

    def _together(self, work: Callable[[], None]) -> str:
        """Run it on every rank; returns the first problem."""
        problem = ""
        try:
            self.exchange.meanwhile(work)
        except FAILURES as error:
            problem = str(error)
        return _first_of(self.exchange.gather_json(problem))


def merge_values(stages: list[dict[str, Any]]) -> dict[str, Any]:
    """The `values_of` a whole training from those of its pipeline stages."""
    return {**stages[0], "groups": [group for values in stages for group in values["groups"]]}


def _first_of(problems: Any) -> str:
    """The first that is one, with the rank whose it is."""
    listed = list(problems)
    for rank, problem in enumerate(listed):
        if problem:
            return f"rank {rank}: {problem}" if len(listed) > 1 else problem
    return ""
