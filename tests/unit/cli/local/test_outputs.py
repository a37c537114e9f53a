"""Copies of outputs: a later one replaces what an earlier one left, and nothing else."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from pathlib import Path

import pytest

from drivetrain.base.errors import InputError, UserError
from drivetrain.cli.local.outputs import check_folder, check_inputs, copy_outputs
from drivetrain.data.manifest import Column, Manifest, Shard
from drivetrain.data.version_folder import VersionFolder
from drivetrain.data.versions import versions


def made(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_a_version_replaces_the_previous_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    copy_outputs({"train": made(tmp_path / "one", "manifest.json", "v1/part.parquet")}, out)
    copy_outputs({"train": made(tmp_path / "two", "manifest.json", "v2/part.parquet")}, out)
    found = sorted(path.relative_to(out / "train").as_posix() for path in (out / "train").rglob("*"))
    assert found == ["manifest.json", "v2", "v2/part.parquet"]


def test_foreign_files_are_refused_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    copy_outputs({"train": made(tmp_path / "one", "manifest.json")}, out)
    made(out / "train", "mine.txt")
    with pytest.raises(UserError, match=r"holds mine\.txt, which is no part of the output"):
        copy_outputs({"train": made(tmp_path / "two", "manifest.json", "more.txt")}, out)
    assert sorted(path.name for path in (out / "train").iterdir()) == ["manifest.json", "mine.txt"]


def test_a_foreign_manifest_is_refused_before_the_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    made(out / "train", "manifest.json")
    with pytest.raises(UserError, match=r"manifest\.json was not written by drivetrain"):
        check_folder(out, ["train"])
    with pytest.raises(InputError, match=r"manifest\.json was not written by drivetrain"):
        VersionFolder(out / "train").start()
    shutil.rmtree(out)
    copy_outputs({"train": made(tmp_path / "one", "manifest.json")}, out)
    check_folder(out, ["train"])


def test_a_file_is_copied_by_its_own_name(tmp_path: Path) -> None:
    made(tmp_path / "one", "model.tar.gz")
    for _ in range(2):
        found = copy_outputs({"model": tmp_path / "one" / "model.tar.gz"}, tmp_path / "out", keep_versions=1)
        assert found == {"model": tmp_path / "out" / "model.tar.gz"} and found["model"].read_text() == "model.tar.gz"


def test_a_full_disk_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(source), None, str(target))

    monkeypatch.setattr(shutil, "copyfile", full)
    place = made(tmp_path / "one", "manifest.json")
    with pytest.raises(UserError, match=r"--out \S+/out: No space left on device: [\d,]+ MiB are free there") as caught:
        copy_outputs({"train": place}, tmp_path / "out")
    assert str(caught.value).endswith(f"The output itself is in {place}.")


def test_copying_into_an_input_is_refused(tmp_path: Path) -> None:
    raw = made(tmp_path / "raw", "a.csv")
    for out in (raw, raw / "new", tmp_path / "other" / ".." / "raw"):
        with pytest.raises(UserError, match=r"it is the folder of the input raw .* or inside it"):
            check_inputs(out, ["train"], {"raw": str(raw), "more": "example:digits"})
    check_inputs(tmp_path / "raw2", ["train"], {"raw": str(raw)})
    check_inputs(tmp_path, ["train"], {"raw": str(raw)})


def data_set(folder: Path, *contents: str) -> Path:
    """A set of one version, as prepare_data writes it, with a file beside its shards."""
    shards = [
        Shard(f"part-{number:05d}.parquet", 1, len(content), hashlib.sha256(content.encode()).hexdigest())
        for number, content in enumerate(contents)
    ]
    manifest = Manifest(key="id", label=None, schema=(Column("id", "int64"),), shards=tuple(shards))
    version = folder / manifest.version
    version.mkdir(parents=True)
    for shard, content in zip(shards, contents, strict=True):
        (version / shard.file).write_text(content)
    (version / "keys-00000.u64").write_text("kept")
    manifest.write(version / "manifest.json")
    manifest.in_version().write(folder / "manifest.json")
    return folder


def test_earlier_versions_of_a_data_set_are_kept_by_rule(tmp_path: Path) -> None:
    """As where the step writes into the folder itself: also after the copies of an older release, which kept a note."""
    train = tmp_path / "out" / "train"
    made(tmp_path / "out", ".train.drivetrain-copied")
    names: list[str] = []
    for content, keep, kept in (("a", 1, 1), ("b", 1, 2), ("c", 1, 2), ("d", 2, 3), ("d", 2, 3), ("a", 0, 1)):
        place = data_set(tmp_path / f"{len(names)}", content)
        assert copy_outputs({"train": place}, tmp_path / "out", keep_versions=keep) == {"train": train}
        version = Manifest.read(train).version
        names = [*(name for name in names if name != version), version]
        assert {path.name for path in train.iterdir()} == {"manifest.json", *names[-kept:]}
        current = versions(train)[0]
        assert (current.path.name, current.is_current) == (version, True)
        assert (train / version / "part-00000.parquet").read_text() == content
        assert (train / version / "keys-00000.u64").read_text() == "kept"
        shutil.rmtree(place)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["train"]


def test_copying_the_same_version_keeps_its_date(tmp_path: Path) -> None:
    place, train = data_set(tmp_path / "one", "a"), tmp_path / "out" / "train"
    copy_outputs({"train": place}, tmp_path / "out", keep_versions=1)
    manifest = train / Manifest.read(train).version / "manifest.json"
    os.utime(manifest, (1.0, 1.0))
    (manifest.parent / "part-00000.parquet").write_text("b")  # damaged
    copy_outputs({"train": place}, tmp_path / "out", keep_versions=1)
    assert manifest.stat().st_mtime == 1.0 and Manifest.read(train).rows == 1


def test_shards_shared_by_versions_are_stored_once(tmp_path: Path) -> None:
    """As where a night adds a shard."""
    train = tmp_path / "out" / "train"
    found: list[Path] = []
    for number, contents in enumerate((("a",), ("a", "b"))):
        copy_outputs({"train": data_set(tmp_path / str(number), *contents)}, tmp_path / "out", keep_versions=1)
        found.append(train / Manifest.read(train).version)
    assert [path.name for path in sorted(found[1].glob("*.parquet"))] == ["part-00000.parquet", "part-00001.parquet"]
    assert (found[0] / "part-00000.parquet").samefile(found[1] / "part-00000.parquet")
    assert not (found[0] / "keys-00000.u64").samefile(found[1] / "keys-00000.u64")


def test_a_folder_of_other_files_is_no_place_for_a_data_set(tmp_path: Path) -> None:
    made(tmp_path / "out" / "train", "mine.txt")
    with pytest.raises(UserError, match=r"holds mine\.txt, which is no part of the output"):
        copy_outputs({"train": data_set(tmp_path / "one", "a")}, tmp_path / "out", keep_versions=1)
    assert [path.name for path in (tmp_path / "out" / "train").iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("taken", ["out", "out/train"])
def test_an_existing_file_is_noticed_before_anything_runs(tmp_path: Path, taken: str) -> None:
    made(tmp_path, taken)
    with pytest.raises(UserError, match=rf"Not a directory: .*{taken}\. Give a folder; it is made if it is missing"):
        check_folder(tmp_path / "out" / "deeper" if taken == "out" else tmp_path / "out", ["train"])
    check_folder(tmp_path / "new" / "deeper", ["train"])
