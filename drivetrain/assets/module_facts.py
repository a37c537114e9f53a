"""Facts of a Python file about other files: which it imports, and whether it may load some that it does not name.

Nothing is executed, and a file is parsed once a process. What cannot be read from the text is told, not guessed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

# Each may load a file by a name that the text does not hold: as a name by itself, and as the attribute of anything.
_LOADS_ANY_NAME = frozenset(("exec", "eval", "__file__", "__path__", "__spec__", "__loader__"))
_LOADS_ANY_ATTRIBUTE = frozenset(
    (
        *("run_path", "run_module", "iter_modules", "walk_packages", "spec_from_file_location", "SourceFileLoader"),
        *("addsitedir", "__loader__"),
    )
)
_LOADS_ANY_MEMBER = frozenset((("sys", "path"), ("importlib", "resources")))
_LOAD_ANY = frozenset(("runpy", "pkgutil", "importlib.resources"))
# Load what their first argument names.
_IMPORTERS = frozenset(("__import__", "import_module", "find_spec"))
_PICKLES = frozenset(
    (
        *("pickle", "_pickle", "joblib", "dill", "cloudpickle", "shelve", "skops"),
        *("torch", "tensorflow", "keras", "mlflow", "multiprocessing", "multiprocess"),
    )
)
_LOADERS = frozenset(("load", "loads", "Unpickler", "load_model", "read_pickle"))
_VARIABLES = frozenset(("PYTHONPATH", "DRIVETRAIN_SOURCE"))
_PYTHON_FILE = re.compile(r"[\w./-]*\.py\b")
_RUNS_MODULE = re.compile(r"(?:^|\s)-m(?:\s|$)")


class Import(NamedTuple):
    """`from <level dots><module> import <names>`; of `import a.b` there are no names."""

    level: int
    module: str
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class ModuleFacts:
    """The facts of one file.

    Attributes:
        imports: what it imports, inside of functions too; not below `if TYPE_CHECKING`, which never runs.
        files: Python files that its texts name.
        loads_any: what in it may load any file, with its line; "" where nothing does.
        unpickles: what in it loads objects, whose modules Python imports by name; "" where nothing does.
        values: where it names our type `Value`, by which a step is given such an object, or gives one; "" where not.
    """

    imports: tuple[Import, ...] = ()
    files: tuple[str, ...] = ()
    loads_any: str = ""
    unpickles: str = ""
    values: str = ""


@lru_cache(maxsize=4_096)
def module_facts(content: bytes) -> ModuleFacts:
    """Read a file."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError) as error:  # a newer Python may read it
        return ModuleFacts(loads_any=f"line {getattr(error, 'lineno', None) or 1}: this Python cannot read it")
    reader = _Reader()
    reader.read(tree)
    return reader.facts()


@dataclass
class _Reader:
    imports: dict[Import, None] = field(default_factory=dict[Import, None])
    files: dict[str, None] = field(default_factory=dict[str, None])
    loads_any: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    unpickles: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    values: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    picklers: set[str] = field(default_factory=set[str])
    """The names by which modules that load objects are known in the file."""
    loaders: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])

    def facts(self) -> ModuleFacts:
        self.unpickles += [(line, f"{name}.{loader}") for name, line, loader in self.loaders if name in self.picklers]
        said = (self.loads_any, self.unpickles, self.values)
        return ModuleFacts(tuple(self.imports), tuple(self.files), *map(_first, said))

    def read(self, tree: ast.AST) -> None:
        pending = [tree]
        while pending:
            node = pending.pop()
            match node:
                case ast.Expr(value=ast.Constant()):  # a docstring names files for people
                    continue
                case ast.If() if last_name(node.test) == "TYPE_CHECKING":
                    pending += node.orelse
                    continue
                case ast.Call() if last_name(node.func) in _IMPORTERS and self.imported(node):
                    pending += [*node.args[1:], *node.keywords]
                    continue
                case ast.Import():
                    self.whole_modules(node)
                case ast.ImportFrom():
                    self.members(node)
                case ast.Name(id=name) if name in _LOADS_ANY_NAME or name in _IMPORTERS:
                    self.loads_any.append((node.lineno, name))
                case ast.Name(id="Value") | ast.Constant(value="Value"):  # our type of what travels as a pickle
                    self.values.append((node.lineno, "Value"))
                case ast.Attribute():
                    self.attribute(node)
                case ast.Assign(targets=[ast.Name(id="FRAMEWORK")], value=ast.Constant(value=str(name))):
                    self.imports[Import(0, f"{name}.framework")] = None
                case ast.Constant(value=str(text)):
                    self.text(text, node.lineno)
                case ast.keyword(arg="allow_pickle"):
                    self.unpickles.append((node.lineno, "allow_pickle"))
                case _:
                    pass
            pending += ast.iter_child_nodes(node)

    def imported(self, call: ast.Call) -> bool:
        """Note the import that a call makes; False where its name is computed."""
        match call.args:
            case [ast.Constant(value=str(name)), *rest]:
                package = [*rest, *(each.value for each in call.keywords)][:1]
                if name.startswith(".") and [last_name(each) for each in package] != ["__package__"]:
                    return False
            case _:
                return False
        module = name.lstrip(".")
        self.imports[Import(len(name) - len(module), module)] = None
        return True

    def whole_modules(self, node: ast.Import) -> None:
        for alias in node.names:
            self.imports[Import(0, alias.name)] = None
            top = alias.name.partition(".")[0]
            if top in _PICKLES:
                self.picklers.add(alias.asname or top)
            if alias.name in _LOAD_ANY:
                self.loads_any.append((node.lineno, alias.name))
            if alias.name == "shelve":
                self.unpickles.append((node.lineno, alias.name))

    def members(self, node: ast.ImportFrom) -> None:
        module, names = node.module or "", tuple(alias.name for alias in node.names)
        self.imports[Import(node.level, module, names)] = None
        top = "" if node.level else module.partition(".")[0]
        for alias in node.names:
            name = alias.name
            if module in _LOAD_ANY or (module, name) in _LOADS_ANY_MEMBER:
                self.loads_any.append((node.lineno, f"{module}.{name}"))
            if top == "importlib" and ((alias.asname and name in _IMPORTERS) or name in _LOADS_ANY_ATTRIBUTE):
                self.loads_any.append((node.lineno, name))
            if top in _PICKLES and name in _LOADERS:
                self.unpickles.append((node.lineno, f"{top}.{name}"))
            if (top, name) == ("drivetrain", "Value"):
                self.values.append((node.lineno, f"{top}.{name}"))
            if top in _PICKLES:  # from torch import serialization
                self.picklers.add(alias.asname or name)

    def attribute(self, node: ast.Attribute) -> None:
        member = (last_name(node.value), node.attr)
        if member in _LOADS_ANY_MEMBER:
            self.loads_any.append((node.lineno, ".".join(member)))
        elif node.attr in _LOADS_ANY_ATTRIBUTE or node.attr in _IMPORTERS:
            self.loads_any.append((node.lineno, node.attr))
        elif node.attr == "Value":
            self.values.append((node.lineno, ".".join(filter(None, member))))
        elif node.attr == "read_pickle":
            self.unpickles.append((node.lineno, ".".join(filter(None, member))))
        elif node.attr in _LOADERS:
            self.loaders.append((_base(node.value), node.lineno, node.attr))

    def text(self, text: str, line: int) -> None:
        if text in _VARIABLES:
            self.loads_any.append((line, text))
        if "-m" in text and _RUNS_MODULE.search(text):
            self.loads_any.append((line, "python -m"))
        if ".py" in text:
            for name in _PYTHON_FILE.findall(text):
                if name.rpartition("/")[2] == ".py":  # "*.py", f"{name}.py"
                    self.loads_any.append((line, repr(text[:40])))
                else:
                    self.files[name] = None


def parsed(content: bytes) -> list[ast.stmt]:
    """A file's statements; empty if Python cannot parse it: importing the file reports the error."""
    try:
        return ast.parse(content).body
    except (SyntaxError, ValueError):
        return []


def _first(found: list[tuple[int, str]]) -> str:
    line, what = min(found, default=(0, ""))
    return f"line {line}: {what}" if what else ""


def last_name(node: ast.expr | None) -> str:
    """The last part of a dotted name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _base(node: ast.expr) -> str:
    """The first part of a dotted name."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return last_name(node)
