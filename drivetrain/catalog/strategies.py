"""The compiler's knowledge of a strategy: the literals at the head of its file and the fields of its options.

Read with `ast`, never imported: a strategy imports torch, and this must work without torch.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import drivetrain
from drivetrain.base.bounds import ANY_NUMBER, Bounds, refused

AUTO = "auto"
# DataParallel: one process drives all GPUs of a host by threads.
THREADS = "dp"
# Of strategies with stages: the schedule unless one is given, and those in which a rank has one stage (in the others it
# has two unless it is told).
DEFAULT_SCHEDULE = "1f1b"
SINGLE_STAGE = ("gpipe", "1f1b")
# The framework of a file that names none, and of what recommend measures and estimates.
TORCH, TENSORFLOW = "torch", "tensorflow"
# What is read of a strategy's file: what each has; then what one of torch has, and where options have such values.
NEEDED = ("DIMENSIONS", "SUMMARY")
LITERALS = (*NEEDED, "FRAMEWORK", "MIN_TORCH", "NEEDS", "LIBRARY", "INSTEAD", "CHOICES", "BOUNDS", "ROLES")
# What every recipe has (training.recipe.Recipe), as one writes it.
RECIPE_MEMBERS = {
    "columns": 'columns = ("COLUMN", "COLUMN")',
    "num_classes": "num_classes: int | None = None",
    "model": "def model(self)",
    "batch": "def batch(self, columns, label)",
    "losses": "def losses(self, outputs, targets)",
    "metrics": "def metrics(self, outputs, targets)",
    "optimizer": "def optimizer(self, model, *, learning_rate, weight_decay)",
}


@dataclass(frozen=True)
class Option:
    """One field of a strategy's Options: its annotation as text, and its default where that is a plain value."""

    name: str
    annotation: str
    default: Any
    required: bool
    help: str
    choices: tuple[str, ...] = ()
    """The values that are allowed; empty where others are not listed."""
    bounds: Bounds = ANY_NUMBER

    def refuses(self, value: Any) -> str | None:
        """The allowed values, for a value of the right type that is refused; None if it is allowed."""
        return refused(value, self.choices, self.bounds, int if self.annotation == "int" else float) or None


@dataclass(frozen=True)
class StrategyFacts:
    """A strategy as its file declares it."""

    name: str
    dimensions: tuple[str, ...]
    min_torch: str
    """Empty where torch is not its framework."""
    summary: str
    options: Mapping[str, Option]
    framework: str = TORCH
    needs: tuple[str, ...] = ()
    """Packages that it needs besides its framework."""
    library: str = ""
    """A library that it needs and that only its vendor's images hold."""
    instead: str = ""
    """The strategy that does the same without that library."""
    roles: str = ""
    """The roles of its processes in TF_CONFIG, if they do not all train."""


def strategies_folder() -> Path:
    """The folder of the strategies' files, in an installed package and in a checkout alike."""
    return Path(drivetrain.__file__).parent / "training_scripts" / "strategies"


def recipes_folder() -> Path:
    """The folder of the package's recipes."""
    return Path(drivetrain.__file__).parent / "training_scripts" / "recipes"


def estimator_literals(name: str) -> Mapping[str, Any]:
    """NEEDS and MOST_PROCESSES of an estimator's file, ours or a module where Python looks; empty if it has neither."""
    path = _estimator_file(name)
    return {} if path is None else _literals_of(path, ("NEEDS", "MOST_PROCESSES"))


def _estimator_file(name: str) -> Path | None:
    ours = Path(drivetrain.__file__).parent / "training_scripts" / "estimators" / f"{name}.py"
    return ours if ours.is_file() else importable_recipe(name)


def options_of_estimator(name: str) -> tuple[str, ...] | None:
    """The names of the options of an estimator, with those that every estimator has; None where no file says them."""
    path = _estimator_file(name)
    own = None if path is None else _class_of(path, "Options")
    common = _class_of(Path(drivetrain.__file__).parent / "training" / "estimator.py", "Options")
    if own is None or common is None or [ast.unparse(base) for base in own.bases] != ["estimator.Options"]:
        return None
    return (*_fields_of(own), *_fields_of(common))


def metrics_folder() -> Path:
    """The folder of the package's metrics."""
    return Path(drivetrain.__file__).parent / "training" / "metrics"


def health_rules_folder() -> Path:
    """The folder of the package's health rules."""
    return Path(drivetrain.__file__).parent / "training" / "health" / "rules"


def strategy_names(folder: Path | None = None) -> list[str]:
    """The strategies by file name, sorted."""
    paths = (folder or strategies_folder()).glob("*.py")
    return sorted(path.stem for path in paths if not path.stem.startswith("_"))


def all_strategies(folder: Path | None = None, framework: str = "") -> dict[str, StrategyFacts]:
    """Every strategy, by name; only those of a framework, where it is given."""
    found = {name: read_strategy(name, folder) for name in strategy_names(folder)}
    return {name: facts for name, facts in found.items() if framework in ("", facts.framework)}


def read_strategy(name: str, folder: Path | None = None) -> StrategyFacts:
    """The facts in `<folder>/<name>.py`, which must exist.

    Raises:
        ValueError: a file that declares less than a strategy must (a mistake in the package, not of the user).
    """
    return _read((folder or strategies_folder()) / f"{name}.py")


@cache
def _read(path: Path) -> StrategyFacts:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    literals = _literals(tree)
    options = next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Options"), None)
    needed = (*NEEDED, "MIN_TORCH") if literals.get("FRAMEWORK", TORCH) == TORCH else NEEDED
    missing = [name for name in needed if name not in literals]
    if options is None:
        missing.append("class Options")
    if missing:
        raise ValueError(f"{path} is no strategy: it declares no {', '.join(missing)}.")
    assert options is not None
    return StrategyFacts(
        name=path.stem,
        dimensions=tuple(literals["DIMENSIONS"]),
        min_torch=str(literals.get("MIN_TORCH", "")),
        summary=str(literals["SUMMARY"]),
        options={option.name: option for option in _options(options, path.parent, literals)},
        framework=str(literals.get("FRAMEWORK", TORCH)),
        needs=tuple(literals.get("NEEDS", ())),
        library=str(literals.get("LIBRARY", "")),
        instead=str(literals.get("INSTEAD", "")),
        roles=str(literals.get("ROLES", "")),
    )


@cache
def refused_fields(framework: str) -> Mapping[str, tuple[Any, str]]:
    """Fields of a training that a framework's strategies do not have: the value that leaves each out, and what to do
    instead (`REFUSED` in drivetrain/training/<framework>/refusals.py)."""
    path = Path(drivetrain.__file__).parent / "training" / framework / "refusals.py"
    if not path.is_file():
        return {}
    found = _literals(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)), ("REFUSED",))
    return found["REFUSED"]


def recipe_file(recipe: str, folder: Path) -> Path | None:
    """The source of a recipe: a file of the package, or a module below `folder`; None where it lies elsewhere."""
    parts = recipe.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    places = [folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")]
    if len(parts) == 1:
        places.insert(0, recipes_folder() / f"{recipe}.py")
    return next((place for place in places if place.is_file()), None)


def importable_recipe(recipe: str) -> Path | None:
    """The source of a recipe: a file of the package, or a module where Python looks for modules."""
    places = (recipe_file(recipe, Path(folder)) for folder in sys.path)
    return next((place for place in places if place is not None), None)


def recipes_below(folder: Path) -> list[str]:
    """The recipes of the package, and the files of a folder that have a class `Recipe`; nothing is imported."""
    own = [path.stem for path in folder.glob("*.py") if path.stem.isidentifier() and _has_recipe(path)]
    return sorted({*(path.stem for path in recipes_folder().glob("*.py") if not path.stem.startswith("_")), *own})


def _has_recipe(path: Path) -> bool:
    try:
        return re.search(r"^(class Recipe\b|Recipe\s*=)", path.read_text(encoding="utf-8"), re.MULTILINE) is not None
    except (OSError, ValueError):
        return False


def framework_of_recipe(path: Path) -> str:
    """The framework that a recipe's file names; torch where it names none, or cannot be read."""
    return str(_literals_of(path).get("FRAMEWORK", TORCH))


def needs_of_recipe(path: Path) -> tuple[str, ...]:
    """The requirements of a recipe's model besides torch, read from its file (`NEEDS`)."""
    return tuple(_literals_of(path).get("NEEDS", ()))


def _literals_of(path: Path, names: Sequence[str] = LITERALS) -> dict[str, Any]:
    """The literals of a recipe's file; none where it cannot be read: who imports it says what is wrong."""
    try:
        return _literals(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)), names)
    except (OSError, SyntaxError, ValueError):
        return {}


def metrics_of_recipe(path: Path) -> tuple[str, ...] | None:
    """The names of a recipe's own metrics, as the dicts that its `metrics` returns spell them; None where they do not
    spell all of them."""
    kind = _class_of(path, "Recipe")
    methods = [node for node in (kind.body if kind else ()) if isinstance(node, ast.FunctionDef)]
    inner = [node for method in methods if method.name == "metrics" for node in ast.walk(method)]
    if sum(isinstance(node, ast.FunctionDef) for node in inner) != 1:
        return None
    returned = sorted((node for node in inner if isinstance(node, ast.Return)), key=lambda node: node.lineno)
    keys = [key for node in returned for key in (node.value.keys if isinstance(node.value, ast.Dict) else [None])]
    names = [key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
    return tuple(dict.fromkeys(names)) if len(names) == len(keys) else None


def options_of_recipe(path: Path, kind: str = "Recipe") -> tuple[str, ...] | None:
    """The names of the options of a recipe, or of another plug-in's class: the fields of its dataclass; None where they
    are not all in its file."""
    found = _class_of(path, kind)
    return None if found is None or found.bases else _fields_of(found)


def _fields_of(found: ast.ClassDef) -> tuple[str, ...]:
    fields = [node for node in found.body if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)]
    return tuple(ast.unparse(node.target) for node in fields if "ClassVar" not in ast.unparse(node.annotation))


def lacking_of_recipe(path: Path) -> tuple[int, list[str]]:
    """The line of a recipe's class and the members that it lacks; none where its file does not say all of them."""
    found = _class_of(path, "Recipe")
    if found is None or found.bases or found.keywords or len(found.decorator_list) > 1:
        return 0, []
    named: set[str] = set()
    for node in ast.walk(found):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        named |= {each.id for each in targets if isinstance(each, ast.Name)}
        named |= {node.name} if isinstance(node, ast.FunctionDef) else set()
    return found.lineno, [] if "__getattr__" in named else [each for each in RECIPE_MEMBERS if each not in named]


def _class_of(path: Path, name: str) -> ast.ClassDef | None:
    """A class at the top level of a plug-in's file; None if it is missing or the file cannot be read."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    except (OSError, SyntaxError, ValueError):  # the import reports the error
        return None
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)


def _literals(tree: ast.Module, names: Sequence[str] = LITERALS) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for node in tree.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value: Any = getattr(node, "value", None)
        if isinstance(target, ast.Name) and target.id in names:
            found[target.id] = ast.literal_eval(value)
    return found


def _options(kind: ast.ClassDef, folder: Path, literals: Mapping[str, Any]) -> list[Option]:
    """The fields, those of a base in another strategy's file first: `class Options(fsdp.Options)`."""
    found: list[Option] = []
    for base in kind.bases:
        if isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name):
            found += _read(folder / f"{base.value.id}.py").options.values()
    for node, following in zip(kind.body, [*kind.body[1:], None], strict=True):
        if not (isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)):
            continue
        described = following.value if isinstance(following, ast.Expr) else None
        inherited = next((option for option in found if option.name == node.target.id), None)
        choices = literals.get("CHOICES", {}).get(node.target.id, inherited.choices if inherited else ())
        bounds = literals.get("BOUNDS", {}).get(node.target.id, inherited.bounds if inherited else ())
        help_text = described.value if isinstance(described, ast.Constant) else ""
        found.append(
            Option(
                name=node.target.id,
                annotation=ast.unparse(node.annotation),
                default=_literal(node.value),
                required=node.value is None,
                help=help_text if isinstance(help_text, str) else "",
                choices=tuple(choices),
                bounds=Bounds(*bounds),
            )
        )
    return found


def _literal(node: ast.expr | None) -> Any:
    """A default's value; None where it is not a plain one, such as `field(default_factory=...)`."""
    try:
        return None if node is None else ast.literal_eval(node)
    except ValueError:
        return None
