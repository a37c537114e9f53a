"""That no step opens the model of a user's own script as one of ours: that is found as a pipeline is compiled, and not
after the training. A script that may write a model.json is let pass."""

from __future__ import annotations

import ast
import re
from collections.abc import Set as AbstractSet
from pathlib import Path

from drivetrain.assets.module_facts import module_facts
from drivetrain.base.errors import SpecError, at_place
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import BATCH_PREDICT, EVALUATE
from drivetrain.spec.steps import TRAIN_SCRIPT, JobStep
from drivetrain.spec.values import OutputRef

_READERS = (EVALUATE, BATCH_PREDICT)
# By these a program may have a model.json that its text does not name as its own.
_MAY_DESCRIBE = re.compile(rb"model\.json|drivetrain|copy|move|rename|replace|extract|unpack|subprocess|exec")


def check_models(
    step: JobStep, graph: Graph, source: Path, travelling: AbstractSet[str], function: str, content: bytes
) -> None:
    """
    Args:
        source: the folder of the user's pipeline file.
        travelling: the user's files that travel, by their paths in that folder.
        function: the step's component.
        content: the file of the component; empty where it is not the user's.

    Raises:
        SpecError: the step opens a model that surely has no model.json.
    """
    for name, value in step.inputs.items():
        made = graph.by_name.get(value.step) if isinstance(value, OutputRef) and value.output == "model" else None
        if not isinstance(made, JobStep) or made.program.target != TRAIN_SCRIPT or "source" in made.inputs:
            continue
        script = made.parameters.get("script")
        if not isinstance(script, str) or _may_describe(script, source, travelling):
            continue
        ours = step.program.target in _READERS and name == "model" and "answers" not in step.inputs
        line = 0 if ours else _line_that_opens(name, function, content)
        if ours or line:
            way = "Open your own"
            if ours:
                way = "Give what it answered as evaluate's answers, or measure it in a component that opens your"
            text = (
                f"Step {step.name!r} opens the model of step {made.name!r} as one of `train`, but your script {script} "
                f"writes no model.json. {way} files: tarfile.open({name} / 'model.tar.gz')."
            )
            module = step.program.target.partition(":")[0].rpartition(".")[2]
            raise at_place(SpecError(text), step.place if ours else f"{module}.py, line {line}")


def _may_describe(script: str, source: Path, travelling: AbstractSet[str]) -> bool:
    pending, seen = {script} & travelling, set[str]()
    if not pending:
        return True
    while pending:
        seen |= pending
        content = {path: (source / path).read_bytes() for path in pending}
        if any(_MAY_DESCRIBE.search(each) for each in content.values()):
            return True
        facts = [module_facts(each) for each in content.values()]
        if any(each.loads_any for each in facts):
            return True
        # A module's parts, and files that it runs: whatever may be meant, wherever it lies.
        names = {part for each in facts for one in each.imports for part in (*one.module.split("."), *one.names)}
        files = {Path(file).name for each in facts for file in each.files}
        pending = {path for path in travelling if Path(path).stem in names or Path(path).name in files} - seen
    return False


def _line_that_opens(name: str, function: str, content: bytes) -> int:
    """The line where a component of the user's calls open_model with its input; 0 where it does not."""
    if b"open_model" not in content:
        return 0
    for node in ast.parse(content).body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            for each in ast.walk(node):
                match each:
                    case ast.Call(
                        func=ast.Name(id="open_model") | ast.Attribute(attr="open_model"), args=[ast.Name(id=given)]
                    ) if given == name:
                        return each.lineno
                    case _:
                        pass
    return 0
