"""The summary of a training's health: rules that fired, and where its time went; in one file, and in one line.

<output>/health/health.json
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from drivetrain.training.health.record import PHASES, Floats, Record, Table
from drivetrain.training.health.rule import Finding, Watching, see
from drivetrain.training.health.verdict import phases_in_words, stragglers
from drivetrain.training.launch.machine import in_words
from drivetrain.training.loop.journal import Journal

SUMMARY_FILE = "health.json"
_FAILS = ("fail", "stop")


class Summary:
    """
    Args:
        folder: gets the file; None on other ranks than the first, and without a folder.

    Attributes:
        findings: a rule that has fired, by its name.
        machines: samples of each host (launch/machine.py).
    """

    def __init__(self, rules: Sequence[Watching], folder: Path | None = None) -> None:
        self._rules, self._folder = rules, folder
        self.findings: dict[str, Finding] = {}
        self._records = {"ranks": 0, "tensors": 0, "validation": 0}
        self.machines: list[list[dict[str, Any]]] = []
        self._seconds: Table | None = None
        self._first: Table | None = None  # of these, those of the first record
        self._timeline = Timeline()

    @property
    def is_healthy(self) -> bool:
        """True if no rule fired that fails or stops a training."""
        return not any(finding.action in _FAILS for finding in self.findings.values())

    def add(self, finding: Finding) -> bool:
        """Note that a rule fires; whether it is the first time."""
        known = self.findings.get(finding.rule)
        if known is None:
            finding.last_step = finding.step
            self.findings[finding.rule] = finding
            return True
        known.times, known.last_step = known.times + 1, finding.step
        return False

    def recorded(self, record: Record) -> None:
        for name in ("ranks", "tensors"):
            self._records[name] += getattr(record, name) is not None
        # (Without validation data the end of an epoch tells the training loss alone.)
        self._records["validation"] += any(name.startswith("validation_") for name in record.validation or ())
        if record.ranks is not None:
            self._timeline.add(record.ranks)
            before = self._seconds
            columns = {
                name: record.ranks[name] + (before[name] if before is not None else 0.0)
                for name in (*PHASES, "steps", "queued", "starved")
                if name in record.ranks.columns  # (older versions recorded no waiting for a CPU)
            }
            own = record.ranks["own"]
            if before is not None:
                own = np.minimum(own, before["own"])
            self._seconds = Table(record.ranks.names, {**columns, "own": own})
            if before is None:
                self._first = self._seconds

    def scalars(self, record: Record) -> dict[str, float]:
        """For TensorBoard, of a record with tensors."""
        assert record.tensors is not None
        table, found = record.tensors, {"health/healthy": float(self.is_healthy)}
        found["health/gradient_norm"] = float(np.sqrt(table["grad_sq"].sum()))
        weights, updates = table.rms("weight_sq", "sampled"), table.rms("update_sq", "sampled")
        there = (weights > 0) & np.array(record.matrices, dtype=bool)
        if there.any():
            found["health/largest_update"] = float((updates[there] / weights[there]).max())
        if record.layers is not None:
            found["health/most_zeros"] = float(record.layers.mean("zeros", "size").max())
        return {name: value for name, value in found.items() if np.isfinite(value)}

    def about_model(self) -> dict[str, Any]:
        """For model.json: the rules of the model that failed the training; nothing otherwise, so that a healthy model
        is the same whether anybody watched it or not."""
        watched = [rule.name for rule in self._rules if rule.about_model]
        failed = {name: one.text for name, one in self.findings.items() if name in watched and one.action in _FAILS}
        return {"health": {"failed": failed}} if failed else {}

    def as_json(self, share: float | None) -> dict[str, Any]:
        seconds = self._seconds
        phases = {}
        if seconds is not None:
            phases = {name: [round(v, 6) for v in seconds[name].tolist()] for name in (*PHASES, "steps", "own")}
        return {
            "healthy": self.is_healthy,
            "findings": [asdict(finding) for finding in self.findings.values()],
            "rules": {rule.name: rule.action for rule in self._rules},
            "records": self._records,
            "cost": None if share is None else round(share, 6),
            "phases": phases,
            "timeline": self._timeline.as_json(),
            "verdict": phases_in_words(seconds, self._first) if seconds is not None else "",
            "machines": self.machines,
            "hosts": [in_words(taken) for taken in self.machines],
            "stragglers": stragglers(seconds) if seconds is not None else [],
        }

    def write(self, journal: Journal, share: float | None) -> None:
        """Write the file; where that cannot be, it is said."""
        if self._folder is None:
            return
        path = self._folder / SUMMARY_FILE
        try:
            temporary = path.with_suffix(".partial")
            temporary.write_text(json.dumps(self.as_json(share), indent=1, allow_nan=False) + "\n", encoding="utf-8")
            temporary.replace(path)
        except OSError as error:
            journal.say(f"{path} cannot be written ({error.strerror}).")

    def describe(self, share: float | None) -> str:
        """One line; a step's metric `healthy` is read from it. `share` of the time went for it; None: unmeasured."""
        fired = ", ".join(f"{name} ({finding.action})" for name, finding in self.findings.items())
        said = fired or f"none of {len(self._rules)} rules fired"
        return f"health: healthy={int(self.is_healthy)} {said}" + (
            "" if share is None else f"; it took {share:.2%} of the time"
        )

    def state(self) -> dict[str, Any]:
        """For a checkpoint: what was found, and what rules remember."""
        found = {"health": [asdict(finding) for finding in self.findings.values()]} if self.findings else {}
        return {**found, "health_rules": {rule.name: state for rule in self._rules if (state := rule.state())}}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over earlier findings, under the actions of now: a gate must not let pass what only warned then.
        Findings of rules that are off now are dropped."""
        now = {rule.name: rule for rule in self._rules}
        for given in state.get("health", []):
            if rule := now.get(given["rule"]):
                told = {"action": rule.action, "advice": rule.advice, "spoils": rule.spoils}
                self.findings[rule.name] = Finding(**given | told)
        for name, remembered in state.get("health_rules", {}).items():
            if rule := now.get(name):
                rule.load_state(remembered)


def summed_up(rules: Sequence[Watching], records: Iterable[Record]) -> Summary:
    """Apply rules to the records of a training, and sum up."""
    summary = Summary(rules)
    for record in records:
        for finding in see(rules, record):
            _ = summary.add(finding)
        summary.recorded(record)
    return summary


MOST_STRETCHES = 120
# The rest is waiting, for data, other ranks or disks.
BUSY = ("forward", "backward", "optimizer", "compute", "validation")


class Timeline:
    """The phases of each rank in stretches of equal length, for pictures. Of too many, neighbours become one."""

    def __init__(self, most: int = MOST_STRETCHES) -> None:
        self._most, self._each, self._count = most, 1, 0
        self._stretches: list[Floats] = []  # seconds, [phases, ranks]

    def add(self, ranks: Table) -> None:
        """A record's."""
        seconds = np.stack([ranks[name] for name in PHASES])
        if self._count % self._each:
            self._stretches[-1] = self._stretches[-1] + seconds
        else:
            self._stretches.append(seconds)
        self._count += 1
        if len(self._stretches) > self._most:
            pairs = self._stretches[: len(self._stretches) // 2 * 2]
            rest = self._stretches[len(pairs) :]
            self._stretches = [one + other for one, other in zip(pairs[::2], pairs[1::2], strict=True)] + rest
            self._each *= 2

    def as_json(self) -> dict[str, Any]:
        """`seconds` of each stretch; `busy`, of each rank the share in which it computes, [ranks][stretches]; `phases`,
        of each phase its share over all ranks, by name [stretches]."""
        whole = [np.maximum(stretch.sum(axis=0), 1e-12) for stretch in self._stretches]
        places = [PHASES.index(name) for name in BUSY]
        busy = [stretch[places].sum(axis=0) / total for stretch, total in zip(self._stretches, whole, strict=True)]
        shares = [stretch.sum(axis=1) / total.sum() for stretch, total in zip(self._stretches, whole, strict=True)]
        return {
            "seconds": [round(float(total.mean()), 3) for total in whole],
            "busy": np.round(np.array(busy).T, 4).tolist(),
            "phases": {name: [round(float(share[place]), 4) for share in shares] for place, name in enumerate(PHASES)},
        }
