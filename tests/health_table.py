"""The table of docs/health.md: each rule, and how soon it fires on its fault in a real training.

python -m tests.health_table                 # prints it
python -m tests.health_table docs/health.md  # puts it in its place there (`make health`)
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import sys
import tempfile
from pathlib import Path
from typing import get_args

from drivetrain.training import plugins
from drivetrain.training.health.rule import FAMILY, Watches, load_rules, see
from tests.contract.health_rules import records
from tests.fixtures import tiny_data
from tests.fixtures.faulty_recipe import FAULTS, config_of, run

BEGIN, END = "<!-- table -->", "<!-- end of table -->"


def fired_at(name: str, data: Path, target: Path) -> int:
    """The step of a training with the fault in which the rule fires."""
    with contextlib.redirect_stdout(io.StringIO()):
        run(config_of(name), data, target)
    found = json.loads((target / "output/health/health.json").read_text())["findings"]
    return next(one["step"] for one in found if one["rule"] == name)


def injected(name: str) -> int:
    """How many steps after the fault is planted in a healthy training's records the rule fires."""
    plant = importlib.import_module(f"tests.contract.health_rules.{name}")
    rules = [watching for watching in load_rules("{}", get_args(Watches)) if watching.name == name]
    training = [plant.planted(record) if record.step >= plant.FROM else record for record in records.with_model(0)]
    return next(one.step for record in training for one in see(rules, record)) - plant.FROM


def table() -> str:
    lines = ["| rule | fires where | how soon | action | planted fault |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as temporary:
        data = tiny_data.write("prepared", Path(temporary) / "data", rows=64)
        for name in plugins.names(FAMILY):
            module = plugins.load(FAMILY, name, kind="health rule")
            first = " ".join(str(module.__doc__).split("\n\n")[0].split()).rstrip(".")
            told = f"fired {injected(name)} steps after it, in injected records"
            if name in FAULTS:
                told = f"fired at step {fired_at(name, data, Path(temporary) / name)}"
            lines.append(f"| `{name}` | {first} | {module.WINDOW} | `{module.ACTION}` | {told} |")
    return "\n".join(lines)


def main() -> None:
    if not sys.argv[1:]:
        print(table())
        return
    page = Path(sys.argv[1])
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
