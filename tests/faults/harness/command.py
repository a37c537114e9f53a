"""`drivetrain ...` in a process that is forked from one which has imported all of it, or, dearer, in a new interpreter
as users start it; and what it costs and leaves."""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drivetrain.cli import main
from drivetrain.training.launch.processes.parent import follows_parent

# Of the developer's environment a command sees this, and nothing else.
_KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH")
_ENTRY = "from drivetrain.cli.main import main; main()"
# Programs of containers and of other environments, which no command imports.
_NOT_IMPORTED = ("/processes/", "targets/sagemaker/sdk", "extract_shapes", "__main__", "drivetrain/training/")
SERVICES = ("sagemaker", "s3", "events", "scheduler", "sts", "logs")


def _modules() -> list[str]:
    """What commands import when they are used."""
    root = Path(main.__file__).parents[1]  # the library: what lies behind its links is for containers
    names = [str(path.relative_to(root.parent).with_suffix("")) for path in sorted(root.rglob("*.py"))]
    chosen = [name for name in names if not any(part in name for part in _NOT_IMPORTED)]
    return [name.removesuffix("/__init__").replace("/", ".") for name in chosen]


# A fork has it already.
PRELOAD = ("boto3", "sqlite3", "yaml", "pydantic.type_adapter", *_modules())


def warm() -> None:
    """Read once what every command that reaches into an account would: the models of the services, 0.2 s each time."""
    import boto3
    from botocore.loaders import JSONFileLoader

    read = functools.cache(functools.partial(JSONFileLoader.load_file, JSONFileLoader()))
    setattr(JSONFileLoader, "load_file", lambda self, path: read(path))  # noqa: B010
    known: dict[str, Any] = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}
    session = boto3.session.Session()
    for service in SERVICES:
        session.client(service, **known)
    gc.collect()
    gc.freeze()  # in a fork the collector would copy every page by touching it


@dataclass(frozen=True)
class Ended:
    """How a command ended. `code` is negative for a signal; `memory` is its highest, in bytes."""

    code: int
    out: str
    err: str
    cpu_s: float
    memory: int

    def __str__(self) -> str:
        return f"exit code {self.code}, {self.cpu_s:.2f} s\n{self.out[-1_500:]}\n{self.err[-1_500:]}"


def drivetrain(folder: Path, *arguments: str, environment: Mapping[str, str], launched: bool = False) -> Ended:
    """`drivetrain ...` in `folder`; `launched` in a new interpreter."""
    if launched:
        words = [sys.executable, "-c", _ENTRY, *arguments]
        return forked(lambda: os.execv(sys.executable, words), folder, environment)
    return forked(lambda: main.run(list(arguments)), folder, environment)


def forked(work: Callable[[], int], folder: Path, environment: Mapping[str, str]) -> Ended:
    """What `work` says in a process of its own; the outputs are kept in files beside `folder`."""
    beside = folder.with_name(f"{folder.name}-said")
    beside.mkdir(exist_ok=True)
    out, err = beside / "out", beside / "err"
    sys.stdout.flush()
    sys.stderr.flush()
    follow = follows_parent(signal.SIGKILL)
    pid = os.fork()
    if pid == 0:
        follow()
        _become(work, folder, environment, out, err)
    _, status, usage = os.wait4(pid, 0)
    said, complained = (path.read_text("utf-8", "replace") for path in (out, err))
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, said, complained, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _become(work: Callable[[], int], folder: Path, environment: Mapping[str, str], out: Path, err: Path) -> None:
    code = 99
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for path, number in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        for number, name in ((1, "stdout"), (2, "stderr")):
            setattr(sys, name, open(number, "w", encoding="utf-8", errors="replace", closefd=False))  # noqa: SIM115
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        os.environ.clear()
        os.environ.update({**kept, **environment})
        os.chdir(folder)
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def tree(folder: Path, *, but: Path | None = None) -> dict[str, tuple[int, int, str]]:
    """Every file and link below a folder: size, time of change, and where a link leads. Nothing below `but`."""
    found: dict[str, tuple[int, int, str]] = {}
    for parent, folders, files in os.walk(folder):
        if but is not None and Path(parent) == but:
            folders.clear()
            continue
        for name in [*folders, *files]:
            path = Path(parent, name)
            status = path.lstat()
            link = os.readlink(path) if path.is_symlink() else ""
            if not path.is_dir() or link:
                found[str(path.relative_to(folder))] = (status.st_size, status.st_mtime_ns, link)
            else:
                found[f"{path.relative_to(folder)}/"] = (0, 0, "")
    return found
