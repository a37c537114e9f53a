"""Against the safetensors library itself: the same tensors, the same bytes."""

from __future__ import annotations

import itertools
import math
import random

import pytest
import torch
from safetensors.torch import load, save

from drivetrain.training.checkpointing.inspection import consolidated
from drivetrain.training.checkpointing.inspection.consolidated import header, pieces
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors.index import DTYPES, Chunk, TensorEntry


def in_one_file(tensors: dict[str, torch.Tensor]) -> tuple[dict[str, TensorEntry], bytes]:
    """Entries of whole tensors, and the file that they lie in."""
    data, entries = bytearray(b"some header"), {}
    for name, tensor in tensors.items():
        raw = tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        shape = tuple(tensor.shape)
        chunk = Chunk((0,) * len(shape), shape, "rank-0", len(data), len(raw))
        entries[name] = TensorEntry(str(tensor.dtype).removeprefix("torch."), shape, (chunk,))
        data += raw
    return entries, bytes(data)


def written(entries: dict[str, TensorEntry], files: dict[str, bytes]) -> bytes:
    def read(file: str, start: int, length: int) -> bytes:
        return files[file][start : start + length]

    return b"".join(map(bytes, pieces(entries, read)))


def test_every_number_format_is_written_as_the_library_writes_it() -> None:
    torch.manual_seed(0)
    tensors = {
        f"layer.{place}.{name}": torch.randint(0, 2, (3, place + 1)).to(getattr(torch, name))
        for place, name in enumerate(DTYPES)
    }
    # Names that sort, and are escaped, in ways of their own; nothing, and a single number.
    tensors |= {'b"\\ é': torch.rand(2), "a": torch.rand(()), "B": torch.zeros(0, 4), "a.b\t": torch.rand(1, 1, 5)}
    entries, data = in_one_file(tensors)
    assert written(entries, {"rank-0": data}) == save(tensors)
    assert written({}, {}) == save({})


def test_the_header_of_one_tensor() -> None:
    entries, _ = in_one_file({"w": torch.rand(2, 3)})
    assert header(entries)[8:].rstrip() == b'{"w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}'


def boxes(shape: tuple[int, ...], cuts: list[list[int]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """All boxes of a grid that is cut at these places along each dimension."""
    sides = [list(itertools.pairwise([0, *sorted(cut), size])) for cut, size in zip(cuts, shape, strict=True)]
    return [
        (tuple(start for start, _ in box), tuple(end - start for start, end in box))
        for box in itertools.product(*sides)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_boxes_of_any_cut_make_the_tensor(seed: int) -> None:
    """As fsdp (first dimension), tp (any), and both of them cut; with empty slices, as ranks without a part have."""
    drawn = random.Random(seed)
    shape = tuple(drawn.randint(1, 5) for _ in range(drawn.randint(1, 4)))
    tensor = torch.randn(shape, dtype=drawn.choice([torch.float32, torch.bfloat16, torch.float64]))
    cuts = [[drawn.randint(0, size) for _ in range(drawn.randint(0, 2))] for size in shape]
    chunks, files = [], {}
    for number, (offsets, sizes) in enumerate(boxes(shape, cuts)):
        box = tensor[tuple(slice(start, start + size) for start, size in zip(offsets, sizes, strict=True))]
        raw = box.contiguous().view(torch.uint8).numpy().tobytes() if box.numel() else b""
        if not raw:
            continue  # such a slice is in no file
        files[f"rank-{number}"] = b"head" + raw
        chunks.append(Chunk(offsets, sizes, f"rank-{number}", 4, len(raw)))
    drawn.shuffle(chunks)
    # A copy, as hosts that do not share a folder each have one.
    chunks.append(chunks[0])
    entry = TensorEntry(str(tensor.dtype).removeprefix("torch."), shape, tuple(chunks))
    data = written({"w": entry}, files)
    assert data == save({"w": tensor})
    assert torch.equal(load(data)["w"], tensor)


def test_a_large_tensor_is_moved_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consolidated, "PIECE", 64)
    tensor = torch.arange(100, dtype=torch.float32)
    entries, data = in_one_file({"w": tensor})
    asked: list[int] = []

    def read(file: str, start: int, length: int) -> bytes:
        asked.append(length)
        return data[start : start + length]

    assert b"".join(pieces(entries, read)) == save({"w": tensor})
    assert asked == [64] * 6 + [16]


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ([((0,), (2,))], "of w 2 numbers are in the checkpoint's files, and not 4"),
        ([((0,), (4,)), ((0,), (2,))], "two parts of w overlap"),
        ([((0,), (3,)), ((2,), (2,))], "5 numbers"),
    ],
)
def test_pieces_that_do_not_make_a_tensor_are_damage(chunks, said: str) -> None:
    parts = tuple(Chunk(offsets, sizes, "f", 0, 4 * math.prod(sizes)) for offsets, sizes in chunks)
    with pytest.raises(DamagedError, match=said):
        written({"w": TensorEntry("float32", (4,), parts)}, {"f": bytes(64)})
