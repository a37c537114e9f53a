"""The programs behind components: what they are told is one dataclass, and the launcher starts them on each host.

@dataclass(frozen=True, kw_only=True)
class Config:                                   # fields with bounds and choices, see signature.parameters_of
    def __post_init__(self) -> None:
        check(self)

@component(job="training", settings=Config)
def train(data: Input, ..., *, processes: int = 0, **settings: Any) -> None:
    run(launcher("my.program", processes, {"data": data}, settings))
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.steps.forked import Forked, forked
from drivetrain.steps.signature import parameters_of


def check(settings: object) -> None:
    """Hold each field of a dataclass against what its type allows.

    Raises:
        InputError: a value is not one of the choices, or is out of bounds; the first one is named.
    """
    kind = type(settings)
    for name, declared in parameters_of(kind).items():
        value = getattr(settings, name)
        if declared.allows(value):
            continue
        if declared.choices:
            raise InputError(f"no {name} {value!r}. {did_you_mean(str(value), map(str, declared.choices))}")
        raise InputError(f"{name}={value}; allowed are {declared.described()}.")


def launcher(
    program: str,
    processes: int,
    folders: Mapping[str, Path | None],
    settings: Mapping[str, Any],
    *,
    options: tuple[str, ...] = (),
) -> list[str]:
    """The command of the launcher that starts `program`.

    Args:
        program: a module, by its name.
        processes: a host; 0 for what the cluster says.
        folders: by the names of the program's options; those that are None are left out.
        settings: by the names of its other options.
        options: further words for the launcher itself.
    """
    return [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch", f"--processes={processes}", *options, program),
        # One argument each, joined by "=": a value may begin with a dash.
        *(f"--{name.replace('_', '-')}={path}" for name, path in folders.items() if path is not None),
        *(f"--{name.replace('_', '-')}={value}" for name, value in settings.items()),
    ]


def ahead(module: str) -> Forked | None:
    """A process for `run` that need not load torch again, where this one has it loaded to run the component of
    `module`. To be called before there are temporary folders."""
    if not is_the_step(module):
        return None
    sys.stdout.flush()
    return next(iter(forked(1)), None)


def run(
    command: list[str],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    process: Forked | None = None,
) -> None:
    """Run a command that ends when this process does: it is told who started it. Where it fails, so does this process,
    with the same exit code; the command has said why.

    Args:
        process: what `ahead` gave.
    """
    told = {**(os.environ if environment is None else environment), "DRIVETRAIN_PARENT_PID": str(os.getpid())}
    if process is not None:
        process.start(command, told)
        code = process.wait()
    else:
        code = subprocess.run(command, cwd=folder, env=told, check=False).returncode
    if code < 0:
        name = signal.Signals(-code).name if -code in {*signal.Signals} else str(-code)
        more = " Perhaps the memory did not suffice." if name == "SIGKILL" else ""
        print(f"error: the program was ended by the signal {name}.{more}", file=sys.stderr, flush=True)
    if code:
        sys.exit(code)


def is_the_step(module: str) -> bool:
    """Return True if this process was started to run the component of `module`, and not to do other things too, such
    as a notebook: then the program may take it over."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name in ("drivetrain.steps.call", module)


def become(command: list[str], *, folder: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
    """Hand this process over: the platform's signals and the exit code need nobody in between. Does not return."""
    sys.stdout.flush()
    if folder is not None:
        os.chdir(folder)
    os.execve(command[0], command, dict(os.environ if environment is None else environment))
