"""What a campaign has done so far, kept so that it goes on where it was stopped.

build/faults/<family>.jsonl      {"seed": 7, "trials": 3000, "code": "9f2c..."} and then a line a trial:
                                 {"trial": 12, "seconds": 1.1, "did": {"killed in a write": 1}, "violations": []}
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.faults.harness.families import SLOWEST

ROOT = Path(__file__).parents[3]
# What a trial's outcome depends on; results of other code are not added to.
SOURCES = ("drivetrain", "training_scripts", "pipelines", "components", "tests/faults")


@dataclass(frozen=True)
class Made:
    """The outcome of a trial."""

    trial: int
    seconds: float
    did: dict[str, int]
    violations: list[str]


class Progress:
    """The trials of one family's campaign that are made. `seed` is None until the campaign has begun."""

    def __init__(self, path: Path, trials: int, code: str) -> None:
        self.path, self.trials, self.code = path, trials, code
        self.seed: int | None = None
        self.made: list[Made] = []
        self._read()

    def _read(self) -> None:
        if not self.path.is_file():
            return
        about, *lines = (_parsed(line) for line in self.path.read_text(encoding="utf-8").split("\n"))
        if about and (about["trials"], about["code"]) == (self.trials, self.code):
            self.seed = about["seed"]
            self.made = [Made(**line) for line in lines if line]

    def begin(self, seed: int) -> None:
        """Forget what there is, and start with `seed`."""
        self.seed, self.made = seed, []
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps({"seed": seed, "trials": self.trials, "code": self.code}) + "\n")

    def add(self, made: Made) -> None:
        self.made.append(made)
        lines = b"" if _ends_whole(self.path) else b"\n"
        with self.path.open("ab") as stream:
            stream.write(lines + json.dumps(asdict(made)).encode() + b"\n")

    @property
    def missing(self) -> list[int]:
        made = {made.trial for made in self.made}
        return [number for number in range(self.trials) if number not in made]

    @property
    def violating(self) -> list[Made]:
        return sorted((made for made in self.made if made.violations), key=lambda made: made.trial)

    @property
    def did(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for made in self.made:
            for name, number in made.did.items():
                total[name] = max(total[name], number) if name.startswith(SLOWEST) else total[name] + number
        return dict(sorted(total.items()))


def _parsed(line: str) -> dict[str, Any] | None:
    """None for a line that was being written when the campaign was killed."""
    try:
        return json.loads(line)
    except ValueError:
        return None


def _ends_whole(path: Path) -> bool:
    """Whether the last line was written to its end, before the campaign was killed."""
    with path.open("rb") as stream:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def code_hash() -> str:
    """Of all that is tested, and of the tests."""
    total = hashlib.sha256()
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            total.update(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def record(fault: str, family: str, progress: Progress) -> dict[str, Any]:
    """What build/faults.json says of a family."""
    return {
        "family": family,
        "fault": fault,
        "trials": len(progress.made),
        "of": progress.trials,
        "violations": len(progress.violating),
        "seed": progress.seed,
        "did": progress.did,
        "seconds": round(sum(made.seconds for made in progress.made), 1),
        "violated": [{"trial": made.trial, "violations": made.violations} for made in progress.violating],
    }
