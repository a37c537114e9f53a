"""Supervisors that are started before their steps, so that a step does not wait for an interpreter,
and what its program will load, so that this can be loaded while the step before is at work.
"""

from __future__ import annotations

import ast
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError
from drivetrain.base.json_text import object_in, text_in
from drivetrain.run_store.objects import ObjectStore
from drivetrain.spec.resources import CALIBRATE, MAKE_MODELS_OF_FUNCTIONS
from drivetrain.steps import CODE_CHANNEL, START_COMMAND
from drivetrain.steps.start import plain_files
from drivetrain.targets.sagemaker.run.jobs.job_data import input_uris, words_in

if TYPE_CHECKING:
    from drivetrain.processes.supervised import Spare
    from drivetrain.targets.sagemaker.document.document import Definition


# Components whose processes are other programs, which load this before they do anything.
_OF_OURS = {
    "drivetrain.components.train:train": ("torch", "torch._dynamo"),
    "drivetrain.components.evaluate:evaluate": ("torch",),
    "drivetrain.components.compare:compare": ("torch",),  # it evaluates the champion
    "drivetrain.components.batch_predict:batch_predict": ("torch",),
}
# The reference to another step's output.
_MADE_BY = re.compile(r"Steps\.([^.]+)\.")
# Packages that take long to load and may be loaded before a fork: they start no threads that matter to a fork, and read
# no variables that a step sets (a step that sets others than the platform's is executed anyway).
_PACKAGES = ("numpy", "pandas", "scipy", "sklearn", "torch")


def prepare_spare(
    spares: Spares, step: str, arguments: Mapping[str, Any], definition: Definition, store: ObjectStore
) -> None:
    """Have a supervisor wait for a step, unless its program is not ours and could not go on in it.

    Args:
        step: a step of the definition, or of an iteration of a loop.
        arguments: those of the step.
    """
    if is_of_ours(arguments):
        steps = {each.name: each.arguments for each in definition.walk()}
        spares.prepare(step, loaded_ahead(arguments, store, steps))


def is_of_ours(arguments: Mapping[str, Any]) -> bool:
    """Return True if a job's command begins with our start file, so that it may go on in an interpreter that waits for
    it (`can_go_on` of processes/supervised.py). A job that names no command may.

    Args:
        arguments: those of the step, as the definition has them.
    """
    words = words_in(arguments, "ContainerEntrypoint")
    return not words or tuple(words[: len(START_COMMAND)]) == START_COMMAND


def loaded_ahead(
    arguments: Mapping[str, Any], store: ObjectStore, steps: Mapping[str, Mapping[str, Any]] = MappingProxyType({})
) -> tuple[str, ...]:
    """The modules that a job's component will import: those of its file and of its function that are worth it.

    Args:
        arguments: those of the step, as the definition has them.
        steps: the arguments of all steps, by their names.
    """
    target = _target(arguments)
    if target in _OF_OURS:
        inputs = input_uris(arguments)
        made_by = _MADE_BY.match(text_in(object_in(inputs, "model"), "Get") or "")
        # (A calibrated model may be one of functions, too.)
        others = (CALIBRATE, *MAKE_MODELS_OF_FUNCTIONS)
        of_functions = made_by is not None and _target(steps.get(made_by[1], {})) in others
        return () if of_functions or "answers" in inputs else _OF_OURS[target]
    module, _, function = target.partition(":")
    archive = archive_of(arguments, store)
    return () if archive is None else _imports_of(archive, f"source/{module.replace('.', '/')}.py", function)


def archive_of(arguments: Mapping[str, Any], store: ObjectStore) -> Path | None:
    """The archive of a job's code; None where the definition does not say it in one word.

    Args:
        arguments: those of the step, as the definition has them.
    """
    words = _words(arguments)
    uri = text_in(input_uris(arguments), CODE_CHANNEL) if words else None
    if uri is None:
        return None
    try:
        return store.path(f"{uri.rstrip('/')}/{words[words.index('--code') + 1]}.tar")
    except UserError:  # no URI of an object; the job itself will say so
        return None


def _target(arguments: Mapping[str, Any]) -> str:
    """The component of a job; "" where the definition does not say it."""
    return next((word for word in _words(arguments) if ":" in word and not word.startswith("-")), "")


def _words(arguments: Mapping[str, Any]) -> list[str]:
    """The command line of a job that begins with our start file."""
    words = words_in(arguments, "ContainerArguments")
    return [str(word) for word in words] if "--code" in words[:-1] else []


@cache
def _imports_of(archive: Path, name: str, function: str) -> tuple[str, ...]:
    """The modules that a file of an archive imports, outside of its other functions."""
    if not archive.is_file():
        return ()
    try:
        tree = ast.parse(_read(archive, name))
    except (KeyError, SyntaxError, ValueError):  # the job itself will say so
        return ()
    found: dict[str, None] = {}
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name == function:
            for inner in ast.walk(node):
                found |= dict.fromkeys(_modules(inner))
    return tuple(name for name in found if name.partition(".")[0] in _PACKAGES)


def _read(archive: Path, name: str) -> bytes:
    """A file of an archive of code.

    Raises:
        KeyError: it is missing, or there is no such archive.
    """
    content = archive.read_bytes()
    files = plain_files(content)
    if files is None:
        import tarfile

        try:
            with tarfile.open(archive) as tar:
                file = tar.extractfile(name)
                return b"" if file is None else file.read()
        except tarfile.TarError:
            raise KeyError(name) from None
    begin, end = {each: (begin, end) for each, begin, end in files}[name]
    return content[begin:end]


def _modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


# What the start file and a component without imports of its own need of the standard library.
STANDARD = (
    "argparse", "ast", "collections.abc", "contextlib", "dataclasses", "enum", "functools", "hashlib", "importlib",
    "inspect", "json", "math", "pathlib", "re", "runpy", "tarfile", "tempfile", "typing", "zipfile", "zlib",
)  # fmt: skip


class Spares:
    """The supervisors of a run that wait for the job of a step. Threads may share it.

    Each is a fork of a server (fork_server.py), serves one job, and ends by itself when this process does: then its
    stdin ends before a job has come.
    """

    def __init__(self) -> None:
        self._servers: list[_Server] = []
        self._waiting: dict[str, Spare] = {}
        self._lock = threading.Lock()

    def prepare(self, step: str, modules: Sequence[str] = ()) -> None:
        """Start a supervisor for a step, with these modules imported, unless one waits already."""
        with self._lock:
            if self._server_of(modules) is None:
                self._servers.append(_Server(modules))
            if step not in self._waiting and (spare := self._fork(modules)):
                self._waiting[step] = spare

    def take(self, step: str) -> Spare | None:
        """Hand over the supervisor of a step, or another one; None if none is alive."""
        with self._lock:
            spare = self._waiting.pop(step, None) or self._fork()
        if spare is None or spare.is_alive():
            return spare
        spare.close()
        return None

    def close(self) -> None:
        """End those that nobody took."""
        with self._lock:
            while self._waiting:
                self._waiting.popitem()[1].close()
            while self._servers:
                self._servers.pop().close()

    def _fork(self, modules: Sequence[str] = ()) -> Spare | None:
        server = self._server_of(modules)
        if server is None:
            return None
        try:
            return server.fork()
        except ConnectionError:  # it was killed: the next step has another
            self._servers.remove(server)
            server.close()
            return None

    def _server_of(self, modules: Sequence[str]) -> _Server | None:
        """A server that has imported the modules. A step without modules gets a server without any, because libraries
        check which others are loaded."""
        wanted = set(modules)
        fit = (each for each in self._servers if wanted <= each.modules and bool(wanted) == bool(each.modules))
        return next(fit, None)


class _Server:
    def __init__(self, modules: Sequence[str]) -> None:
        from drivetrain.processes import mounts
        from drivetrain.processes.supervised import clean_environment

        environment = clean_environment("")
        del environment["TMPDIR"]  # each job has its own
        self.modules = set(modules)
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(mounts.SUPERVISOR), "--serve", ",".join((*STANDARD, *modules))],
                stdin=theirs.fileno(),
                stdout=subprocess.PIPE,  # what a fork's is, too
                stderr=subprocess.DEVNULL,
                cwd="/",
                env=environment,
                start_new_session=True,  # Ctrl-C reaches the runner, which decides
            )

    def fork(self) -> Spare:
        """
        Raises:
            ConnectionError: the server has ended.
        """
        from drivetrain.processes.supervised import Spare

        job, written = os.pipe()
        read, told = os.pipe()
        spare = Spare(written, read)
        try:
            socket.send_fds(self._requests, [b"fork"], [job, told])
        except BaseException:
            spare.close()
            raise
        finally:
            os.close(job)
            os.close(told)
        return spare

    def close(self) -> None:
        """The server ends when its requests end, or at once while it is loading; waiting supervisors end with it."""
        self._requests.close()
        self._process.terminate()
        self._process.communicate()
