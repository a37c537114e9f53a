from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors.index import (
    Chunk,
    Index,
    TensorEntry,
    merge,
    part_from_json,
    part_to_json,
)

HALVES = tuple(Chunk((2 * rank, 0), (2, 3), f"rank-{rank}", 4096, 24) for rank in (0, 1))
INDEX = Index({"w": TensorEntry("float32", (4, 3), HALVES)})


def test_round_trip() -> None:
    assert Index.from_bytes(INDEX.to_bytes()) == INDEX
    (name, entry), *_ = part_from_json(json.loads(json.dumps(part_to_json(INDEX.tensors))), "rank-9").items()
    assert name == "w"
    assert {chunk.file for chunk in entry.chunks} == {"rank-9"}
    assert [chunk.offsets for chunk in entry.chunks] == [(0, 0), (2, 0)]


def test_missing_tensors_are_an_error() -> None:
    index = Index({"whole": TensorEntry("int8", (), (Chunk((), (), "a", 0, 1),)), "w": INDEX.tensors["w"]})
    assert index.incomplete() is None
    half = Index({"w": TensorEntry("float32", (4, 3), (HALVES[1], HALVES[1]))})
    assert half.incomplete() == "w: 6 of 12 numbers"


def test_ranks_that_contradict_each_other() -> None:
    parts: list[dict[str, TensorEntry]] = [
        {"w": TensorEntry("float32", (4, 3), HALVES[:1])},
        {"w": TensorEntry("float32", (4, 4), HALVES[1:])},
    ]
    with pytest.raises(ValueError, match=r"w is float32 \[4, 3\] on one rank and float32 \[4, 4\] on another"):
        merge(parts)


def changed(**change: Any) -> bytes:
    document = json.loads(INDEX.to_bytes())
    document["tensors"]["w"]["chunks"][1] |= change
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        pickle.dumps({"tensors": {}}),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        INDEX.to_bytes().replace(b'"format":1', b'"format":2'),
        INDEX.to_bytes().replace(b"float32", b"object"),
        changed(offsets=[3, 0]),
        changed(offsets=[-1, 0]),
        changed(offsets=[0]),
        changed(offsets=[True, 0]),
        changed(sizes=[2.0, 3]),
        changed(sizes="23"),
        changed(length=23),
        changed(start=-1),
        changed(start=None),
        changed(file=7),
    ],
)
def test_an_invalid_index_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedError):
        Index.from_bytes(data)
