"""Train on several processes from a notebook, or any other running Python, and come back with the result.

    from drivetrain.training_scripts.notebook import spawn

    result = spawn(recipe="digits_cnn", train="build/train", model="build/model", processes=2, epochs=5)
    result.history[-1]

The training is the one that the launcher starts: the same recipe, fields and data give the same model. A notebook has
threads, so its processes are spawned, not forked (what torch.multiprocessing calls `spawn`): each is a fresh Python
that imports the recipe from its file. The class in a cell has no file; `%%writefile my_recipe.py` gives it one.
"""

from __future__ import annotations

import codecs
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
import types
from collections import deque
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from drivetrain.training_scripts.cluster import LOCALHOST, Cluster, num_gpus
from drivetrain.training_scripts.environment import process_environment
from drivetrain.training_scripts.errors import InputError, unknown_name
from drivetrain.training_scripts.failure import ERROR_FILE, Failure, describe, from_rank, root_cause
from drivetrain.training_scripts.parent import announce_parent, die_with_parent

# Time to leave by themselves, for ranks that are stopped or whose peer has failed.
LEAVE_S = 10.0
_SPAWN = multiprocessing.get_context("spawn")
_LAST_LINES = 15  # of a rank that died without a report
_ADVICE = "Write it to a file beside the notebook (%%writefile my_recipe.py) and give recipe='my_recipe'."


class RankError(RuntimeError):
    """A process failed: the message names its rank and ends with its traceback; `failures` holds all of them."""

    def __init__(self, message: str, failures: list[Failure]) -> None:
        super().__init__(message)
        self.failures = failures


@dataclass(frozen=True)
class Result:
    """What a training left: the model's folder, and the metrics of each validation as in history.json."""

    model: Path
    history: list[dict[str, Any]]


def spawn(
    *,
    train: Path | str,
    model: Path | str,
    validation: Path | str | None = None,
    output: Path | str | None = None,
    checkpoints: Path | str | None = None,
    processes: int = 2,
    **config: Any,
) -> Result:
    """Train on `processes` processes of this machine; shows what rank 0 prints while it goes.

    Args:
        train: the data, and the other folders of `Folders` likewise.
        config: the fields of `Config`; options that are JSON objects may be dicts.

    Raises:
        InputError: an unknown field, a recipe without a file, or what the training finds wrong with its input.
        RankError: a process failed; the others are stopped.
        KeyboardInterrupt: from the keyboard, after all processes are stopped.
    """
    given = _config(config)
    gpus = num_gpus(os.environ)
    if processes < 1 or (gpus and processes > gpus):
        most = f" to {gpus}, one a GPU" if gpus else ""
        raise InputError(f"processes={processes}; allowed are whole numbers from 1{most}.")
    from drivetrain.training_scripts.train import HISTORY_FILE

    with tempfile.TemporaryDirectory(prefix="drivetrain-notebook-") as temporary:
        folders = {"train": train, "model": model, "validation": validation, "checkpoints": checkpoints}
        found = {name: os.path.abspath(path) for name, path in folders.items() if path is not None}
        found["output"] = os.path.abspath(output) if output is not None else f"{temporary}/output"
        with _meeting_point(processes) as meeting:
            environment = process_environment(Cluster(processes=processes), os.environ, interface="lo") | meeting
            ranks = _Ranks(processes, json.dumps({"config": given, "folders": found}), environment, Path(temporary))
            try:
                ranks.start()
                failures = ranks.wait()
            finally:
                ranks.stop()
        if failures:
            cause = root_cause(failures)
            if cause.kind == "input":
                raise InputError(cause.summary)
            text = describe(cause, failures, world_size=processes, host="this machine")
            last = "" if cause.details else ranks.last_lines(cause.rank)
            raise RankError(f"{text}\n{last}".rstrip(), failures)
        history = json.loads((Path(found["output"]) / HISTORY_FILE).read_text(encoding="utf-8"))
    return Result(Path(found["model"]), history)


def _config(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a Config, checked before anything starts.

    Raises:
        InputError: an unknown field, no recipe or one without a file, a value that is not allowed.
    """
    from drivetrain.training_scripts.train import Config

    names = [field.name for field in fields(Config)]
    for name in given:
        if name not in names:
            raise unknown_name("field of a training", name, names)
    if "recipe" not in given:
        raise InputError("no recipe. Give recipe='digits_cnn', or the name of a module of your own.")
    config = {name: json.dumps(value) if isinstance(value, Mapping) else value for name, value in given.items()}
    config["recipe"] = _recipe_name(config["recipe"])
    Config(**config)
    return config


def _recipe_name(recipe: Any) -> str:
    """The module of a recipe that is given as a class or a module; a name stays."""
    if isinstance(recipe, types.ModuleType):
        return recipe.__name__
    if isinstance(recipe, type):
        if recipe.__module__ == "__main__":
            raise InputError(f"recipe {recipe.__name__} is defined in the notebook. {_ADVICE}")
        if recipe.__name__ != "Recipe":
            raise InputError(f"recipe {recipe.__name__}: a recipe's file holds a class named Recipe. {_ADVICE}")
        return recipe.__module__
    if not isinstance(recipe, str):
        raise InputError(f"recipe={recipe!r:.80} is not a name. {_ADVICE}")
    return recipe


@contextmanager
def _meeting_point(processes: int) -> Generator[dict[str, str]]:
    """The variables by which the ranks find each other: at a store that lives here, as torchrun's agent has one, on a
    port that the kernel chooses and nobody else can take in between."""
    if processes == 1:
        yield {}
        return
    from torch.distributed import TCPStore

    store = TCPStore(LOCALHOST, 0, is_master=True, wait_for_workers=False)
    yield {
        "MASTER_ADDR": LOCALHOST,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    del store


class _Ranks:
    """The processes of one training."""

    def __init__(self, number: int, work: str, environment: Mapping[str, str], folder: Path) -> None:
        self.number, self.work, self.environment, self.folder = number, work, environment, folder
        self.processes: list[SpawnProcess] = []
        self.outputs: dict[Connection, int] = {}
        self.last: list[deque[str]] = [deque(maxlen=_LAST_LINES) for _ in range(number)]
        self.decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(number)]

    def start(self) -> None:
        for rank in range(self.number):
            environment = {
                **announce_parent(dict(self.environment)),
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(self.number),
                "LOCAL_WORLD_SIZE": str(self.number),
                ERROR_FILE: str(self._error_file(rank)),
            }
            receiver, sender = _SPAWN.Pipe(duplex=False)
            path = [entry or os.getcwd() for entry in sys.path]
            process = _SPAWN.Process(target=_run, args=(self.work, environment, path, sender))
            self.processes.append(process)
            self.outputs[receiver] = rank
            with _no_main():
                process.start()
            sender.close()  # a pipe ends when its process does

    def wait(self) -> list[Failure]:
        """Show what rank 0 prints until all have ended; who failed."""
        stop_at: float | None = None
        while running := [process.sentinel for process in self.processes if process.exitcode is None]:
            left = None if stop_at is None else max(0.0, stop_at - time.monotonic())
            self._show(wait([*self.outputs, *running], left))
            failures = self._failures()
            if failures and stop_at is None:
                # A rank that only lost another one is soon followed by the one with the reason.
                stop_at = time.monotonic() + (LEAVE_S if root_cause(failures).kind == "peer" else 0.0)
            elif stop_at is not None and time.monotonic() >= stop_at:
                self.stop()
        while self.outputs and (ready := wait([*self.outputs], 0)):  # what is left in the pipes
            self._show(ready)
        return self._failures()

    def stop(self) -> None:
        """End all that still run: SIGTERM, a grace, SIGKILL."""
        started = [process for process in self.processes if process.pid is not None]
        for process in started:
            if process.exitcode is None:
                process.terminate()
        deadline = time.monotonic() + LEAVE_S
        for process in started:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()

    def last_lines(self, rank: int) -> str:
        """The end of what a rank printed."""
        return "".join(self.last[rank]).rstrip()

    def _show(self, ready: Iterable[Any]) -> None:
        for connection in ready:
            if not isinstance(connection, Connection):  # a process that has ended
                continue
            rank = self.outputs[connection]
            data = os.read(connection.fileno(), 65536)
            text = self.decoders[rank].decode(data, final=not data)
            self.last[rank].extend(text.splitlines(keepends=True))
            if rank == 0 and text:
                sys.stdout.write(text)
                sys.stdout.flush()
            if not data:
                del self.outputs[connection]
                connection.close()

    def _failures(self) -> list[Failure]:
        return [
            from_rank(rank, process.exitcode, _json_or_none(self._error_file(rank)))
            for rank, process in enumerate(self.processes)
            if process.exitcode
        ]

    def _error_file(self, rank: int) -> Path:
        return self.folder / f"error-{rank}.json"


@contextmanager
def _no_main() -> Generator[None]:
    """A spawned process imports the file of its parent's __main__ again: here that is no file (a prompt, a notebook),
    or a script that would start everything once more. The ranks need nothing of it."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _run(work: str, environment: dict[str, str], path: list[str], output: Connection) -> None:
    """A rank: what drivetrain.training_scripts.train does, with its words from `work`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal; the parent decides
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    output.close()
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115  (for the process's life)
    sys.stderr = open(2, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.update(environment)  # before torch is imported, which reads some of them
    die_with_parent(signal.SIGKILL)
    sys.path[:] = path
    from drivetrain.training_scripts.failure import run_rank

    def program() -> None:
        from drivetrain.training_scripts.process import join_group
        from drivetrain.training_scripts.train import Config, Folders, train

        given = json.loads(work)
        folders = Folders(**{name: Path(folder) for name, folder in given["folders"].items()})
        with join_group() as process:
            train(Config(**given["config"]), folders, process)

    run_rank(program)


def _json_or_none(path: Path) -> Any:
    """A report's content; None where the process died before or while it wrote one."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
