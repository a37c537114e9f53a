"""Choose the checkpoint to resume from: the newest one whose needed parts every rank found whole.

    each rank      its folder's manifest, index and values; the files that it needs, read and checked
    all together   a no of any rank sets the checkpoint aside, and the next older one is looked at

The strategy is unchanged until all ranks agree.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.base.stopping import AwayError
from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError, Manifest, MissingError
from drivetrain.training.checkpointing.store.reading import (
    check_file,
    check_places,
    parse_values,
    read_checked,
    read_file,
)
from drivetrain.training.checkpointing.store.store import DISK_SAYS_DAMAGED, Store, folders_of
from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer
from drivetrain.training.checkpointing.tensors.index import INDEX_FILE, STATE_FILE, Chunk, Index, TensorEntry
from drivetrain.training.checkpointing.tensors.pieces import Read, reads_of, uncovered
from drivetrain.training.checkpointing.tensors.rank_file import file_name
from drivetrain.training.group import Group
from drivetrain.training.strategy import Strategy

GENERATORS = "generators/"
# Numbers of a generator's state: torch's has 5,056 bytes.
_LARGEST_GENERATOR = 1_000_000

Check = Callable[[dict[str, Any]], None]
# What keeps a rank from going on from a checkpoint.
DAMAGED, MISSING, ELSEWHERE, UNREADABLE, REFUSED = "damaged", "missing", "elsewhere", "unreadable", "refused"
AWAY = "away"


class ElsewhereError(MissingError):
    """Another host wrote what a rank needs into a folder that this host does not see."""


class No(NamedTuple):
    """A rank's answer to a checkpoint: why it cannot go on from it."""

    kind: str
    text: str
    file: str = ""
    expected: str = ""
    found: str = ""


@dataclass
class Loaded:
    """A checkpoint that all ranks have; `tensors` are filled."""

    manifest: Manifest
    folder: str
    values: dict[str, Any]
    tensors: dict[str, Any]


@dataclass
class _Prepared:
    """A rank's reads of a checkpoint before any tensor is read; `parts` is what it reads into."""

    folder: str
    present: set[str]
    values: dict[str, Any]
    tensors: dict[str, Any]
    parts: dict[str, Any]
    reads: list[Read]

    @property
    def files(self) -> set[str]:
        return {read.chunk.file for read in self.reads}


class Vote:
    """A vote of all ranks about what their folders hold.

    Args:
        store: of this rank's folder.
        exchange: between the ranks.
        folders: for each rank the first rank with the same folder.
        say: a line for people, on rank 0.
    """

    def __init__(self, store: Store, exchange: Group, folders: list[int], say: Callable[[str], None]) -> None:
        self.store, self.exchange, self.folders, self.say = store, exchange, folders, say
        self.place: Place = store.place
        self.rank, self.world_size = exchange.rank, exchange.size
        self.keeps_folder = folders[self.rank] == self.rank
        self.shared = len(set(folders)) == 1

    def newest(self, strategy: Strategy, check: Check | None) -> Loaded | None:
        """The newest whole checkpoint, in the strategy's tensors; None if there is no whole one. Every rank must call
        it.

        Raises:
            InputError: of another training (what `check` raises), or of another model; or there are checkpoints, but
                some rank cannot read what it needs of any.
            AwayError: the place is a service that does not answer.
        """
        listed = self.exchange.gather_json(self.exchange.meanwhile(self.store.steps))
        steps = {step for steps in listed for step in steps}
        passed_by = ""
        for step in sorted(steps, reverse=True):
            manifest, no = self._common_manifest(step)
            if manifest is not None:
                loaded, no = self._load(manifest, strategy, check)
                if loaded is not None:
                    return loaded
            assert no is not None
            passed_by = passed_by or self._pass_by(step, no)
        if passed_by:
            raise InputError(passed_by)
        return None

    def _common_manifest(self, step: int) -> tuple[Manifest | None, No | None]:
        """The one manifest of a step. A folder that lacks it (its host was stopped a moment too early) goes by that of
        the others: it is written when all files are durable everywhere."""

        def read() -> tuple[bytes, No | None]:
            try:
                return self.store.manifest(step).to_bytes(), None
            except (DamagedError, InputError, OSError) as error:
                return b"", _no(error)

        own, no = self.exchange.meanwhile(read)
        # A manifest is as long as there are ranks: not each of them is to get one from each.
        hashes = self.exchange.gather(hashlib.sha256(own).digest() if own else b"")
        found = {each for each in hashes if each}
        if not found:
            return None, self._worst(no)
        if len(found) > 1:
            return None, No(DAMAGED, "the manifests of the hosts differ")
        if not all(hashes):
            own = next(data for data in self.exchange.gather(own) if data)
        return Manifest.from_bytes(own), None

    def _load(self, manifest: Manifest, strategy: Strategy, check: Check | None) -> tuple[Loaded | None, No | None]:
        prepared: _Prepared | None = None
        buffers: dict[str, HostBuffer] = {}
        no: No | None = None
        with ExitStack() as held:
            try:
                folder, committed = self._folder(manifest)
                if committed:
                    held.enter_context(self.place.reading(folder))
                prepared = self._prepare(manifest, folder, strategy, check)
            except (InputError, DamagedError, OSError) as error:
                no = _no(error)
            wanted = prepared.files if prepared else set[str]()
            needed = self.exchange.gather(bytes(file.name in wanted for file in manifest.files))
            if worst := self._worst(no):
                return None, worst
            assert prepared is not None
            folder, rest = prepared.folder, self._own_part_of_rest(manifest, needed, prepared.present)

            def read() -> None:
                for name in sorted(wanted):
                    buffers[name] = read_file(self.place, folder, manifest, name)
                for name in rest:
                    check_file(self.place, folder, manifest, name)

            try:
                self.exchange.meanwhile(read)
            except (DamagedError, OSError) as error:
                no = _no(error)
            if worst := self._worst(no):
                return None, worst
        if self.keeps_folder and not self._has(manifest):
            self.place.replace(f"{folder}/{MANIFEST_FILE}", manifest.to_bytes())
        self.store.vouch(manifest.step)
        parts = prepared.parts
        strategy.framework.fill(prepared.reads, parts, buffers)
        tensors = {name: parts.get(name, tensor) for name, tensor in prepared.tensors.items()}
        return Loaded(manifest, folder, prepared.values, tensors), None

    def _folder(self, manifest: Manifest) -> tuple[str, bool]:
        """The folder of a checkpoint's files here, and True if the manifest lies there, too."""
        step = manifest.step
        if step in self.store.steps():
            return self.store.folder(step), True
        sizes = self.place.names()
        for folder in reversed(folders_of(step, sizes)):
            here = {file.name for file in manifest.files if sizes.get(f"{folder}/{file.name}") == file.size}
            if {INDEX_FILE, STATE_FILE} <= here:
                return folder, False
        raise ElsewhereError(f"the host of rank {self.rank} has no checkpoint of step {step}")

    def _has(self, manifest: Manifest) -> bool:
        try:
            return self.store.manifest(manifest.step) == manifest
        except (DamagedError, OSError):
            return False

    def _prepare(self, manifest: Manifest, folder: str, strategy: Strategy, check: Check | None) -> _Prepared:
        there = self.place.names(folder)
        present = {file.name for file in manifest.files if f"{folder}/{file.name}" in there}
        lacking = {file.name for file in manifest.files} - present
        if lacking and (manifest.values.get("folders", 1) == 1 or lacking & {INDEX_FILE, STATE_FILE}):
            raise MissingError(f"{min(lacking)} is not there", file=min(lacking))
        values = parse_values(read_checked(self.place, folder, manifest, STATE_FILE))
        _check_same(manifest, values)
        if check:
            check(values)
        state = strategy.framework
        state.check_values(strategy, values["strategy"])
        index = Index.from_bytes(read_checked(self.place, folder, manifest, INDEX_FILE))
        check_places(index, manifest)
        wanted = state.targets(strategy, index)
        if manifest.values.get("world_size") == self.world_size:
            prefix = f"{GENERATORS}{self.rank:05d}/"
            own = {name: entry for name, entry in index.tensors.items() if name.startswith(prefix)}
            _check_generators(own)
            wanted |= {n: state.empty(entry.shape, entry.dtype) for n, entry in own.items()}
        own_file = file_name(self.rank, self.world_size)

        def prefer(copies: list[Chunk]) -> Chunk:
            return next((c for c in copies if c.file == own_file), copies[self.rank % len(copies)])

        parts = state.parts(wanted)
        pieces = {name: state.piece_of(name, tensor) for name, tensor in parts.items()}
        reads = reads_of(pieces, index, present, prefer)
        if name := uncovered(reads, pieces):
            raise ElsewhereError(
                f"parts of {name} that rank {self.rank} needs are in files of other hosts. Another number of "
                "processes, or another strategy, needs a checkpoints folder that the hosts share, or one that was "
                "restored on each of them"
            )
        return _Prepared(folder, present, values, wanted, parts, reads)

    def _own_part_of_rest(self, manifest: Manifest, needed: list[bytes], present: set[str]) -> list[str]:
        """The files that nobody needs and this rank checks: a training goes on only from a whole checkpoint.

        A host with a folder of its own votes on what its ranks need: what else was restored there may be a bad copy.

        Args:
            needed: for each rank a byte a file of the manifest: 1 where it needs it.
        """
        if not self.shared:
            return []
        by_file = zip(manifest.files, zip(*needed, strict=True), strict=True)
        read = {file.name for file, marks in by_file if any(marks)} | {INDEX_FILE, STATE_FILE}
        return sorted(present - read)[self.rank :: self.world_size]

    def _worst(self, own: No | None) -> No | None:
        """Reduce the answers of all ranks to the worst; one that no older checkpoint can mend comes first."""
        answers = [No(*given) if given else None for given in self.exchange.gather_json(own)]
        for kind in (REFUSED, AWAY, DAMAGED, MISSING, ELSEWHERE, UNREADABLE):
            for rank, answer in enumerate(answers):
                if answer and answer.kind == kind:
                    alone = kind == REFUSED or self.world_size == 1
                    return answer if alone else answer._replace(text=f"rank {rank}: {answer.text}")
        return None

    def _pass_by(self, step: int, no: No) -> str:
        """Go on to the next older checkpoint; if there is no older one, returns why a fresh start is refused.

        Raises:
            InputError, AwayError: no older one would do either.
        """
        if no.kind == REFUSED:
            raise InputError(no.text)
        if no.kind == AWAY:
            raise AwayError(no.text)
        where = f"checkpoint {step} in {self.place.uri}"
        if no.kind == DAMAGED:
            if self.keeps_folder and step in self.store.steps():
                why = DamagedError(no.text, file=no.file, expected=no.expected, found=no.found)
                try:
                    where += f" (now in {self.store.quarantine(step, why)})"
                except (OSError, DamagedError) as error:  # a full disk or a link: an older one is loaded
                    where += f" (and stays there, as it cannot be moved: {error})"
            self.say(f"{where} is damaged: {no.text}. Looking for an older one.")
            return ""
        self.say(f"skipping {where}: {no.text}. Looking for an older one.")
        if no.kind == MISSING:  # removed, or never wholly restored: nothing that another start would find
            return ""
        return f"{where} cannot be used: {no.text}. No older one can be used."


def _check_same(manifest: Manifest, values: dict[str, Any]) -> None:
    """
    Raises:
        DamagedError: the values say another step or place in the data than the manifest.
    """
    for name, told in (("step", manifest.step), ("consumed", manifest.values.get("consumed"))):
        if name in values and told is not None and (values[name] != told or isinstance(values[name], bool)):
            raise DamagedError(
                f"{STATE_FILE} says {name} {values[name]!r:.40}, and {MANIFEST_FILE} {told!r:.40}", file=STATE_FILE
            )


def _check_generators(own: dict[str, TensorEntry]) -> None:
    """
    Raises:
        DamagedError: it is no generator's state: its form is another one, or it is huge.
    """
    for name, entry in own.items():
        if len(entry.shape) != 1 or entry.shape[0] > _LARGEST_GENERATOR or entry.dtype not in ("int64", "uint8"):
            raise DamagedError(
                f"{INDEX_FILE}: {name} is {entry.dtype} {list(entry.shape)}, which is no generator's state",
                file=INDEX_FILE,
            )


def _no(error: Exception) -> No:
    text = str(error)
    if isinstance(error, FileNotFoundError):
        return No(MISSING, text)
    if isinstance(error, AwayError):
        return No(AWAY, text)
    if isinstance(error, OSError):
        return No(DAMAGED if error.errno in DISK_SAYS_DAMAGED else UNREADABLE, text)
    if isinstance(error, DamagedError):
        kind = (
            ELSEWHERE if isinstance(error, ElsewhereError) else MISSING if isinstance(error, MissingError) else DAMAGED
        )
        return No(kind, text, error.file, str(error.expected), str(error.found))
    return No(REFUSED, text)
