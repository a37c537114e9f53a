"""A small training of the real program, what an uninterrupted one does, and how another is held against it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import pickle
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from tests.faults.harness.families import of_all
from tests.faults.harness.ranks import Event, Ranks

RECIPE = "tests.faults.harness.tiny_recipe"
ROWS = 32
PATIENCE_S = 180.0
# What differs from one run to another and is no result.
_TIMES = ("time", "samples_per_second")
_TIMED_RULES = ("checkpoint_stalls", "slow_input", "straggler_rank")

Line = tuple[int, list[int], dict[str, int]]


@dataclass(frozen=True)
class Case:
    """A training. `options` are those of the train program; an interval of saves is `every` steps."""

    name: str
    world_size: int
    every: int
    options: Mapping[str, str] = field(default_factory=dict)

    def words(self, data: Path, folder: Path) -> list[str]:
        folders = {name: folder / name for name in ("model", "output", "checkpoints")}
        return [
            *(f"--{name}={path}" for name, path in {"train": data, "validation": data, **folders}.items()),
            *(f"--{name.replace('_', '-')}={value}" for name, value in {"recipe": RECIPE, **self.options}.items()),
        ]


@dataclass(frozen=True)
class Reference:
    """What an uninterrupted run of a case leaves, and when it does what."""

    case: Case
    data: Path
    traces: dict[int, dict[int, Line]]
    results: dict[str, Any]
    events: list[Event]
    seconds: float

    @property
    def steps(self) -> int:
        return max(self.traces[0])


def write_data(folder: Path, rows: int = ROWS) -> Path:
    folder.mkdir(parents=True)
    keys = np.arange(rows)
    np.savez(folder / "data.npz", key=keys, label=keys)
    return folder


def start(case: Case, data: Path, folder: Path, attempt: int, *, world_size: int | None = None, **more: Any) -> Ranks:
    folder.mkdir(parents=True, exist_ok=True)
    return Ranks(world_size or case.world_size, case.words(data, folder), folder, attempt, **more)


def uninterrupted(case: Case, data: Path, folder: Path, **more: Any) -> Reference:
    """Run a case to its end.

    Raises:
        AssertionError: it failed.
    """
    with start(case, data, folder, 0, **more) as ranks:
        codes = ranks.wait(PATIENCE_S)
        assert list(codes.values()) == [0] * case.world_size, f"uninterrupted: {codes}\n{logs(folder, 0)}"
    lasted = ranks.events[-1].when - ranks.began
    traces = {rank: {line[0]: line for line in trace(folder, 0, rank)} for rank in range(case.world_size)}
    return Reference(case, data, traces, results(folder), ranks.events, lasted)


class References(Sequence[Reference]):
    """Uninterrupted runs of cases on the same data, each made when a trial first asks for it, by one process for all
    that share the campaign's folder.

    Args:
        folder: what `prepare` is given.
        more: as `start` takes it; nothing that makes another result of the same case.
    """

    def __init__(self, cases: Sequence[Case], data: Path, folder: Path, **more: Any) -> None:
        self._cases, self._data, self._more = cases, data, more
        self._folder = of_all(folder)
        self._made: dict[int, Reference] = {}

    def __len__(self) -> int:
        return len(self._cases)

    @overload
    def __getitem__(self, index: int) -> Reference: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Reference]: ...
    def __getitem__(self, index: int | slice) -> Reference | Sequence[Reference]:
        if isinstance(index, slice):
            return [self[each] for each in range(len(self))[index]]
        if not 0 <= index < len(self):
            raise IndexError(index)
        if index not in self._made:
            self._made[index] = self._get(self._cases[index])
        return self._made[index]

    def _get(self, case: Case) -> Reference:
        rows = b"".join(path.read_bytes() for path in sorted(self._data.iterdir()))
        told = f"{case.world_size} {sorted(case.options.items())} {hashlib.sha256(rows).hexdigest()}"
        folder = self._folder / hashlib.sha256(told.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "reference"
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                made = uninterrupted(case, self._data, Path(tempfile.mkdtemp(dir=folder)), **self._more)
                written = folder / "reference.part"
                written.write_bytes(pickle.dumps(made))
                written.replace(kept)
        return replace(pickle.loads(kept.read_bytes()), case=case, data=self._data)


def trace(folder: Path, attempt: int, rank: int) -> list[Line]:
    """The steps of a rank, the last one perhaps begun only."""
    path = folder / f"trace-{attempt}-{rank}.jsonl"
    if not path.exists():
        return []
    lines = path.read_text().splitlines()
    return [tuple(json.loads(line)) for line in lines if line.endswith("]")]


def results(folder: Path) -> dict[str, Any]:
    """What a finished training hands on: the model's files, the validations, and all metrics without times."""
    files = [path for path in sorted((folder / "model").rglob("*")) if path.is_file()]
    found: dict[str, Any] = {str(path.relative_to(folder / "model")): path.read_bytes() for path in files}
    found["history.json"] = (folder / "output" / "history.json").read_text()
    lines = [json.loads(line) for line in (folder / "output" / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line.get("rule") not in _TIMED_RULES]
    found["metrics.jsonl"] = [{name: value for name, value in line.items() if name not in _TIMES} for line in lines]
    return found


def logs(folder: Path, attempt: int, last: int = 1500) -> str:
    return "\n".join(path.read_text()[-last:] for path in sorted(folder.glob(f"log-{attempt}-*.txt")))


def differences(folder: Path, attempts: int, whole: Reference) -> list[str]:
    """In what a training that was interrupted and has come to its end differs from the uninterrupted one.

    Every step of every attempt must have found the state that the same step of the uninterrupted run found, tensor by
    tensor, and the same samples: a checkpoint that is torn, mixed or of another step shows at the first step after it.
    """
    violations: list[str] = []
    for attempt in range(attempts):
        for rank in range(whole.case.world_size):
            for step, keys, state in trace(folder, attempt, rank):
                if step not in whole.traces[rank]:
                    violations.append(f"attempt {attempt} rank {rank} took step {step}, which there is not")
                    break
                _, right_keys, right = whole.traces[rank][step]
                wrong = [name for name in {**right, **state} if right.get(name) != state.get(name)]
                if wrong:
                    some = ", ".join(wrong[:4])
                    violations.append(
                        f"attempt {attempt} rank {rank} began step {step} with {len(wrong)} of {len(right)} tensors "
                        f"that are not those of this step ({some})"
                    )
                if keys != right_keys:
                    violations.append(f"attempt {attempt} rank {rank} step {step} had samples {keys}, not {right_keys}")
                if wrong or keys != right_keys:
                    break
    found = results(folder)
    names = {**whole.results, **found}
    return [*violations, *(f"{name} differs" for name in names if found.get(name) != whole.results.get(name))]


def lost_too_much(folder: Path, attempts: int, whole: Reference) -> list[str]:
    """A start may go back to the newest save that had begun, or the one before it, and no further."""
    violations: list[str] = []
    reached = 0
    for attempt in range(attempts):
        steps = [trace(folder, attempt, rank) for rank in range(whole.case.world_size)]
        if not any(steps):
            continue
        first = min(lines[0][0] for lines in steps if lines)
        # The step that was begun last may have been cut off: what was saved are the steps before it.
        newest = (reached - 1) // whole.case.every * whole.case.every if reached else 0
        if reached and first - 1 < newest - whole.case.every:
            violations.append(
                f"attempt {attempt} went on from step {first - 1}, though step {reached} had been reached and each "
                f"{whole.case.every}th is saved"
            )
        reached = max(reached, *(lines[-1][0] for lines in steps if lines))
    return violations


def torn(folder: Path) -> list[str]:
    """Checkpoints that count, and are not whole. No kill alone leaves one: manifests come last."""
    from drivetrain.training.checkpointing.places import open_place
    from drivetrain.training.checkpointing.store.manifest import DamagedError
    from drivetrain.training.checkpointing.store.store import QUARANTINE, Store

    violations: list[str] = []
    for place in (folder / "checkpoints").glob("*"):
        store = Store(open_place(place))
        if (place / QUARANTINE).exists():
            violations.append(f"one was set aside: {sorted((place / QUARANTINE).iterdir())}")
        for step in store.steps():
            try:
                store.verify(step)
            except DamagedError as problem:
                violations.append(f"the checkpoint of step {step} has a manifest and is not whole: {problem}")
    return violations
