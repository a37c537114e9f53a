"""A definition as the code that a person would have written, and the proof that it means the same.

written = write_code(definition, "nightly")
written.code, written.raw, written.problem, written.changes

A step whose code would say anything else than its JSON stays JSON (NativeStep), with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import printable
from drivetrain.base.records import dataclass
from drivetrain.native.words import TABLES
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.document.difference.change import Change
from drivetrain.targets.sagemaker.document.difference.difference import describe_all, differences
from drivetrain.targets.sagemaker.document.difference.place import STEPS
from drivetrain.targets.sagemaker.document.difference.value_words import masked
from drivetrain.targets.sagemaker.document.document import Definition
from drivetrain.targets.sagemaker.inspection import inspect
from drivetrain.targets.sagemaker.written.moving import Move, Program, programs
from drivetrain.targets.sagemaker.written.writer import Writer
from drivetrain.targets.written import built
from drivetrain.targets.written.names import Hints


@dataclass(frozen=True)
class Written:
    """Code of a definition."""

    code: str
    raw: Mapping[str, str]
    """Step that stayed JSON -> the reason."""
    changes: tuple[Change, ...] = ()
    """Differences of what the code compiles to."""
    problem: str = ""
    """The reason that it does not compile; empty if it does."""
    moves: tuple[Move, ...] = ()

    @property
    def is_equal(self) -> bool:
        return not self.changes and not self.problem

    @property
    def is_as_told(self) -> bool:
        """True if the code means the same, or differs since steps moved."""
        return self.is_equal or (bool(self.moves) and not self.problem)

    def lines(self, file: str) -> list[str]:
        """The result for people."""
        said = [f"Wrote {file}: {len(self.code.splitlines())} lines."]
        said += [f"{printable(step)} stays JSON: {printable(reason)}." for step, reason in self.raw.items()]
        if self.problem:
            said += [f"It does not compile: {printable(self.problem)}", "So nothing of it was compared."]
        said += [printable(line) for move in self.moves for line in move.lines(Path(file).parent)]
        said += map(printable, describe_all(self.changes))
        return [*said, "It compiles to the same definition."] if self.is_equal else said

    def to_json(self) -> dict[str, Any]:
        """The result for scripts."""
        changes = [masked(change).to_json() for change in self.changes]
        moved = [{"step": each.program.step, "script": each.program.file} for each in self.moves]
        head = {"raw": dict(self.raw), "problem": self.problem or None, "changes": changes, "equal": self.is_equal}
        return {**head, "moved": moved}


def write_code(
    definition: Definition,
    name: str,
    file: str = "pipeline.py",
    hints: Hints | None = None,
    moving: tuple[str, ...] = (),
) -> Written:
    """The code of a definition, each step in words as far as they say the same.

    Args:
        name: the pipeline's.
        file: that of the code, for messages.
        hints: names, comments and a docstring from a source of the definition.
        moving: steps that become scripts of the repository, as STEP or STEP=SCRIPT.

    Raises:
        UserError: the body of a ForEach cannot be read; a step cannot move.
    """
    scripts = programs(definition, moving)
    best = _proven(definition, name, file, hints, {})
    if best.problem and not inspect(definition).refused:  # by a rule of this package that the service does not have
        control = {step.name: "it does not compile in words" for step in definition.walk() if step.type not in TABLES}
        again = _proven(definition, name, file, hints, control) if control else best
        best = best if again.problem else again
    while changed := {str(change.place[1]) for change in best.changes if change.place[0] == STEPS} - best.raw.keys():
        again = _proven(
            definition, name, file, hints, {**best.raw, **dict.fromkeys(changed, "words would say something else")}
        )
        if again.problem or len(again.changes) >= len(best.changes):
            break
        best = again
    if not scripts or not best.is_equal:
        return best
    found = _proven(definition, name, file, hints, best.raw, scripts)
    if kept := [step for step in scripts if step in found.raw]:
        raise UserError(f"--moving {kept[0]}: {found.raw[kept[0]]}. Move it by hand.")
    return found


def _proven(
    definition: Definition,
    name: str,
    file: str,
    hints: Hints | None,
    raw: Mapping[str, str],
    scripts: Mapping[str, Program] | None = None,
) -> Written:
    writer = Writer(definition, name, raw, hints, scripts)
    code, raw = writer.write()
    moves = tuple(writer.moves)
    try:
        compiled = compile_pipeline(built(code, file))
    except UserError as error:
        return Written(code, raw, problem=str(error), moves=moves)
    return Written(code, raw, differences(definition.raw, compiled.definition), moves=moves)
