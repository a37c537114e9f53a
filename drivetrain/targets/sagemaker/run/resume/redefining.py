"""An execution goes on with another definition, or with outputs that are damaged: what is the same stays done, the
rest is done again.

Made for a training that moves from spot machines to on-demand ones: only its own step has changed, and its checkpoints
lie where they lay.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.run_store.home import write_whole
from drivetrain.run_store.objects import ObjectStore
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.document.document import Definition, read
from drivetrain.targets.sagemaker.document.graph import dependencies
from drivetrain.targets.sagemaker.run.execution.iterating import items_file
from drivetrain.targets.sagemaker.run.options import Options, Request

_PENDING = "redefinition.json"


def changed_steps(
    old: Definition, new: Definition, values: Collection[str] = (), damaged: Collection[str] = ()
) -> set[str]:
    """The steps of `new` that are not as in `old` or refer to a parameter among `values`, which has another value now;
    those among `damaged`; and all that need one of them."""
    changed = {
        step.name
        for step in new.walk()
        if step.name not in old.by_name
        or step.own_fields != old.step(step.name).own_fields
        or step.branch != old.step(step.name).branch
        or any(get.parameter in values for get in step.references)
        or step.name in damaged
    }
    needs = dependencies(new)
    grown = True
    while grown:
        more = {name for name, needed in needs.items() if name not in changed and needed & changed}
        changed |= more
        grown = bool(more)
    return changed


def given_parameters(definition: Definition, bound: Mapping[str, Any]) -> dict[str, Any]:
    """The values that differ from the defaults: those that the user gave."""
    defaults = {parameter.name: parameter.default for parameter in definition.parameters}
    return {name: value for name, value in bound.items() if defaults.get(name) != value}


@dataclass(frozen=True, kw_only=True)
class Redefinition:
    """The work to be done so that an execution goes on with another definition. It lies in the run's folder from before
    its first change until after its last. Each change may be repeated: a runner that finds it completes it.

    Attributes:
        request: what is run from now on.
        again: the steps that run (again).
        gone: the URIs that they had written, which go, so that nothing of the old stays among the new.
        forgotten: steps whose items, which a ForEach looks up anew, go.
    """

    request: Request
    again: frozenset[str]
    gone: tuple[str, ...]
    forgotten: tuple[str, ...]

    @staticmethod
    def begin(
        execution: str, old: Request, new: Request, ledger: LedgerWriter, damaged: Collection[str] = ()
    ) -> Redefinition:
        """Find out what is to be done, and keep it; nothing is changed yet.

        Args:
            damaged: steps that have lost some of their outputs.
        """
        before, after = read(old.text, f"execution {execution}"), read(new.text, "the new definition")
        names = {*old.parameters, *new.parameters}
        values = {name for name in names if old.parameters.get(name) != new.parameters.get(name)}
        again = changed_steps(before, after, values, damaged)
        left = {*again, *(set(before.by_name) - set(after.by_name))}
        uris = [
            written.uri
            for row in ledger.steps(execution)
            if row.name in left or row.parent in left
            for written in ledger.written(execution, row.name)
        ]
        found = Redefinition(
            request=new, again=frozenset(again), gone=tuple(dict.fromkeys(uris)), forgotten=tuple(sorted(left))
        )
        kept = {
            "definition": new.text,
            "parameters": dict(new.parameters),
            "options": new.options.to_json(),
            "again": sorted(again),
            "gone": found.gone,
            "forgotten": found.forgotten,
        }
        write_whole(ledger.home.run(execution) / _PENDING, json.dumps(kept))
        return found

    @staticmethod
    def pending(folder: Path) -> Redefinition | None:
        """Read the redefinition that a runner had begun in a run's folder before it died; None without one."""
        try:
            kept = json.loads((folder / _PENDING).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return Redefinition(
            request=Request(kept["definition"], kept["parameters"], Options.from_json(kept["options"])),
            again=frozenset(kept["again"]),
            gone=tuple(kept["gone"]),
            forgotten=tuple(kept["forgotten"]),
        )

    def complete(self, execution: str, ledger: LedgerWriter, store: ObjectStore) -> None:
        """Do it: first what is run and what is done of it, then the files. May be repeated until it has returned."""
        new, folder = self.request, ledger.home.run(execution)
        new.save(folder)
        ledger.redefine(
            execution,
            definition_hash=new.definition_hash,
            request_hash=new.hash,
            parameters=new.parameters,
            steps=[
                (step.name, step.type, step.display_name or step.name)
                for step in read(new.text, "the new definition").walk()
            ],
            again=self.again,
        )
        for uri in self.gone:
            store.place(uri).unlink(missing_ok=True)
        for step in self.forgotten:
            items_file(ledger.home, execution, step).unlink(missing_ok=True)
        (folder / _PENDING).unlink()
