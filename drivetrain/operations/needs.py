"""The packages that a pipeline's steps need, looked for on this machine before anything starts; and its files that
they name."""

from __future__ import annotations

import ast
import importlib.util
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.spec.resources import MAKE_MODELS_OF_FUNCTIONS

if TYPE_CHECKING:
    from drivetrain.assets.requirements import Requirement
    from drivetrain.spec.pipeline import Graph, Pipeline
    from drivetrain.spec.steps import JobStep
    from drivetrain.targets.sagemaker.run.runner import Asset


# Of what reaches AWS. On this machine most runs do without; who opens s3:// or a registry there says what to install.
_ELSEWHERE = {"boto3"}
# Modules whose distribution has another name.
_DISTRIBUTIONS = {
    "PIL": "pillow",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "google": "protobuf",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}


def refuse_lacking(
    pipeline: Pipeline,
    folder: Path,
    assets: Iterable[Asset] = (),
    *,
    left_out: Collection[str] = (),
    only: Collection[str] = (),
) -> None:
    """
    Args:
        folder: that of the pipeline's file, in which recipes of the user's own lie.
        assets: what lies in the code channel, perhaps wheels.
        left_out: steps that do not run.
        only: the steps that run, where that is not all.

    Raises:
        UserError: steps or recipes need packages that are not installed; with the command that installs them.
    """
    from drivetrain.spec.pipeline import Graph
    from drivetrain.spec.steps import JobStep

    wheels = [name for asset in assets if (name := asset.uri.rpartition("/")[2]).endswith(".whl")]
    there: set[str] = set()
    if wheels:
        from drivetrain.assets.wheel_files import wheel_name

        there = {wheel_name(name).distribution for name in wheels}
    lacking: dict[str, set[str]] = {}
    imports: dict[str, str] = {}
    builds: dict[str, str] = {}
    graph = Graph(pipeline)
    for step in graph.steps:
        if not isinstance(step, JobStep) or step.name in left_out or (only and step.name not in only):
            continue
        found = [(name, need, "") for name, need in _not_installed(needs_of_step(step, graph))]
        found += [(name, name, place) for name, place in _not_importable(step.parameters, folder)]
        if not found:  # else one of its packages may bring the module
            found += [(name, name, place) for name, place in _not_there_for(step, folder)]
        if not found:
            continue
        from drivetrain.assets.requirements import build_command, normal
        from drivetrain.resolving.frameworks import frameworks_of

        for name, need, place in found:
            if normal(name) in there | _ELSEWHERE:
                continue
            lacking.setdefault(need, set()).add(step.name)
            builds[need] = build_command(need, next(iter(frameworks_of(step, graph)), ""))
            if place:
                imports.setdefault(name, place)
    if lacking:
        steps = sorted(set[str]().union(*lacking.values()))
        one = len(steps) == 1
        quoted = {need: f"'{need}'" if set(need) & set("<>=!~[; ") else need for need in sorted(lacking)}
        words = " ".join(f"$({builds[need]})" if builds[need] else text for need, text in quoted.items())
        where = f" ({'; '.join(imports[name] for name in sorted(imports))})" if imports else ""
        raise UserError(
            f"step{'' if one else 's'} {', '.join(map(repr, steps))} need{'s' if one else ''} what is not installed "
            f"here{where}. Install it:\n{sys.executable} -m pip install {words}"
        )


def needs_of_step(step: JobStep, graph: Graph) -> Sequence[str]:
    """The requirements of a step's program, in each framework that it may run on."""

    # (torch stands for any framework.)
    if "torch" not in step.program.needs and step.program.target not in MAKE_MODELS_OF_FUNCTIONS:
        return step.program.needs
    from drivetrain.catalog.strategies import TORCH
    from drivetrain.resolving.frameworks import frameworks_of, needs_of

    found = sorted(frameworks_of(step, graph)) or [TORCH]
    return list(dict.fromkeys(need for framework in found for need in needs_of(step, graph, framework)))


def _not_installed(needs: Collection[str]) -> Iterator[tuple[str, str]]:
    """(distribution, requirement)."""
    if not needs:
        return
    from drivetrain.assets.requirements import parse

    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    for requirement in map(parse, needs):
        name = _DISTRIBUTIONS.get(requirement.text, requirement.name)
        if requirement.applies(python) and not _is_met(requirement, name):
            yield requirement.name, _DISTRIBUTIONS.get(requirement.text, requirement.text)


def _is_met(requirement: Requirement, name: str) -> bool:
    from drivetrain.assets.requirements import SAME_MODULE

    module = SAME_MODULE.get(name, name).replace("-", "_")
    if requirement.any_version and _is_importable(module):
        return True
    from importlib import metadata  # takes 30 ms, and most needs are plain names

    try:
        return requirement.allows(metadata.version(name))
    except metadata.PackageNotFoundError:
        # Some packages are distributed under several names: tensorflow-cpu, mlflow-skinny.
        return _is_importable(module)


def _not_importable(parameters: Mapping[str, object], folder: Path) -> Iterator[tuple[str, str]]:
    """(distribution, what file and line import): what a recipe imports as its file is read, and Python does not find;
    what an `if` or `try` stands around may be done without."""
    recipe = parameters.get("recipe")
    if not isinstance(recipe, str):
        return
    from drivetrain.catalog.strategies import recipe_file

    file = recipe_file(recipe, folder)
    if file is None:
        return
    from drivetrain.assets.module_facts import parsed

    yield from _lacking_of(parsed(file.read_bytes()), file, folder)


def _not_there_for(step: JobStep, folder: Path) -> Iterator[tuple[str, str]]:
    """The same of a component of the user's: what its function begins with importing."""
    function = step.program.target.partition(":")[2]
    file = own_file(step, folder)
    if file is None:
        return
    from drivetrain.assets.module_facts import parsed

    for node in parsed(file.read_bytes()):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            # What comes later may find what the function has installed.
            body = dropwhile(
                lambda each: isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant), node.body
            )
            begins = takewhile(lambda each: isinstance(each, ast.Import | ast.ImportFrom), body)
            yield from _lacking_of(begins, file, folder)


def own_file(step: JobStep, folder: Path) -> Path | None:
    """The file of a step's component, where it is one of the user's."""
    module = step.program.target.partition(":")[0]
    file = folder / f"{module.replace('.', '/')}.py"
    ours = module.startswith("drivetrain.") or step.program.kind != "component"
    return None if ours or not file.is_file() else file


def read_each_time(pipeline: Pipeline, folder: Path, *, by_option: bool = False) -> dict[str, str]:
    """Step -> the reason that it runs each time: its component reads a file of this machine, whose changes the cache
    misses. Warns of each such file.

    Args:
        by_option: inputs are given with --set.
    """
    found: dict[str, str] = {}
    for name, path, warning in _files_named(pipeline, folder, by_option=by_option):
        found[name] = f"it reads {path}, and the cache does not see when that file changes"
        print(f"warning: {warning}", file=sys.stderr)
    return found


def _files_named(pipeline: Pipeline, folder: Path, *, by_option: bool) -> Iterator[tuple[str, str, str]]:
    """Absolute paths in the steps' components, at which neither the cache nor a deployed job looks: the step, the path,
    and a warning."""
    from drivetrain.assets.own_values import absolute_paths
    from drivetrain.spec.pipeline import Graph
    from drivetrain.spec.steps import JobStep

    for step in Graph(pipeline).steps:
        file = own_file(step, folder) if isinstance(step, JobStep) else None
        if isinstance(step, JobStep) and file is not None:
            function = step.program.target.partition(":")[2]
            for line, path in absolute_paths(file.read_bytes(), function):
                given = f"--set data={shlex.quote(path)}" if by_option else f"step({function}, data={path!r})"
                warning = (
                    f"{file.name}, line {line}: step {step.name!r} names {path}, which no deployed job has. The cache "
                    "sees no change of it, so the step runs each time. Make it an input: "
                    f"data: Input in {function}(), and {given}."
                )
                yield step.name, path, warning


def _lacking_of(body: Iterable[ast.stmt], file: Path, folder: Path) -> Iterator[tuple[str, str]]:
    for node in body:
        names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names = [node.module]
        for name in {name.partition(".")[0] for name in names}:
            places = {folder, file.parent}  # beside the recipe it is the user's own, though it is not found there
            own = any((place / name).is_dir() or (place / f"{name}.py").is_file() for place in places)
            if not own and not _is_importable(name):
                yield _DISTRIBUTIONS.get(name, name), f"{name} is imported by {file.name}, line {node.lineno}"


def _is_importable(module: str) -> bool:
    return module in {"__main__", *sys.stdlib_module_names} or importlib.util.find_spec(module) is not None
