from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.infra.folder import write_folder

FILES = {"one.yaml": "a: 1\n", "index.yaml": "resources: [one.yaml]\n"}
AUTHOR = "drivetrain infra kubeflow nightly"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_new_folder_and_an_empty_one(tmp_path: Path) -> None:
    write_folder(tmp_path / "a" / "new", FILES, AUTHOR)
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", FILES, AUTHOR)
    assert contents(tmp_path / "a" / "new") == contents(tmp_path / "empty")
    header, _, rest = (tmp_path / "empty" / "one.yaml").read_text().partition("\n")
    assert header.startswith(f"# Written by `{AUTHOR}`") and rest == "a: 1\n"


def test_a_folder_is_updated(tmp_path: Path) -> None:
    """What is not needed any more goes; what others put there stays."""
    write_folder(tmp_path, {"gone.yaml": "b: 2\n", **FILES}, AUTHOR)
    (tmp_path / "overlay").mkdir()
    (tmp_path / "README.md").write_text("ours")
    write_folder(tmp_path, {**FILES, "one.yaml": "a: 3\n"}, AUTHOR)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "index.yaml", "one.yaml", "overlay"]
    assert (tmp_path / "one.yaml").read_text().endswith("\na: 3\n")


@pytest.mark.parametrize("content", [b"a: 1\n", b"\xff\xfe", b""])
def test_a_folder_with_foreign_files_is_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one.yaml").write_bytes(content)
    with pytest.raises(UserError, match=r"is not empty: it holds 'one\.yaml'"):
        write_folder(tmp_path, FILES, AUTHOR)
    assert contents(tmp_path) == {"one.yaml": content}


def test_an_edited_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES, AUTHOR)
    with (tmp_path / "one.yaml").open("a") as file:
        file.write("mine: true\n")
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"one\.yaml was edited"):
        write_folder(tmp_path, {"two.yaml": "", **FILES, "index.yaml": "changed"}, AUTHOR)
    assert contents(tmp_path) == before


def test_an_edited_obsolete_file_is_kept(tmp_path: Path) -> None:
    write_folder(tmp_path, {"gone.yaml": "b: 2\n", **FILES}, AUTHOR)
    edited = (tmp_path / "gone.yaml").read_text() + "mine: true\n"
    (tmp_path / "gone.yaml").write_text(edited)
    write_folder(tmp_path, FILES, AUTHOR)
    assert (tmp_path / "gone.yaml").read_text() == edited


def test_the_folder_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES, "drivetrain infra kubeflow other")
    before = contents(tmp_path)
    with pytest.raises(UserError, match="was written by `drivetrain infra kubeflow other`"):
        write_folder(tmp_path, FILES, AUTHOR)
    assert contents(tmp_path) == before


def test_a_symbolic_link_is_not_overwritten(tmp_path: Path) -> None:
    write_folder(tmp_path / "out", FILES, AUTHOR)
    (tmp_path / "out" / "one.yaml").rename(tmp_path / "elsewhere.yaml")
    (tmp_path / "out" / "one.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    with pytest.raises(UserError, match=r"one\.yaml was edited, or was not written by this command"):
        write_folder(tmp_path / "out", FILES, AUTHOR)


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="file is not a folder"):
        write_folder(tmp_path / "file", FILES, AUTHOR)
