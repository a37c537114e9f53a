"""Deployed pipelines in a list, and their runs: found again, listed, reported."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import count
from drivetrain.run_store.model import Run, StepRun

Json = dict[str, Any]
LATEST = "latest"
COST = "cost"
"""The column of a report that says what each step cost, on targets that know it."""
_BEFORE_LATEST = re.compile(r"latest~([0-9]{1,4})")


@dataclass(frozen=True, kw_only=True)
class RemoteStep(StepRun):
    """A step of a run where it is deployed."""

    no_log: str | None = None
    """Why it has no log; None where it has one."""
    may_log: bool = False
    """True while one that has no log may get one."""


@dataclass(frozen=True, kw_only=True)
class RemoteRun(Run):
    """One run where it is deployed. `started` is 0 where the target does not say it."""

    steps: tuple[RemoteStep, ...] = ()
    """Those that have begun; on Kubeflow all, once it has ended."""
    planned: tuple[StepRun, ...] = ()
    """All that the pipeline has, where the target says it with the run."""
    version: int | str | None = None
    """The version of the pipeline."""
    arn: str = ""
    """Its ARN, if AWS runs it."""
    note: str | None = None
    """The target's remark on the whole run: why no step runs, or is known."""
    fresh: bool = False
    """True where it is known to have been started with --fresh."""

    @property
    def ids(self) -> Json:
        return {"execution": self.id, **({"arn": self.arn} if self.arn else {})}

    def summary(self) -> Json:
        """One entry of a list of runs."""
        named = {"pipeline": self.pipeline, "name": self.name or "", "status": self.status}
        return {**self.ids, **named, "started": self.started or None, "reason": self.reason}


class Row(NamedTuple):
    """A step of a report: for people its cells of `columns` and a remark, for scripts its JSON."""

    step: RemoteStep
    json: Json
    cells: tuple[str, ...] = ()
    remark: str = ""
    has_log: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run with its steps, as people and scripts read it."""

    execution: RemoteRun
    rows: tuple[Row, ...]
    columns: tuple[str, ...] = ()
    """The columns of the table of steps between the time and the remark."""
    total: str | None = None
    """A last line."""
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further facts of the target about the run."""

    def to_json(self) -> Json:
        run = self.execution
        named = {"pipeline": run.pipeline, "name": run.name or "", "version": run.version}
        ran = {"status": run.status, "reason": run.reason, "started": run.started or None, "ended": run.ended}
        return {**run.ids, **named, **ran, "steps": [row.json for row in self.rows], **self.more}


def find(
    runs: Callable[[int | None], Sequence[RemoteRun]], pipeline: str, which: str, *, start: str, listed: str
) -> RemoteRun:
    """A run by its id, the beginning of it, its name, `latest`, or `latest~1` for the one before.

    Args:
        runs: gives the newest runs first, at most so many.
        start, listed: the commands that start the pipeline, and list its runs, for advice.

    Raises:
        UserError: no run matches, or several do.
    """
    if not which.strip():
        raise UserError(f"No execution is named. Give the id, the beginning of it, its name, or {LATEST!r}.")
    counted = _BEFORE_LATEST.fullmatch(which)
    before = 0 if which == LATEST else int(counted[1]) if counted else None
    there = runs(None if before is None else before + 1)
    if counted and len(there) <= int(counted[1]):
        raise UserError(f"No execution {which!r}: {pipeline!r} has {count(len(there), 'execution')}.")
    if not there:
        raise UserError(f"Pipeline {pipeline!r} has not been executed yet. Start it: {start}")
    if before is not None:
        return there[before]
    found = [run for run in there if run.id.startswith(which) or run.name == which]
    exact = [run for run in found if which in (run.id, run.name)]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        shown = ", ".join(run.id for run in found[:5])
        raise UserError(f"{len(found)} executions of {pipeline!r} are {which!r}: {shown}. Give the id.")
    names = [name for run in there for name in (run.id, run.name) if name]
    likely = difflib.get_close_matches(which, names, n=1, cutoff=0.6)
    hint = f"Did you mean {likely[0]!r}? " if likely else ""
    raise UserError(f"No execution {which!r} of {pipeline!r}. {hint}Those that are there: {listed}")


@dataclass(frozen=True)
class Listed:
    """A deployed pipeline. Times are seconds since the epoch."""

    name: str
    ids: Mapping[str, str]
    """Its names for scripts, such as its ARN."""
    state: str
    """`as applied`: the definition is what apply wrote last. `edited`: others wrote it since. `being applied`: apply is
    at work, or was cut short. `not ours`: apply never wrote it. `not readable`: these credentials may not look at it.
    """
    modified: float | None = None
    """When it was written last, by whomever."""
    applied: str | None = None
    """SHA-256 of the definition that apply wrote last, where the target keeps it."""
    last: Mapping[str, Any] | None = None
    """The latest execution, as scripts read it: `status`, `started` and more."""

    def to_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.name,
            **self.ids,
            "state": self.state,
            "modified": self.modified,
            "applied_sha256": self.applied,
            "last_execution": self.last,
        }
