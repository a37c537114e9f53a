"""SIGKILL registrations at random instants, repeat them, and let two register the same at once: in the local registry
by the component and by the runner's step, and in the others' servers. There is exactly one version, and it is whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.registering import Files, Place, Process, Servers

FAULT = "registration killed at any instant, repeated, two at once: one version, hash and metrics whole"
TRIALS, QUICK, AT_ONCE = 500, 3, 2
PRELOAD = ("tests.faults.harness.registering",)
PATIENCE_S = 120.0

# Of twenty trials; servers are slower.
_SHARES = {"component": 8, "step": 6, "sagemaker": 2, "kubeflow": 2, "mlflow": 2}
_WAYS = [way for way, share in _SHARES.items() for _ in range(share)]
# In an order in which a few trials already are of several kinds.
_ORDER = [_WAYS[number * 7 % len(_WAYS)] for number in range(len(_WAYS))]
_TWO_AT_ONCE = 0.5
_KILL_AGAIN = 0.35
_MOST_KILLS = 4
# Some come after the end, which must do no harm either; most must hit.
_BEYOND = 1.05


class Shared:
    """What the trials of a process have in common."""

    def __init__(self, folder: Path) -> None:
        from tests.faults.harness import registering

        self.files: Files = registering.make_files(folder / "files")
        self.servers: Servers = registering.Servers(folder)
        self.folder = folder
        self.measured: dict[str, tuple[int, float]] = {}


def prepare(folder: Path) -> Shared:
    return Shared(folder)


def trial(given: Trial, shared: Shared) -> Found:
    from tests.faults.harness import registering

    way = given.in_turn(_ORDER)
    place = _place(way, given, shared, given.folder / "place")
    if way not in shared.measured:
        apart = _place(way, given, shared, shared.folder / f"measured-{way}")
        shared.measured[way] = registering.measured(apart.register, apart, shared.folder / f"{way}.log")
    did: Counter[str] = Counter()
    violations: list[str] = []
    log = given.folder / "log"
    for _ in range(_MOST_KILLS):
        killed = _attempt(given, shared, place, log, did)
        if killed and given.draw.random() > _KILL_AGAIN:
            break
    try:
        for _ in range(2):
            registering.Process(place.register, place, log).wait()
        registering.Process(place.beside, place, log).wait()
        violations += registering.found_wrong(place, shared.files)
    except AssertionError as error:
        violations.append(str(error))
    return Found([f"{way}: {text}" for text in violations], did)


def _place(way: str, given: Trial, shared: Shared, folder: Path) -> Place:
    from tests.faults.harness import registering

    if way in ("component", "step"):
        return registering.local_place(way, shared.files, folder)
    return registering.served_place(way, shared.files, shared.servers.address(way), given.draw)


def _attempt(given: Trial, shared: Shared, place: Place, log: Path, did: Counter[str]) -> bool:
    """One registration, or two at once, of which one at least is killed unless it has ended."""
    from tests.faults.harness import registering

    lines, seconds = shared.measured[place.way]

    def start(work: registering.Callable[[], None]) -> Process:
        if given.draw.random() < 0.5:
            return registering.Process(work, place, log, line=given.draw.randint(1, int(lines * _BEYOND)))
        return registering.Process(work, place, log, seconds=given.draw.uniform(0.0001, seconds * _BEYOND))

    processes = [start(place.register)]
    if given.draw.random() < _TWO_AT_ONCE:
        did["two at once"] += 1
        processes.append(
            start(place.beside) if given.draw.random() < 0.5 else registering.Process(place.beside, place, log)
        )
    killed = sum([process.wait() for process in processes])
    did["kills"] += killed
    did[f"kills, {place.way}"] += killed
    did["ended before"] += len(processes) - killed
    return killed > 0
