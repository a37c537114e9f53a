"""The platform's input of a task, and the words of the task's document as text."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.base.file_locks import hold

DOCUMENT = "DRIVETRAIN_TASK"
OBJECT_STORE, EXECUTION = "DRIVETRAIN_OBJECT_STORE", "DRIVETRAIN_EXECUTION"
# The program of a step that registers a model.
REGISTER = "drivetrain.components.register_model:register_model"
# Where a node of a TrainJob, which KFP brings nothing, keeps its copies of objects.
COPIES = "DRIVETRAIN_COPIES"
# Where KFP's own library has the objects of a scheme (kfp.dsl.types.artifact_types).
_FOLDERS = {"s3": "/s3/", "minio": "/minio/", "gs": "/gcs/"}

# A task's own folder; one that is older than this, and that no process holds, was left by one that was killed.
_FOLDER, _STALE_S = "drivetrain-task-", 86_400
# KFP keeps outputs at ROOT/PIPELINE/RUN/TASK/..., and a run's id is a UUID.
_RUN = re.compile(r"/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/")

Json = dict[str, Any]


class TaskError(ValueError):
    """The task cannot run, or has not made what it promises; the message says what was found and what to do."""


class RetryError(TaskError):
    """The task cannot go on now; another attempt may."""


class Task:
    """The platform's input of a task, and the task's document."""

    def __init__(self, executor_input: str, document: str) -> None:
        self.executor_input = executor_input
        try:
            given = cast(Json, json.loads(executor_input))
            self.document = cast(Json, json.loads(document))
        except ValueError as error:
            raise TaskError(f"the executor input, or ${DOCUMENT}, is not JSON: {error}.") from None
        inputs, self.outputs = given.get("inputs", {}), given["outputs"]
        self.parameters: Json = inputs.get("parameterValues", {})
        self.artifacts: dict[str, list[Json]] = {
            name: found.get("artifacts", []) for name, found in inputs.get("artifacts", {}).items()
        }
        # The platform gives outputs of its own, too: executor-logs is a file that its launcher writes.
        outputs: Json = self.outputs.get("artifacts", {})
        named = self.document.get("outputs") or self.document.get("select", {}).get("outputs", ())
        self.made: dict[str, Json] = {name: outputs[name]["artifacts"][0] for name in named}
        # tempfile takes longer to import than all of this
        self._folder = Path(os.environ.get("TMPDIR") or "/tmp", f"{_FOLDER}{os.urandom(8).hex()}")
        self._lock: int | None = None

    @property
    def folder(self) -> Path:
        """This process's own, made when it is needed: for links to inputs, and the reason of a failure. It is held by a
        lock, which ends with the process, and its forks, however they end."""
        if self._lock is None:
            self._folder.mkdir(mode=0o700)
            self._lock = os.open(self._folder, os.O_RDONLY)
            hold(self._lock, fcntl.LOCK_EX)
        return self._folder

    def clean_up(self) -> None:
        """Remove its folder, and those beside it that killed processes have left."""
        if self._lock is None:
            return
        _remove(self._folder)
        os.close(self._lock)
        self._lock = None
        for left in self._folder.parent.glob(f"{_FOLDER}*"):
            with contextlib.suppress(OSError):  # another process's, or another user's
                if time.time() - left.stat().st_mtime > _STALE_S:
                    _remove_unheld(left)

    @property
    def step(self) -> str:
        return str(self.document.get("step", "task"))

    @property
    def run(self) -> str:
        """The run's id, as the places of its outputs have it: told as a parameter it would be part of the cache's key;
        "" where nothing is made."""
        ids = (_RUN.search(str(artifact["uri"])) for artifact in self.made.values())
        return next((found[1] for found in ids if found), "")

    @property
    def output_file(self) -> Path:
        """The file from which the platform reads the task's outputs."""
        return Path(self.outputs["outputFile"])

    def text(self, word: Any) -> str:
        """A word of the document as text.

        Raises:
            TaskError: it names what the task is not given.
        """
        if isinstance(word, str):
            return word
        kind = next(iter(word))
        value = word[kind]
        if kind == "join":
            return str(value[0]).join(self.text(part) for part in value[1])
        if kind == "place":
            uri = self.text(value)
            return str(local_path(uri)) if OBJECT_STORE in os.environ else uri
        if kind == "parameter":
            return self._parameter(value, word)
        if kind == "output":
            return str(local_path(self.made[value]["uri"]))
        if value not in self.artifacts or not self.artifacts[value]:
            raise TaskError(f"the task has no input {value!r}. It has {', '.join(self.artifacts) or 'nothing'}.")
        uri = str(self.artifacts[value][0]["uri"])
        return stored(uri) if kind == "uri" else str(self._input(value, local_path(uri)))

    def option(self, word: Any) -> list[str]:
        """The words of an argument: an option with its value, joined by `=` where that would be taken for an option."""
        if not (isinstance(word, dict) and "option" in word):
            return [self.text(word)]
        flag, value = cast("list[Any]", word["option"])
        text = self.text(value)
        return [f"{flag}={text}"] if text.startswith("-") else [flag, text]

    def _parameter(self, name: str, word: Mapping[str, Any]) -> str:
        if name == "execution" and EXECUTION in os.environ:
            return os.environ[EXECUTION]
        if name not in self.parameters:
            raise TaskError(f"the task has no parameter {name!r}. It has {', '.join(self.parameters)}.")
        return spelled(self.parameters[name], str(word["type"]), str(word.get("path", "")))

    def _input(self, name: str, path: Path) -> Path:
        """The folder of an input. As SageMaker has it, a single file is put into one, and what a training made comes
        as an archive."""
        archive = self.document.get("archives", {}).get(name)
        if not path.is_file() and archive is None:
            return path
        folder = self.folder / "inputs" / name
        folder.mkdir(parents=True, exist_ok=True)
        if archive is not None:
            if not (folder / archive).exists():
                from drivetrain.base.archive import write

                files = (file for file in path.rglob("*") if file.is_file())
                write(((file.relative_to(path).as_posix(), file) for file in files), folder / archive)
            return folder
        link = folder / path.name
        if not link.is_symlink():
            link.symlink_to(path)
        return folder


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    folder.rmdir()


def _remove_unheld(folder: Path) -> None:
    """
    Raises:
        BlockingIOError: a process holds it.
        OSError: the file system has no locks, so it is unknown.
    """
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(held)


def local_path(uri: str) -> Path:
    """The path of an object or folder on this machine."""
    scheme, mark, key = uri.partition("://")
    if not mark:
        return Path(uri)
    if scheme == "s3" and (store := os.environ.get(OBJECT_STORE)):
        return Path(store) / key
    if scheme in ("s3", "minio") and (copies := os.environ.get(COPIES)):
        return Path(copies) / key
    if scheme not in _FOLDERS:
        raise TaskError(f"{uri} has a scheme that tasks cannot read. Allowed: {', '.join(_FOLDERS)}, and plain paths.")
    return Path(_FOLDERS[scheme] + key)


def stored(uri: str) -> str:
    """The s3:// URI that a path of the object store on this machine stands for; anything else as it is."""
    store = os.environ.get(OBJECT_STORE)
    return f"s3://{Path(uri).relative_to(store).as_posix()}" if store and Path(uri).is_relative_to(store) else uri


def spelled(value: Any, type: str, path: str = "") -> str:
    """A parameter's value as text. The platform has every number as a double, so the declared type decides.

    Args:
        path: of a field, `a.b`, where the value is an object's JSON text.
    """
    if type == "JSON":
        found = json.loads(value)
        return found if isinstance(found, str) else str(value)
    if path:
        found = json.loads(value)
        for key in path.split("."):
            found = found[int(key) if isinstance(found, list) else key]
        value = found
        type = "" if not isinstance(value, str) else "String"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(int(value)) if type == "Integer" else repr(float(value) if type == "Float" else value)
