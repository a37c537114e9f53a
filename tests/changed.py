"""Run the tests that a change can reach: those whose imports lead to a changed file.

    python -m tests.changed                       # against the last commit, with files that git does not know yet
    python -m tests.changed --base main --list    # only show the files of tests
    python -m tests.changed --within 2            # only tests that are near
    python -m tests.changed --all -- -x -k merge  # slow ones, too; what follows -- is pytest's

Nothing is imported for it: what a file uses is read from its text. These count as uses:

- imports, also those inside functions, but for type checkers; also those by way of the links in drivetrain/;
- modules named in a text: `-m drivetrain.x`, `drivetrain.components.train:train`, a program in a string;
- all files of a folder of plug-ins, for what finds them by name (a `glob`, an import of a put-together name);
- files named in a text, by name or by the end of their path: `shapes.json`, `server.py`, `docs/plan.md`;
- each `conftest.py` above a test, and the file that a test mirrors (`tests/unit/x/test_y.py`: `x/y.py` or
  `drivetrain/x/y.py`).

Data that no module beside them names belong to all of these. Where in doubt a test is run. This is for the time between
two runs of the whole suite, and does not stand for it.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = "drivetrain"
EVERYTHING = {"pyproject.toml", "constraints.txt", "tests/conftest.py"}
ELSEWHERE = "not nightly and not toolkit and not image and not infra and not sdk"
DYNAMIC = {"import_module", "spec_from_file_location", "run_path", "glob", "rglob", "iterdir"}
FILE = re.compile(r"[\w./-]*\w\.\w+")


class Text:
    """What the text of one file says."""

    def __init__(self, source: str, path: str) -> None:
        """Raises SyntaxError, with the path, where it is no Python."""
        self.imports: set[tuple[str, str | None, bool]] = set()
        """`from MODULE import NAME` or `import MODULE`; and whether that happens when the file is imported."""
        self.homes: dict[str, str] = {}
        """NAME -> MODULE of what is imported for type checkers alone: where a lazy package has its names from."""
        self.is_lazy = False
        self.is_dynamic = False
        """Whether it finds files or modules by name."""
        self.strings: set[str] = set()
        self.joined: set[str] = set()
        """Texts that are put together: `drivetrain.components.{}`."""
        self.divided: set[str] = set()
        """`... / "docs"`."""
        self._read(ast.parse(source, path), at_import=True)

    def _read(self, node: Any, *, at_import: bool) -> None:
        kind = type(node)  # and no `match`: there are a million of them
        if kind is ast.Constant:
            if isinstance(node.value, str):
                self.strings.add(node.value)
            return
        if kind is ast.Expr and type(node.value) is ast.Constant:  # a docstring
            return
        if kind is ast.If and _last_name(node.test) == "TYPE_CHECKING":
            for part in node.body:
                if isinstance(part, ast.ImportFrom):
                    self.homes |= {alias.name: part.module or "" for alias in part.names}
            return
        if kind is ast.Import:
            self.imports |= {(alias.name, None, at_import) for alias in node.names}
        elif kind is ast.ImportFrom:
            self.imports |= {(node.module or "", alias.name, at_import) for alias in node.names}
        elif kind is ast.JoinedStr:
            self.joined.add("".join(str(each.value) if type(each) is ast.Constant else "{}" for each in node.values))
        elif kind is ast.Call:
            self.is_dynamic = self.is_dynamic or _last_name(node.func) in DYNAMIC
        elif kind is ast.BinOp and type(node.op) is ast.Div and type(node.right) is ast.Constant:
            self.divided.add(str(node.right.value))
        elif kind is ast.FunctionDef or kind is ast.AsyncFunctionDef:
            at_import, self.is_lazy = False, self.is_lazy or node.name == "__getattr__"
        elif kind is ast.Lambda:
            at_import = False
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.Name | ast.expr_context | ast.operator):
                self._read(child, at_import=at_import)


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


class Tree:
    """Which file of a tree uses which.

    A package counts twice: as `x/__init__.py`, and as `x/__init__.py as parent` for what imports a part of it, which
    runs only the top of that file.
    """

    def __init__(self, root: Path, files: Iterable[str]) -> None:
        # Folders beside the library are parts of the package by links in it: drivetrain/components -> ../components.
        links = {path for path in (root / PACKAGE).iterdir() if path.is_symlink()}
        self.packages = {PACKAGE: PACKAGE} | {path.resolve().name: f"{PACKAGE}.{path.name}" for path in links}
        self.files = set(files)
        self.modules = {self._module(path): path for path in self.files if self._module(path)}
        self.beside: dict[str, set[str]] = defaultdict(set)
        self.named: dict[str, set[str]] = defaultdict(set)
        for path in self.files:
            self.named[PurePosixPath(path).name].add(path)
            if path.endswith(".py"):
                self.beside[_folder(path)].add(path)
        self.texts = {path: Text(_source(root / path), path) for path in self.modules.values()}
        self.users: dict[str, set[str]] = defaultdict(set)
        for path, text in self.texts.items():
            for used in {*self._imported(text, at_import_only=False), *self._by_name(path, text)}:
                self.users[used].add(path)
            for used in self._imported(text, at_import_only=True):
                self.users[used].add(f"{path} as parent")
        for path in self.files - set(self.texts):
            self.users[path] |= self._beside_data(path)

    def reached(self, changed: Iterable[str]) -> dict[str, int]:
        """The test files that a change of these can reach, the nearest first, and over how many files it gets there."""
        steps = dict.fromkeys((each for path in changed for each in (path, f"{path} as parent")), 0)
        pending = list(steps)
        for path in pending:  # grows as it goes
            for user in sorted(self.users.get(path, set()) - steps.keys()):
                steps[user] = steps[path] + 1
                pending.append(user)
        return {path: far for path, far in steps.items() if re.fullmatch(r"tests/(.*/)?test_\w+\.py", path)}

    def _module(self, path: str) -> str:
        top, _, rest = path.removesuffix(".py").partition("/")
        if not path.endswith(".py") or top not in {*self.packages, "tests"}:
            return ""
        return f"{self.packages.get(top, top)}.{rest.replace('/', '.')}".removesuffix(".__init__")

    def _imported(self, text: Text, *, at_import_only: bool) -> Iterator[str]:
        for module, name, at_import in text.imports:
            if at_import or not at_import_only:
                yield from self._used(module, name)

    def _used(self, module: str, name: str | None = None) -> Iterator[str]:
        home = self.texts[self.modules[module]].homes.get(name or "") if self._is_package(module) else None
        if name and f"{module}.{name}" in self.modules:
            module = f"{module}.{name}"
        elif home:
            yield from self._parents(f"{module}.x")
            module = home
        if module in self.modules:
            yield self.modules[module]
        yield from self._parents(module)

    def _is_package(self, module: str) -> bool:
        return self.modules.get(module, "").endswith("/__init__.py") and self.modules[module] in self.texts

    def _parents(self, module: str) -> Iterator[str]:
        while module := module.rpartition(".")[0]:
            if module in self.modules:
                yield f"{self.modules[module]} as parent"

    def _by_name(self, path: str, text: Text) -> Iterator[str]:
        yield from self._modules_in_texts(text)
        if text.is_lazy:
            for name, module in text.homes.items():
                yield from self._used(module, name)
        for string in text.strings:
            for found in {*FILE.findall(string), *({string} & text.divided)}:
                yield from self._files_called(found.removeprefix("./"), path)
        yield from self._plugins(path, text)
        if path.startswith("tests/"):
            yield from self._of_test(path, text)

    def _modules_in_texts(self, text: Text) -> Iterator[str]:
        for string in text.strings | text.joined:
            for name in re.findall(r"\b(?:drivetrain|tests)(?:\.\w+)+", string):
                while name not in self.modules and "." in name:
                    name = name.rpartition(".")[0]
                yield from self._used(name)
            if put_together := re.fullmatch(r"((?:drivetrain|tests)(?:\.\w+)*)\.\{\}(:.*)?", string):
                folder = self.modules.get(put_together[1], put_together[1].replace(".", "/") + "/x")
                yield from self.beside[_folder(folder)]

    def _files_called(self, name: str, path: str) -> Iterator[str]:
        called = {each for each in self.named[PurePosixPath(name).name] if f"/{each}".endswith(f"/{name}")}
        if "/" not in name and name.endswith(".py") and len(called) > 1:
            called = {each for each in called if _folder(each) == _folder(path)}
        # README.md and the like are named by much that means the reader's own.
        yield from (each for each in called if "/" in each or path.startswith("tests/"))

    def _plugins(self, path: str, text: Text) -> Iterator[str]:
        """Of what finds files or modules by name: the files beside it, and in folders beside it, that it names."""
        bases = {_folder(path)} if text.is_dynamic else set()
        for module, name, _ in text.imports:  # or has somebody find them who lies beside them
            for finder in (f"{module}.{name}", module):
                file = self.modules.get(finder, "")
                if file in self.texts and self.texts[file].is_dynamic and not file.startswith("tests/"):
                    bases.add(_folder(file))
        if not bases:
            return
        own = path.endswith("/__init__.py") and any(each.startswith("{}.") for each in text.joined)
        if text.is_dynamic and (own or ("*.py" in text.strings and path.endswith("/__init__.py"))):
            yield from self.beside[_folder(path)]
        bases |= {top for top in text.strings if top in self.packages} if text.is_dynamic else set()
        inside = {
            part.strip(".").replace(".", "/")
            for each in text.joined
            for part in re.findall(r"\{\}((?:\.\w+)+)\.", each)
        }
        for base in bases:
            for string in text.strings | inside:
                if re.fullmatch(r"\w+(/\w+)*", string):
                    yield from self.beside.get(f"{base}/{string}", ())
                    if text.is_dynamic and f"{base}/{string}.py" in self.texts:
                        yield f"{base}/{string}.py"

    def _of_test(self, path: str, text: Text) -> Iterator[str]:
        for parent in PurePosixPath(path).parents:
            if f"{parent}/conftest.py" in self.files - EVERYTHING - {path}:
                yield f"{parent}/conftest.py"
        mirrored = re.fullmatch(r"tests/unit/(.*?)/?test_(\w+)\.py", path)
        if mirrored:
            name = f"{mirrored[1]}/{mirrored[2]}"
            tops = ("", f"{PACKAGE}/")  # one of the four folders, or a room of the library
            yield from {f"{top}{name}{end}" for top in tops for end in (".py", "/__init__.py")} & self.files
        if text.is_dynamic and PurePosixPath(path).name.startswith("test_"):  # over whole folders
            tops = text.strings & set(self.packages)
            tops = (tops if len(tops) > 1 else set()) | (text.divided & {*self.packages, "tests", "docs"})
            yield from (each for each in self.files if each.partition("/")[0] in tops)

    def _beside_data(self, path: str) -> set[str]:
        """All modules beside a file that is none, unless one of them names it."""
        if path.partition("/")[0] not in {*self.packages, "tests"}:
            return set()
        folder = next((str(each) for each in PurePosixPath(path).parents if str(each) in self.beside), "")
        beside = self.beside.get(folder, set())
        return set() if beside & self.users[path] else beside


def _folder(path: str) -> str:
    return str(PurePosixPath(path).parent)


def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""  # one that was deleted is still named by others


def _git(root: Path, *arguments: str) -> set[str]:
    done = subprocess.run(["git", *arguments, "-z"], cwd=root, capture_output=True, text=True, check=True)
    return set(done.stdout.split("\0")) - {""}


def changed_files(root: Path, base: str) -> set[str]:
    """What differs from `base`, deleted files and those that git does not know yet included."""
    return _git(root, "diff", "--name-only", "--no-renames", base) | _git(root, "ls-files", "-o", "--exclude-standard")


def reached_tests(root: Path, changed: set[str]) -> dict[str, int]:
    """The test files that a change of these files can reach, the nearest first; `tests` for all."""
    if changed & EVERYTHING:
        return {"tests": 0}
    tree = Tree(root, _git(root, "ls-files", "-co", "--exclude-standard") | changed)
    return {path: far for path, far in tree.reached(changed).items() if (root / path).is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.changed", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--base", default="HEAD", metavar="REV", help="what to compare with (HEAD)")
    parser.add_argument("--list", action="store_true", help="show the files of tests and run nothing")
    parser.add_argument("--all", action="store_true", help="slow tests, too")
    parser.add_argument("--within", type=int, metavar="N", help="only what reaches a changed file in N steps (all)")
    parser.add_argument("options", nargs="*", help="options of pytest, after --")
    given = parser.parse_args()
    if given.within is not None and given.within < 0:
        parser.error(f"--within {given.within}; allowed are whole numbers from 0")
    try:
        changed = changed_files(ROOT, given.base)
    except subprocess.CalledProcessError as error:
        parser.error(f"--base {given.base} is no revision of this repository: {error.stderr.splitlines()[0]}")
    try:
        reached = reached_tests(ROOT, changed)
    except SyntaxError as error:
        parser.error(f"{error.filename}, line {error.lineno}: {error.msg}; mend it first")
    tests = [path for path, far in reached.items() if given.within is None or far <= given.within]
    amount = "all" if tests == ["tests"] else len(tests)
    print(f"{len(changed)} changed files reach {amount} files of tests", file=sys.stderr)
    if given.list:
        print(*tests, sep="\n")
    elif tests:
        marks = ELSEWHERE if given.all else f"not slow and {ELSEWHERE}"
        done = subprocess.run([sys.executable, "-m", "pytest", "-m", marks, *given.options, *tests], cwd=ROOT)
        sys.exit(0 if done.returncode == 5 else done.returncode)  # 5: all that is reached is slow


if __name__ == "__main__":
    main()
