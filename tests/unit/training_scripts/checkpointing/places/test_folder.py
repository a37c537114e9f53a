"""What only a folder has to do with: links, devices, direct writes, other processes."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training_scripts.checkpointing.manifest import MANIFEST_FILE, DamagedError
from drivetrain.training_scripts.checkpointing.places import kinds, open_place
from drivetrain.training_scripts.checkpointing.places.folder import FolderPlace
from drivetrain.training_scripts.errors import InputError


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path)


def page_aligned(length: int) -> memoryview:
    view = memoryview(mmap.mmap(-1, max(length, 1)))[:length]
    view[:] = bytes(number * 7 % 256 for number in range(256)) * (length // 256) + b"x" * (length % 256)
    return view


def test_places_are_found_by_scheme(tmp_path: Path) -> None:
    assert "folder" in kinds()
    for given in (tmp_path, str(tmp_path)):
        found = open_place(given)
        assert isinstance(found, FolderPlace) and found.root == tmp_path
    for wrong in ("gs://bucket/x", "folder://x", "://x", "../s3://x", "os://x"):
        with pytest.raises(InputError, match="no kind of place for checkpoints"):
            open_place(wrong)


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path / "not" / "there")
    assert place.names() == {} and not place.is_read("a") and place.retire("a")
    assert list(tmp_path.iterdir()) == []


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


def test_a_file_that_is_linked_elsewhere_is_not_written_into(place: FolderPlace) -> None:
    place.write("a", b"old")
    os.link(place.root / "a", place.root / "copy")
    with open(place.root / "a", "rb") as reader:
        place.write("a", b"new!")
        assert reader.read() == b"old"
    place.write("b", b"old")
    (place.root / "target").write_bytes(b"untouched")
    (place.root / "b").unlink()
    (place.root / "b").symlink_to(place.root / "target")
    place.write("b", b"new")
    assert place.read("copy") == b"old" and place.read("b") == b"new"
    assert (place.root / "target").read_bytes() == b"untouched"


def test_links_lead_nowhere(place: FolderPlace, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"x")
    (tmp_path / "file").symlink_to(outside / "secret")
    (tmp_path / "folder").symlink_to(outside)
    for name in ("file", "folder/secret", "folder/more/secret"):
        for read in (
            place.read,
            place.checksum,
            lambda name: place.read_part(name, 0, 1),
            lambda name: place.read_into(name, memoryview(bytearray(1))),
        ):
            with pytest.raises(DamagedError, match="is a link"):
                read(name)
    for change in (
        lambda: place.write("folder/more", b""),
        lambda: place.create("folder/more", b""),
        lambda: place.replace("folder/secret", b""),
        lambda: place.remove(["folder/secret"]),
        lambda: place.move("folder/secret", "away"),
    ):
        with pytest.raises(DamagedError, match="is a link"):
            change()
    # The link itself is listed and removed, not what it leads to.
    assert sorted(place.names()) == ["file", "folder"]
    place.remove(["file", "folder"])
    assert place.names() == {} and (outside / "secret").read_bytes() == b"x"


def test_the_root_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    (tmp_path / "checkpoints").symlink_to(tmp_path / "volume")
    place = FolderPlace(tmp_path / "checkpoints")
    place.write("a/b", b"x")
    assert place.names() == {"a/b": 1} and (tmp_path / "volume/a/b").read_bytes() == b"x"


def test_odd_names_are_passed_by(place: FolderPlace) -> None:
    place.write("a", b"x")
    for name in (b"with\nline", b"\xff\xfe", b"back\\slash", b"\x1b[31m"):
        (Path(os.fsdecode(bytes(place.root) + b"/" + name))).write_bytes(b"x")
    assert place.names() == {"a": 1}


def test_the_temporary_folder_is_never_used(tmp_path: Path) -> None:
    """It may be another device, from where a rename is a copy, which can be torn."""
    script = (
        "import sys, tempfile; from drivetrain.training_scripts.checkpointing.places import open_place\n"
        "place = open_place(sys.argv[1])\n"
        "place.write('a/b', b'1'); place.create('c', b'2'); place.replace('c', b'3'); place.move('a', 'd')\n"
        "assert place.names() == {'c': 1, 'd/b': 1}, place.names()\n"
    )
    environment = os.environ | {name: str(tmp_path / "missing") for name in ("TMPDIR", "TEMP", "TMP")}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "place")], env=environment, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


@pytest.mark.parametrize("call", ["create", "replace", "write"])
def test_what_fails_leaves_nothing(place: FolderPlace, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write("a/other", b"x")

    def fail(descriptor: int, data: Any = b"") -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for name in ("write", "fsync"):
        with monkeypatch.context() as patched:
            patched.setattr(os, name, fail)
            with pytest.raises(OSError, match="No space left"):
                getattr(place, call)("a/b", b"content")
        assert place.names() == {"a/other": 1}


def test_without_links_creating_still_replaces_nothing(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    place.create("a", b"first")
    with pytest.raises(FileExistsError):
        place.create("a", b"second")
    assert place.read("a") == b"first" and list(place.names()) == ["a"]


def test_without_locks_reading_goes_on(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    place.write(f"a/{MANIFEST_FILE}", b"x")
    monkeypatch.setattr(fcntl, "flock", refuse)
    with place.reading("a"):
        assert not place.is_read("a") and place.retire("a")


def test_a_reader_in_another_process_holds_until_it_is_killed(place: FolderPlace) -> None:
    place.write(f"a/{MANIFEST_FILE}", b"x")
    script = (
        "import sys; from drivetrain.training_scripts.checkpointing.places import open_place\n"
        "with open_place(sys.argv[1]).reading('a'):\n"
        "    print('reading', flush=True); sys.stdin.read()\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", script, place.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert reader.stdout is not None and reader.stdout.readline() == "reading\n"
        assert place.is_read("a") and not place.retire("a")
    finally:
        reader.kill()
        reader.communicate()
    assert not place.is_read("a") and place.retire("a")


def test_who_begins_to_read_what_is_just_removed_is_told(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(f"a/{MANIFEST_FILE}", b"x")

    def flock(descriptor: int, how: int, real: Any = fcntl.flock) -> None:
        (place.root / "a" / MANIFEST_FILE).unlink()  # between the open and the lock
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(FileNotFoundError), place.reading("a"):
        pass


def test_empty_folders_go_and_others_stay(place: FolderPlace) -> None:
    place.write("a/b/c", b"x")
    place.write("a/d", b"x")
    place.remove(["a/b/c"])
    assert not (place.root / "a/b").exists() and (place.root / "a/d").exists()
    place.remove(["a/d"])
    assert place.root.is_dir() and list(place.root.iterdir()) == []
