"""A shard of the data is damaged or gone: found before one of its rows is learnt from, and named."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Case

FAULT = "a data shard damaged or missing, before a start or a resume: found before first use, named"
TRIALS, QUICK, AT_ONCE = 200, 3, 2
PRELOAD = ("tests.faults.harness.training", "pyarrow.parquet")
PATIENCE_S = 400.0

_ROWS, _SHARDS = 48, 4
_BAD_INPUT = 2


@dataclass(frozen=True)
class Shared:
    """The data, and cases that have learnt a while from it: their folders are gone on from."""

    data: Path
    begun: dict[str, tuple[Case, Path]]


def prepare(folder: Path) -> Shared:
    import numpy as np

    from tests.distributed.prepared_data import write_prepared
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    keys = np.arange(_ROWS)
    data = write_prepared(folder / "data", {"key": keys, "label": keys}, num_shards=_SHARDS)
    begun: dict[str, tuple[Case, Path]] = {}
    for size in (1, 2):
        for window in (0, 8):
            case = Case(f"{size} ranks, window {window}", size, 6, {"global_batch": "8", "shuffle_window": str(window)})
            short = Case(case.name, size, 6, {**case.options, "epochs": "2"})
            place = folder / f"{size}-{window}"
            training.uninterrupted(short, data, place)
            begun[case.name] = (Case(case.name, size, 6, {**case.options, "epochs": "4"}), place)
    return Shared(data, begun)


def trial(given: Trial, shared: Shared) -> Found:
    from tests.faults.harness import training

    draw = given.draw
    name, number = draw.choice(sorted(_DAMAGES)), draw.randrange(_SHARDS)
    case, begun = shared.begun[draw.choice(sorted(shared.begun))]
    resumes = draw.random() < 0.5
    data, place = given.folder / "data", given.folder / "training"
    shutil.copytree(shared.data, data)
    if resumes:
        shutil.copytree(begun, place)
    shard = data / f"part-{number:05d}.parquet"
    _DAMAGES[name](shard, draw)
    with training.start(case, data, place, 1) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    did = Counter([f"{name}, {'resume' if resumes else 'start'}"])
    log = training.logs(place, 1)
    rows = range(_ROWS * number // _SHARDS, _ROWS * (number + 1) // _SHARDS)
    learnt = {key for rank in codes for _, keys, _ in training.trace(place, 1, rank) for key in keys}
    violations: list[str] = []
    if len(codes) < case.world_size or _BAD_INPUT not in codes.values():
        violations.append(f"{name} of {shard.name} ({case.name}): the ranks ended with {codes}: {log}")
    if shard.name not in log:
        violations.append(f"{name} of {shard.name} ({case.name}): it is not named: {log}")
    if learnt & {*rows}:
        violations.append(f"{name} of {shard.name} ({case.name}): its rows {sorted(learnt & {*rows})} were learnt from")
    return Found(violations, did)


def _flip(shard: Path, draw: random.Random) -> None:
    data = bytearray(shard.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    shard.write_bytes(data)


def _truncate(shard: Path, draw: random.Random) -> None:
    shard.write_bytes(shard.read_bytes()[: draw.randrange(shard.stat().st_size)])


def _remove(shard: Path, draw: random.Random) -> None:
    shard.unlink()


def _zero(shard: Path, draw: random.Random) -> None:
    """As a disk does that lost power before the pages came to it."""
    data = bytearray(shard.read_bytes())
    first = draw.randrange(len(data) - 1)
    last = draw.randrange(first + 1, len(data) + 1)
    if not any(data[first:last]):
        first, last = 0, len(data)
    data[first:last] = bytes(last - first)
    shard.write_bytes(data)


def _exchange(shard: Path, draw: random.Random) -> None:
    """Another whole shard under its name."""
    others = sorted({*shard.parent.glob("*.parquet")} - {shard})
    shutil.copy(draw.choice(others), shard)


_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "bit flipped": _flip,
    "cut off": _truncate,
    "missing": _remove,
    "zeros": _zero,
    "exchanged": _exchange,
}
