"""The checkpoints of other programs: what is listed of them, which tool made them, and what to do with them.

Only names, sizes and times are looked at: most such files are pickles, and reading a pickle runs the code in it. What
a file means, and whether it is whole, its own program knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from drivetrain.training.checkpointing import attempts
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.lock import LOCK_FILE
from drivetrain.training.checkpointing.store.sync_lag import is_mark

# A folder of the machine may be given by mistake, and be its largest.
_COUNTED = 20_000

_AS_WEIGHTS = (
    "To start a training from it, give it as the input `weights` (only tensors of it are made, by torch's restricted "
    "reader)."
)
_CONVERT = (
    "Where it was made: python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER weights.pt, and give "
    "weights.pt as the input `weights`."
)

# The weights' files of Hugging Face's transformers; of more than one file each where the model is large.
_TRANSFORMERS = ("model.safetensors", "pytorch_model.bin")


@dataclass(frozen=True, kw_only=True)
class OwnFile:
    """A file at the top of the place, or a folder with all that is in it (its `name` ends with a slash).

    `modified` is the latest change in seconds since the epoch. `files` and `bytes` are None of a folder that holds too
    many files to be counted, `modified` where nothing tells it.
    """

    name: str
    files: int | None
    bytes: int | None
    modified: float | None


def own_files(uri: str) -> list[OwnFile]:
    """List the top of a place: by the numbers in the names, the highest first; then names without a number.

    Nothing where there are no files.
    """
    found = _in_store(uri) if "://" in uri else list(_in_folder(Path(uri)))
    if not any(each.files != 0 for each in found):
        return []
    return sorted(sorted(found, key=lambda each: each.name), key=lambda each: _numbers(each.name), reverse=True)


def is_ours(names: Iterable[str]) -> bool:
    """Return True if a training of ours has begun in a place or in a folder of it, by the names there."""
    own = {LOCK_FILE, attempts.FOLDER}
    return any(part in own for name in names for part in name.split("/")[:2])


def _in_folder(folder: Path) -> Iterator[OwnFile]:
    left = _COUNTED
    for entry in list(os.scandir(folder)):
        if is_mark(entry.name):
            continue
        try:
            itself = entry.stat(follow_symlinks=False)
        except FileNotFoundError:  # its program was quicker
            continue
        if not entry.is_dir(follow_symlinks=False):
            yield OwnFile(name=entry.name, files=1, bytes=itself.st_size, modified=itself.st_mtime)
            continue
        held = list(islice(_below(entry.path), left + 1))
        too_many = len(held) > left
        left = max(0, left - len(held))
        yield OwnFile(
            name=f"{entry.name}/",
            files=None if too_many else len(held),
            bytes=None if too_many else sum(file.st_size for file in held),
            modified=max((file.st_mtime for file in held), default=itself.st_mtime),
        )


def _below(folder: str) -> Iterator[os.stat_result]:
    """The stat result of each file below a folder; unreadable ones are skipped."""
    for path, _, names in os.walk(folder):
        for name in names:
            if is_mark(name):
                continue
            try:
                yield os.lstat(os.path.join(path, name))
            except FileNotFoundError:
                continue


def _in_store(uri: str) -> list[OwnFile]:
    place: Any = open_place(uri)
    sizes: dict[str, int] = place.names()
    moments: dict[str, float] = {}
    by_top: dict[str, list[str]] = {}
    for name in sizes:
        top, slash, _ = name.partition("/")
        if not is_mark(name):
            by_top.setdefault(top + slash, []).append(name)
    if (arrived_at := getattr(place, "arrived_at", None)) is not None:
        moments = arrived_at("")
    return [
        OwnFile(
            name=top,
            files=len(names),
            bytes=sum(sizes[name] for name in names),
            modified=max((moments[name] for name in names if name in moments), default=None),
        )
        for top, names in by_top.items()
    ]


def _numbers(name: str) -> tuple[int, ...]:
    """The numbers in a name, without its ending: `epoch=3-step=120.ckpt` is (3, 120)."""
    return tuple(map(int, re.findall(r"\d+", Path(name).stem, re.ASCII)))


def described(names: Iterable[str]) -> str | None:
    """If another tool made the files of a place: a sentence that names it, the reason, and what to do."""
    paths = [PurePosixPath(name) for name in names]
    files = {path.name for path in paths}
    endings = {path.suffix for path in paths}
    if ".metadata" in files or ".distcp" in endings:
        return (
            "a checkpoint of torch.distributed.checkpoint, whose .metadata is a pickle, and no pickle is read here. "
            f"{_CONVERT}"
        )
    if "zero_to_fp32.py" in files or any(name.endswith("_model_states.pt") for name in files):
        return (
            "a checkpoint of DeepSpeed, which is made of pickles, and no pickle is read here. Where it was made, run "
            "its zero_to_fp32.py, and give the result as the input `weights`."
        )
    if ".ckpt" in endings:
        return f"a checkpoint of Lightning (.ckpt), which is a pickle, and no pickle is read here. {_AS_WEIGHTS}"
    if "trainer_state.json" in files:
        return (
            "a checkpoint of Hugging Face's Trainer; its state is made of pickles, and no pickle is read here. "
            f"{_advice(files)}"
        )
    if {"model.json", "model.safetensors"} <= files or "model.tar.gz" in files:
        return "a model that a training handed on, and no checkpoint. Evaluate it, or give it as the input `weights`."
    if "config.json" in files and files.intersection(_TRANSFORMERS):
        return f"a model of Hugging Face's transformers, and no checkpoint. {_advice(files)}"
    if endings & {".pt", ".pth", ".bin"}:
        return f"files of torch.save, which are pickles, and no pickle is read here. {_AS_WEIGHTS}"
    if endings & {".keras", ".h5"} or ("checkpoint" in files and ".index" in endings):
        return "a checkpoint of Keras or TensorFlow that was not committed through the store."
    return None


def _advice(files: Collection[str]) -> str:
    """Advice on weights that transformers wrote, by the files that are there."""
    for name in _TRANSFORMERS:
        if name in files:
            return f"Give its {name} as the input `weights`."
    return "Put its weights into one file where it was made, and give that as the input `weights`."
