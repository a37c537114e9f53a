"""What hosts leave, merged and staged."""

from __future__ import annotations

import os
import socket
import tarfile
from pathlib import Path

import pytest

from drivetrain.base import archive
from drivetrain.run_store.objects import sha256_of, walk
from drivetrain.targets.sagemaker.run.execution import StepFailedError
from drivetrain.targets.sagemaker.run.jobs.job_data import Publication, merge


def host(tmp_path: Path, name: str, **files: str) -> tuple[Path, Path]:
    root = tmp_path / name
    out = root / "processing" / "output" / "out"
    out.mkdir(parents=True)
    for file, text in files.items():
        (out / file).write_text(text)
    return root, out


def test_the_hosts_files_come_together(tmp_path: Path) -> None:
    first, out_1 = host(tmp_path, "h1", a="1")
    second, out_2 = host(tmp_path, "h2", b="2")
    (out_2 / "deep").mkdir()
    (out_2 / "deep" / "c").write_text("3")
    merge("out", {"h1": out_1, "h2": out_2}, {"h1": first, "h2": second}, tmp_path / "merged")
    assert {name: path.read_text() for name, path in walk(tmp_path / "merged")} == {"a": "1", "b": "2", "deep/c": "3"}


def test_an_output_that_was_not_written_is_empty(tmp_path: Path) -> None:
    merge("out", {"h": tmp_path / "nothing"}, {"h": tmp_path}, tmp_path / "merged")
    assert list(walk(tmp_path / "merged")) == []


def test_a_file_in_the_place_of_an_output_is_not_lost_in_silence(tmp_path: Path) -> None:
    root, out = host(tmp_path, "h")
    out.rmdir()
    out.write_text("all there is")
    with pytest.raises(StepFailedError, match="output 'out' is a file now"):
        merge("out", {"h": out}, {"h": root}, tmp_path / "merged")


def test_a_link_in_the_place_of_an_output(tmp_path: Path) -> None:
    root, out = host(tmp_path, "h")
    out.rmdir()
    (root / "results").mkdir()
    (root / "results" / "a").write_text("1")
    out.symlink_to("/opt/ml/results")
    merge("out", {"h": out}, {"h": root}, tmp_path / "merged")
    assert {name: path.read_text() for name, path in walk(tmp_path / "merged")} == {"a": "1"}
    assert (root / "results" / "a").exists()  # not moved away from where it is


@pytest.mark.parametrize("place", [".", ".."])
def test_targets_of_links_out_of_the_job_are_not_touched(tmp_path: Path, place: str) -> None:
    root, out = host(tmp_path, "h")
    (tmp_path / "mine" / "out").mkdir(parents=True)
    (tmp_path / "mine" / "out" / "a").write_text("mine")
    out.rmdir()
    if place == ".":
        out.symlink_to(tmp_path / "mine" / "out")
    else:
        out.parent.rmdir()
        out.parent.symlink_to(tmp_path / "mine")
    with pytest.raises(StepFailedError, match=r"a link to .*mine.*, outside /opt/ml"):
        merge("out", {"h": out}, {"h": root}, tmp_path / "merged")
    assert (tmp_path / "mine" / "out" / "a").read_text() == "mine"


def test_links_are_followed_as_the_job_saw_them(tmp_path: Path) -> None:
    root, out = host(tmp_path, "h", best="weights")
    (root / "model").mkdir()
    (root / "model" / "m").write_text("model")
    (out / "latest").symlink_to("best")
    (out / "absolute").symlink_to("/opt/ml/model/m")
    (out / "folder").symlink_to("/opt/ml/model")
    (out / "step-5").mkdir()
    (out / "step-5" / "w").write_text("5")
    (out / "newest").symlink_to("step-5")
    (out / "a-chain").symlink_to("absolute")
    (out / "loop").symlink_to("/opt/ml/processing/output/out")
    merge("out", {"h": out}, {"h": root}, tmp_path / "merged")
    found = {name: path.read_text() for name, path in walk(tmp_path / "merged")}
    assert found == {
        "best": "weights",
        "latest": "weights",
        "absolute": "model",
        "a-chain": "model",
        "folder/m": "model",
        "step-5/w": "5",
        "newest/w": "5",
    }
    assert (root / "model" / "m").exists()


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/etc/passwd", "is a link to /etc/passwd, outside /opt/ml"),
        ("../../../../../../../../../../etc/passwd", "outside /opt/ml"),
        ("/opt/ml/../../etc/passwd", "outside /opt/ml"),
        ("nothing", "which does not exist"),
        ("/opt/ml/model/nothing", "which does not exist"),
    ],
)
def test_a_link_that_leads_out_or_nowhere_fails_the_step(tmp_path: Path, target: str, message: str) -> None:
    root, out = host(tmp_path, "h")
    (out / "link").symlink_to(target)
    with pytest.raises(StepFailedError, match=message):
        merge("out", {"h": out}, {"h": root}, tmp_path / "merged")


def test_special_files_and_undecodable_names_fail_the_step(tmp_path: Path) -> None:
    root, out = host(tmp_path, "h")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(out / "s"))
        with pytest.raises(StepFailedError, match="which is no file"):
            merge("out", {"h": out}, {"h": root}, tmp_path / "m1")
    root, out = host(tmp_path, "h2")
    (Path(os.fsdecode(os.fsencode(out) + b"/\xff"))).write_text("x")
    with pytest.raises(StepFailedError, match="is not UTF-8"):
        merge("out", {"h": out}, {"h": root}, tmp_path / "m2")


def test_a_publication_lists_every_object_with_its_checksum(tmp_path: Path) -> None:
    publication = Publication(tmp_path)
    folder = publication.stage()
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "x").write_text("x")
    publication.add("out", "s3://b/out/", folder)
    file = publication.stage()
    file.write_text("model")
    publication.add("model", "s3://b/m/model.tar.gz", file)
    assert [(move.staged, move.uri) for move in publication.moves] == [
        ("publish/0", "s3://b/out/"),
        ("publish/1", "s3://b/m/model.tar.gz"),
    ]
    assert [(o.uri, o.sha256, o.bytes) for o in publication.objects] == [
        ("s3://b/out/deep/x", sha256_of(folder / "deep" / "x"), 1),
        ("s3://b/m/model.tar.gz", sha256_of(file), 5),
    ]
    assert [(a.name, a.files, a.bytes) for a in publication.artifacts] == [("out", 1, 1), ("model", 1, 5)]


def test_equal_folders_give_equal_archives(tmp_path: Path) -> None:
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        for file in ("b", "a")[:: 1 if name == "one" else -1]:
            (folder / file).write_text(file)
        os.utime(folder / "a", (0, 1 if name == "one" else 2))
        archive.write(walk(folder), tmp_path / f"{name}.tar.gz")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.gz") as packed:
        assert [(member.name, member.mtime, member.uid) for member in packed] == [("a", 0, 0), ("b", 0, 0)]
