"""Ends an execution early: nothing is new since an earlier one, whose results stand for all its steps.

Nothing is new where every source that is looked at has the version that the run before found, where that had the same
definition and parameters and succeeded to its end, and where all that it wrote is as it wrote it and not too old. The
steps that look run first; data of this machine have their hash in the definition. A step without a cache may read what
nobody looks at: a pipeline with such a step, other than those that only judge and publish what it has made, runs to its
end each time.

In the account the steps that look run, and so do those without a cache: a cached result ends no execution there, and
to know that an earlier one succeeded to its end takes a job of its own, which costs what the jobs that it spares cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drivetrain.base.masking import contains_mask
from drivetrain.run_store.home import SavedRequest
from drivetrain.run_store.model import Run, StepRun
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.reader import Ledger
from drivetrain.spec.resources import COMPARE, REGISTER_MODEL
from drivetrain.steps import FRESH_PARAMETER
from drivetrain.targets.sagemaker.document.document import Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import references
from drivetrain.targets.sagemaker.document.graph import dependencies
from drivetrain.targets.sagemaker.document.looks import is_look, runs_program
from drivetrain.targets.sagemaker.document.step_types import key_fields
from drivetrain.targets.sagemaker.run.execution import cache
from drivetrain.targets.sagemaker.run.options import Options, Request
from drivetrain.targets.sagemaker.run.resume.earlier_looks import EARLIER_LOOK

# What decides and publishes, and makes nothing that is not of what the pipeline has read.
_JUDGES = (COMPARE, REGISTER_MODEL)
_JUDGING_TYPES = ("Condition", "Fail", "RegisterModel", "Model")
_FIND_PREVIOUS = "drivetrain.components.find_previous:find_previous"
# What a run is told beside its definition and parameters, and what it makes of them.
_TOLD = ("target", "functions", "callbacks", "stubs", "image_commands", "data", "region", "account")
_EARLIER = "WHERE pipeline = ? AND rowid < (SELECT rowid FROM executions WHERE id = ?) ORDER BY rowid DESC"


@dataclass(frozen=True)
class Search:
    """The search of one execution for an earlier one since which nothing is new.

    Attributes:
        looks: the steps that have to end first.
    """

    execution: Run
    definition: Definition
    options: Options
    looks: frozenset[str]
    ledger: Ledger
    store: ObjectStore

    def may_succeed(self) -> bool:
        """True where there is such a run, but for what the looks will find."""
        return self._equal(None) is not None

    def since(self) -> str | None:
        """The execution since which nothing is new, once all looks have succeeded."""
        return self._equal(self._seen(self.execution.id))

    def rows(self, execution: str) -> Mapping[str, StepRun]:
        """The records of an execution's steps, by name."""
        return {row.name: row for row in self.ledger.steps(execution)}

    def _equal(self, seen: Mapping[tuple[str, str], str] | None) -> str | None:
        """The run before this one, if it is equal; of two runs with --fresh and of one of some steps the run before
        them counts. `seen` is what the looks have found, None before they have run."""
        for row in self.ledger.selected(_EARLIER, self.execution.pipeline, self.execution.id):
            if row.nothing_new_since:
                continue
            folder = self.ledger.home.run(row.id)
            if not self._is_alike(row) or not SavedRequest.is_kept(folder):
                return None
            earlier = Request.load(folder).options
            if any(getattr(earlier, name) != getattr(self.options, name) for name in _TOLD):
                return None
            found = self._seen(row.id)
            if seen is not None and any(seen.get(name) != digest for name, digest in found.items()):
                return None
            if earlier.selected or row.parameters != self.execution.parameters:
                continue
            return row.id if seen is None or (found.keys() == seen.keys() and self._holds(row.id)) else None
        return None

    def _is_alike(self, row: Run) -> bool:
        return (
            row.status == "Succeeded"
            and row.definition_hash == self.execution.definition_hash
            and _but_fresh(row.parameters) == _but_fresh(self.execution.parameters)
        )

    def _seen(self, execution: str) -> dict[tuple[str, str], str]:
        """The digests of what the looks found."""
        outputs = (item for item in self.ledger.artifacts(execution) if item.flow == "output")
        return {(item.step, item.name): item.digest for item in outputs if item.step in self.looks}

    def _holds(self, execution: str) -> bool:
        """Return True if the results of an execution may stand for those of this one: none too old, none of other data
        or of a training that was changed on its way, every file as it was written, and every input as it was read."""
        nodes = {node.name: node for node in self.definition.all_steps}
        for row in self.ledger.steps(execution):
            node = nodes[row.name if row.parent is None else row.name.rpartition("-")[0]]
            if EARLIER_LOOK in row.why:
                return False
            if row.status in ("Succeeded", "Cached") and not self._is_kept(node, row):
                return False
        return True

    def _is_kept(self, node: StepNode, row: StepRun) -> bool:
        made_by = row.cache_of or row.execution
        if any(cache.damaged(made_by, row.name, self.ledger, self.store)):
            return False
        if not node.cache.enabled:
            return True
        sql = "SELECT ended FROM steps WHERE execution = ? AND name = ? AND cache_key IS NOT NULL"
        ends = self.ledger.rows(sql, made_by, row.name)
        if not ends or cache.is_too_old(node, ends[0][0]):
            return False
        return not cache.changed_bytes(made_by, row.name, self.ledger, self.store)


def search_of(
    execution: str, definition: Definition, options: Options, ledger: Ledger, store: ObjectStore
) -> Search | None:
    """The search for a run that begins; None where it has to run to its end in any case."""
    row = ledger.execution(execution)
    if contains_mask(row.parameters) or not options.cache or options.uncached:
        return None
    if options.interruptions or options.selected:
        return None
    needs = dependencies(definition)
    steps = definition.walk()
    looks = frozenset(step.name for step in steps if _looks(step) and not needs[step.name])
    if not all(step.name in looks or _is_covered(step) for step in steps):
        return None
    found = Search(row, definition, options, looks, ledger, store)
    return found if found.may_succeed() else None


def _looks(step: StepNode) -> bool:
    return is_look(step.arguments) or runs_program(step.arguments, _FIND_PREVIOUS)


def _is_covered(step: StepNode) -> bool:
    """True where a step makes the same of what earlier steps give it and of the sources that are looked at."""
    if step.body:
        return all(map(_is_covered, step.body))
    if step.type in _JUDGING_TYPES or any(runs_program(step.arguments, program) for program in _JUDGES):
        return True
    key = key_fields(step.type, step.arguments)
    return step.cache.enabled and key is not None and all(get.root != "Execution" for get in references(key))


def _but_fresh(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in parameters.items() if name != FRESH_PARAMETER}
