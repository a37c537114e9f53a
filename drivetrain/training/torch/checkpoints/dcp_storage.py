"""The store as a storage of torch.distributed.checkpoint, for programs that call that themselves.

    import torch.distributed.checkpoint as dcp
    dcp.save(state, storage_writer=StoreWriter(open_place("checkpoints"), step=120))
    dcp.load(state, storage_reader=StoreReader(open_place("checkpoints")))        # the newest, or step=...

Planning and resharding are torch's. What is different from its own files: a checkpoint exists when its manifest does,
every byte is checked before it is used, and nothing is unpickled: the index is JSON, and so is what is no tensor
(torch's `.metadata` is neither written nor read). torch wraps what is raised here into a CheckpointException, which is
no Exception.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint import metadata as dcp
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places import Place
from drivetrain.training.checkpointing.store.manifest import FileEntry, Manifest, MissingError
from drivetrain.training.checkpointing.store.reading import check_places, read_checked, read_file
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer
from drivetrain.training.checkpointing.tensors.index import (
    INDEX_FILE,
    Chunk,
    Index,
    Sizes,
    merge,
    part_from_json,
    part_to_json,
)
from drivetrain.training.checkpointing.tensors.pieces import Piece, Read, check_dtype
from drivetrain.training.checkpointing.tensors.rank_file import RankFile, file_name
from drivetrain.training.torch.checkpoints.memory import copy_all, source_of, views


class StoreWriter(StorageWriter):
    """Writes the checkpoint of `step` into a place that all ranks share; `values` go into the manifest.

    Raises:
        InputError: something that is neither a tensor nor plain JSON; a planner that does not say what it is.
    """

    def __init__(self, place: Place, step: int, values: dict[str, Any] | None = None) -> None:
        self.store, self.step, self.values = Store(place), step, values or {}
        self._folder = ""

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            raise InputError(f"checkpoint_id={checkpoint_id!r}: a StoreWriter is told its place and step when made.")

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise InputError("use_collectives=False: the ranks of one checkpoint have to plan it together.")
        if is_coordinator:
            self._folder = self.store.begin(self.step)

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [
            replace(plan, storage_data=(self._folder, file_name(rank, len(plans)))) for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[list[WriteResult]]:
        folder, name = plan.storage_data
        values = {i.index.fqn: _plain(planner, i) for i in plan.items if i.type == WriteItemType.BYTE_IO}
        tensors = [item for item in plan.items if item.type != WriteItemType.BYTE_IO and not _piece(item).is_nothing]
        file = RankFile(name, [_piece(item) for item in tensors])
        buffer = HostBuffer(file.size, for_copies=False)
        file.write_header(buffer)
        copy_all(views(buffer, file.places), [_tensor(planner, item) for item in tensors])
        checksum = self.store.place.write(f"{folder}/{name}", buffer.view(file.size))
        told = {"file": [name, file.size, checksum], "part": part_to_json(file.part), "values": values}
        done: Future[list[WriteResult]] = Future()
        done.set_result([WriteResult(MetadataIndex(name), file.size, told)])
        return done

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        told = [result.storage_data for written in results for result in written]
        index = Index(
            merge(part_from_json(each["part"], each["file"][0]) for each in told),
            {name: value for each in told for name, value in each["values"].items()},
            metadata.planner_data or {},
        )
        data = index.to_bytes()
        entry = FileEntry(INDEX_FILE, len(data), self.store.place.write(f"{self._folder}/{INDEX_FILE}", data))
        files = (*(FileEntry(*each["file"]) for each in told), entry)
        self.store.commit(Manifest(step=self.step, files=files, values=self.values))

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return False  # torch is not to choose this storage by itself


class StoreReader(StorageReader):
    """Reads the checkpoint of `step`, or the newest one, of a place; of one that a training wrote, too.

    Raises:
        DamagedError: something differs from what was written; MissingError: there is no such checkpoint.
    """

    def __init__(self, place: Place, step: int | None = None) -> None:
        self.store, self.step = Store(place), step

    def reset(self, checkpoint_id: str | os.PathLike[str] | None = None) -> None:
        if checkpoint_id is not None:
            raise InputError(f"checkpoint_id={checkpoint_id!r}: a StoreReader is told its place and step when made.")

    def read_metadata(self) -> Metadata:  # pyright: ignore[reportIncompatibleMethodOverride]  (torch asks what it takes)
        steps = self.store.steps()
        if not steps:
            raise MissingError(f"there is no checkpoint in {self.store.place.uri}")
        step = steps[0] if self.step is None else self.step
        self._folder, self._manifest = self.store.folder(step), self.store.manifest(step)
        index = Index.from_bytes(read_checked(self.store.place, self._folder, self._manifest, INDEX_FILE))
        check_places(index, self._manifest)
        self._values = index.values
        return metadata_of(index)

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self._metadata = metadata

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        by_file: dict[str, list[Any]] = {}
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                # Planners unpickle what they are given. They are given a pickle that was made here, of plain JSON.
                stream = io.BytesIO()
                torch.save(self._values[item.storage_index.fqn], stream)
                stream.seek(0)
                planner.load_bytes(item, stream)
            else:
                by_file.setdefault(self._metadata.storage_data[item.storage_index].file, []).append(item)
        with self.store.place.reading(self._folder):
            for name, items in by_file.items():
                buffers = {name: read_file(self.store.place, self._folder, self._manifest, name)}
                for item in items:
                    target = planner.resolve_tensor(item).detach()
                    target.copy_(source_of(_read(item, self._metadata), buffers))
                    planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: str | os.PathLike[str]) -> bool:
        return False


def metadata_of(index: Index) -> Metadata:
    """torch's form of an index; `storage_data` maps each place to its `Chunk`."""
    tensors: dict[str, Any] = {name: dcp.BytesStorageMetadata() for name in index.values}
    places: dict[MetadataIndex, Chunk] = {}
    for name, entry in index.tensors.items():
        copies: dict[Sizes, Chunk] = {}
        for chunk in entry.chunks:
            copies.setdefault(chunk.offsets, chunk)
        places |= {MetadataIndex(name, offsets): chunk for offsets, chunk in copies.items()}
        tensors[name] = dcp.TensorStorageMetadata(
            dcp.TensorProperties(dtype=getattr(torch, entry.dtype)),
            torch.Size(entry.shape),
            [dcp.ChunkStorageMetadata(torch.Size(c.offsets), torch.Size(c.sizes)) for c in copies.values()],
        )
    return Metadata(tensors, planner_data=dict(index.paths), storage_data=places)


def _piece(item: WriteItem) -> Piece:
    data = item.tensor_data
    assert data is not None
    dtype = check_dtype(str(data.properties.dtype).removeprefix("torch."), item.index.fqn)
    return Piece(item.index.fqn, dtype, tuple(data.size), tuple(data.chunk.offsets), tuple(data.chunk.sizes))


def _read(item: ReadItem, metadata: Metadata) -> Read:
    described: Any = metadata.state_dict_metadata[item.storage_index.fqn]
    dtype = str(described.properties.dtype).removeprefix("torch.")
    boxes = map(tuple, (item.storage_offsets, item.dest_offsets, item.lengths))
    return Read(item.dest_index.fqn, metadata.storage_data[item.storage_index], dtype, *boxes)


def _tensor(planner: SavePlanner, item: WriteItem) -> Tensor:
    found = planner.resolve_data(item)
    assert isinstance(found, Tensor)
    return found.detach()


def _plain(planner: SavePlanner, item: WriteItem) -> Any:
    """A value that is no tensor, as it will be loaded. (A planner itself would give a pickle.)"""
    name = item.index.fqn
    if not isinstance(planner, DefaultSavePlanner):
        raise InputError(f"{name!r} is no tensor, and {type(planner).__name__} is no DefaultSavePlanner to ask for it.")
    value = planner.lookup_object(item.index)
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as problem:
        raise InputError(
            f"{name!r} is a {type(value).__name__} that JSON cannot hold ({problem}). Checkpoints keep tensors, and "
            "plain values: numbers, texts, lists, dicts."
        ) from None
