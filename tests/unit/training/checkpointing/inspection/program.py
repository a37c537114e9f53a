"""The program in this process, and what is saved for it to look at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.training_scripts import checkpoints

WEIGHT = [float(n) for n in range(12)]
AVERAGE = [n + 0.5 for n in WEIGHT]
# By columns over two ranks; by rows over two ranks; and what is whole on one.
TENSORS = {
    "model/0.weight": (WEIGHT, (3, 4), [((0, 0), (3, 1)), ((0, 1), (3, 3))]),
    "model/0.running_mean": ([7.0], (1,), [((0,), (1,))]),
    "average/0.weight": (AVERAGE, (3, 4), [((0, 0), (2, 4)), ((2, 0), (1, 4))]),
    "best/0.weight": ([9.0] * 12, (3, 4), [((0, 0), (3, 4))]),
    "best/0.running_mean": ([8.0], (1,), [((0,), (1,))]),
    "optimizer/0.weight//step": ([3.0], (), [((), ())]),
}
HISTORY = [{"epoch": 1, "step": 10, "validation_loss": 0.5}, {"epoch": 2, "step": 20, "validation_loss": 0.25}]


class Program:
    """`python -m drivetrain.training_scripts.checkpoints ...` in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: object, code: int = 0) -> str:
        try:
            found = checkpoints.run([str(argument) for argument in arguments])
        except SystemExit as ended:
            found = ended.code
        out, self.err = self._capsys.readouterr()
        assert found == code, (found, out, self.err)
        return out

    def json(self, *arguments: object, code: int = 0) -> Any:
        return json.loads(self(*arguments, "--json", code=code))

    def error(self, *arguments: object, code: int = 2) -> str:
        assert self(*arguments, code=code) == ""
        assert self.err.startswith("error: ") and len(self.err.splitlines()) == 1, self.err
        return self.err


def rows(text: str) -> dict[str, str]:
    """The lines of a table by their first word."""
    return {line.split()[0]: line for line in text.splitlines() if line.split()}
