"""The two steps before a training that goes on: which version it is, and its files."""

from __future__ import annotations

import gzip
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.fetch_previous import fetch_previous
from drivetrain.components.find_previous import find_previous
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.registry import open_registry
from drivetrain.training.continuation import read_continuation

NONE = {"version": "none", "content_hash": "none"}


class Group:
    """The group `digits` in a registry, with models of one file."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"local:{folder}/ledger.db"
        self.registry = open_registry(self.url)

    def add(self, weights: str, status: str, execution: str | None = None) -> str:
        model = self.folder / weights
        (model / "training").mkdir(parents=True)
        (model / "weights").write_text(weights)
        (model / "training" / "last.pt").write_text(f"state of {weights}")
        package = record_of({"SourceUri": model.as_uri()})
        self.registry.register("digits", content_hash(model), package, approval=status, execution=execution)
        return content_hash(model)

    def find(self, which: str = "previous") -> dict[str, Any]:
        return dict(find_previous("digits", which, self.url))

    def fetch(self, **given: Any) -> Path:
        folder = self.folder / "previous"
        fetch_previous(None, folder, group="digits", registry=self.url, **given)
        return folder


@pytest.fixture
def group(tmp_path: Path) -> Group:
    return Group(tmp_path)


def test_the_declarations() -> None:
    assert not find_previous.cached and find_previous.texts == ("version", "content_hash")
    assert fetch_previous.cached and list(fetch_previous.outputs) == ["previous"]
    helped = (*find_previous.parameters.values(), *fetch_previous.parameters.values(), *fetch_previous.inputs.values())
    assert all(each.help for each in helped)


def test_previous_is_the_approved_version(group: Group, capsys: pytest.CaptureFixture[str]) -> None:
    assert group.find() == NONE
    assert capsys.readouterr().out == "starts anew: digits has no approved version\n"
    approved = group.add("first", "Approved")
    group.add("second", "PendingManualApproval")
    group.add("third", "Rejected")
    assert group.find() == {"version": "1", "content_hash": approved}
    assert capsys.readouterr().out == f"continues digits version 1 (content {approved[:12]})\n"
    group.registry.set_status("digits", 1, "Rejected")
    assert group.find() == NONE


def test_a_named_version_is_found(group: Group) -> None:
    group.add("first", "Rejected")
    second = group.add("second", "PendingManualApproval")
    assert group.find("2") == {"version": "2", "content_hash": second}
    with pytest.raises(
        InputError, match=r"digits version 1 is rejected, so nothing goes on from it\. Approve it \(driv"
    ):
        group.find("1")
    with pytest.raises(InputError, match="9"):
        group.find("9")
    with pytest.raises(
        InputError, match=r"which is 'newest'\. Allowed: previous, the number of a version of digits, or run:ID"
    ):
        group.find("newest")


def test_the_version_registered_by_a_run_is_found(group: Group) -> None:
    arn = "arn:aws:sagemaker:eu-west-1:123456789012:pipeline/nightly/execution/"
    first = group.add("first", "PendingManualApproval", f"{arn}12ab")
    second = group.add("second", "Approved", f"{arn}34cd")
    group.add("third", "Rejected", f"{arn}56ef")
    for run in ("12ab", "12", f"{arn}12ab"):
        assert group.find(f"run:{run}") == {"version": "1", "content_hash": first}
    assert group.find("run:34") == {"version": "2", "content_hash": second}
    with pytest.raises(InputError, match=r"digits version 3 is rejected"):
        group.find("run:56ef")
    for none in ("90", ""):
        with pytest.raises(InputError, match=rf"no run '{none}' has registered a version of digits\. .*path or URI"):
            group.find(f"run:{none}")
    with pytest.raises(InputError, match=r"is the beginning of several runs: .*12ab, .*34cd, .*56ef\. Give all"):
        group.find(f"run:{arn}")
    again = record_of({"SourceUri": (group.folder / "first").as_uri()})
    for _ in range(2):
        assert group.registry.register("digits", first, again, execution=f"{arn}78ab") == (1, False)
    assert group.find("run:78ab") == {"version": "1", "content_hash": first}, "the same content, so no new version"
    group.add("fourth", "Approved", f"{arn}34cd")
    with pytest.raises(InputError, match=r"run '34cd' has registered versions 2, 4 of digits\. Give one's number"):
        group.find("run:34cd")


@pytest.mark.parametrize("which", ["previous", "1"])
def test_a_fresh_start_finds_no_previous_model(
    group: Group, which: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group.add("first", "Approved")
    monkeypatch.setenv("DRIVETRAIN_FRESH", "0a1b")
    assert group.find(which) == NONE
    assert capsys.readouterr().out == "starts anew: --fresh\n"


def test_a_fresh_start_continues_only_a_model_of_its_own_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "weights").write_text("mine")
    monkeypatch.setenv("DRIVETRAIN_FRESH", "0a1b")
    assert fetch_previous(tmp_path / "model", tmp_path / "none") == {"content_hash": "none"}
    assert capsys.readouterr().out == "starts anew: --fresh\n"
    assert read_continuation(tmp_path / "none").model is None
    fetch_previous(tmp_path / "model", tmp_path / "previous", of_this_run=True)
    assert read_continuation(tmp_path / "previous").model is not None


def test_the_files_of_a_version(group: Group) -> None:
    approved = group.add("first", "Approved")
    given = read_continuation(group.fetch(**group.find()))
    assert given.about == {"group": "digits", "version": "1", "content_hash": approved}
    assert given.name == "digits version 1"
    assert given.model is not None and content_hash(given.model) == approved
    assert given.state is not None and (given.state / "last.pt").read_text() == "state of first"


def test_without_a_previous_model_the_folder_says_so(group: Group) -> None:
    folder = group.fetch(**NONE)
    assert [path.name for path in folder.iterdir()] == ["continues.json"], "no channel is empty"
    assert read_continuation(folder).model is None


def test_files_that_have_changed_since_are_refused(group: Group) -> None:
    group.add("first", "Approved")
    (group.folder / "first" / "weights").write_text("other")
    with pytest.raises(InputError, match=r"files that digits version 1 was registered with: .* train again .*another"):
        group.fetch(**group.find())
    shutil.rmtree(group.folder / "first")
    with pytest.raises(InputError, match=r"the files of digits version 1, from which to continue, cannot be had: "):
        group.fetch(**group.find())


def test_a_torn_archive_names_its_version(group: Group) -> None:
    group.add("first", "Approved")
    archive = group.folder / "first" / "model.tar.gz"
    for file in list((group.folder / "first").rglob("*")):
        if file.is_file():
            file.unlink()
    archive.write_bytes(gzip.compress(b"x" * 2000)[:-4])
    with pytest.raises(
        InputError, match=r"digits version 1 was registered with: .* is not a whole \.tar\.gz: .* train"
    ):
        group.fetch(**group.find())


def test_a_model_archive_of_the_platform_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "weights").write_text("mine")
    with tarfile.open(tmp_path / "model" / "model.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "weights", "weights")
    fetch_previous(tmp_path / "model", tmp_path / "previous")
    given = read_continuation(tmp_path / "previous")
    assert given.model is not None and (given.model / "weights").read_text() == "mine"
    assert given.name == f"the model {content_hash(given.model)[:12]}" and given.state is None


def test_neither_or_both_is_refused(tmp_path: Path) -> None:
    for model, version in ((None, ""), (tmp_path, "1")):
        with pytest.raises(InputError, match="give either the folder of a model, or a version"):
            fetch_previous(model, tmp_path / "previous", version=version)


@pytest.mark.parametrize("text", [None, "[]", "{", '{"version": "1"}', '{"content_hash": 1}', '{"content_hash": "0a"}'])
def test_another_folder_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "continues.json").write_text(text)
    with pytest.raises(InputError, match=r"Give|cannot be read"):
        read_continuation(tmp_path)
