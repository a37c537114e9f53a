"""By way of the place that reads and writes so: what goes past the page cache, and that it comes out the same."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import zlib
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training_scripts.checkpointing import direct_io
from drivetrain.training_scripts.checkpointing.manifest import DamagedError
from drivetrain.training_scripts.checkpointing.places.folder import FolderPlace


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


@pytest.mark.parametrize("length", [(1 << 20) - 1, 1 << 20, (1 << 20) + 5, (16 << 20) + 4096 + 5])
@pytest.mark.parametrize("cached", [True, False])
def test_what_lies_on_the_disk_alone_is_read_past_the_cache(
    place: FolderPlace, length: int, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct: list[bool] = []

    def readv(descriptor: int, pieces: list[memoryview], real: Any = os.readv) -> int:
        direct.append(bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT))
        return real(descriptor, pieces)

    def preadv(descriptor: int, pieces: Any, at: int, flags: int) -> int:
        if not cached:
            raise BlockingIOError
        return 1

    data = page_aligned(length)
    checksum = place.write("a", bytes(data))
    monkeypatch.setattr(os, "readv", readv)
    monkeypatch.setattr(os, "preadv", preadv)
    into = page_aligned(length)
    into[:] = bytes(length)
    assert place.read_into("a", into) == checksum and into == data
    assert place.checksum("a") == (length, checksum)
    if cached or length < 1 << 20:
        assert not any(direct)
    else:
        assert direct.count(False) == (2 if length % 4096 else 0)
    # Memory that does not begin with a page is filled all the same.
    assert place.read_into("a", memoryview(bytearray(length + 1))[1:]) == checksum


def test_a_file_system_without_direct_reads(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, pieces: list[memoryview], real: Any = os.readv) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(descriptor, [pieces[0][:1000]])  # nor whole pages, though they were asked for

    def away(*_: Any) -> int:
        raise BlockingIOError

    data = page_aligned((1 << 20) + 5)
    checksum = place.write("a", data)
    monkeypatch.setattr(os, "readv", refuse)
    monkeypatch.setattr(os, "preadv", away)
    assert place.checksum("a") == (len(data), checksum)
    data[:] = bytes(len(data))
    assert place.read_into("a", data) == checksum


def test_a_disk_that_fails_while_it_is_read(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    place.write("a", bytes(1 << 20))
    monkeypatch.setattr(os, "readv", fail)
    for read in (place.checksum, lambda name: place.read_into(name, page_aligned(1 << 20))):
        with pytest.raises(OSError, match="Input/output error"):
            read("a")


def test_writes_that_are_cut_short_go_on(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", lambda descriptor, data, real=os.write: real(descriptor, data[:1000]))
    for data in (page_aligned(3 * 4096), bytes(5000)):
        assert place.write("a", data) == zlib.crc32(data) and place.read("a") == data


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("length", [6 * 4096, 6 * 4096 + 1, 7 * 4096 - 1, 40 * 4096 + 5])
def test_several_readers_of_a_large_file(
    place: FolderPlace, length: int, cached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_io, "CHUNK", 2 * 4096)
    monkeypatch.setattr(direct_io, "_is_cached", lambda *_: cached)
    data, into = page_aligned(length), page_aligned(length)
    checksum = place.write("a", data)
    into[:] = bytes(length)
    assert place.read_into("a", into) == checksum
    assert into == data
    assert place.read_into("a", memoryview(bytearray(length + 1))[1:]) == checksum


@pytest.mark.parametrize("failing", [0, 1, 5])
def test_a_disk_that_fails_under_one_of_several_readers(
    place: FolderPlace, failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int, pieces: Any, at: int, real: Any = os.preadv) -> int:
        if at == failing * 8192:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(descriptor, pieces, at)

    data = page_aligned(12 * 4096)
    place.write("a", data)
    monkeypatch.setattr(direct_io, "CHUNK", 2 * 4096)
    monkeypatch.setattr(direct_io, "_is_cached", lambda *_: True)
    monkeypatch.setattr(os, "preadv", fail)
    with pytest.raises(OSError, match="Input/output error"):
        place.read_into("a", data)


def test_a_large_file_that_is_cut_while_it_is_read(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    data = page_aligned(12 * 4096 + 7)
    place.write("a", data)

    def cut(descriptor: int, pieces: Any, at: int, real: Any = os.preadv) -> int:
        os.truncate(place.root / "a", 5000)
        return real(descriptor, pieces, at)

    monkeypatch.setattr(direct_io, "CHUNK", 2 * 4096)
    monkeypatch.setattr(direct_io, "_is_cached", lambda *_: True)
    monkeypatch.setattr(os, "preadv", cut)
    with pytest.raises(DamagedError, match="bytes instead of"):
        place.read_into("a", data)


def test_several_readers_where_there_are_no_direct_reads(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, pieces: Any, at: int, real: Any = os.preadv) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(descriptor, [pieces[0][:1000]], at)

    data = page_aligned(12 * 4096 + 7)
    checksum = place.write("a", data)
    monkeypatch.setattr(direct_io, "CHUNK", 2 * 4096)
    monkeypatch.setattr(direct_io, "_is_cached", lambda *_: False)
    monkeypatch.setattr(os, "preadv", refuse)
    data[:] = bytes(len(data))
    assert place.read_into("a", data) == checksum


def test_a_reader_is_refused_while_another_gives_up_on_direct_reads(
    place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, pieces: Any, at: int, real: Any = os.preadv) -> int:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        if flags & os.O_DIRECT:
            fcntl.fcntl(descriptor, fcntl.F_SETFL, flags & ~os.O_DIRECT)  # the other one is a moment quicker
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(descriptor, pieces, at)

    data = page_aligned(12 * 4096 + 7)
    checksum = place.write("a", data)
    monkeypatch.setattr(direct_io, "CHUNK", 2 * 4096)
    monkeypatch.setattr(direct_io, "_is_cached", lambda *_: False)
    monkeypatch.setattr(os, "preadv", refuse)
    data[:] = bytes(len(data))
    assert place.read_into("a", data) == checksum
