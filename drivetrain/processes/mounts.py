"""Makes /opt/ml a folder of the run: by a private mount namespace, or by rewriting paths where namespaces are not
allowed."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from drivetrain.base.errors import UserError

Mode = Literal["auto", "namespace", "rewrite"]
Isolation = Literal["pid", "mounts", "none"]

BASE = "/opt/ml"
# Programs that honour it (our start file, the SageMaker toolkits) need no /opt/ml.
BASE_VARIABLE = "SAGEMAKER_BASE_DIR"
# What smdebug makes its hook from, below input/config: the name is the service's.
DEBUG_HOOK = "debughookconfig.json"
SUPERVISOR = Path(__file__).with_name("supervisor.py")
CONFINED = Path(__file__).with_name("confined.py")

# /opt/ml where a path starts: not in /srv/opt/ml, /opt/mlflow or s3://bucket/opt/ml; but in --out=/opt/ml/model.
_BASE_PATH = re.compile(r"(?:(?<=file://)|(?<![\w/.~+-]))/opt/ml(?=$|/|[^\w.+-])")
_VARIABLE = re.compile(rf"\b(SM_\w+|{BASE_VARIABLE})\b")
_LARGEST_SCRIPT = 5 * 1024 * 1024


@cache
def isolation() -> Isolation:
    """Find what this kernel allows, tried once a process in a child that throws its namespaces away (about 30 ms)."""
    answer = subprocess.run(
        [sys.executable, "-I", "-S", str(SUPERVISOR), "--probe"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    ).stdout.strip()
    return "pid" if answer == "pid" else "mounts" if answer == "mounts" else "none"


def resolve(mode: Mode) -> Isolation:
    """The isolation a job of this mode runs with.

    Raises:
        UserError: `namespace` was asked for and this kernel, container or security module forbids it.
    """
    if mode == "rewrite":
        return "none"
    allowed = isolation()
    if mode == "namespace" and allowed == "none":
        raise UserError(
            "Container mode 'namespace': this machine allows no private mounts (unshare or mount is forbidden, or "
            "there is no /opt). Use 'rewrite', or run where user namespaces are allowed."
        )
    return allowed


def rewrite(text: str, root: Path) -> str:
    """`text` with /opt/ml replaced by `root` wherever it starts a path."""
    return _BASE_PATH.sub(lambda _: str(root), text)


def host_path(path: str, root: Path) -> Path:
    """The host's path of a path below /opt/ml; other paths are returned unchanged.

    Raises:
        UserError: the path leaves /opt/ml by `..`.
    """
    pure = PurePosixPath(path)
    if not pure.is_relative_to(BASE):
        return Path(path)
    if ".." in pure.parts:
        raise UserError(f"Path {path!r} leaves {BASE}. Allowed: a path below {BASE} without '..'.")
    return root / pure.relative_to(BASE)


def rewrite_configuration(root: Path) -> None:
    """Rewrite in place the hyperparameters' values, which programs get as arguments, and where smdebug's hook saves."""
    path = root / "input" / "config" / "hyperparameters.json"
    if path.exists():
        given: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
        rewritten = {name: rewrite(value, root) for name, value in given.items()}
        path.write_text(json.dumps(rewritten), encoding="utf-8")
    hook = root / "input" / "config" / DEBUG_HOOK
    if hook.exists():
        hook.write_text(rewrite(hook.read_text(encoding="utf-8"), root), encoding="utf-8")


def refuse_literals(command: Sequence[str], environment: Mapping[str, str], code: Sequence[str], root: Path) -> None:
    """Refuse a program that would miss /opt/ml: it runs only where the folder is mounted.

    Searched are the Python and shell files of the folders in `code` and of the folder of every file that `command`
    names, and the user's part of an archive beside it. A default beside a variable that the job sets
    (`os.environ.get("SM_MODEL_DIR", "/opt/ml/model")`) is fine.

    Raises:
        UserError: with file, line and what to do.
    """
    named = [host_path(word, root) for word in command if PurePosixPath(word).is_relative_to(BASE)]
    folders = [*(host_path(folder, root) for folder in code), *(path.parent for path in named if path.is_file())]
    entries = {path for path in named if path.is_file()}
    seen: set[Path] = set()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path in seen or not path.is_file() or path.stat().st_size > _LARGEST_SCRIPT:
                continue
            seen.add(path)
            if path.suffix == ".tar" and path.with_name("start.py").exists():
                scripts = _archived_scripts(path)
            elif path.suffix in (".py", ".sh") or path in entries:
                scripts = iter([(path.name, path.read_bytes())])
            else:
                continue
            for name, content in scripts:
                for line in literal_lines(name, content, environment):
                    raise UserError(
                        f"{name}, line {line}: a literal {BASE}, and this job runs without that folder (mode rewrite: "
                        "no private mounts). Take the path from an argument or an SM_* variable, or run where mount "
                        f"namespaces are allowed. Searched: {path}."
                    )


def literal_lines(name: str, content: bytes, environment: Mapping[str, str]) -> Iterator[int]:
    """Numbers of the lines that use a literal /opt/ml; comments and docstrings do not count."""
    if b"/opt/ml" not in content or b"\0" in content:
        return
    text = content.decode("utf-8", "replace")
    lines = text.splitlines()
    for number in _python_literals(text) if name.endswith(".py") else _shell_literals(lines):
        known = _VARIABLE.findall(lines[number - 1])
        if not any(variable in environment or variable == BASE_VARIABLE for variable in known):
            yield number


def _python_literals(text: str) -> list[int]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):  # Python will say so itself; be careful until then
        return _shell_literals(text.splitlines())
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return sorted(
        node.lineno + node.value[: found.start()].count("\n") * (node.end_lineno != node.lineno)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in bare
        and (found := _BASE_PATH.search(node.value))
    )


def _shell_literals(lines: Sequence[str]) -> list[int]:
    return [
        number for number, line in enumerate(lines, 1) if not line.lstrip().startswith("#") and _BASE_PATH.search(line)
    ]


def _archived_scripts(path: Path) -> Iterator[tuple[str, bytes]]:
    """The user's scripts in a code archive. Our own code takes its paths from arguments, so it is left out."""
    try:
        with tarfile.open(path) as archive:
            for member in archive:
                script = member.isreg() and member.name.startswith("source/") and member.name.endswith((".py", ".sh"))
                if script and member.size <= _LARGEST_SCRIPT and (file := archive.extractfile(member)) is not None:
                    yield member.name, file.read()
    except (tarfile.TarError, OSError):  # the start file refuses it with the reason
        return


def search_path(environment: Mapping[str, str] = os.environ) -> str:
    """PATH with this Python's folder first, so that `python3` in a definition is ours."""
    own = os.path.dirname(sys.executable)
    return os.pathsep.join([own, environment.get("PATH", os.defpath)])
