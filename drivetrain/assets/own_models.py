"""The check that no step opens the model of a user's own script as one of ours: at compile, and not after the training.
A script that may write a model.json is let pass, and one that comes from elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Set as AbstractSet
from pathlib import Path

from drivetrain.assets.module_facts import module_facts
from drivetrain.base.errors import SpecError, at_place
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.resources import BATCH_PREDICT, CALIBRATE, COMPARE, EVALUATE
from drivetrain.spec.steps import TRAIN_SCRIPT, JobStep
from drivetrain.spec.values import OutputRef

_READERS = {EVALUATE: "model", BATCH_PREDICT: "model", COMPARE: "model", CALIBRATE: "trained"}
# By these a program may have a model.json that its text does not name as its own: files that are moved, unpacked, or
# written by other programs. Methods of texts and tables with these names are no such calls.
_MAY_DESCRIBE = re.compile(
    rb"model\.json|drivetrain|\bshutil\b|\bsubprocess\b|\bcopy\w*\((?!\s*\))|\bmove\(|\brenames?\([^=]*?\)"
    rb"|\breplace\([^,]*?\)|\bextract(?:all)?\(|\bunpack|\bexec\w*\(|\bpopen|\bos\s*\.\s*(?:system|spawn|\w*link)"
)
# XGBoost's own format, in a file that its users like to call so.
_OF_XGBOOST = re.compile(rb"\bsave_model\([^\n]*model\.json")


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
        if not isinstance(made, JobStep) or made.program.target != TRAIN_SCRIPT:
            continue
        ours = _READERS.get(step.program.target) == name and not _takes_answers(step, graph)
        line = 0 if ours else _line_that_opens(name, function, content)
        if not ours and not line:
            continue
        script, given = made.parameters.get("script"), made.inputs.get("source")
        folder, files = source, travelling
        if given is not None:
            places = (source / given, Path(given)) if isinstance(given, str) else ()
            folder = next((place for place in places if place.is_dir()), None)
            files = {file.relative_to(folder).as_posix() for file in folder.rglob("*.py")} if folder else set[str]()
        if isinstance(script, str) and folder is not None and not _may_describe(script, folder, files):
            other = "give what it answered as evaluate's answers"
            if not ours:
                other = f"open your own files: tarfile.open({name} / 'model.tar.gz')"
            text = (
                f"Step {step.name!r} opens the model of step {made.name!r} as one of `train`, but your script {script} "
                "writes no model.json of ours. Describe it in a step between them, step(describe_model, trained=..., "
                f"data=..., answers='MODULE'), or {other}."
            )
            module = step.program.target.partition(":")[0].rpartition(".")[2]
            raise at_place(SpecError(text), step.place if ours else f"{module}.py, line {line}")


def _takes_answers(step: JobStep, graph: Graph) -> bool:
    """Return True if a step counts answers, or compares by a report that is not surely of a model that was asked."""
    if step.program.target != COMPARE:
        return "answers" in step.inputs
    made = graph.producer(step.inputs.get("evaluation"))
    return made is None or made.program.target != EVALUATE or "answers" in made.inputs


def _may_describe(script: str, source: Path, travelling: AbstractSet[str]) -> bool:
    pending, seen = {script} & travelling, set[str]()
    if not pending:
        return True
    while pending:
        seen |= pending
        content = [(source / path).read_bytes() for path in pending]
        if any(_MAY_DESCRIBE.search(_OF_XGBOOST.sub(b"", each)) for each in content):
            return True
        facts = [module_facts(each) for each in content]
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
