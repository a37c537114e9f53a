"""torch's own dcp.save and dcp.load, with the store as their storage."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.api import CheckpointException

from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.tensors.index import Chunk, Index, TensorEntry
from drivetrain.training.torch.checkpoints.dcp_storage import StoreReader, StoreWriter, metadata_of

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled", "ignore:.*single process")


def state(fill: float = 0.0) -> dict[str, Any]:
    return {
        "model": {"w": torch.full((4, 3), fill), "b": torch.full((3,), fill, dtype=torch.bfloat16)},
        "optimizer": {
            "state": {"w": {"step": torch.tensor(fill)}},
            "param_groups": [{"lr": fill, "betas": [0.9, fill]}],
        },
        "epoch": int(fill),
        "name": str(fill),
    }


def save(folder: Path, step: int) -> None:
    dcp.save(state(float(step)), storage_writer=StoreWriter(FolderPlace(folder), step))


def load(folder: Path, step: int | None = None) -> dict[str, Any]:
    found = state()
    dcp.load(found, storage_reader=StoreReader(FolderPlace(folder), step))
    return found


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return one == other


def test_round_trip(tmp_path: Path) -> None:
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert same(load(tmp_path), state(2.0))
    assert same(load(tmp_path, step=1), state(1.0))
    assert sorted(p.name for p in (tmp_path / "step-00000002").iterdir()) == [
        "index.json",
        "manifest.json",
        "rank-00000-of-00001.safetensors",
    ]


def refused(exception: pytest.ExceptionInfo[CheckpointException]) -> str:
    return "\n".join(str(error) for error, _ in exception.value.failures.values())


@pytest.mark.parametrize("file", ["rank-00000-of-00001.safetensors", "index.json", "manifest.json"])
def test_a_flipped_bit_is_an_error(file: str, tmp_path: Path) -> None:
    save(tmp_path, 1)
    path = tmp_path / "step-00000001" / file
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointException) as found:
        load(tmp_path)
    assert "differs from its" in refused(found) or "not a whole manifest" in refused(found)


def test_torchs_own_metadata_is_never_read(tmp_path: Path) -> None:
    class Poison:
        def __reduce__(self) -> tuple[Any, ...]:
            return Path.mkdir, (tmp_path / "owned",)

    save(tmp_path, 1)
    for name in (".metadata", "step-00000001/.metadata", "step-00000001/__0_0.distcp"):
        (tmp_path / name).write_bytes(pickle.dumps(Poison()))
    assert same(load(tmp_path), state(1.0))
    assert not (tmp_path / "owned").exists()


def test_objects_that_json_cannot_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointException) as found:
        dcp.save({"model": object()}, storage_writer=StoreWriter(FolderPlace(tmp_path), 1))
    assert "'model' is a object that JSON cannot hold" in refused(found)
    assert not list(tmp_path.rglob("manifest.json"))


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(CheckpointException) as found:
        load(tmp_path)
    assert "there is no checkpoint" in refused(found)


def test_the_metadata_for_the_plans_of_torch() -> None:
    halves = tuple(Chunk((2 * rank, 0), (2, 3), f"rank-{rank}", 4096, 24) for rank in (0, 1))
    index = Index({"w": TensorEntry("float32", (4, 3), halves)}, {"epoch": 3}, {"w": ("model", 0)})
    metadata = metadata_of(index)
    (tensor,) = [found for name, found in metadata.state_dict_metadata.items() if name == "w"]
    assert (tensor.size, tensor.properties.dtype) == (torch.Size([4, 3]), torch.float32)  # type: ignore[union-attr]
    assert list(metadata.storage_data.values()) == list(halves)
    assert metadata.planner_data["w"] == ("model", 0)
