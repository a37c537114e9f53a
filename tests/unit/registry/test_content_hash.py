import gzip
import hashlib
import io
import json
import os
import random
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drivetrain.base.errors import InputError
from drivetrain.registry import content_hash as module
from drivetrain.registry.content_hash import content_hash, files_in, hash_of_files

FILES = {"model.json": b"{}", "weights/0.safetensors": bytes(range(256)) * 40, "empty": b"", "code/a b/é.py": b"1\n"}


def write(folder: Path, files: dict[str, bytes] = FILES) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def pack(path: Path, *members: tuple[tarfile.TarInfo, bytes], level: int = 6) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz", compresslevel=level) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return path


def packed(files: dict[str, bytes], path: Path, *, prefix: str = "", **fields: object) -> Path:
    return pack(path, *(member(prefix + name, data, **fields) for name, data in files.items()))


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        content_hash(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_hash_is_what_the_docstring_says(tmp_path: Path) -> None:
    manifest = [[name, hashlib.sha256(data).hexdigest()] for name, data in sorted(FILES.items())]
    expected = hashlib.sha256(json.dumps(manifest, separators=(",", ":")).encode()).hexdigest()
    assert content_hash(write(tmp_path)) == expected == hash_of_files(files_in(tmp_path))


def test_a_folder_and_any_archive_of_it_have_one_hash(tmp_path: Path) -> None:
    expected = content_hash(write(tmp_path / "folder"))
    archives = [
        packed(FILES, tmp_path / "a.tar.gz"),
        packed(dict(reversed(FILES.items())), tmp_path / "b.tar.gz", mtime=1_700_000_000, mode=0o777, uid=5, uname="x"),
        packed(FILES, tmp_path / "c.tar.gz", prefix="./"),
        pack(
            tmp_path / "d.tar.gz",
            member(".", type=tarfile.DIRTYPE),
            member("weights/", type=tarfile.DIRTYPE),
            member("nothing/", type=tarfile.DIRTYPE),
            *(member(name, data) for name, data in FILES.items()),
            level=1,
        ),
    ]
    with tarfile.open(tmp_path / "e.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        archive.add(tmp_path / "folder", arcname=".")
    assert {content_hash(archive) for archive in [*archives, tmp_path / "e.tar.gz"]} == {expected}


def test_a_folder_with_only_the_archive_counts_as_the_archive(tmp_path: Path) -> None:
    packed(FILES, tmp_path / "channel" / "model.tar.gz")
    assert content_hash(tmp_path / "channel") == content_hash(write(tmp_path / "folder"))
    (tmp_path / "channel" / "more").write_text("x")
    assert set(files_in(tmp_path / "channel")) == {"model.tar.gz", "more"}


def test_times_modes_and_empty_folders_do_not_count(tmp_path: Path) -> None:
    before = content_hash(write(tmp_path))
    os.utime(tmp_path / "model.json", (1, 1))
    (tmp_path / "model.json").chmod(0o600)
    (tmp_path / "nothing" / "inside").mkdir(parents=True)
    assert content_hash(tmp_path) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda files: {**files, "model.json": b"{ }"},
        lambda files: {**files, "more": b""},
        lambda files: {name: data for name, data in files.items() if name != "empty"},
        lambda files: {("Model.json" if name == "model.json" else name): data for name, data in files.items()},
        lambda files: {**files, "model.json": files["empty"], "empty": files["model.json"]},
        lambda files: {name.replace("weights/", ""): data for name, data in files.items()},
    ],
)
def test_names_and_bytes_count(tmp_path: Path, change: Callable[[dict[str, bytes]], dict[str, bytes]]) -> None:
    assert content_hash(write(tmp_path / "a")) != content_hash(write(tmp_path / "b", change(dict(FILES))))


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8)


@given(
    st.dictionaries(NAMES.filter(lambda name: name not in (".", "..")), st.binary(max_size=50), min_size=1, max_size=5)
)
@settings(deadline=None, max_examples=40)
def test_any_files_have_the_same_hash_in_folder_and_archive(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    root = tmp_path_factory.mktemp("model")
    folder = write(root / "folder", files)
    expected = hash_of_files({name: hashlib.sha256(data).hexdigest() for name, data in files.items()})
    assert content_hash(folder) == expected == content_hash(packed(files, root / "other.tar.gz"))


def test_a_name_that_is_not_utf_8_counts_as_its_bytes(tmp_path: Path) -> None:
    name = os.fsdecode(b"weights-\xff")
    assert content_hash(write(tmp_path / "a", {name: b"1"})) == content_hash(
        packed({name: b"1"}, tmp_path / "b.tar.gz")
    )


def test_a_link_to_the_folder_itself_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(write(tmp_path / "folder"))
    assert content_hash(tmp_path / "link") == content_hash(tmp_path / "folder")


@pytest.mark.parametrize("target", ["/etc/passwd", "model.json", "missing", "weights", "/"])
def test_links_in_a_folder_are_refused(tmp_path: Path, target: str) -> None:
    (write(tmp_path) / "link").symlink_to(target)
    assert "link is a link or device" in refused(tmp_path)


def test_special_files_in_a_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(write(tmp_path) / "pipe")
    assert "pipe is a link or device" in refused(tmp_path)


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (member("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "'link', a link, device or sparse file"),
        (member("link", type=tarfile.LNKTYPE, linkname="model.json"), "'link', a link, device or sparse file"),
        (member("pipe", type=tarfile.FIFOTYPE), "'pipe', a link, device or sparse file"),
        (member("dev", type=tarfile.CHRTYPE), "'dev', a link, device or sparse file"),
        (member("disk", type=tarfile.BLKTYPE), "'disk', a link, device or sparse file"),
        (member("../outside", b"x"), "'../outside', which lies outside of it"),
        (member("a/../../b", b"x"), "which lies outside of it"),
        (member("/etc/x", b"x"), "'/etc/x', which lies outside of it"),
        (member("model.json", b"x"), "'model.json' twice"),
        (member("./model.json", b"x"), "'./model.json' twice"),
    ],
)
def test_untrusted_archives_are_refused(tmp_path: Path, bad: tuple[tarfile.TarInfo, bytes], said: str) -> None:
    path = pack(tmp_path / "model.tar.gz", member("model.json", b"{}"), bad, member("last", b"x"))
    assert said in refused(path)


def header_of(size: int) -> bytes:
    info = tarfile.TarInfo("weights")
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def test_a_member_that_claims_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tar.gz"
    path.write_bytes(gzip.compress(header_of(1 << 40) + bytes(1 << 16)))
    assert "unpacks to more than 67,108,864 bytes" in refused(path)


def test_bombs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES_OF_SMALL_ARCHIVE", 1 << 20)
    monkeypatch.setattr(module, "MOST_GROWTH", 10)
    zeros = bytes(1 << 19)
    many = pack(tmp_path / "many.tar.gz", *(member(str(n), zeros) for n in range(4)))
    folders = pack(tmp_path / "folders.tar.gz", *(member(f"{n}/", type=tarfile.DIRTYPE) for n in range(3_000)))
    pax = pack(tmp_path / "pax.tar.gz", member("x", b"x", pax_headers={"comment": "0" * (2 << 20)}))
    padded = tmp_path / "padded.tar.gz"
    padded.write_bytes(packed({"a": b"1"}, tmp_path / "a.tar.gz").read_bytes() + gzip.compress(bytes(3 << 20)))
    for path in (many, folders, pax, padded):
        assert "unpacks to more than 1,048,576 bytes, which its size does not explain" in refused(path), path


def test_an_archive_may_hold_what_its_size_explains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES_OF_SMALL_ARCHIVE", 1_000)
    data = random.Random(1).randbytes(100_000)
    assert files_in(packed({"weights": data}, tmp_path / "m.tar.gz")) == {"weights": hashlib.sha256(data).hexdigest()}


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 3)
    assert "more than 3 files and folders" in refused(packed(FILES, tmp_path / "model.tar.gz"))


def test_sparse_files_are_refused(tmp_path: Path) -> None:
    info = tarfile.TarInfo("weights")
    info.type = tarfile.GNUTYPE_SPARSE
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[386:410] = b"00000000000\0" + b"00000000000\0"  # one hole
    header[483:495] = b"77777777777\0"  # the size that it pretends to have
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    path = tmp_path / "model.tar.gz"
    path.write_bytes(gzip.compress(bytes(header) + bytes(1024)))
    assert "'weights', a link, device or sparse file" in refused(path)


def test_a_truncated_or_flipped_archive_is_refused_or_has_the_same_content(tmp_path: Path) -> None:
    whole = packed({**FILES, "weights/0.safetensors": bytes(range(256))}, tmp_path / "whole.tar.gz")
    data, expected = whole.read_bytes(), content_hash(whole)
    damaged = tmp_path / "damaged.tar.gz"
    for end in range(0, len(data), max(1, len(data) // 50)):
        damaged.write_bytes(data[:end])
        assert "is not a whole .tar.gz" in refused(damaged)
    for position in range(10, len(data)):  # the first ten bytes are gzip's header: its time and system mean nothing
        changed = bytearray(data)
        changed[position] ^= 1 << (position % 8)
        damaged.write_bytes(changed)
        try:
            assert content_hash(damaged) == expected, position
        except InputError as error:
            assert str(damaged) in str(error)


@pytest.mark.parametrize(
    "data", [b"", b"no archive", gzip.compress(b"", mtime=0), gzip.compress(b"no tar" * 200, mtime=0)]
)
def test_a_file_that_is_no_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "model.tar.gz"
    path.write_bytes(data)
    assert "is not a whole .tar.gz" in refused(path) or "holds no files" in refused(path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert "no such file or folder" in refused(tmp_path / "gone")
    (tmp_path / "empty" / "inside").mkdir(parents=True)
    assert "holds no files" in refused(tmp_path / "empty")
    assert "holds no files" in refused(pack(tmp_path / "empty.tar.gz"))
    os.mkfifo(tmp_path / "pipe")
    assert "no such file or folder" in refused(tmp_path / "pipe")


def test_hashing_writes_no_files(tmp_path: Path) -> None:
    path = packed(FILES, tmp_path / "model.tar.gz")
    before = sorted(tmp_path.rglob("*"))
    content_hash(path)
    assert sorted(tmp_path.rglob("*")) == before
