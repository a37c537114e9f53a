"""SIGKILL a training at a random instant of its life, most often inside a save, and let it go on."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.families import Found, Trial

if TYPE_CHECKING:
    from tests.faults.harness.training import Reference

FAULT = "training killed at any instant, mostly in a save: whole, unmixed, one save lost, bit-equal"
TRIALS, QUICK, AT_ONCE = 3000, 150, 2
PRELOAD = ("tests.faults.harness.training",)
PATIENCE_S = 240.0

_KILL_AGAIN = 0.25
_ANY_INSTANT = 0.25
_ONE_RANK_ALONE = 0.3
_MOST_STARTS = 6


def prepare(folder: Path) -> list[Reference]:
    from tests.faults.harness import training
    from tests.faults.harness.training import Case

    data = training.write_data(folder / "data")
    common = {"global_batch": "8", "epochs": "8", "log_every": "3", "ema_decay": "0.9"}
    cases = [Case(f"{size} ranks", size, 4, common) for size in (1, 2)]
    return [training.uninterrupted(case, data, folder / case.name.replace(" ", "-")) for case in cases]


def trial(given: Trial, shared: list[Reference]) -> Found:
    from tests.faults.harness import training

    whole = shared[given.number % len(shared)]
    draw, did = given.draw, dict[str, int]()
    attempt, kills, more = 0, 0, True
    while more and attempt < _MOST_STARTS:
        killed = _kill(whole, given.folder, attempt, draw)
        attempt += 1
        if killed is None:  # it ended before
            more = kills == 0
            given_up = given.folder / f"ended-{attempt}"
            if more:  # another training then, for there is nothing left to interrupt in this one
                given_up.mkdir()
                for path in [p for p in given.folder.iterdir() if not p.name.startswith("ended-")]:
                    path.rename(given_up / path.name)
                attempt = 0
            continue
        kills += 1
        did[f"killed in {killed}"] = did.get(f"killed in {killed}", 0) + 1
        more = draw.random() < _KILL_AGAIN
    did["kills"] = kills
    with training.start(whole.case, whole.data, given.folder, attempt) as ranks:
        codes = ranks.wait(training.PATIENCE_S)
    attempt += 1
    if codes != dict.fromkeys(range(whole.case.world_size), 0):
        return Found([f"the resumed training ended with {codes}: {training.logs(given.folder, attempt - 1)}"], did)
    return Found(
        [
            *training.differences(given.folder, attempt, whole),
            *training.lost_too_much(given.folder, attempt, whole),
        ],
        did,
    )


def _kill(whole: Reference, folder: Path, attempt: int, draw: random.Random) -> str | None:
    """Start, and kill at an instant that is drawn; gives the phase, None where the training ended before."""
    from tests.faults.harness import training

    phases = sorted({event.phase for event in whole.events})
    phase = None if draw.random() < _ANY_INSTANT else draw.choice(phases)
    victims = [draw.randrange(whole.case.world_size)] if draw.random() < _ONE_RANK_ALONE else None
    with training.start(whole.case, whole.data, folder, attempt) as ranks:
        if phase is None:
            reached = not ranks.until(lambda event: False, draw.uniform(0.0, whole.seconds)) and not ranks.wait(0.0)
        else:
            times = [event for event in whole.events if event.phase == phase and event.begins]
            chosen = draw.randrange(len(times))
            rank = times[chosen].rank
            left = sum(event.rank == rank for event in times[: chosen + 1])
            ends = [event.when for event in whole.events if event.phase == phase and event.rank == rank]
            longest = max(b - a for a, b in zip(ends[::2], ends[1::2], strict=False))
            delay = draw.uniform(0.0, longest)

            def reached_it(event: training.Event) -> bool:
                nonlocal left
                left -= event.phase == phase and event.begins and event.rank == rank
                return left == 0

            reached = ranks.until(reached_it, training.PATIENCE_S)
            deadline = time.perf_counter() + delay
            while time.perf_counter() < deadline:
                pass
        if not reached:
            return None
        ranks.send(signal.SIGKILL, victims)
        codes = ranks.wait(5.0)
        assert len(codes) == whole.case.world_size, f"5 s after the kill of {victims} only {codes} ended"
    return None if set(codes.values()) == {0} else phase or "any instant"
