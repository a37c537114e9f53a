"""Who writes which box of a tensor, and which boxes fill those that a rank wants: held against torch's own planning."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from torch.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import ReadItem, SavePlan, TensorWriteData, WriteItem, WriteItemType
from torch.distributed.checkpoint.planner_helpers import create_read_items_for_chunk_list

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.tensors.index import DTYPES, Chunk, Index, TensorEntry
from drivetrain.training.checkpointing.tensors.pieces import Piece, Read, check_dtype, reads_of, uncovered
from drivetrain.training.checkpointing.tensors.plans import share_out
from drivetrain.training.group import Group

Sizes = tuple[int, ...]


def boxes(shape: Sizes, cuts: list[list[int]]) -> list[tuple[Sizes, Sizes]]:
    """The boxes of a grid: offsets and sizes of each."""
    found: list[tuple[Sizes, Sizes]] = [((), ())]
    for size, own in zip(shape, cuts, strict=True):
        ends = sorted({0, size, *(cut % (size + 1) for cut in own)})
        found = [((*o, a), (*s, b - a)) for o, s in found for a, b in itertools.pairwise(ends)]
    return found


@st.composite
def grids(draw: Any) -> tuple[Sizes, list[tuple[Sizes, Sizes]], list[tuple[Sizes, Sizes]]]:
    """A shape, cut in two ways."""
    shape = tuple(draw(st.lists(st.integers(1, 9), min_size=0, max_size=3)))
    cuts = [[draw(st.lists(st.integers(0, 9), max_size=2)) for _ in shape] for _ in range(2)]
    return shape, boxes(shape, cuts[0]), boxes(shape, cuts[1])


def saved(shape: Sizes, parts: list[tuple[Sizes, Sizes]]) -> Index:
    chunks = tuple(
        Chunk(offsets, sizes, f"rank-{number}", 4096, 4 * math.prod(sizes))
        for number, (offsets, sizes) in enumerate(parts)
    )
    return Index({"w": TensorEntry("float32", shape, chunks)})


def files_of(index: Index) -> set[str]:
    return {chunk.file for entry in index.tensors.values() for chunk in entry.chunks}


@given(grids())
def test_pieces_are_read_as_torch_plans(grid: Any) -> None:
    shape, there, wanted = grid
    index = saved(shape, there)
    chunks = [ChunkStorageMetadata(torch.Size(o), torch.Size(s)) for o, s in there]
    known = TensorStorageMetadata(TensorProperties(), torch.Size(shape), chunks)
    for offsets, sizes in wanted:
        pieces = {"w": Piece("w", "float32", shape, offsets, sizes)}
        reads = reads_of(pieces, index, files_of(index), lambda copies: copies[0])
        assert uncovered(reads, pieces) is None
        target = ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes))
        expected = {
            (
                tuple(item.storage_index.offset or ()),
                *map(tuple, (item.storage_offsets, item.dest_offsets, item.lengths)),
            )
            for item in create_read_items_for_chunk_list("w", known, [target])
        }
        assert {(read.chunk.offsets, read.source, read.target, read.lengths) for read in reads} == expected


def boxes_of(item: ReadItem) -> list[Sizes]:
    return [tuple(item.storage_offsets), tuple(item.dest_offsets), tuple(item.lengths)]


class Told(Group):
    """Rank 0 of several whose pieces are known."""

    rank, timeout = 0, 0.0

    def __init__(self, given: list[list[Piece]]) -> None:
        self.size, self._given, self.dealt = len(given), given, list[bytes]()

    def twin(self, timeout: float | None = None) -> Group:
        raise NotImplementedError

    def to_main(self, data: bytes) -> list[bytes]:
        return [
            json.dumps([[p.name, p.dtype, p.shape, p.offsets, p.sizes] for p in own]).encode() for own in self._given
        ]

    def deal(self, parts: Any) -> bytes:
        self.dealt = list(parts)
        return self.dealt[0]

    def send(self, data: bytes) -> None:
        raise NotImplementedError

    def receive(self, rank: int) -> bytes:
        raise NotImplementedError


@st.composite
def holdings(draw: Any) -> list[list[Piece]]:
    """What each of some ranks holds: whole tensors, the same on all; slices, each on some of them."""
    ranks = draw(st.integers(1, 4))
    held: list[list[Piece]] = [[] for _ in range(ranks)]
    for number in range(draw(st.integers(1, 8))):
        rows = draw(st.integers(1, 5000))
        dtype = draw(st.sampled_from(["float32", "float64", "int64"]))
        sliced = draw(st.booleans())
        for rank in range(ranks):
            if not sliced:
                held[rank].append(Piece.whole(f"t{number}", dtype, (rows, 4)))
            elif number % 2 == 0 or rank % 2 == 0:  # of two ranks, which may be replicas, a half each
                half = rank // 2 % 2
                start, size = half * (rows // 2), rows - rows // 2 if half else rows // 2
                if size:
                    held[rank].append(Piece(f"t{number}", dtype, (rows, 4), (start, 0), (size, 4)))
    return held


@given(holdings())
def test_each_piece_is_written_where_torch_has_it_written(held: list[list[Piece]]) -> None:
    group = Told(held)
    assert share_out(held[0], group, [0] * len(held)) == [held[0][n] for n in json.loads(group.dealt[0])]
    chosen = [{held[rank][n] for n in json.loads(numbers)} for rank, numbers in enumerate(group.dealt)]
    for rank, plan in enumerate(dedup_save_plans([SavePlan([item(piece) for piece in own]) for own in held])):
        kept = {(each.index.fqn, tuple(each.index.offset or ())) for each in plan.items}
        besides = {piece for piece in chosen[rank] if (piece.name, piece.offsets) not in kept}
        assert {(piece.name, piece.offsets) for piece in chosen[rank]} >= kept
        # Ranks that hold slices keep what is small and whole as well.
        assert all(not piece.is_slice and piece.num_bytes <= 16 << 10 for piece in besides)
        assert not besides or any(piece.is_slice for piece in held[rank])


def item(piece: Piece) -> WriteItem:
    chunk = ChunkStorageMetadata(torch.Size(piece.offsets), torch.Size(piece.sizes))
    properties = TensorProperties(dtype=getattr(torch, piece.dtype))
    data = TensorWriteData(chunk, properties, torch.Size(piece.shape))
    return WriteItem(MetadataIndex(piece.name, torch.Size(piece.offsets)), WriteItemType.SHARD, tensor_data=data)


def test_ranks_of_other_folders_each_write_all() -> None:
    whole = Piece.whole("w", "float32", (8,))
    group = Told([[whole], [whole], [whole]])
    share_out([whole], group, [0, 0, 2])
    assert [json.loads(part) for part in group.dealt] == [[0], [], [0]]


def test_a_local_copy_of_several_is_used() -> None:
    index = saved((4,), [((0,), (2,)), ((2,), (2,)), ((0,), (2,))])
    wanted = {"w": Piece.whole("w", "float32", (4,))}

    def files(here: set[str], place: int) -> list[str]:
        return [read.chunk.file for read in reads_of(wanted, index, here, lambda copies: copies[place])]

    assert files(files_of(index), 0) == ["rank-0", "rank-1"]
    assert files(files_of(index), -1) == ["rank-2", "rank-1"]
    assert files({"rank-1", "rank-2"}, 0) == ["rank-1", "rank-2"]


def test_missing_pieces_are_noticed() -> None:
    index = saved((4,), [((0,), (2,)), ((2,), (2,))])
    wanted = {"w": Piece.whole("w", "float32", (4,))}
    reads = reads_of(wanted, index, {"rank-0"}, lambda copies: copies[0])
    first = index.tensors["w"].chunks[0]
    assert reads == [Read("w", first, "float32", (0,), (0,), (2,))]
    assert uncovered(reads, wanted) == "w"


def test_an_empty_slice_is_nothing_and_an_empty_tensor_is_one() -> None:
    assert Piece("w", "float32", (4,), (4,), (0,)).is_nothing
    assert not Piece.whole("w", "float32", (0, 4)).is_nothing
    assert Piece("w", "float32", (4, 2), (2, 0), (2, 2)).key == "w[2:4, 0:2]"


def test_numbers_that_no_file_can_hold() -> None:
    assert {check_dtype(name, "w") for name in DTYPES} == set(DTYPES)
    with pytest.raises(InputError, match=r"tensor 'z' is of complex64; checkpoints take float64, "):
        check_dtype("complex64", "z")
