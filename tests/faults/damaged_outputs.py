"""Outputs of steps that have ended are damaged before their run goes on: each is made again, and nothing else is.

(A file is read where its size or its time is another: bits that change on a disk without a write are not looked for.)
"""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drivetrain.run_store.events import StepStarted
from drivetrain.targets.sagemaker.run.runner import Runner
from tests.faults.harness.families import Found, Trial
from tests.fixtures.local_runs import BUCKET, LocalRuns, output_of

FAULT = "outputs of finished steps cut off, altered, swapped, gone: made again, no wrong content, nothing else runs"
TRIALS, QUICK, AT_ONCE = 200, 2, 2

# Writes files whose content follows from the step's name and from all that it reads.
PROGRAM = """
import hashlib, os, pathlib, sys
name, count = sys.argv[1], int(sys.argv[2])
if os.environ.get("FLAG") and not pathlib.Path(os.environ["FLAG"]).exists():
    sys.exit(1)
read = [file.read_bytes() for place in sorted(pathlib.Path("/opt/ml/processing/input").iterdir())
        if place.name.startswith("in") for file in sorted(place.iterdir())]
for number in range(count):
    made = hashlib.sha256(b"|".join([f"{name} {number}".encode(), *read])).hexdigest()
    pathlib.Path(f"/opt/ml/processing/output/out/{number}").write_text(made * 50)
"""
GATE = "gate"


def trial(given: Trial, shared: object) -> Found:
    runs, flag = LocalRuns(given.folder), given.folder / "flag"
    needs = _graph(given.draw)
    counts = {name: given.draw.randint(1, 4) for name in needs}
    first = runs.start(_steps(runs, needs, counts, flag))
    if first.status != "Failed":
        return Found([f"the first run ended as {first.status}, not at its gate: {first.reason}"])
    made = {name: runs.store.path(f"{BUCKET}/runs/{first.execution}/{name}/out") for name in needs}
    done = [name for name, folder in made.items() if folder.exists()]
    damaged, did = _damage(given.draw, {name: made[name] for name in done})
    flag.touch()
    runs.events = []
    summary = Runner(runs.home, runs.events.append).resume("latest")
    if summary.status != "Succeeded":
        return Found([f"damaged {damaged}: the run ended as {summary.status}: {summary.reason}"], did)
    ran = {event.step for event in runs.of(StepStarted)}
    again = _after(needs, damaged | (needs.keys() - set(done)))
    violations = [
        f"{name} ran {'again' if name in done else 'not'}, damaged were {damaged}" for name in sorted(ran ^ again)
    ]
    expected: dict[str, list[str]] = {}
    for name, before in needs.items():
        read = [text.encode() for one in before for text in expected[one]]
        expected[name] = [
            50 * hashlib.sha256(b"|".join([f"{name} {number}".encode(), *read])).hexdigest()
            for number in range(counts[name])
        ]
        found = [(made[name] / str(number)).read_text(errors="replace") for number in range(counts[name])]
        if found != expected[name]:
            violations.append(f"{name} holds what it should not; damaged were {damaged}")
    return Found(violations, did)


def _graph(draw: random.Random) -> dict[str, list[str]]:
    """Step -> the steps that it reads, each after those; the gate is in the middle."""
    names = [f"step{number}" for number in range(draw.randint(3, 5))]
    names.insert(draw.randint(2, len(names)), GATE)
    return {
        name: sorted(draw.sample(names[:place], draw.randint(0, min(2, place)))) for place, name in enumerate(names)
    }


def _steps(runs: LocalRuns, needs: dict[str, list[str]], counts: dict[str, int], flag: Path) -> list[dict[str, Any]]:
    return [
        runs.processing(
            name,
            PROGRAM,
            inputs={f"in{number}": output_of(one, "out") for number, one in enumerate(before)},
            outputs=["out"],
            arguments=[name, str(counts[name])],
            environment={"FLAG": str(flag)} if name == GATE else None,
        )
        for name, before in needs.items()
    ]


def _after(needs: dict[str, list[str]], which: set[str]) -> set[str]:
    """These steps and all that read them."""
    found: set[str] = set()
    for name, before in needs.items():
        if name in which or found & set(before):
            found.add(name)
    return found


def _damage(draw: random.Random, made: dict[str, Path]) -> tuple[set[str], dict[str, int]]:
    damaged = set(draw.sample(sorted(made), draw.randint(0, min(2, len(made)))))
    did: dict[str, int] = {}
    for name in sorted(damaged):
        how = draw.choice(WAYS)
        files = sorted(made[name].iterdir())
        how(files, draw)
        did[f"damaged by {how.__name__}"] = did.get(f"damaged by {how.__name__}", 0) + 1
    return damaged, did or {"nothing damaged": 1}


def cutting(files: list[Path], draw: random.Random) -> None:
    file = draw.choice(files)
    file.write_bytes(file.read_bytes()[: draw.randrange(3200)])


def altering(files: list[Path], draw: random.Random) -> None:
    """One bit; the size stays."""
    file = draw.choice(files)
    data = bytearray(file.read_bytes())
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    file.write_bytes(data)


def swapping(files: list[Path], draw: random.Random) -> None:
    if len(files) < 2:
        return altering(files, draw)
    one, other = draw.sample(files, 2)
    held = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(held)
    return None


def removing(files: list[Path], draw: random.Random) -> None:
    draw.choice(files).unlink()


def removing_all(files: list[Path], draw: random.Random) -> None:
    shutil.rmtree(files[0].parent)


WAYS: tuple[Callable[[list[Path], random.Random], None], ...] = (cutting, altering, swapping, removing, removing_all)
