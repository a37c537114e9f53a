"""What a recorded mutation is, and its text laid on a file."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

# The program itself lies here: it is no part of what a result depends on.
_OWN_FOLDER = "tests/mutants/"
_CODE = ("components/", "drivetrain/", "infra/", "pipelines/", "training_scripts/")


@dataclass(frozen=True)
class Mutant:
    """A small mistake in `file`: `find`, which stands there once, becomes `replace`; `tests` are to notice it."""

    name: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]

    def mutated(self, source: str) -> str:
        """The file's text with the mistake.

        Raises:
            ValueError: the text to find does not stand there once.
        """
        count = source.count(self.find)
        if count != 1:
            raise ValueError(f"{self.name}: {self.find!r} stands {count} times in {self.file}, not once")
        return source.replace(self.find, self.replace)


class Keys:
    """What a result depends on, as a hash: the code, what tests are made with, the tests that ran, the mutation."""

    def __init__(self, root: Path, files: list[str]) -> None:
        self._root = root
        ground = hashlib.sha256()
        for name in sorted(files):
            made_with = name.startswith("tests/") and not Path(name).name.startswith("test_")
            if name.startswith(_CODE) or (made_with and not name.startswith(_OWN_FOLDER)):
                ground.update(name.encode() + b"\0" + (root / name).read_bytes() + b"\0")
        self._ground = ground.hexdigest()

    def of(self, mutant: Mutant) -> str:
        found = hashlib.sha256(self._ground.encode() + json.dumps(asdict(mutant)).encode())
        for name in mutant.tests:
            found.update((self._root / name).read_bytes())
        return found.hexdigest()[:16]
