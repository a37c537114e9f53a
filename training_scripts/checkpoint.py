"""Checkpoints: a folder a step, which counts only once its manifest is there.

    <folder>/step-00000046/{model.safetensors, optimizer.safetensors, state.json, manifest.json}

Files first, then fsync, then the manifest with their sizes and checksums, by rename. A process that is killed at any
instant leaves the earlier checkpoints as they were and at most one folder without a manifest, which the next save of
that step replaces. Nothing is pickled: reading a checkpoint runs no code.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as parse_tensors
from safetensors.torch import save as tensor_bytes
from torch import Tensor

from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.process import Process

MANIFEST_FILE = "manifest.json"
FORMAT = 1
# The newest could turn out unreadable (a disk that lies, a copy that stopped half-way): keep what came before it.
KEEP = 3

State = dict[str, Any]
Tensors = Mapping[str, Tensor]


class CheckpointFolder:
    """The checkpoints of one training; `folder` is made when the first one is saved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, step: int, state: State, **tensors: Tensors) -> Path:
        """Write the checkpoint of `step` (called on rank 0 only); returns its folder once it is durable.

        Args:
            step: optimizer steps taken; orders the checkpoints.
            state: plain JSON values.
            tensors: groups of named tensors, one file each: `model=`, `optimizer=`.
        """
        target = self.folder / f"step-{step:08d}"
        shutil.rmtree(target, ignore_errors=True)  # what an interrupted save left
        target.mkdir(parents=True)
        contents = {"state.json": json.dumps(state, indent=1, allow_nan=False).encode()}
        contents |= {f"{name}.safetensors": tensor_bytes(_detached(group)) for name, group in tensors.items()}
        listing: list[State] = []
        for name, data in contents.items():
            _write_durably(target / name, data)
            listing.append({"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})
        _sync(target)
        manifest = {"format": FORMAT, "step": step, "files": listing}
        partial = target / (MANIFEST_FILE + ".partial")
        _write_durably(partial, json.dumps(manifest, indent=1).encode())
        partial.rename(target / MANIFEST_FILE)
        _sync(target)
        _sync(self.folder)
        for _, old in self._found()[KEEP:]:
            shutil.rmtree(old)
        return target

    def newest(self) -> tuple[Path, dict[str, bytes]] | None:
        """The newest checkpoint that is whole, by step number, with its files; damaged ones are named and passed by."""
        for step, folder in self._found():
            try:
                return folder, _read(folder, step)
            except (OSError, ValueError, KeyError, TypeError) as problem:
                print(f"checkpoint {folder} is not usable ({problem}); looking for an older one", flush=True)
        return None

    def _found(self) -> list[tuple[int, Path]]:
        """Folders with a manifest, newest first: by number, never by name (step-9 < step-12) or time."""
        found: list[tuple[int, Path]] = []
        for path in self.folder.glob("step-*") if self.folder.is_dir() else ():
            match = re.fullmatch(r"step-(\d+)", path.name)
            if match and (path / MANIFEST_FILE).is_file():
                found.append((int(match.group(1)), path))
        return sorted(found, reverse=True)


def load_newest(checkpoints: CheckpointFolder, process: Process) -> tuple[State, dict[str, dict[str, Tensor]]] | None:
    """The newest whole checkpoint's state and groups of tensors (on the CPU), or None; the same on every rank.

    Rank 0 reads and the others receive, so that hosts need not share the folder. Every rank must call this.

    Raises:
        InputError: a manifest that vouches for files which no training wrote.
    """
    found = checkpoints.newest() if process.is_main else None
    names = [*found[1]] if found else []
    names = json.loads(process.broadcast_bytes(json.dumps(names).encode() if process.is_main else None))
    if not names:
        return None
    files = {name: process.broadcast_bytes(found[1][name] if found else None) for name in names}
    if found:
        print(f"resuming from {found[0]}", flush=True)
    try:
        state = json.loads(files.pop("state.json"))
        return state, {name.removesuffix(".safetensors"): parse_tensors(data) for name, data in files.items()}
    except (ValueError, RecursionError, SafetensorError) as problem:
        place = found[0] if found else "the newest checkpoint"
        raise InputError(
            f"{place} holds what no training wrote, though its manifest vouches for it ({problem}). Remove it, and "
            "find out who wrote it."
        ) from None


def _detached(tensors: Tensors) -> dict[str, Tensor]:
    # A copy each: safetensors refuses tensors that share memory, as tied weights do.
    return {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}


def _read(folder: Path, step: int) -> dict[str, bytes]:
    manifest = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    if manifest["format"] != FORMAT or manifest["step"] != step:
        raise ValueError(f"{MANIFEST_FILE} is of format {manifest['format']}, step {manifest['step']}")
    files: dict[str, bytes] = {}
    for entry in manifest["files"]:
        name = Path(entry["file"]).name  # never a path: the manifest came from elsewhere
        data = (folder / name).read_bytes()
        if len(data) != entry["bytes"] or hashlib.sha256(data).hexdigest() != entry["sha256"]:
            raise ValueError(f"{name} differs from its checksum")
        files[name] = data
    if "state.json" not in files:
        raise ValueError("it has no state.json")
    return files


def _write_durably(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
