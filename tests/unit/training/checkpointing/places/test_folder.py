"""What only a folder has to do with: links, devices, other processes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places import kinds, open_place
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.manifest import MANIFEST_FILE, DamagedError


@pytest.fixture
def place(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path)


def test_places_are_found_by_scheme(tmp_path: Path) -> None:
    assert "folder" in kinds()
    for given in (tmp_path, str(tmp_path)):
        found = open_place(given)
        assert isinstance(found, FolderPlace) and found.root == tmp_path
    for wrong in ("gs://bucket/x", "folder://x", "://x", "../s3://x", "os://x"):
        with pytest.raises(InputError, match="no kind of place for checkpoints"):
            open_place(wrong)


def test_reading_creates_nothing(tmp_path: Path) -> None:
    place = FolderPlace(tmp_path / "not" / "there")
    assert place.names() == {} and place.retire("a")
    assert list(tmp_path.iterdir()) == []


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


def test_links_are_not_followed(place: FolderPlace, tmp_path: Path) -> None:
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


def test_odd_names_are_ignored(place: FolderPlace) -> None:
    place.write("a", b"x")
    for name in (b"with\nline", b"\xff\xfe", b"back\\slash", b"\x1b[31m"):
        (Path(os.fsdecode(bytes(place.root) + b"/" + name))).write_bytes(b"x")
    assert place.names() == {"a": 1}


def test_the_temporary_folder_is_never_used(tmp_path: Path) -> None:
    """It may be another device, from where a rename is a copy, which can be torn."""
    script = (
        "import sys, tempfile; from drivetrain.training.checkpointing.places import open_place\n"
        "place = open_place(sys.argv[1])\n"
        "place.write('a/b', b'1'); place.create('c', b'2'); place.replace('c', b'3'); place.move('a', 'd')\n"
        "assert place.names() == {'c': 1, 'd/b': 1}, place.names()\n"
    )
    environment = os.environ | {name: str(tmp_path / "missing") for name in ("TMPDIR", "TEMP", "TMP")}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "place")], env=environment, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


@pytest.mark.parametrize("call", ["create", "replace", "write"])
def test_failed_writes_leave_nothing(place: FolderPlace, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
        assert place.retire("a")


def test_a_reader_in_another_process_holds_until_it_is_killed(place: FolderPlace) -> None:
    place.write(f"a/{MANIFEST_FILE}", b"x")
    script = (
        "import sys; from drivetrain.training.checkpointing.places import open_place\n"
        "with open_place(sys.argv[1]).reading('a'):\n"
        "    print('reading', flush=True); sys.stdin.read()\n"
    )
    reader = subprocess.Popen(
        [sys.executable, "-c", script, place.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert reader.stdout is not None and reader.stdout.readline() == "reading\n"
        assert not place.retire("a")
    finally:
        reader.kill()
        reader.communicate()
    assert place.retire("a")


def test_a_reader_of_a_just_removed_file_gets_an_error(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.write(f"a/{MANIFEST_FILE}", b"x")

    def flock(descriptor: int, how: int, real: Any = fcntl.flock) -> None:
        (place.root / "a" / MANIFEST_FILE).unlink()  # between the open and the lock
        real(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(FileNotFoundError), place.reading("a"):
        pass


def test_only_empty_folders_are_removed(place: FolderPlace) -> None:
    place.write("a/b/c", b"x")
    place.write("a/d", b"x")
    place.remove(["a/b/c"])
    assert not (place.root / "a/b").exists() and (place.root / "a/d").exists()
    place.remove(["a/d"])
    assert place.root.is_dir() and list(place.root.iterdir()) == []


def test_a_file_system_that_syncs_no_folders_keeps_files(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, error = os.fsync, errno.EINVAL

    def files_alone(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(error, os.strerror(error))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", files_alone)
    place.write("a/weights", b"x")
    place.create(f"a/{MANIFEST_FILE}", b"y")
    place.move("a", "b")
    assert place.names() == {f"b/{MANIFEST_FILE}": 1, "b/weights": 1}
    error = errno.EIO  # what a disk says that has failed
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        place.write("c/weights", b"x")


def test_a_swap_is_of_the_whole_content(place: FolderPlace) -> None:
    place.create("a", b"old, and more")
    assert not place.swap("a", b"old", b"new") and place.read("a") == b"old, and more"
    assert place.swap("a", b"old, and more", b"new") and place.read("a") == b"new"


def test_folders_of_the_volume_itself_are_ignored(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever mounts an ext4 volume as the checkpoint folder, and is not root, may not."""
    for name in ("lost+found", "step-00000001"):
        (place.root / name).mkdir()
        (place.root / name / "file").touch()
    closed, scan = "lost+found", os.scandir

    def guarded(path: Any) -> Any:
        if Path(path).name == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", guarded)
    assert place.names() == {"step-00000001/file": 0}
    closed = "step-00000001"  # that one holds something of ours, perhaps
    with pytest.raises(PermissionError):
        place.names()


LENGTHS = [0, 1, (1 << 20) - 1, 1 << 20, (3 << 20) + 5]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("short", [False, True])
def test_files_of_several_pieces(place: FolderPlace, length: int, short: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    data, into = os.urandom(length), bytearray(length)
    checksum = place.write("a", data)
    if short:  # less comes than was asked for
        monkeypatch.setattr(os, "readv", lambda descriptor, rooms, real=os.readv: real(descriptor, [rooms[0][:70_001]]))
    assert checksum == zlib.crc32(data)
    assert place.read_into("a", memoryview(into)) == checksum and into == data
    assert place.checksum("a") == (length, checksum)


def test_a_disk_that_fails_while_it_is_read(place: FolderPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = iter([False, True])

    def fail(descriptor: int, rooms: list[memoryview], real: Any = os.readv) -> int:
        if next(reads):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(descriptor, rooms)

    place.write("a", bytes(2 << 20))
    monkeypatch.setattr(os, "readv", fail)
    with pytest.raises(OSError, match="Input/output error"):
        place.read_into("a", memoryview(bytearray(2 << 20)))
    reads = iter([False, True])
    with pytest.raises(OSError, match="Input/output error"):
        place.checksum("a")


@pytest.mark.parametrize("length", [5000, (2 << 20) + 1])
def test_a_file_that_grows_or_is_cut_while_it_is_read(
    place: FolderPlace, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.write("a", bytes(2 << 20))

    def change(descriptor: int, rooms: list[memoryview], real: Any = os.readv) -> int:
        os.truncate(place.root / "a", length)
        return real(descriptor, rooms)

    monkeypatch.setattr(os, "readv", change)
    with pytest.raises(DamagedError, match="bytes instead of"):
        place.read_into("a", memoryview(bytearray(2 << 20)))


def test_every_content_and_name_is_durable_when_a_call_returns(
    place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order: a file before the name that it is found by, a new folder before what lies in it."""
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}")).relative_to(place.root.resolve())
        synced.append(path.as_posix().partition(".json.")[0])

    monkeypatch.setattr(os, "fsync", fsync)

    def durable(call: Any, *given: Any) -> list[str]:
        synced.clear()
        call(*given)
        return list(synced)

    assert durable(place.write, "a/b/c", b"x") == [".", "a", "a/b/c", "a/b"]
    assert durable(place.create, f"a/b/{MANIFEST_FILE}", b"x") == ["a/b/manifest", "a/b"]
    assert durable(place.replace, "a/report.json", b"x") == ["a/report", "a"]
    assert durable(place.retire, "a/b") == ["a/b"]
    assert durable(place.move, "a/b", "q/b") == [".", "q", "a"]
    assert durable(place.remove, ["q/b/c"]) == ["q/b", "q", "."]
