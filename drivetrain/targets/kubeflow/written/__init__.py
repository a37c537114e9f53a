"""A pipeline's IR as the code that a person would have written, and the proof that it means the same.

written = write_code(text, "pipeline.yaml")
written.code, written.raw, written.problem, written.changes

What the words do not say stands in the code as JSON, in `other`, and is named with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import printable
from drivetrain.base.records import dataclass
from drivetrain.targets.kubeflow.compile.compile import compile_pipeline
from drivetrain.targets.kubeflow.ir.check import components_of, problems, read
from drivetrain.targets.kubeflow.written.meaning import Meaning, differences
from drivetrain.targets.kubeflow.written.writer import Writer
from drivetrain.targets.written import built

_MOST = 20


@dataclass(frozen=True)
class Written:
    """Code of a pipeline."""

    code: str
    raw: Mapping[str, str]
    """Task or parameter with JSON in the code -> the reason."""
    changes: tuple[str, ...] = ()
    """Differences of what the code compiles to."""
    problem: str = ""
    """The reason that it does not compile; empty if it does."""

    @property
    def is_equal(self) -> bool:
        return not self.changes and not self.problem

    def lines(self, file: str) -> list[str]:
        """The result for people."""
        said = [f"Wrote {file}: {len(self.code.splitlines())} lines."]
        said += [f"{name} has JSON in the code: {reason}." for name, reason in self.raw.items()]
        if self.problem:
            said.append(f"It does not compile: {self.problem}")
        said += ["It means something else:", *self.changes[:_MOST]] if self.changes else []
        return [*map(printable, said), *(["It compiles to a pipeline that means the same."] if self.is_equal else [])]

    def to_json(self) -> dict[str, Any]:
        """The result for scripts."""
        return {
            "raw": dict(self.raw),
            "problem": self.problem or None,
            "changes": [*self.changes],
            "equal": self.is_equal,
        }


def write_code(text: bytes, source: str, file: str = "pipeline.py") -> Written:
    """The code of a pipeline.

    Args:
        source: names the text in messages.
        file: that of the code, for messages.

    Raises:
        UserError: the text is no pipeline, or one that a cluster would refuse.
    """
    documents = read(text, source)
    if found := problems(documents):
        raise UserError(f"{source}: a cluster would refuse it. {found[0]} All: drivetrain check {source}")
    components = components_of(documents)
    meant = Meaning(components.spec, components.platform).whole
    writer = Writer(meant)
    code = writer.write()
    try:
        compiled = compile_pipeline(built(code, file))
    except UserError as error:
        return Written(code, writer.raw, problem=str(error))
    means = Meaning(compiled.ir, compiled.platform).whole
    return Written(code, writer.raw, tuple(differences(meant, means)))
