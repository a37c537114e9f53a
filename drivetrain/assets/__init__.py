"""Assets of this machine that a pipeline needs on a target: code, wheels and data. No target owns them.

Here is which of a user's files travel into the containers, the Python files below the folder of the pipeline's file;
and whether the program of a step is there: found as a pipeline is compiled, not when its turn has come.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import SpecError, UserError, at_place, did_you_mean
from drivetrain.run_store.home import HOME_MARK

if TYPE_CHECKING:
    import ast

    from drivetrain.spec.pipeline import Graph
    from drivetrain.spec.steps import JobStep

MAX_SOURCE_FILES = 2_000
MAX_SOURCE_BYTES = 20 * 1024 * 1024
IGNORE_FILE = ".drivetrainignore"
# In every home of the local runner, wherever it lies.
_NEVER = ("__pycache__", "node_modules", "site-packages")
_OPENING = re.compile(rb"""(?:open|Path|read_\w+|load|loadtxt|genfromtxt|fromfile)\(\s*["']""")
# Without such a line no function of a file changes a value for others.
_CHANGEABLE = re.compile(rb"^[ \t]+global\s|^\w+.*=\s*(?:[\w.]*\(|\[|\{)", re.MULTILINE)


def source_files(folder: Path) -> list[Path]:
    """The Python files that travel with a pipeline. What is hidden, virtual environments, what a run wrote (homes and
    models) and what the folder's .drivetrainignore names stay.

    Raises:
        UserError: the folder holds far more than a pipeline's source, or its .drivetrainignore cannot be read.
    """
    found: list[Path] = []
    size = 0
    ignored = _ignored(folder / IGNORE_FILE)
    pending = [folder]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.name.startswith(".") or path.name in _NEVER:
                continue
            if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
                continue  # what lies outside the folder does not travel
            if _matches(path.relative_to(folder).as_posix(), ignored):
                continue
            if path.is_dir():
                if not path.is_symlink() and not (path / "pyvenv.cfg").exists() and not _is_written(path):
                    pending.append(path)
            elif path.suffix == ".py":
                found.append(path)
                size += path.stat().st_size
                if len(found) > MAX_SOURCE_FILES or size > MAX_SOURCE_BYTES:
                    raise UserError(
                        f"{folder} holds more than {MAX_SOURCE_FILES:,} Python files or {MAX_SOURCE_BYTES >> 20} MiB, "
                        "and all of them travel with the pipeline. Put the pipeline's file and its own modules into "
                        f"a folder of their own, or name what stays in {folder / IGNORE_FILE}."
                    )
    return sorted(found)


def _is_written(folder: Path) -> bool:
    """Return True if a run wrote the folder: a home (those of earlier versions have no mark), or a model with its
    code."""
    if (folder / HOME_MARK).exists() or ((folder / "model.json").exists() and (folder / "code/inference.py").exists()):
        return True
    return (folder / "ledger.db").is_file() and (folder / "runs").is_dir() and (folder / "s3").is_dir()


def _ignored(file: Path) -> list[str]:
    """The patterns of an ignore file, one a line; empty lines and those after `#` say nothing."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file} cannot be read: {error}. Allowed: text, a pattern a line.") from None
    patterns = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    for pattern in patterns:
        if pattern.startswith("!"):
            raise UserError(f"{file}: {pattern!r} takes back another pattern. Allowed: patterns of what stays.")
    return [pattern.strip("/") for pattern in patterns]


def _matches(path: str, patterns: Iterable[str]) -> bool:
    """Return True if a pattern means the path: one without a slash fits any name, one with a slash the whole path."""
    name = path.rpartition("/")[2]
    return any(fnmatchcase(path if "/" in pattern else name, pattern) for pattern in patterns)


def check_program(
    step: JobStep, source: Path | None, travelling: AbstractSet[str], *, own_image: bool = False, graph: Graph
) -> None:
    """Refuse a component, a recipe or a script that would not be there, or a model that one of them cannot open.

    Args:
        source: folder of the user's pipeline file.
        travelling: the user's files that travel, by their paths in that folder.
        own_image: the step runs in an image of the user's, which may hold anything.

    Raises:
        SpecError: naming the step, and the closest match.
    """
    # Imported here: callers that only look for files (a home of runs is not to travel) need no models of the spec.
    from drivetrain.spec.steps import TRAIN, TRAIN_SCRIPT, JobStep

    module, _, function = step.program.target.partition(":")
    path = f"{module.replace('.', '/')}.py"
    content = (source / path).read_bytes() if source is not None and path in travelling else b""
    if source is not None and any(
        isinstance(each, JobStep) and each.program.target == TRAIN_SCRIPT for each in graph.steps
    ):
        from drivetrain.assets.own_models import check_models

        check_models(step, graph, source, travelling, function, content)
    if step.program.target == TRAIN:
        _check_recipe(step, source, travelling)
    if step.program.kind == "component" and source is not None and not own_image:
        _check_module(step, source, travelling)
        _check_imports(step, source, travelling)
        _check_values(path, function, content)
        _check_files(step, source, path, function, content)
    script = step.program.target if step.program.kind == "script" else None
    if step.program.target == TRAIN_SCRIPT and "source" not in step.inputs:  # else it comes with an input
        script = step.parameters.get("script")
        _check_arguments(step, source, travelling)
    if isinstance(script, str) and source is not None and script not in travelling:
        there = (source / script).is_file()
        raise SpecError(
            f"Step {step.name!r}: script {script!r} in {source} does not travel: only Python files do. Give the "
            "folder that it lies in as an input."
            if there
            else f"Step {step.name!r}: there is no script {script!r} in {source}. {did_you_mean(script, travelling)}"
        )


def _check_module(step: JobStep, source: Path, travelling: AbstractSet[str]) -> None:
    """Refuse a component of a module that is found here through PYTHONPATH, or a folder that the user's code put on
    sys.path: a job has neither."""
    name = step.program.target.partition(":")[0]
    below = name.replace(".", "/")
    if name.startswith("drivetrain.") or {f"{below}.py", f"{below}/__init__.py"} & travelling:
        return
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is None:
        return
    # What an installation has put there, an editable one too, a job finds by the same way, or among its needs.
    added = next((root for root in sys.path if root and _is_at(Path(root), below, Path(file))), None)
    if added is not None and Path(added).resolve() not in _installed_places():
        raise _stays(step, f"its component is in module {name!r}", file, source)


def _check_imports(step: JobStep, source: Path, travelling: AbstractSet[str]) -> None:
    """Refuse a component that imports a module which is found here alone, by the way above.

    Looked at are the statements that surely run: of its module, of those that travel and that it imports, and of its
    function; none below `if` and `try`.
    """
    roots = {root for root in (Path(each).resolve() for each in sys.path if each) if _stays_here(root, source)}
    if not roots:
        return
    import ast
    from importlib.machinery import PathFinder

    module, _, function = step.program.target.partition(":")
    pending, seen = [module], {"drivetrain", *sys.stdlib_module_names}
    while pending:
        name = pending.pop()
        below = name.replace(".", "/")
        for path in {f"{below}.py", f"{below}/__init__.py"} & travelling - seen:
            seen.add(path)
            body = ast.parse((source / path).read_bytes()).body
            pending += _surely_imported(body, function if name == module else "")
        top = name.partition(".")[0]
        if top in seen or any(path == f"{top}.py" or path.startswith(f"{top}/") for path in travelling):
            continue
        seen.add(top)
        found = PathFinder.find_spec(top)
        places = [] if found is None else found.submodule_search_locations or [found.origin or ""]
        for place in places:
            if Path(place).resolve().parent in roots:
                raise _stays(step, f"its component needs module {top!r}", place, source)


def _check_values(path: str, function: str, content: bytes) -> None:
    """Refuse a component that reads a value of its file which another step, or the pipeline's function, changes."""
    if _CHANGEABLE.search(content):
        from drivetrain.assets.own_values import changed_elsewhere

        line, wrong = changed_elsewhere(content, function)
        if wrong:
            raise at_place(SpecError(wrong), f"{Path(path).name}, line {line}")


def _check_files(step: JobStep, source: Path, path: str, function: str, content: bytes) -> None:
    """Refuse a component that opens a file beside the pipeline's, by its relative name or by `__file__`: a job starts
    elsewhere, and only Python files travel."""
    if _OPENING.search(content) or b"__file__" in content:
        from drivetrain.assets.own_values import opened_beside, read_beside

        line, file = opened_beside(content, function, source)
        if not file:
            line, file = read_beside(content, function, (source / path).parent)
            file = (Path(path).parent / file).as_posix() if file else ""
        if file:
            raise at_place(
                SpecError(
                    f"step {step.name!r} opens {file!r}, which does not travel: only Python files do. Make it "
                    f"an input: data: Input in {function}(), and step({function}, data={file!r})."
                ),
                f"{Path(path).name}, line {line}",
            )


def _check_arguments(step: JobStep, source: Path | None, travelling: AbstractSet[str]) -> None:
    """Refuse hyperparameters that a script's argparse would refuse when it starts."""
    script, text = step.parameters.get("script"), step.parameters.get("hyperparameters")
    if source is None or script not in travelling or not isinstance(text, str) or len(text) < 3:
        return
    import json

    from drivetrain.assets.own_values import unknown_argument

    try:
        given: Any = json.loads(text)
    except ValueError:  # the component says so
        return
    short = step.parameters.get("contract", "toolkit") == "toolkit"
    flags = {f"-{name}" if short and len(name) == 1 else f"--{name}": name for name in given if isinstance(given, dict)}
    unknown, takes = unknown_argument((source / str(script)).read_bytes(), flags)
    if unknown:
        raise at_place(
            SpecError(
                f"Step {step.name!r}: {script} takes no argument {unknown}, which hyperparameters give it. "
                f"{did_you_mean(unknown, takes)}"
            ),
            step.place,
        )


def _surely_imported(body: list[ast.stmt], function: str) -> Iterator[str]:
    """Modules that statements import, those of the named function too."""
    import ast

    for statement in body:
        match statement:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(origin), names=names, level=0):
                yield from (origin, *(f"{origin}.{alias.name}" for alias in names))
            case ast.With(body=inner) | ast.ClassDef(body=inner):
                yield from _surely_imported(inner, "")
            case ast.FunctionDef(name=defined, body=inner) if defined == function:
                yield from _surely_imported(inner, "")
            case _:
                pass


def _stays(step: JobStep, what: str, place: str, source: Path) -> SpecError:
    return SpecError(
        f"Step {step.name!r}: {what}, found here in {place}, which does not travel: a job finds what lies below "
        f"{source} by its path there. Put the module beside the pipeline's file, or install it as a package and name "
        'that: @component(needs=["PACKAGE"]).'
    )


def _stays_here(root: Path, source: Path) -> bool:
    """Return True if a folder of sys.path is one of the user's that no job has: no installation, which needs may
    name."""
    if not root.is_dir() or root.is_relative_to(source.resolve()) or root in _installed_places():
        return False
    return next(root.glob("*.dist-info"), None) is None


def _is_at(root: Path, below: str, file: Path) -> bool:
    return file.resolve() in ((root / f"{below}.py").resolve(), (root / below / "__init__.py").resolve())


@cache
def _installed_places() -> set[Path]:
    """The folders of Python, its programs and of installed packages, and those that path files in them name."""
    import site
    import sysconfig

    paths = sysconfig.get_paths()
    folders = {Path(paths[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib", "scripts")}
    folders |= {Path(folder) for folder in (*site.getsitepackages(), site.getusersitepackages())}
    named = {
        folder / line.strip()
        for folder in folders
        for file in folder.glob("*.pth")
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip() and not line.startswith(("import ", "import\t", "#"))
    }
    return {folder.resolve() for folder in folders | named}


def _check_recipe(step: JobStep, source: Path | None, travelling: AbstractSet[str]) -> None:
    """It is named after a file in training_scripts/recipes (read here, never imported), or one of the user's, which has
    all that a recipe has."""
    given = step.parameters.get("recipe")
    if not isinstance(given, str) or "." in given:
        return  # known when it runs; or a module of the user's own, inside a package
    from drivetrain.catalog.strategies import RECIPE_MEMBERS, lacking_of_recipe, recipes_folder, strategy_names

    known = {*strategy_names(recipes_folder())}
    known |= {name.removesuffix(".py") for name in travelling if "/" not in name}
    if given not in known:
        raise at_place(SpecError(f"Step {step.name!r}: no recipe {given!r}. {did_you_mean(given, known)}"), step.place)
    file = f"{given}.py"
    if source is None or file not in travelling:
        return
    line, lacking = lacking_of_recipe(source / file)
    if lacking:
        raise at_place(
            SpecError(
                f"recipe {given!r} of step {step.name!r} lacks {', '.join(lacking)}. Give its class Recipe: "
                f"{RECIPE_MEMBERS[lacking[0]]}."
            ),
            f"{file}, line {line}",
        )
