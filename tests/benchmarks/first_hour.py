"""The first hour: first run, re-run, changed parameter, list and show, with the same four steps in every tool."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.environments import Environment
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.timing import OURS, CommandError, Ran
from tests.benchmarks.harness.tool import Project, project

PEERS = ("metaflow", "zenml", "kfp", "dagster", "prefect")
# The words in which the changed run must say why it ran evaluate again.
REASON = "evaluate: max_digits 4 -> 3"
# How each step of the changed run must have ended: what evaluate needs is taken from the cache, what follows runs.
AFTER_THE_CHANGE = {"load": "Cached", "train": "Cached", "evaluate": "Succeeded", "register-model": "Succeeded"}

Taken = dict[str, dict[str, list[float]]]
"""Activity -> tool -> seconds, one a round."""


def records(bench: Bench) -> Iterator[Record]:
    tools: dict[str, Environment] = {OURS: bench.ours, "plain": bench.ours, **bench.peers(*PEERS)}
    taken: Taken = defaultdict(lambda: defaultdict(list))
    reasons: list[bool] = []
    only_what_follows: list[bool] = []
    notes: dict[str, str] = {}
    for number in range(1, bench.rounds + 1):
        for name, environment in tools.items():
            if name in bench.failed:
                continue
            bench.progress(f"first hour, round {number} of {bench.rounds}: {name}")
            place = project(bench, name, environment)
            notes[name] = place.tool.note
            try:
                changed = _round(place, name, taken)
            except CommandError as error:
                if name == OURS:
                    raise
                bench.failed[name] = str(error).splitlines()[-1]
                bench.progress(f"{name} failed: {error}")
                continue
            if name == OURS:
                reasons.append(REASON in changed.output + changed.errors)
                only_what_follows.append(AFTER_THE_CHANGE.items() <= _statuses(place).items())
    said = "; ".join(f"{name}: {text}" for name, text in notes.items() if text and name not in bench.failed)
    yield _row(taken, "first run", 3.0, bench.note(*PEERS, more=said))
    yield _row(taken, "cached re-run", 0.5)
    yield _row(taken, "changed parameter of evaluate", 4.0)
    yield Record(
        name="first_hour: the changed run says why",
        unit="bool",
        ours=bool(reasons) and all(reasons),
        target=True,
        note=f"looked for {REASON!r}",
    )
    yield Record(
        name="first_hour: the changed run runs evaluate and what follows, no more",
        unit="bool",
        ours=bool(only_what_follows) and all(only_what_follows),
        target=True,
    )
    yield _row(taken, "runs list, CPU", 0.3)
    yield _row(taken, "runs show, CPU", 0.5)


def _round(place: Project, name: str, taken: Taken) -> Ran:
    """One newcomer's session from an empty folder; what the changed run printed."""

    def note(activity: str, command: Sequence[str], *, cpu: bool = False) -> Ran:
        ran = place.call(command).checked()
        taken[activity][name].append(ran.cpu if cpu else ran.wall)
        return ran

    tool = place.tool
    note("first run", tool.run)
    if name == "plain":
        return place.call(tool.changed).checked()
    again = tool.again or tool.run
    for _ in range(1, tool.runs_until_cached):
        place.call(again).checked()
    note("cached re-run", again)
    changed = note("changed parameter of evaluate", tool.changed)
    if tool.runs_list:
        note("runs list, CPU", tool.runs_list, cpu=True)
    if tool.runs_show:
        note("runs show, CPU", tool.runs_show, cpu=True)
    return changed


def _statuses(place: Project) -> dict[str, str]:
    """Step -> status of our last run."""
    shown = json.loads(place.call(["drivetrain", "runs", "show", "latest", "--json"]).checked().output)
    return {step["name"]: step["status"] for step in shown["steps"]}


def _row(taken: Taken, activity: str, target: float, note: str = "") -> Record:
    medians = {name: statistics.median(seconds) for name, seconds in taken[activity].items()}
    return Record(
        name=f"first_hour: {activity}",
        unit="s",
        ours=medians.pop(OURS),
        limit=medians.pop("plain", None),
        peers=medians,
        target=target,
        note=note,
    )
