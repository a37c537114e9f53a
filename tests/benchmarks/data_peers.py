"""Faults planted in a night of data: what ours and others say of each, of clean nights, and how long it takes.

Writes the table of docs/data_checks.md where all peers could be asked. A night's fault counts as caught by what is said
of it and not of the same night without the fault.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.benchmarks.harness.bench import QUIET, Bench
from tests.benchmarks.harness.environments import ROOT, Environment
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, CommandError, run

PEERS = {"evidently": "Evidently", "great_expectations": "Great Expectations", "pandera": "pandera"}
PROBES = ROOT / "tests" / "benchmarks" / "probes"
PAGE = ROOT / "docs" / "data_checks.md"
BEGIN, END = "<!-- begin: data_peers -->", "<!-- end: data_peers -->"
ROWS, COLUMNS, LEAST_FASTER = 100_000, 100, 100
_CLEAN, _NOTHING = "clean", "-"
_LONGEST = {OURS: 150, **dict.fromkeys(PEERS, 50)}

Said = dict[str, Any]
"""`clean`: the alarms of each night, and `faults`: those of each fault."""


def records(bench: Bench) -> Iterator[Record]:
    work = bench.folder("data_peers")
    bench.progress("data_peers: writing nights")
    _python("orders", work, work)
    environments = bench.peers(*PEERS)
    bench.progress("data_peers: ours")
    said: dict[str, Said] = {OURS: _python("ours", work, work)}
    for name, environment in environments.items():
        bench.progress(f"data_peers: {name}")
        script = PROBES / "data_peers" / "nights.py"
        try:
            said[name] = _run(bench, environment, work, script, f"with_{name}", work)
        except CommandError as error:
            bench.failed[name] = str(error).splitlines()[-1]
    note = bench.note(*PEERS)
    caught = {name: [each for each in found["faults"] if _caught(found, each)] for name, found in said.items()}
    for fault in said[OURS]["faults"]:
        if fault != _CLEAN:
            others = {name: fault in found for name, found in caught.items() if name != OURS}
            is_whole = said[OURS]["whole"][fault]
            yield Record(
                name=f"data_peers: catches {fault}",
                unit="bool",
                ours=fault in caught[OURS] and is_whole,
                peers=others,
                target=True,
                note="" if is_whole else "the earlier sets or nights are not as they were",
            )
    alarms = {name: sum(map(bool, found["clean"])) for name, found in said.items()}
    nights = len(said[OURS]["clean"])
    others = {name: number for name, number in alarms.items() if name != OURS}
    name = f"data_peers: clean nights of {nights} with an alarm"
    yield Record(name=name, unit="nights", ours=alarms[OURS], peers=others, note=note)
    stops = sum(any(" stops: " in alarm for alarm in night) for night in said[OURS]["clean"])
    yield Record(name=f"data_peers: clean nights of {nights} that are stopped", unit="nights", ours=stops, target=0)
    if said.keys() == {OURS, *PEERS} and not bench.quick:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table(said)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    if not bench.quick:
        yield from _time(bench, environments.get("evidently"))


def table(said: Mapping[str, Said]) -> str:
    """By fault what each says of it first."""
    names = [OURS, *PEERS]
    lines = [f"| a night with | Drivetrain | {' | '.join(PEERS.values())} |", "|---" * (len(names) + 1) + "|"]
    for fault in said[OURS]["faults"]:
        if fault != _CLEAN:
            lines.append(f"| {fault} | {' | '.join(_cell(said[name], fault, _LONGEST[name]) for name in names)} |")
    nights = len(said[OURS]["clean"])
    alarms = [f"{sum(map(bool, said[name]['clean']))} of {nights}" for name in names]
    return "\n".join([*lines, f"| nothing: clean nights with an alarm | {' | '.join(alarms)} |"])


def _caught(found: Said, fault: str) -> list[str]:
    """The alarms of a fault, those that stop a night first."""
    new = [alarm for alarm in found["faults"][fault] if alarm not in found["faults"][_CLEAN]]
    return sorted(new, key=lambda alarm: " stops: " not in alarm)


def _cell(found: Said, fault: str, longest: int) -> str:
    text = " ".join(next(iter(_caught(found, fault)), _NOTHING).replace("|", " ").split()).partition(". ")[0]
    text = text if len(text) <= longest else text[: text.rindex(" ", 0, longest)] + " ..."
    return text.replace("`", "'").replace("<", "&lt;").replace("*", "\\*")


def _time(bench: Bench, evidently: Environment | None) -> Iterator[Record]:
    """check_data reads what prepare_data has counted; Evidently has the rows in memory."""
    work = bench.folder("many")
    bench.progress(f"data_peers: {ROWS:,} rows x {COLUMNS} columns")
    _python("check_data", work, "prepare", work, COLUMNS, ROWS, 60)
    peers: dict[str, float] = {}
    if evidently:
        script = PROBES / "data_peers" / "with_evidently.py"
        files = [work / night / "raw" / "rows.parquet" for night in ("before", "tonight")]
        peers["evidently"] = _run(bench, evidently, work, script, *files)["cpu"]
    where = f"{ROWS:,} rows x {COLUMNS} columns, CPU time"
    for what, ours in (("check", "check_data"), ("prepared", "prepare_data and check_data")):
        cpu = _python("check_data", work, what, work)["cpu"]
        target = peers["evidently"] / LEAST_FASTER if what == "check" and peers else None
        yield Record(
            name=f"data_peers: {ours}, {where}",
            unit="s",
            ours=cpu,
            peers=peers,
            target=target,
            note=bench.note("evidently", more="after imports"),
        )


def _python(probe: str, home: Path, *words: object) -> Said:
    """The JSON that one of our probes prints last; empty where it prints none."""
    environment = {**QUIET, "PATH": "/usr/bin:/bin", "HOME": str(home), "TMPDIR": str(home)}
    module = f"tests.benchmarks.probes.{'' if probe == 'check_data' else 'data_peers.'}{probe}"
    command = [sys.executable, "-m", module, *map(str, words)]
    return _last(run(command, cwd=ROOT, environment=environment, limit=1800).checked().output)


def _run(bench: Bench, environment: Environment, home: Path, script: Path, *words: object) -> Said:
    variables = bench.variables(environment, home, TMPDIR=str(home))
    command = [environment.python, script, *map(str, words)]
    return _last(run(command, cwd=home, environment=variables, limit=3600).checked().output)


def _last(output: str) -> Said:
    lines = output.splitlines()
    return json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
