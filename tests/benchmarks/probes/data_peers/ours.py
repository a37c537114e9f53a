"""Ours on the nights of orders.py: prepare_data with suggested rules, then check_data.

    python -m tests.benchmarks.probes.data_peers.ours FOLDER     FOLDER has good/, clean/ and faults/, a folder a night

Prints {"clean": [[alarm, ...] of each night], "faults": {name: [alarm, ...]}, "whole": {name: true}}. `whole` says that
the earlier sets and the nights kept before are there, unchanged. The rules are those that `drivetrain data rules`
suggests of the good nights, and one line by hand: no order is later than its night.
"""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from drivetrain.authoring.plain_yaml import load_yaml
from drivetrain.base.errors import InputError
from drivetrain.components.check_data import check_data
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest
from drivetrain.decision.data_nights import kept_history
from drivetrain.operations.row_rules import suggested
from drivetrain.registry.registry import open_registry
from tests.benchmarks.probes.data_peers import orders

SIDES = ("train", "validation", "test")
TYPES = (
    "id:int64,ordered_at:timestamp[s],price:float64,quantity:int64,country:string,customer:int64,note:string,"
    "returned:int64"
)


class Pipeline:
    """The nights of a group, each prepared into the same folders."""

    def __init__(self, folder: Path, rules: dict[str, Any]) -> None:
        self.folder, self.rules = folder, rules
        self.registry = f"local:{folder / 'ledger.db'}"

    def prepare(self, raw: Path, number: int, **more: Any) -> None:
        out: dict[str, Any] = {side: self.folder / side for side in SIDES}
        given: dict[str, Any] = {"rules": json.dumps(self.rules)} if self.rules else {"schema": TYPES}
        night = (orders.day(number) + timedelta(days=1)).isoformat()
        given |= {"night": night, **more}
        prepare_data(raw, **out, key="id", label="returned", **given)

    def alarms(self, raw: Path, number: int) -> Iterator[str]:
        """The errors of a night, the warnings of rules, and the sentences of check_data."""
        said = io.StringIO()
        try:
            with contextlib.redirect_stdout(said):
                self.prepare(raw, number)
        except InputError as error:
            yield f"prepare_data stops: {error}"
            return
        for line in said.getvalue().splitlines():
            if line.startswith("warning: "):
                yield f"rule warns: {line.removeprefix('warning: ')}"
        sides: dict[str, Any] = {side: self.folder / side for side in SIDES}
        report, day = self.folder / "report", str(orders.day(number).date())
        with contextlib.redirect_stdout(said):
            check_data(**sides, report=report, group="orders", registry=self.registry, night=day, on_failure="report")
        for alarm in json.loads((report / "data_check.json").read_bytes())["alarms"]:
            yield f"check_data {'stops' if alarm['verdict'] == 'failed' else 'warns'}: {alarm['sentence']}"

    def leaked(self, raw: Path, number: int) -> Iterator[str]:
        """A set that grows by each night, as `previous` has it: only there are earlier test rows test rows still."""
        grown = self.folder / "grown"
        grown.mkdir()
        for before in (number - 2, number - 1):
            shutil.copyfile(orders.write(grown / "one", orders.columns(before)), grown / f"{before}.csv")
        shutil.rmtree(grown / "one")
        self.prepare(grown, number, incremental=True)
        shutil.copyfile(raw / "rows.csv", grown / f"{number}.csv")
        try:
            self.prepare(grown, number, incremental=True, previous=self.folder, on_leakage="fail")
        except InputError as error:
            yield f"prepare_data stops: {error}"

    def state(self) -> tuple[Any, ...]:
        """The hashes of the sets, and those of the nights that are kept."""
        nights = kept_history(open_registry(self.registry), "orders").content_hashes
        return tuple(Manifest.read(self.folder / side).content_hash for side in SIDES), nights[: orders.NIGHT]


def main(place: str) -> None:
    folder = Path(place)
    work = folder / "ours"
    good, clean, faults = (sorted((folder / name).iterdir()) for name in ("good", "clean", "faults"))
    first, manifests = Pipeline(work / "good", {}), list[Manifest]()
    for number, raw in enumerate(good):
        list(first.alarms(raw, number))
        manifests += [Manifest.read(first.folder / side, checksums=False) for side in SIDES]
    rules: dict[str, Any] = load_yaml(suggested(manifests), "rules")
    rules["columns"]["ordered_at"]["max"] = {"is": "night", "then": "fail"}
    first.rules = rules
    found: dict[str, Any] = {"clean": [[*first.alarms(raw, n)] for n, raw in enumerate(clean, len(good))]}
    found |= {"faults": {}, "whole": {}}
    before = first.state()
    for raw in faults:
        shutil.copytree(first.folder, again := work / raw.name)
        pipeline = Pipeline(again, rules)
        alarms = pipeline.leaked if raw.name == orders.LEAKED else pipeline.alarms
        found["faults"][raw.name] = said = [*alarms(raw, orders.NIGHT)]
        after = pipeline.state()
        stopped_early = any(each.startswith("prepare_data") for each in said) and raw.name != orders.LEAKED
        found["whole"][raw.name] = after[1] == before[1] and (after[0] == before[0] or not stopped_early)
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
