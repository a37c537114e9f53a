from __future__ import annotations

import errno
import gzip
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry.model_folder import open_model, unpack


def archive(path: Path, members: Mapping[str, bytes | tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w:gz") as writer:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                writer.addfile(content)
            else:
                member = tarfile.TarInfo(name)
                member.size = len(content)
                writer.addfile(member, io.BytesIO(content))
    return path


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_a_folder_is_itself(tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text("{}")
    with open_model(tmp_path) as folder:
        assert folder == tmp_path


def test_what_fetch_previous_wrote_is_opened_as_its_model(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "continues.json").write_text("{}")
    (tmp_path / "model" / "model.json").write_text("{}")
    with open_model(tmp_path) as folder:
        assert folder == tmp_path / "model"
    (tmp_path / "model.json").write_text("{}")
    with open_model(tmp_path) as folder:
        assert folder == tmp_path, "a model that was trained from another one has the file, too"


@pytest.mark.parametrize("inside_a_folder", [True, False])
def test_an_archive_is_unpacked_while_it_is_open(inside_a_folder: bool, tmp_path: Path) -> None:
    packed = archive(tmp_path / "model.tar.gz", {"./model.json": b"{}", "./code/inference.py": b"pass"})
    with open_model(tmp_path if inside_a_folder else packed) as folder:
        assert (folder / "model.json").read_bytes() == b"{}"
        assert (folder / "code/inference.py").read_bytes() == b"pass"
    assert not folder.exists()


def test_a_missing_model_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with (
            pytest.raises(InputError, match=r"holds no model: neither model\.json nor model\.tar\.gz"),
            open_model(path),
        ):
            pass


def test_an_archive_without_a_description(tmp_path: Path) -> None:
    archive(tmp_path / "model.tar.gz", {"weights": b"x"})
    with pytest.raises(InputError, match=r"model\.tar\.gz holds no model\.json"), open_model(tmp_path):
        pass


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (special("link", tarfile.SYMTYPE, "/etc/passwd"), "'link', a link or device"),
        (special("hard", tarfile.LNKTYPE, "model.json"), "'hard', a link or device"),
        (special("pipe", tarfile.FIFOTYPE), "'pipe', a link or device"),
        (special("disk", tarfile.BLKTYPE), "'disk', a link or device"),
        (special("../outside", tarfile.REGTYPE), r"'\.\./outside', which lies outside"),
        (special("a/../../outside", tarfile.REGTYPE), "which lies outside"),
        (special("/outside", tarfile.REGTYPE), "'/outside', which lies outside"),
        (special("../folder", tarfile.DIRTYPE), "which lies outside"),
    ],
)
def test_members_that_leave_the_folder_are_refused(member: tarfile.TarInfo, message: str, tmp_path: Path) -> None:
    target = tmp_path / "in/side"
    target.mkdir(parents=True)
    packed = archive(tmp_path / "model.tar.gz", {"model.json": b"{}", member.name: member})
    before = sorted(path for path in tmp_path.rglob("*") if target not in path.parents)
    with pytest.raises(InputError, match=message):
        unpack(packed, target)
    assert sorted(path for path in tmp_path.rglob("*") if target not in path.parents) == before


def test_a_bomb_is_refused_before_it_fills_the_disk(tmp_path: Path) -> None:
    packed = archive(tmp_path / "model.tar.gz", {"model.json": b"{}", "zeros": bytes(70 << 20)})
    assert packed.stat().st_size < 1 << 20
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(InputError, match="unpacks to more than 67,108,864 bytes"):
        unpack(packed, target)
    assert sum(path.stat().st_size for path in target.iterdir()) < 1024


@pytest.mark.slow
def test_many_small_files_are_a_bomb_too(tmp_path: Path) -> None:
    packed = archive(tmp_path / "model.tar.gz", {f"zeros{number}": bytes(9 << 20) for number in range(8)})
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(InputError, match="unpacks to more than"):
        unpack(packed, target)
    assert sum(path.stat().st_size for path in target.iterdir()) <= 64 << 20


@pytest.mark.slow
def test_a_bomb_in_a_header_is_not_read_into_memory(tmp_path: Path) -> None:
    """An extended header says its own length; a whole one of zeros would come to lie in memory."""
    header = tarfile.TarInfo("x")
    header.type, header.size = tarfile.XHDTYPE, 200 << 20
    packed = tmp_path / "model.tar.gz"
    with gzip.open(packed, "wb", compresslevel=1) as writer:
        writer.write(header.tobuf())
        for _ in range(200):
            writer.write(bytes(1 << 20))
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(InputError, match="unpacks to more than"):
        unpack(packed, target)


@pytest.mark.parametrize("damage", [b"", b"not gzip at all", None])
def test_a_damaged_archive(damage: bytes | None, tmp_path: Path) -> None:
    packed = archive(tmp_path / "model.tar.gz", {"model.json": b"{}", "weights": bytes(range(256)) * 64})
    packed.write_bytes(packed.read_bytes()[:300] if damage is None else damage)
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(InputError, match=r"is not a whole \.tar\.gz"):
        unpack(packed, target)


def test_a_file_that_is_also_a_folder(tmp_path: Path) -> None:
    for number, members in enumerate(({"a": b"x", "a/b": b"y"}, {"a/b": b"y", "a": b"x"})):
        packed = archive(tmp_path / f"{number}.tar.gz", members)
        target = tmp_path / f"target{number}"
        target.mkdir()
        with pytest.raises(InputError, match="'a' both as a file and as a folder"):
            unpack(packed, target)


def test_a_name_given_twice(tmp_path: Path) -> None:
    folder = special("model.json", tarfile.DIRTYPE)
    for second in (b"[]", folder):
        packed = archive(tmp_path / "model.tar.gz", {"./model.json": b"{}", "model.json": second})
        with pytest.raises(InputError, match=r"'model\.json' twice"):
            unpack(packed, tmp_path)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extract", full)
    packed = archive(tmp_path / "model.tar.gz", {"model.json": b"{}"})
    with pytest.raises(InputError, match=r"no space left in .* Free some, or set TMPDIR"):
        unpack(packed, tmp_path)
