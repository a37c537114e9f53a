"""The environment of `drivetrain setup debugger`: torch, smdebug and its pins, which fit no other environment.

    FOLDER/bin/python script.py      runs a script with a hook of smdebug's own
    FOLDER/.drivetrain-environment   a hash of the recipe, once the environment is whole; empty before

The recipe is `requirements.txt` and `patches/` here. A run that was cut off is taken up by the next one.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.base.file_locks import hold

SUMMARY = "smdebug, the library of SageMaker Debugger, with torch"
MARK = ".drivetrain-environment"
# With which the recipe is tested; where torch is installed beside us, that version is taken.
TORCH = "2.13.0"
_HERE = Path(__file__).parent
REQUIREMENTS, PATCHES, CHECK = _HERE / "requirements.txt", _HERE / "patches", _HERE / "hook_check.py"
_PIP = ("-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check", "--no-compile")
_NO_ANSWER = ("NewConnectionError", "ConnectTimeoutError", "NameResolutionError", "ReadTimeoutError", "ProxyError")


def make(folder: Path, say: Callable[[str], None]) -> Path:
    """Make the environment, or find it made; its Python.

    Raises:
        UserError: the folder is something else, another process is at work in it, or a part cannot be installed.
    """
    python, recipe, torch = folder / "bin/python", _recipe(), _torch()
    mark = folder / MARK
    if folder.exists() and not mark.is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is no environment of `drivetrain setup`. Give an empty or a new folder by --into.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with mark.open("a+") as file:
            hold(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            made_by = file.read()
            if made_by == recipe:
                say(f"{folder} is there already, with torch {torch}")
                return python
            if made_by:
                say(f"removing what an earlier recipe made in {folder}")
                file.truncate(0)
                _empty(folder)
            _make(folder, python, torch, say)
            file.write(recipe)
    except BlockingIOError:
        raise UserError(f"{folder} is being made by another process. Wait until it is done.") from None
    except OSError as error:
        raise UserError(f"{folder} cannot be written ({error.strerror}). Give another folder by --into.") from None
    return python


def _make(folder: Path, python: Path, torch: str, say: Callable[[str], None]) -> None:
    say(f"making {folder} with Python {platform.python_version()}")
    _call([sys.executable, "-m", "venv", str(folder)], "The environment could not be made")
    say(f"installing torch {torch}")
    _call([str(python), *_PIP, f"torch=={torch}"], f"torch {torch} could not be installed")
    pins = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    say(f"installing {pins[0].replace('==', ' ')} and {len(pins) - 1} packages that it needs")
    _call([str(python), *_PIP, "--no-deps", "-r", str(REQUIREMENTS)], "smdebug could not be installed")
    (packages,) = folder.glob("lib/python*/site-packages")
    for patch in sorted(PATCHES.glob("*.patch")):
        say(f"applying {patch.name}")
        apply(patch.read_text(encoding="utf-8"), packages)
    say("trying its hook")
    _call([str(python), str(CHECK)], "smdebug's hook does not work")


def apply(patch: str, folder: Path) -> None:
    """Apply a patch of one place in one file (a unified diff), unless it is applied already. Nothing else is needed: a
    slim image has no program `patch`.

    Raises:
        UserError: the file is another one than the patch was made for.
    """
    head, _, hunk = patch.partition("\n@@ ")
    path = folder / head.rpartition("\n+++ b/")[2]
    lines = hunk.splitlines(keepends=True)[1:]
    before, after = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
    text = path.read_text(encoding="utf-8")
    if text.count(after) == 1:
        return
    if text.count(before) != 1:
        raise UserError(f"{path} is not as the patch expects it. Remove the folder and set it up again.")
    path.write_text(text.replace(before, after), encoding="utf-8")


def _recipe() -> str:
    files = (REQUIREMENTS, *sorted(PATCHES.glob("*.patch")))
    parts = [platform.python_version(), _torch(), *(path.read_text(encoding="utf-8") for path in files)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _torch() -> str:
    try:
        return importlib.metadata.version("torch").partition("+")[0]
    except importlib.metadata.PackageNotFoundError:
        return TORCH


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != MARK:
            path.unlink()


def _call(command: Sequence[str], failed: str) -> None:
    """
    Raises:
        UserError: the command failed; with the last that it said.
    """
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if not done.returncode:
        return
    said = (done.stderr + done.stdout).strip()
    again = "What is there is kept: run the same command again."
    if any(word in said for word in _NO_ANSWER):
        raise UserError(
            f"{failed}: the package index does not answer. Connect to the network, or name an index or a proxy that "
            f"answers (PIP_INDEX_URL, HTTPS_PROXY). {again}"
        )
    lines = [line for line in said.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
    errors = [line for line in lines if line.startswith("ERROR: ")]
    raise UserError(f"{failed}: {(errors or lines)[-1].removeprefix('ERROR: ').rstrip('.')}. {again}")
