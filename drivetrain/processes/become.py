"""Runs a command in the interpreter that supervises it, which has already imported what the command needs (standard
library only).

A small step spends most of its time on starting interpreters, three of them. A supervisor that was started ahead of its
job (spares.py) has already imported what the start file and a component import. The process that it forks
for the command then becomes the start file, and after that the component, without exec. What a program can see of it is
as if it had been executed: variables, working folder, arguments, sys.path, signal handlers, open files, `__main__`, and
how it ends. Native code alone could tell: what it registers with the C library's atexit is not called.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Mapping
    from importlib.machinery import SourceFileLoader
    from types import CodeType, TracebackType
    from typing import NoReturn
else:
    import _signal as signal  # see ending.py

# What `python -m` may go on as: the programs that the start file, a training and its launcher become.
PROGRAMS = (
    "drivetrain.steps.call",
    "drivetrain.training_scripts.launch",
    "drivetrain.training.launch.processes.rank",
)
# As a job's command begins (START_COMMAND of drivetrain.steps): python3 -I -S -c TEXT ARGUMENT ...
_START = ["python3", "-I", "-S", "-c"]
# What _end needs, which must not count as the program's own.
_AT_THE_END = ("atexit", "ctypes", "gc", "io", "threading", "weakref")
_OURS = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.normpath(os.path.join(_OURS, *1 * [os.pardir]))
# What each component begins with: the start file, and what a component without imports of its own imports of ours.
FIRST_FILES = (
    "steps/start.py", "steps/call.py", "steps/command_line.py", "steps/__init__.py", "steps/declaration.py",
    "steps/signature.py", "base/errors.py", "base/stopping.py", "components/__init__.py",
)  # fmt: skip
_execve = os.execve
# The text of a file of ours -> the code object of it: compiling them takes longer than all that they do.
_compiled: dict[bytes, CodeType] = {}


class Become(BaseException):
    """Unwinds the stack to the top of this process, which then continues as another program."""

    def __init__(self, command: list[str]) -> None:
        super().__init__(command)
        self.command = command


def load(names: list[str]) -> None:
    """Import modules ahead of the job, and compile its first files; sys.path is left as an interpreter without a script
    has it."""
    import importlib

    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _OURS]
    for name in (*names, *_AT_THE_END):
        importlib.import_module(name)
    for name in FIRST_FILES:
        path = os.path.join(_PACKAGE, name)
        with open(path, "rb") as file:
            content = file.read()
        _compiled[content] = compile(content, path, "exec", dont_inherit=True)
    import gc

    gc.freeze()  # a collection in a fork would copy the memory of all that is shared


def prepare(command: list[str], environment: dict[str, str]) -> NoReturn:
    """Bring this fork of a supervisor into the state that exec would give it, and continue as `command`."""
    os.environ.clear()
    os.environ.update(environment)
    for name in os.listdir("/proc/self/fd"):
        try:
            if int(name) > 2:
                os.close(int(name))
        except OSError:
            continue  # what the list itself was read from
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # as every Python has them
        signal.signal(number, signal.SIG_IGN)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "drivetrain" or os.path.dirname(getattr(module, "__file__", None) or "") == _OURS:
            del sys.modules[name]
    if "tempfile" in sys.modules:
        import tempfile

        tempfile.tempdir = None  # TMPDIR is this job's
    raise Become(command)


def run(program: Become) -> None:
    """Run the program, and the programs that it becomes in turn. Its exceptions pass through."""
    os.execv, os.execve = _go_on_with_these_variables, _go_on
    sys.excepthook = _without_our_frames
    for name in _AT_THE_END:
        __import__(name)
    loaded, path = {*sys.modules} - {"__main__"}, list(sys.path)
    code = 0
    while True:
        try:
            _be(program.command, path)
        except Become as following:
            program = following
        except SystemExit as ended:
            if ended.code is not None and not (type(ended.code) is int and 0 <= ended.code <= 255):
                raise
            code = ended.code or 0
            break
        else:
            break
    _end(code, loaded)
    sys.exit(code)


def _end(code: int, loaded: set[str]) -> None:
    """End as an interpreter does, but leave what was loaded ahead as it is: to take torch down would copy all of its
    memory that is shared, and take longer than many a step. Returns where there are threads that an interpreter would
    stop.

    Args:
        loaded: modules that are not the program's own.
    """
    import atexit
    import gc
    import threading

    getattr(threading, "_shutdown")()  # noqa: B009  (waits for threads that are no daemons)
    getattr(atexit, "_run_exitfuncs")()  # noqa: B009
    if threading.active_count() > 1 or not _flushed():
        return
    import ctypes

    _forget([name for name in sys.modules if name not in loaded])
    gc.collect()
    if _flushed():
        ctypes.CDLL(None).fflush(None)  # what native code has printed
        os._exit(code)


def _flushed() -> bool:
    """Flush the files that are open; False where one cannot be."""
    import gc
    from io import IOBase

    kind = IOBase.__base__  # what all files are, without the questions that an abstract class asks
    files = [each for each in gc.get_objects() if kind in type(each).__mro__]
    try:
        for file in (*files, sys.stdout, sys.stderr):
            if file is not None and not file.closed:
                file.flush()
    except Exception:  # of a file of the program's own kind, any: the interpreter tells of it
        return False
    return True


def _forget(names: list[str]) -> None:
    """Let go of modules, so that their objects end: first those that nothing holds, then what the others have."""
    import gc
    import weakref

    modules = [sys.modules.pop(name) for name in names]
    held = [weakref.ref(module) for module in modules if issubclass(type(module), type(sys))]
    modules.clear()
    gc.collect()
    for reference in reversed(held):
        if (module := reference()) is not None:
            for name in list(vars(module)):
                if name != "__builtins__":
                    vars(module)[name] = None


def _be(command: list[str], path: list[str]) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "drivetrain"]:
        del sys.modules[name]  # the job has its own
    main = sys.modules["__main__"] = type(sys)("__main__")
    sys.orig_argv[:] = command
    if "numpy.random" in sys.modules:  # what was loaded once is not the same randomness for all
        sys.modules["numpy.random"].__dict__["seed"]()
    if command[:4] == _START:
        sys.argv[:] = ["-c", *command[5:]]
        main.__dict__["compile"] = _compile
        exec(compile(command[4], "<string>", "exec"), main.__dict__)  # the definition's own words  # nosec B102
    else:
        import importlib.machinery
        import runpy

        importlib.machinery.SourceFileLoader.source_to_code = _source_to_code  # type: ignore[reportAttributeAccessIssue]
        inherited = os.environ.get("PYTHONPATH", "")
        sys.path[:] = [os.getcwd(), *(entry for entry in inherited.split(os.pathsep) if entry), *path]
        sys.argv[:] = ["-m", *command[3:]]
        as_main: Callable[[str], object] = getattr(runpy, "_run_module_as_main")  # noqa: B009  (`python -m` calls it)
        as_main(command[2])


def _compile(content: bytes, path: str, mode: str) -> CodeType:
    """Replaces `compile` for the text of START_COMMAND, which has checked the hash of the start file."""
    return _compiled.get(content) or compile(content, path, mode)


def _source_to_code(loader: SourceFileLoader, content: bytes, path: str, **options: int) -> CodeType:
    """In the place of the loader's own: the job's files of ours are those of this package, by their text."""
    import _imp
    from importlib.machinery import SourceFileLoader

    found = _compiled.get(content)
    if found is None:
        return super(SourceFileLoader, loader).source_to_code(content, path, **options)

    getattr(_imp, "_fix_co_filename")(found, path)  # noqa: B009  (a traceback names the job's file)
    return found


def _without_our_frames(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    while trace is not None and os.path.dirname(trace.tb_frame.f_code.co_filename) == _OURS:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace), trace)


def _go_on(path: str, command: list[str], environment: Mapping[str, str]) -> NoReturn:
    """In the place of os.execve."""
    words = command[:1] + command[2:] if command[1] == "-u" else command  # PYTHONUNBUFFERED says the same
    if path == sys.executable and words[1] == "-m" and words[2] in PROGRAMS and not _is_customised(environment):
        variables = dict(environment)  # it may be os.environ itself
        os.environ.clear()
        os.environ.update(variables)
        raise Become(list(words))
    os.execv, os.execve = _execv, _execve
    _execve(path, command, environment)


def _go_on_with_these_variables(path: str, command: list[str]) -> NoReturn:
    """In the place of os.execv."""
    _go_on(path, command, dict(os.environ))


def _execv(path: str, command: list[str]) -> NoReturn:
    _execve(path, command, dict(os.environ))


def _is_customised(environment: Mapping[str, str]) -> bool:
    """Return True if a new interpreter would first run a file of the user's (sitecustomize, usercustomize)."""
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    return any(os.path.exists(os.path.join(f, n + ".py")) for f in folders for n in ("sitecustomize", "usercustomize"))
