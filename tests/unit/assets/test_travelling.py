"""Which files travel with a pipeline: the user's own, and nothing that a run wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain import assets
from drivetrain.assets import IGNORE_FILE, source_files
from drivetrain.assets.assets import CodeArchive
from drivetrain.base.errors import UserError
from drivetrain.cli.main import run
from drivetrain.run_store.home import Home
from tests.fixtures.used_files import used_files

OWN = """
from drivetrain.components import component
from drivetrain import CachePolicy, Pipeline, Settings, step


@component
def work(rate: int) -> None:
    print(rate)


def own(settings: Settings) -> Pipeline:
    return Pipeline(name="own", steps=[step(work, rate=1, cache=CachePolicy())], deployment=settings.deployment)
"""


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def names(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in source_files(folder)]


@pytest.mark.parametrize("place", ["work", "deep/below/home"])
def test_a_home_in_the_folder_does_not_travel(place: str, tmp_path: Path) -> None:
    write(tmp_path / "own.py")
    before = CodeArchive(used_files(tmp_path)).content
    home = Home(tmp_path / place)
    home.create()
    write(home.objects / "bucket" / "model" / "code" / "evil.py")
    assert names(tmp_path) == ["own.py"]
    assert CodeArchive(used_files(tmp_path)).content == before


def test_a_home_of_an_earlier_version_does_not_travel(tmp_path: Path) -> None:
    for name in ("own.py", "work/ledger.db", "work/runs/a/b.py", "work/s3/c.py", "runs/d.py", "s3/e.py"):
        write(tmp_path / name)
    assert names(tmp_path) == ["own.py", "runs/d.py", "s3/e.py"]


def test_the_code_in_a_written_model_does_not_travel(tmp_path: Path) -> None:
    for name in ("own.py", "out/model.json", "out/code/inference.py", "mine/model.json", "mine/train.py"):
        write(tmp_path / name)
    assert names(tmp_path) == ["mine/train.py", "own.py"]


def test_ignored_files_are_not_shipped(tmp_path: Path) -> None:
    for name in ("own.py", "a/test_x.py", "old/b.py", "a/old/c.py", "a/keep.py", "a/drop.py"):
        write(tmp_path / name)
    write(tmp_path / IGNORE_FILE, "# tests and the past\n\ntest_*.py\n/old\nold/\na/dro?.py\n")
    assert names(tmp_path) == ["a/keep.py", "own.py"]


@pytest.mark.parametrize(("content", "said"), [(b"!a.py\n", "takes back another pattern"), (b"\xff", "cannot be read")])
def test_an_ignore_file_that_cannot_be_understood_is_refused(content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / IGNORE_FILE).write_bytes(content)
    with pytest.raises(UserError, match=said):
        source_files(tmp_path)


def test_a_component_that_lies_elsewhere_on_the_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither PYTHONPATH nor sys.path of this process is a job's."""
    elsewhere, folder = tmp_path / "elsewhere", tmp_path / "folder"
    elsewhere.mkdir()
    folder.mkdir()
    part = "from drivetrain.components import component\n\n\n@component\ndef work() -> float:\n    return 1.0\n"
    (elsewhere / "parts_elsewhere.py").write_text(part)
    pipeline = "from drivetrain import Pipeline, step\nfrom NAME import work\n\n\n"
    pipeline += "def pipeline() -> Pipeline:\n    return Pipeline(name='p', steps=[step(work)])\n"
    (folder / "of_elsewhere.py").write_text(pipeline.replace("NAME", "parts_elsewhere"))
    monkeypatch.syspath_prepend(str(elsewhere))
    monkeypatch.chdir(tmp_path)
    assert run(["compile", str(folder / "of_elsewhere.py"), "-o", "p.json"]) == 2
    said = capsys.readouterr().err
    assert f"module 'parts_elsewhere', found here in {elsewhere / 'parts_elsewhere.py'}, which does not travel" in said
    assert f"below {folder}" in said and '@component(needs=["PACKAGE"])' in said
    # What it imports, by way of another module that travels; not what may be missing.
    (folder / "between.py").write_text("try:\n    import parts_elsewhere\nexcept ImportError:\n    pass\n")
    (folder / "parts_beside.py").write_text(part.replace("    return", "    import between\n    return"))
    (folder / "of_beside.py").write_text(pipeline.replace("NAME", "parts_beside"))
    assert run(["compile", str(folder / "of_beside.py"), "-o", "p.json"]) == 0
    (folder / "between.py").write_text("import parts_elsewhere\n")
    assert run(["compile", str(folder / "of_beside.py"), "-o", "p.json"]) == 2
    said = capsys.readouterr().err
    assert f"needs module 'parts_elsewhere', found here in {elsewhere / 'parts_elsewhere.py'}, which does not" in said


def test_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "MAX_SOURCE_BYTES", 10)
    write(tmp_path / "a.py", "x" * 11)
    with pytest.raises(UserError, match=r"or name what stays in .*\.drivetrainignore"):
        source_files(tmp_path)


def test_shipped_files_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "own.py", OWN)
    write(tmp_path / "more.py", "x = 1\n")
    monkeypatch.chdir(tmp_path)
    assert run(["compile", "own.py", "--list-code"]) == 0
    listed = capsys.readouterr()
    assert [line.split() for line in listed.out.splitlines()] == [["6", "more.py"], [f"{len(OWN)}", "own.py"]]
    assert listed.err.startswith("2 files of at most 2,000")
    assert run(["compile", "own.py", "--list-code", "-o", "x.json"]) == 2
    assert run(["compile", "retraining", "--list-code"]) == 0


def test_a_second_run_with_a_home_in_the_folder_hits_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "own.py", OWN)
    monkeypatch.chdir(tmp_path)
    assert run(["run", "own.py", "--home", "work", "--json"]) == 0
    write(tmp_path / "work" / "runs" / "unpacked" / "own.py")
    capsys.readouterr()
    assert run(["run", "own.py", "--home", "work", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["steps"][0]["status"] == "Cached"
