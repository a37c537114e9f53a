"""What every place for checkpoints can: run for each file of drivetrain/training/checkpointing/places, against the
place that the file of the same name in tests/contract/places offers for it (`location(folder)`, a context that gives
the uri of an empty place).
"""

from __future__ import annotations

import importlib.util
import mmap
import threading
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.places import Place, kinds, open_place
from drivetrain.training.checkpointing.store.lock import LOCK_FILE, Lock, LostLockError
from drivetrain.training.checkpointing.store.manifest import (
    MANIFEST_FILE,
    DamagedError,
    FileEntry,
    Manifest,
    MissingError,
)
from drivetrain.training.checkpointing.store.retention import Retention
from drivetrain.training.checkpointing.store.store import Store

LOCATIONS = Path(__file__).parent / "places"
MANY = bytes(range(256)) * 8192  # 2 MiB: more than one page, less than one piece


@pytest.fixture(params=kinds())
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    kind: str = request.param
    file = LOCATIONS / f"{kind}.py"
    assert file.is_file(), f"add {file}: a context location(folder) that gives the uri of an empty {kind} place"
    spec = importlib.util.spec_from_file_location(f"place_{kind}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with module.location(tmp_path) as given:
        yield given


@pytest.fixture
def place(uri: str) -> Place:
    return open_place(uri)


def save(store: Store, step: int, **files: bytes) -> None:
    folder = store.begin(step)
    contents = files or {"weights": b"%d" % step * 1000, "optimizer": b"%d" % -step * 1000}
    entries = [
        FileEntry(name, len(data), store.place.write(f"{folder}/{name}", data)) for name, data in contents.items()
    ]
    store.commit(Manifest(step=step, files=tuple(entries)))


# -- files


def test_an_empty_place_holds_nothing(place: Place, uri: str) -> None:
    assert place.uri == uri
    assert place.names() == {} and place.names("a/b") == {}
    for read in (place.read, place.checksum, lambda name: place.read_into(name, memoryview(bytearray(1)))):
        with pytest.raises(FileNotFoundError):
            read("a/b")
    assert place.mark("a") == "" and not place.swap("a", b"", b"x")
    assert place.retire("a")
    place.remove(["a", "b/c"])
    assert place.names() == {}


@pytest.mark.slow_cases("s3-True-2097152", "s3-True-2097151", "s3-False-2097152", "s3-False-2097151")
@pytest.mark.parametrize("data", [b"", b"x", MANY, MANY[:-1], MANY[: 3 * 4096 + 5]], ids=len)
@pytest.mark.parametrize("page", [True, False])
def test_written_bytes_are_read_back(place: Place, uri: str, data: bytes, page: bool) -> None:
    """Also from memory that begins with a page, as host buffers do."""
    buffer: bytes | memoryview = data
    if page:
        buffer = memoryview(mmap.mmap(-1, len(MANY)))[: len(data)]
        buffer[:] = data
    checksum = place.write("step/a/weights", buffer)
    assert checksum == zlib.crc32(data)
    again = open_place(uri)
    assert again.names() == {"step/a/weights": len(data)}
    assert again.read("step/a/weights") == data
    assert again.checksum("step/a/weights") == (len(data), checksum)
    into = bytearray(len(data))
    assert again.read_into("step/a/weights", memoryview(into)) == checksum and into == data
    assert again.read_part("step/a/weights", 1, 4096) == data[1:4097]
    assert again.read_part("step/a/weights", len(data), 10) == b""


@pytest.mark.parametrize("more", [-5, -1, 1, 5])
def test_reading_into_a_buffer_of_another_size_is_damage(place: Place, more: int) -> None:
    place.write("a", b"0123456789")
    with pytest.raises(DamagedError, match="10 bytes instead of") as caught:
        place.read_into("a", memoryview(bytearray(10 + more)))
    assert caught.value.file == "a"


def test_reading_a_part(place: Place) -> None:
    place.write("a/b", MANY)
    parts = [(0, 1), (4095, 4098), (len(MANY) - 3, 3), (len(MANY) - 3, 10), (len(MANY), 1), (5, 0)]
    assert [place.read_part("a/b", *part) for part in parts] == [MANY[start : start + size] for start, size in parts]
    with pytest.raises(FileNotFoundError):
        place.read_part("a/c", 0, 1)


def test_writing_again_replaces(place: Place) -> None:
    place.write("a/b", MANY)
    assert place.write("a/b", b"short") == zlib.crc32(b"short")
    assert place.read("a/b") == b"short"


def test_names_below_a_folder(place: Place) -> None:
    for name in ("a/b", "a/c/d", "ab/x", "e", "a/c.sagemaker-uploading"):
        place.write(name, name.encode())
    assert place.names("a") == {"a/b": 3, "a/c/d": 5, "a/c.sagemaker-uploading": 23}
    assert place.names("a/c") == {"a/c/d": 5}
    assert sorted(place.names()) == ["a/b", "a/c.sagemaker-uploading", "a/c/d", "ab/x", "e"]


def test_creating_replaces_nothing(place: Place) -> None:
    place.create("a/b", b"first")
    with pytest.raises(FileExistsError):
        place.create("a/b", b"second")
    assert place.read("a/b") == b"first" and list(place.names()) == ["a/b"]


def test_replacing(place: Place) -> None:
    place.replace("a/b", b"first")
    place.replace("a/b", b"second, longer")
    assert place.read("a/b") == b"second, longer" and list(place.names()) == ["a/b"]


def test_a_reader_sees_the_old_or_the_new_file_completely(uri: str) -> None:
    contents = [b"%d" % number * 40_000 for number in (1, 2)]
    open_place(uri).replace("a", contents[0])
    over = threading.Event()

    def look() -> set[bytes]:
        place, seen = open_place(uri), set[bytes]()
        while not over.is_set():
            seen.add(place.read("a"))
        return seen

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        place = open_place(uri)
        for number in range(40):
            place.replace("a", contents[number % 2])
        over.set()
    assert looking.result() <= set(contents)


def race(turns: int, act: Callable[[int, int], bool]) -> list[int]:
    """How many of three at once succeed, turn by turn."""
    gate = threading.Barrier(3)

    def contend(number: int) -> list[bool]:
        results: list[bool] = []
        for turn in range(turns):
            gate.wait(60)
            results.append(act(turn, number))
        return results

    with ThreadPoolExecutor(3) as pool:
        return [sum(column) for column in zip(*pool.map(contend, range(3)), strict=True)]


@pytest.mark.slow_cases("s3")
def test_of_several_creators_one_succeeds(uri: str) -> None:
    places = [open_place(uri) for _ in range(3)]

    def create(turn: int, number: int) -> bool:
        try:
            places[number].create(f"a/{turn}", b"%d" % number)
        except FileExistsError:
            return False
        return True

    assert race(15, create) == [1] * 15


@pytest.mark.slow_cases("s3")
def test_of_several_swappers_one_succeeds(uri: str) -> None:
    places = [open_place(uri) for _ in range(3)]
    for turn in range(15):
        places[0].create(f"{turn}", b"nobody's")
    assert race(15, lambda turn, number: places[number].swap(f"{turn}", b"nobody's", b"%d's" % number)) == [1] * 15


def test_swapping_a_changed_file_fails(place: Place) -> None:
    place.create("a", b"first")
    mark = place.mark("a")
    assert mark
    for wrong in (b"", b"firs", b"first ", b"First"):
        assert not place.swap("a", wrong, b"second")
    assert place.read("a") == b"first"
    assert place.swap("a", b"first", b"second, longer") and place.read("a") == b"second, longer"
    assert place.swap("a", b"second, longer", b"3") and place.read("a") == b"3"
    assert place.mark("a") == mark


def test_a_copy_has_another_mark(place: Place) -> None:
    place.create("a/b", b"x")
    place.create("copy/b", b"x")
    assert place.mark("a/b") != place.mark("copy/b")


def test_removing(place: Place) -> None:
    for name in ("a/b", "a/c/d", "e/f"):
        place.write(name, b"x")
    place.remove(["a/c/d", "a/not there", "e/f"])
    assert list(place.names()) == ["a/b"]


def test_moving(place: Place) -> None:
    for name in ("a/b", "a/c/d", f"a/{MANIFEST_FILE}", "ab"):
        place.write(name, name.encode())
    place.move("a", "far/away")
    assert sorted(place.names()) == ["ab", "far/away/b", "far/away/c/d", f"far/away/{MANIFEST_FILE}"]
    assert place.read("far/away/c/d") == b"a/c/d"
    place.write("a/b", b"new")
    with pytest.raises(FileExistsError):
        place.move("a", "far/away")
    assert place.read("a/b") == b"new" and place.read("far/away/b") == b"a/b"
    with pytest.raises(FileNotFoundError):
        place.move("nothing", "anywhere")


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "/etc/passwd", "../a", "a/../b", "a/..", "./a", "a//b", "a/", ".", "..", "a\\b", "a\0b", "a\nb"),
        *("\ud800", "x" * 241, "/".join("abcdefgh" for _ in range(100))),
    ],
)
def test_invalid_names_are_refused(place: Place, name: str) -> None:
    attempts: list[Callable[[], object]] = [
        lambda: place.write(name, b""),
        lambda: place.create(name, b""),
        lambda: place.replace(name, b""),
        lambda: place.swap(name, b"", b""),
        lambda: place.mark(name),
        lambda: place.read(name),
        lambda: place.read_part(name, 0, 1),
        lambda: place.read_into(name, memoryview(bytearray())),
        lambda: place.checksum(name),
        lambda: place.remove([name]),
        lambda: place.retire(name),
        lambda: place.move(name, "there"),
        lambda: place.move("there", name),
    ]
    for attempt in attempts:
        with pytest.raises(ValueError):
            attempt()
    assert place.names() == {}


def test_reading_ends_with_the_context(place: Place) -> None:
    place.write(f"a/{MANIFEST_FILE}", b"x")
    with place.reading("a"), place.reading("a"):
        assert not place.retire("a")
    assert place.retire("a")
    assert place.names() == {}
    with pytest.raises(FileNotFoundError), place.reading("a"):
        pass


# -- the store, which relies on nothing but these


def test_checkpoints_by_step(place: Place, uri: str) -> None:
    store = Store(place)
    assert store.steps() == []
    for step in (9, 100_000_000, 10):
        save(store, step)
    other = Store(open_place(uri))
    assert other.steps() == [100_000_000, 10, 9]
    assert other.manifest(10).step == 10 and other.folder(9) == "step-00000009"
    for step in other.steps():
        other.verify(step)


def test_an_uncommitted_checkpoint_does_not_count(place: Place, uri: str) -> None:
    store = Store(place)
    save(store, 1)
    folder = store.begin(2)
    place.write(f"{folder}/weights", b"half")
    other = Store(open_place(uri))
    assert other.steps() == [1]
    with pytest.raises(MissingError, match="no checkpoint of step 2"):
        other.manifest(2)
    again = other.begin(2)
    assert again == folder and place.names(folder) == {}
    place.write(f"{folder}/optimizer", b"half")
    assert Store(place).clean() == [f"{folder}/optimizer"]
    assert Store(place).steps() == [1]


def test_a_second_commit_of_one_folder_is_refused(place: Place, uri: str) -> None:
    """Two that both believe they hold the lock."""
    first, second = Store(place), Store(open_place(uri))
    folder = first.begin(5)
    assert second.begin(5) == folder
    entry = FileEntry("a", 1, place.write(f"{folder}/a", b"x"))
    first.commit(Manifest(step=5, files=(entry,), values={"of": "first"}))
    with pytest.raises(FileExistsError):
        second.commit(Manifest(step=5, files=(entry,), values={"of": "second"}))
    assert first.manifest(5).values == {"of": "first"}


def test_damage_is_noticed_and_quarantined(place: Place) -> None:
    store = Store(place)
    for step in (1, 2):
        save(store, step)
    place.write("step-00000002/weights", b"3" * 1000)
    with pytest.raises(DamagedError, match="step-00000002/weights has the checksum") as caught:
        store.verify(2)
    store.verify(2, ["optimizer"])
    folder = store.quarantine(2, caught.value)
    assert folder == "quarantine/step-00000002.1" and store.steps() == [1]
    assert b"has the checksum" in place.read(f"{folder}/report.json")
    store.verify(1)


def test_retention_removes_the_manifest_first_and_keeps_files_in_use(place: Place, uri: str) -> None:
    store = Store(place)
    for step in range(1, 5):
        save(store, step)
    with open_place(uri).reading("step-00000001"):
        removed = store.retain(Retention(last=1))
    assert set(removed) in ({1, 2, 3}, {2, 3})
    assert store.steps() == sorted({1, 2, 3, 4} - set(removed), reverse=True)
    store.retain(Retention(last=1))
    assert store.steps() == [4] and len(place.names()) == 3


# -- the lock, which relies on nothing but these, either


def test_one_holder_at_a_time(place: Place, uri: str) -> None:
    with Lock(place, "the first", beat_s=0.05) as lock:
        assert lock.is_mine()
        other = Lock(open_place(uri), patience_s=0.2)
        with pytest.raises(InputError, match=r"in use by the first \(host .*, pid \d+, since "):
            other.acquire()
        assert lock.is_mine() and not other.is_mine()
    assert not lock.is_mine()
    with other:
        assert other.is_mine()


def test_the_former_holder_of_a_lock_commits_nothing(place: Place, uri: str) -> None:
    with Lock(place, beat_s=3600) as lock:
        store = Store(place, fence=lock)
        folder = store.begin(1)
        entry = FileEntry("a", 1, place.write(f"{folder}/a", b"x"))
        taken = open_place(uri)
        assert taken.swap(LOCK_FILE, taken.read(LOCK_FILE), taken.read(LOCK_FILE).replace(b'"id": "', b'"id": "0'))
        for attempt in (
            lambda: store.commit(Manifest(step=1, files=(entry,))),
            lambda: store.begin(2),
            lambda: store.abandon(1),
            store.clean,
            lambda: store.retain(Retention()),
        ):
            with pytest.raises(LostLockError, match="belongs to another training now"):
                attempt()
    assert store.steps() == [] and place.names(folder) == {f"{folder}/a": 1}
