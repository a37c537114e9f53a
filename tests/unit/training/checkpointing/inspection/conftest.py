"""Checkpoints as a training writes them, made by hand: no torch, any cut of any tensor."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors.index import Chunk, Index, TensorEntry
from tests.unit.training.checkpointing.inspection.program import TENSORS, Program

Box = tuple[tuple[int, ...], tuple[int, ...]]  # offsets, sizes
DESCRIPTION = {"recipe": "digits_cnn", "recipe_options": {}, "precision": "fp32", "training": {"epochs": 3}}


class Made:
    """A training's checkpoint folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = Store(open_place(folder))

    def save(
        self,
        step: int,
        tensors: Mapping[str, tuple[Sequence[float], tuple[int, ...], Sequence[Box]]] | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
        state: Mapping[str, Any] | None = None,
        index: bool = True,
        **values: Any,
    ) -> Path:
        """Commit a checkpoint of float32 tensors: name -> (numbers, shape, boxes); box number i lies in file i."""
        folder = self.store.begin(step)
        tensors = tensors or {"model/0.weight": ([1.0, 2.0, 3.0, 4.0], (2, 2), [((0, 0), (2, 2))])}
        parts: dict[str, bytearray] = {}
        entries: dict[str, TensorEntry] = {}
        for name, (numbers, shape, boxes) in tensors.items():
            chunks: list[Chunk] = []
            for number, (offsets, sizes) in enumerate(boxes):
                file = f"rank-{number:05d}-of-{len(boxes):05d}.safetensors"
                data = parts.setdefault(file, bytearray(b"head"))
                box = struct.pack(f"<{math.prod(sizes)}f", *_box(numbers, shape, offsets, sizes))
                chunks.append(Chunk(offsets, sizes, file, len(data), len(box)))
                data += box
            entries[name] = TensorEntry("float32", shape, tuple(chunks))
        files = {name: bytes(data) for name, data in parts.items()}
        files["state.json"] = json.dumps({"step": step, "description": DESCRIPTION, **(state or {})}).encode()
        if index:
            files["index.json"] = Index(entries).to_bytes()
        listed = [
            FileEntry(name, len(data), self.store.place.write(f"{folder}/{name}", data)) for name, data in files.items()
        ]
        described = {
            "world_size": 2,
            "strategy": {"name": "fsdp", "shard": 2},
            "config": {"monitor": "validation_loss", "epochs": 3},
            "saved_at": "2026-11-20T12:00:00+00:00",
            "metrics": dict(metrics or {}),
            **values,
        }
        self.store.commit(Manifest(step=step, files=tuple(listed), values=described))
        return self.folder / folder

    def files(self) -> dict[str, bytes]:
        """Everything that lies in the folder."""
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }


def _box(numbers: Sequence[float], shape: tuple[int, ...], offsets: Sequence[int], sizes: Sequence[int]) -> list[float]:
    """A box of a tensor that is given row by row."""
    if not shape:
        return list(numbers)
    inner = math.prod(shape[1:])
    found: list[float] = []
    for row in range(offsets[0], offsets[0] + sizes[0]):
        found += _box(numbers[row * inner : (row + 1) * inner], shape[1:], offsets[1:], sizes[1:])
    return found


def damage(path: Path, at: int = -1) -> None:
    """Flip one bit."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "checkpoints" / "1f2e-3d4c")


@pytest.fixture
def flip() -> Any:
    return damage


@pytest.fixture
def program(capsys: pytest.CaptureFixture[str]) -> Program:
    return Program(capsys)


@pytest.fixture
def three(made: Made) -> Made:
    """Three good checkpoints; the second has the best loss."""
    made.save(10, TENSORS, metrics={"train_loss": 1.5, "validation_loss": 0.5, "epoch": 1, "step": 10})
    made.save(20, TENSORS, metrics={"train_loss": 1.25, "validation_loss": 0.25, "epoch": 2, "step": 20})
    made.save(100, TENSORS, metrics={"validation_loss": 0.375, "epoch": 2, "step": 90}, finished=True)
    return made
