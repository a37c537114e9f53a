"""The folder of a user's own code, and a file in it that can be started."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path

from drivetrain.base.errors import InputError
from drivetrain.steps import script_mode

# The unpacked folder of the code that travels with a pipeline, where a start file made one.
SOURCE_VARIABLE = "DRIVETRAIN_SOURCE"
_MOST_NAMES = 8  # in a message
# By these AWS's libraries find credentials: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
_FINDS = re.compile(
    r"AWS_(CONTAINER_|WEB_IDENTITY_|ROLE_|PROFILE$|DEFAULT_PROFILE$|ACCESS_KEY|SESSION_)"
    r"|(KUBECONFIG|NETRC|PGPASS|PGPASSFILE)$|\w+_(PAT|DSN)$"
)
_PASSWORD = re.compile(r"//[^/@\s:]*:[^/@\s]+@")
_FINDS_NOTHING = {
    **{"AWS_EC2_METADATA_DISABLED": "true"},
    **{"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull},
}
# Python 3.11 refuses a text while another thread has one parsed (python/cpython#106905).
_PARSING = threading.Lock()


def code_folder(source: Path | None) -> Path:
    """The folder in which the script lies and starts: `source`, else the code that travels with the pipeline, else
    this folder.

    In a container `source` is copied, as the toolkit copies to /opt/ml/code: a script may write beside itself, and
    the object store has kept no file's mode, so what begins with `#!` is made executable.

    Raises:
        InputError: `source` is no folder.
    """
    unpacked = os.environ.get(SOURCE_VARIABLE)
    if source is None:
        return Path(unpacked or ".").resolve()
    if not source.is_dir():
        raise InputError(f"--source {source} is no folder. Give the folder in which the script lies.")
    if unpacked is None:
        return source.resolve()
    import shutil

    folder = Path(unpacked).parent.with_name("script")
    shutil.copytree(source, folder)
    for path in folder.rglob("*"):
        if path.is_file() and _first_line(path).startswith(b"#!"):
            path.chmod(0o755)
    return folder


def check_script(script: str, folder: Path) -> None:
    """
    Raises:
        InputError: `script` leads out of the folder, to no file, or to one that cannot be started.
    """
    path = folder / script
    if not script_mode.is_entry_point(script) or not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"script {script!r} is not in the folder of the code. Allowed: the path of a file in {folder}, such as "
            "train.py or bin/train.sh, of letters, digits and . _ + - /."
        )
    if not path.is_file():
        more = "" if script.endswith(".py") else " Only Python files travel with a pipeline: for others give source=."
        raise InputError(f"no script {script!r} in {folder} (it holds {_listing(folder)}).{more}")
    if script.endswith(".py"):
        return
    if not os.access(path, os.X_OK):
        raise InputError(f"script {script!r} is not executable. Make it so: chmod +x {path}")
    first = _first_line(path)
    if first.startswith(b"\x7fELF"):
        return
    if not first.startswith(b"#!"):
        raise InputError(f"script {script!r} does not say what runs it. Give it a first line such as #!/bin/bash.")
    interpreter = first[2:].lstrip(b" \t").replace(b"\t", b" ").partition(b" ")[0]
    if not interpreter or not os.path.exists(interpreter):
        shown = first.decode("utf-8", "backslashreplace")
        cause = " Give the file Unix line ends." if first.endswith(b"\r") else ""
        raise InputError(
            f"script {script!r} begins with {shown!r}, but there is no such program on this machine.{cause}"
        )


def bool_warnings(script: Path) -> Iterator[str]:
    """Arguments of a Python script that are true whatever is given: argparse's `type=bool` takes any text so."""
    content = script.read_bytes() if script.suffix == ".py" else b""
    if re.search(rb"type\s*=\s*bool\b", content) is None:
        return
    import ast

    try:
        with _PARSING:
            tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError):  # the script says so itself when it starts
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") != "add_argument":
            continue
        if any(word.arg == "type" and getattr(word.value, "id", "") == "bool" for word in node.keywords):
            names = [word.value for word in node.args if isinstance(word, ast.Constant)]
            yield (
                f"{script.name}, line {node.lineno}: {names[-1] if names else 'an argument'} has type=bool, for which "
                "any text is true, also False. Use type=lambda text: text.lower() == 'true'"
            )


def without_credentials() -> dict[str, str]:
    """This process's environment for a program that runs a model's own code: without what looks like a secret by its
    name, and without the ways by which AWS's libraries find credentials."""
    from drivetrain.base.masking import looks_secret

    kept = {
        name: value
        for name, value in os.environ.items()
        if not (looks_secret(name) or _FINDS.match(name) or _PASSWORD.search(value))
    }
    return {**kept, **_FINDS_NOTHING}


def _first_line(path: Path) -> bytes:
    """At most 256 bytes, which is also what the kernel reads."""
    with path.open("rb") as file:
        return file.read(256).partition(b"\n")[0]


def _listing(folder: Path) -> str:
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return ", ".join(names[:_MOST_NAMES]) + (" ..." if len(names) > _MOST_NAMES else "") if names else "nothing"
