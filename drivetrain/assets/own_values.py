"""Find what a component's function takes from around it, by its file: values that another process changes, and
files that it names by an absolute path or opens beside the pipeline; and the arguments that a script takes. Nothing is
executed.

Looked at are the function and what it calls of its file, by name.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from drivetrain.assets.module_facts import last_name, parsed

_CONTAINERS = frozenset(("dict", "list", "set", "defaultdict", "OrderedDict", "Counter", "deque"))
_CHANGES = frozenset(
    (
        *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "remove"),
        *("setdefault", "update"),
    )
)
# Of the machine, which every image has too, and of the job.
_EVERYWHERE = ("/", "/bin", "/dev", "/etc", "/lib", "/opt/ml", "/proc", "/sys", "/usr")


@dataclass
class _Function:
    """A function of the file: the names that it reads, those of the file that it changes, texts, and files that it
    reads, by line."""

    reads: set[str] = field(default_factory=set[str])
    changes: dict[str, int] = field(default_factory=dict[str, int])
    texts: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    opened: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])


@dataclass(frozen=True)
class _File:
    """
    Attributes:
        functions: those at the top level, by name.
        roots: components and functions of pipelines: each runs in a process of its own.
        texts: the texts of values at the top level, by the value's name.
    """

    functions: dict[str, _Function]
    roots: list[str]
    texts: dict[str, list[tuple[int, str]]]

    def reached(self, name: str) -> set[str]:
        found, pending = set[str](), {name} & set(self.functions)
        while pending:
            found |= pending
            pending = {each for one in pending for each in self.functions[one].reads & set(self.functions)} - found
        return found


def changed_elsewhere(content: bytes, function: str) -> tuple[int, str]:
    """The line that changes a value for another process than the one in which a component reads it, and what is wrong
    with it; (0, "") where nothing is.

    Args:
        content: the component's file.
    """
    file = _read(content)
    here = file.reached(function)
    reads = {name for one in here for name in file.functions[one].reads}
    own = {name for one in here for name in file.functions[one].changes}
    for root in file.roots:
        for other in sorted(file.reached(root) - here):
            for name, line in file.functions[other].changes.items():
                if name in reads - own:
                    return line, (
                        f"{other}() changes {name}, which {function}() reads. Each step runs in a process of its own, "
                        f"so {function}() finds {name} as the file makes it. Give the value to the step: "
                        f"step({function}, ...), as a parameter or as what another step returned (-> Value)."
                    )
    return 0, ""


def absolute_paths(content: bytes, function: str) -> Iterator[tuple[int, str]]:
    """Files and folders of this machine that a component names, with the line."""
    file = _read(content)
    for one in sorted(file.reached(function)):
        texts = list(file.functions[one].texts)
        for name in sorted(file.functions[one].reads):
            texts += file.texts.get(name, ())
        for line, text in texts:
            known = any(os.path.normpath(text) == each or text.startswith(f"{each}/") for each in _EVERYWHERE)
            known |= text in ("/tmp", "/var/tmp")  # where a program makes files of its own
            if text.startswith("/") and not known and "\0" not in text and os.path.exists(text):
                yield line, text


def opened_beside(content: bytes, function: str, folder: Path) -> tuple[int, str]:
    """The line where a component opens a file that lies beside the pipeline's, by its relative name, and the name;
    (0, "") where it opens none."""
    file = _read(content)
    for one in sorted(file.reached(function)):
        for line, name in file.functions[one].opened:
            if len(name) < 256 and not name.startswith("/") and not name.endswith(".py") and (folder / name).is_file():
                return line, name
    return 0, ""


def read_beside(content: bytes, function: str, folder: Path) -> tuple[int, str]:
    """The line where a component, or the top level of its file, surely reads a file that it finds by `__file__`, and
    that file's path in the folder; (0, "") where nothing does. What stands below `if` and `try` may never be read.

    Args:
        folder: that of the component's file.
    """
    body = parsed(content)
    functions = {node.name: node.body for node in body if isinstance(node, ast.FunctionDef)}
    places: dict[str, str] = {}
    pending, seen = ["", function], set[str]()  # the top level first: it names places
    while pending:
        one = pending.pop(0)
        if one in seen or (one and one not in functions):
            continue
        seen.add(one)
        names = dict(places) if one else places
        for node in _surely_run(functions[one] if one else body):
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                names[node.targets[0].id] = _beside(node.value, names)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                pending.append(node.func.id)
            read = _read_place(node)
            found = "" if read is None else _beside(read, names)
            if found.startswith("./") and not found.endswith(".py") and (folder / found).is_file():
                return getattr(node, "lineno", 1), os.path.normpath(found)
    return 0, ""


def _surely_run(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes of statements that run whenever these do: none below a condition, nor after one that may leave."""
    for statement in body:
        yield from _sure_nodes(statement)
        defines = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        leaves = (ast.Return, ast.Raise, ast.Break, ast.Continue)
        if not defines and any(isinstance(each, leaves) for each in ast.walk(statement)):
            return


def _sure_nodes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.If() | ast.IfExp() | ast.BoolOp() | ast.Match() | ast.Try() | ast.While() | ast.For():
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
            return
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.With(items=items) if any(
            isinstance(each.context_expr, ast.Call) and last_name(each.context_expr.func) in ("suppress", "raises")
            for each in items
        ):
            return
        case ast.With(items=items, body=body):
            for each in items:
                yield from _sure_nodes(each)
            yield from _surely_run(body)
        case _:
            yield node
            for each in ast.iter_child_nodes(node):
                yield from _sure_nodes(each)


def _read_place(node: ast.AST) -> ast.expr | None:
    """The expression that names the file that a call reads."""
    match node:
        case ast.Call(func=ast.Attribute(value=place, attr="read_text" | "read_bytes")):
            return place
        case ast.Call(func=ast.Attribute(value=place, attr="open"), args=[]) if not node.keywords:
            return place
        case ast.Call(func=func, args=[place, *rest]) if _reads(func, rest, node.keywords):
            return place
        case _:
            return None


def _beside(node: ast.expr, names: Mapping[str, str]) -> str:
    """The place that an expression names: "__file__", "." for the file's folder, "./a/b" for a place in it; "" for
    elsewhere."""
    match node:
        case ast.Name(id=name):
            return name if name == "__file__" else names.get(name, "")
        case ast.Call(func=ast.Attribute(value=inner, attr="resolve" | "absolute"), args=[]):
            return _beside(inner, names)
        case ast.Attribute(value=inner, attr="parent"):
            return "." if _beside(inner, names) == "__file__" else ""
        case ast.Call(func=ast.Attribute(value=inner, attr="with_name"), args=[ast.Constant(value=str(name))]):
            return f"./{name}" if _beside(inner, names) == "__file__" else ""
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(name))):
            return _joined(_beside(left, names), name)
        case ast.Call(func=ast.Attribute(value=inner, attr="joinpath"), args=[ast.Constant(value=str(name))]):
            return _joined(_beside(inner, names), name)
        case ast.Call(func=func, args=[inner]) if last_name(func) == "dirname":
            return "." if _beside(inner, names) == "__file__" else ""
        case ast.Call(func=func, args=[inner, ast.Constant(value=str(name))]) if last_name(func) == "join":
            return _joined(_beside(inner, names), name)
        case ast.Call(func=func, args=[inner]) if last_name(func) in ("Path", "str", "fspath", "abspath", "realpath"):
            return _beside(inner, names)
        case _:
            return ""


def _joined(place: str, name: str) -> str:
    return f"{place}/{name}" if place.startswith(".") and not name.startswith("/") else ""


def unknown_argument(content: bytes, given: Iterable[str]) -> tuple[str, list[str]]:
    """The first of the given arguments that a script's parser would refuse, and all that it takes; ("", []) where it
    refuses none, or where that is not to be seen."""
    try:
        calls = [each for each in ast.walk(ast.parse(content)) if isinstance(each, ast.Call)]
    except (SyntaxError, ValueError, RecursionError):  # the script says so itself when it starts
        return "", []
    named = [last_name(each.func) for each in calls]
    parsers = [each for each, name in zip(calls, named, strict=True) if name.endswith("ArgumentParser")]
    if len(parsers) != 1 or {each.arg for each in parsers[0].keywords} & {"parents", "prefix_chars", None}:
        return "", []
    if "parse_args" not in named or {"parse_known_args", "add_subparsers", "set_defaults"} & set(named):
        return "", []
    takes: list[str] = []
    for call, name in zip(calls, named, strict=True):
        flags = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if name == "add_argument" and (not flags or len(flags) < len(call.args) or not flags[0].startswith("-")):
            return "", []
        takes += flags if name == "add_argument" else []
    # argparse takes the beginning of a name, too.
    return next((each for each in given if not any(flag.startswith(each) for flag in takes)), ""), takes


@lru_cache(maxsize=64)
def _read(content: bytes) -> _File:
    body = parsed(content)
    containers, texts = set[str](), dict[str, list[tuple[int, str]]]()
    for node in body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        for name in (each.id for each in targets if isinstance(each, ast.Name)):
            if value is not None:
                texts[name] = list(_texts(value))
                containers |= {name} if _is_container(value) else set()
    functions = {node.name: _function(node, containers) for node in body if isinstance(node, ast.FunctionDef)}
    roots = [node.name for node in body if isinstance(node, ast.FunctionDef) and _is_root(node)]
    return _File(functions, roots, texts)


def _function(node: ast.FunctionDef, containers: set[str]) -> _Function:
    inner = list(ast.walk(node))
    shared = {name for each in inner if isinstance(each, ast.Global) for name in each.names}
    stored = {each.id for each in inner if isinstance(each, ast.Name) and not isinstance(each.ctx, ast.Load)}
    local = (stored | {each.arg for each in inner if isinstance(each, ast.arg)}) - shared
    found = _Function(texts=list(_texts(*node.body)))
    for each in inner:
        match each:
            case ast.Name(id=name, ctx=ast.Load()) if name not in local:
                found.reads.add(name)
            case ast.Name(id=name) if name in shared:
                found.changes.setdefault(name, each.lineno)
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if name in containers - local:
                found.changes.setdefault(name, each.lineno)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr in _CHANGES:
                if name in containers - local:
                    found.changes.setdefault(name, each.lineno)
            case ast.Call(func=func, args=[ast.Constant(value=str(name)), *rest]) if _reads(func, rest, each.keywords):
                found.opened.append((each.lineno, name))
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Call(
                        func=ast.Name(id="Path") | ast.Attribute(attr="Path"), args=[ast.Constant(value=str(name))]
                    ),
                    attr="read_text" | "read_bytes",
                )
            ):
                found.opened.append((each.lineno, name))
            case _:
                pass
    return found


def _reads(function: ast.expr, rest: list[ast.expr], keywords: list[ast.keyword]) -> bool:
    """Return True if a call reads the file that its first argument names: open, and loaders such as pandas.read_csv."""
    name = last_name(function)
    if name != "open":
        return name.startswith("read_") or name in ("load", "loadtxt", "genfromtxt", "fromfile")
    mode = next((each.value for each in keywords if each.arg == "mode"), rest[0] if rest else ast.Constant("r"))
    return isinstance(mode, ast.Constant) and str(mode.value).startswith("r") and "+" not in str(mode.value)


def _texts(*nodes: ast.AST) -> Iterator[tuple[int, str]]:
    for node in (each for one in nodes for each in ast.walk(one)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _is_container(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return last_name(value.func) in _CONTAINERS
    return isinstance(value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp)


def _is_root(node: ast.FunctionDef) -> bool:
    named = {last_name(each.func if isinstance(each, ast.Call) else each) for each in node.decorator_list}
    returned = node.returns.value if isinstance(node.returns, ast.Constant) else last_name(node.returns)
    return "component" in named or returned == "Pipeline"
