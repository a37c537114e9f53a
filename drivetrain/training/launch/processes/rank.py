"""One process of a job, supervised from inside: a module, a script of the user's own, or any command.

    python -m drivetrain.training.launch.processes.rank module my_package.my_program ARGUMENT ...
    python -m drivetrain.training.launch.processes.rank script train.py ARGUMENT ...
    python -m drivetrain.training.launch.processes.rank command ./a.out ARGUMENT ...

The launchers start it. The program runs as `python train.py` would run it (its own `__main__`, `sys.argv` and first
entry of `sys.path`), with four things more: it ends when the process that started it does; what it raises reaches the
launcher with its traceback, and so does where it was when native code ended it; and its heartbeats are counted. Under
mpirun it also has the variables that torchrun would have set (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE).
"""

from __future__ import annotations

import atexit
import builtins
import ctypes
import faulthandler
import importlib.machinery
import importlib.util
import os
import runpy
import signal
import sys
import threading
import types
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.launch.deepspeed import compile_nothing
from drivetrain.training.launch.job import MPI_STOP
from drivetrain.training.launch.processes import collectives, heartbeat, stacks
from drivetrain.training.launch.processes.failure import ERROR_FILE, note_ports, report_exit, report_failure
from drivetrain.training.launch.processes.parent import PARENT, die_with_parent, follow_parent, follows_parent

# Set by the launcher deepspeed: `none` where there is no GPU, else `compiled`.
KERNELS = "DRIVETRAIN_DEEPSPEED_KERNELS"
# Open MPI's names for them. https://www.open-mpi.org/faq/?category=running#mpi-environmental-variables
_OPEN_MPI = {
    "RANK": "OMPI_COMM_WORLD_RANK",
    "WORLD_SIZE": "OMPI_COMM_WORLD_SIZE",
    "LOCAL_RANK": "OMPI_COMM_WORLD_LOCAL_RANK",
    "LOCAL_WORLD_SIZE": "OMPI_COMM_WORLD_LOCAL_SIZE",
}


def main() -> None:
    kind, target, *arguments = sys.argv[1:]
    # A line is written at once, and whole: unbuffered, print() writes its newline apart from its words, and the lines
    # of two processes run into each other.
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=False)  # type: ignore[union-attr]
    if _OPEN_MPI["RANK"] in os.environ:
        os.environ.update({name: os.environ[given] for name, given in _OPEN_MPI.items() if given in os.environ})
        os.environ.pop(PARENT, None)  # it is mpirun's
        follow_parent(signal.SIGKILL)
        signal.signal(MPI_STOP, lambda number, frame: os.kill(os.getpid(), signal.SIGTERM))
    else:
        die_with_parent(signal.SIGKILL)
    if "torch" in sys.modules and "OMP_NUM_THREADS" in os.environ:
        import torch  # this process was forked after torch was loaded, which had other variables then

        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    _report_to_launcher()
    if kind == "command":
        _command([target, *arguments])
    _prepare_kernels(os.environ.pop(KERNELS, None))
    run = _module if kind == "module" else _script
    if kind == "script":
        _keep_last_words()
        note_ports()
    sys.argv = [target, *arguments]
    _supervised(lambda: run(target))


def _prepare_kernels(given: str | None) -> None:
    if given == "none" and importlib.util.find_spec("deepspeed"):
        compile_nothing()
    elif given == "compiled" and importlib.util.find_spec("torch"):
        from drivetrain.training.torch.extensions import own_locks

        own_locks()


def _report_to_launcher() -> None:
    folder = os.environ.get(heartbeat.FOLDER)
    if folder is None or not os.path.isdir(folder):  # on another host than the one that mpirun was started on
        os.environ.pop(heartbeat.FOLDER, None)
        return
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    if ERROR_FILE not in os.environ:  # torchrun names it; the others do not
        os.environ[ERROR_FILE] = str(Path(folder) / f"{local_rank}.error.json")
    heartbeat.register(
        Path(folder),
        local_rank=local_rank,
        rank=int(os.environ.get("RANK", "0")),
        attempt=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")),
    )
    # Where it was is part of the reason, so it goes to the launcher and not among the lines of the other processes.
    stack = open(Path(folder) / f"{local_rank}.stack", "w", encoding="utf-8")  # noqa: SIM115 (open to the very end)
    faulthandler.enable(stack)
    _kept.append(stack)
    _kept.append(stacks.register(Path(folder), local_rank))
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        collectives.answer(Path(folder), local_rank)


_last_words: deque[str] = deque(maxlen=40)


def _keep_last_words() -> None:
    """Remember what the script writes to stderr at its end, such as argparse's usage: an exit code alone says little.
    stderr stays the stream that it is."""
    write = sys.stderr.write

    def noted(text: str) -> int:
        _last_words.append(text)
        return write(text)

    sys.stderr.write = noted


_kept: list[object] = []  # faulthandler writes to the descriptor, which must not be closed


def _module(name: str) -> None:
    if not _is_there(name):
        raise _no_module(name)
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def _is_there(name: str) -> bool:
    if os.sep in name or name.endswith(".py"):  # asking for `train.py` would run train.py, as the package around `py`
        return False
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError as error:
        if error.name and f"{name}.".startswith(f"{error.name}."):
            return False
        raise  # a package around it lacks something


def _no_module(name: str) -> InputError:
    own = "drivetrain.training_scripts."
    if name.startswith(own):
        files = (Path(__file__).parents[3] / "training_scripts").glob("*.py")
        programs = [own + file.stem for file in files if '__name__ == "__main__"' in file.read_text(encoding="utf-8")]
        return unknown_name("module", name, programs)
    if os.path.isfile(name):
        return InputError(f"no module {name!r}. It is a file: give --script {name}")
    return InputError(f"no module {name!r}. Give a module that Python finds from here, or --script PATH.")


def _script(path: str) -> None:
    """As Python does it: the file's path is absolute in `__file__` and as it was given in `sys.argv`, which runpy would
    make one; and `__main__` stays to the very end, for what runs at exit."""
    file = os.path.abspath(path)
    sys.path[0] = os.path.dirname(file)
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__.update(__file__=file, __builtins__=builtins, __cached__=None)
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", file)
    exec(compile(Path(file).read_bytes(), file, "exec", dont_inherit=True), main.__dict__)  # the user's  # nosec B102


def _supervised(program: Callable[[], None]) -> NoReturn:
    """Run it and end as it does; an exception, or an end with another code than 0, is reported."""
    code = 0
    try:
        program()
        collectives.write()  # which one it lacks, if others still wait for it
    except SystemExit as ending:
        if ending.code not in (None, 0):
            report_exit(ending, "".join(_last_words))
        code = _exit_code(ending)
        collectives.write()
    except Exception as error:
        code = report_failure(error)
        sys.stdout.flush()
        sys.stderr.flush()
        # Not in order: a process group's destructor could wait for peers that are gone.
        os._exit(code)
    finally:
        heartbeat.finished()
    _leave(code)


def _exit_code(ending: SystemExit) -> int:
    """The exit code as Python computes it: a text goes to stderr and counts as 1."""
    if ending.code is None or isinstance(ending.code, int):
        return (ending.code or 0) & 0xFF
    print(ending.code, file=sys.stderr)
    return 1


def _leave(code: int) -> NoReturn:
    """Do what Python does at its end, all but taking the interpreter down: gloo's threads release the tensors of the
    last collective a moment after it is done, and one that then needs the interpreter aborts a process whose work is
    done."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads that are no daemons
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).fflush(None)  # what native code has printed
    os._exit(code)


def _command(words: list[str]) -> NoReturn:
    """Run any program and end as it does. It stays a child, so that its end can be told from mpirun's killing of it."""
    import subprocess

    passed_on = (signal.SIGTERM, signal.SIGINT)
    follow = follows_parent(signal.SIGKILL)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
        follow()

    # A signal that comes while the program starts waits until it can be passed on.
    signal.pthread_sigmask(signal.SIG_BLOCK, passed_on)
    # In a group of its own: mpirun signals groups, and the program would see each signal twice.
    child = subprocess.Popen(words, process_group=0, preexec_fn=prepare)
    for number in passed_on:
        signal.signal(number, lambda number, frame: child.send_signal(number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, passed_on)
    code = child.wait()
    heartbeat.finished()
    if code:
        report_exit(None, code=code)
    sys.stdout.flush()
    os._exit(128 - code if code < 0 else code)


if __name__ == "__main__":
    main()
