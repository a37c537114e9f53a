"""By way of the place that writes so: what goes past the page cache, and that it comes out the same."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.checkpointing.places.folder import FolderPlace


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path)


def page_aligned(length: int) -> memoryview:
    view = memoryview(mmap.mmap(-1, max(length, 1)))[:length]
    view[:] = bytes(number * 7 % 256 for number in range(256)) * (length // 256) + b"x" * (length % 256)
    return view


@pytest.mark.parametrize("length", [0, 1, 4095, 4096, 4097, 3 * 4096, (8 << 20) + 4096 + 5])
def test_direct_writes_are_of_the_true_length(place: FolderPlace, length: int) -> None:
    data = page_aligned(length)
    assert place.write("a", data) == zlib.crc32(data)
    assert (place.root / "a").read_bytes() == data


def test_pages_go_past_the_cache(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Direct while whole pages are written, and not for the rest."""
    writes: list[tuple[bool, int]] = []

    def write(descriptor: int, data: memoryview, real: Any = os.write) -> int:
        count = real(descriptor, data)
        writes.append((bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT), count))
        return count

    monkeypatch.setattr(os, "write", write)
    try:
        os.close(os.open(place.root / "probe", os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("this file system has no direct writes")
    place.write("a", page_aligned(2 * 4096 + 5))
    assert writes == [(True, 2 * 4096), (False, 5)]
    writes.clear()
    place.write("a", page_aligned(2 * 4096)[1:])
    place.write("a", bytes(4096))
    assert writes == [(False, 2 * 4096 - 1), (False, 4096)]


def test_a_file_system_without_direct_writes(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, data: Any, real: Any = os.write) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", refuse)
    data = page_aligned(3 * 4096 + 1)
    assert place.write("a", data) == zlib.crc32(data) and place.read("a") == data


def test_writes_that_are_cut_short_go_on(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data, real=os.write: real(descriptor, data[:1000]))
    for data in (page_aligned(3 * 4096), bytes(5000)):
        assert place.write("a", data) == zlib.crc32(data) and place.read("a") == data
