"""A place in which a script keeps checkpoints of its own, and what another tool's are recognised by."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from drivetrain.steps import trainings
from drivetrain.training.checkpointing.inspection import own_files
from drivetrain.training.checkpointing.inspection.own_files import described
from tests.unit.training.checkpointing.inspection.program import Program, rows


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """Files and a folder that a script named itself; times in the reverse order of the numbers."""
    folder = tmp_path / "checkpoints"
    for number, (name, content) in enumerate(
        [
            ("step-120.npz", b"x" * 1500),
            ("step-90.npz", b"x" * 900),
            ("epoch-95/weights.npz", b"x" * 50),
            ("epoch-95/deep/er/optimizer.npz", b"x" * 30),
            ("latest.json", b"{}"),
            ("step-120.npz.sagemaker-uploaded", b""),
        ]
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        os.utime(folder / name, (1e9 + number, 1e9 + number))
    return folder


def test_a_scripts_own_files_are_listed_by_number(program: Program, theirs: Path) -> None:
    text = program("list", theirs)
    assert text.splitlines()[0] == str(theirs)
    assert "No checkpoint of a recipe is here, but the files of another program" in text and "verify and export" in text
    found = rows(text)
    assert [name for name in found if name in os.listdir(theirs) or name.endswith("/")] == [
        *("step-120.npz", "epoch-95/", "step-90.npz", "latest.json")
    ]
    assert found["step-120.npz"].split()[1:3] == ["1.5", "kB"] and found["step-120.npz"].endswith(" ago")
    assert found["epoch-95/"].split()[1:4] == ["80", "B", "2"]
    (listed,) = program.json("list", theirs)
    assert listed["rows"] == [] and listed["place"] == str(theirs) and listed["recognised"] is None
    assert [(each["name"], each["files"], each["bytes"], each["modified"]) for each in listed["own"]] == [
        ("step-120.npz", 1, 1500, 1e9),
        ("epoch-95/", 2, 80, 1e9 + 3),
        ("step-90.npz", 1, 900, 1e9 + 1),
        ("latest.json", 1, 2, 1e9 + 4),
    ]


def test_each_training_of_a_place_says_whose_it_is(program: Program, tmp_path: Path) -> None:
    def start(run: str, rate: float) -> Path:
        parts = {"learning_rate": rate, "data of train": "0" * 64}
        folder = trainings.begin(tmp_path, parts, environment={"DRIVETRAIN_EXECUTION": run})
        assert isinstance(folder, Path)
        (folder / "last.pt").touch()
        return folder

    first, second = start("first", 0.25), start("second", 0.5)
    trainings.end(second)
    text = program("list", tmp_path)
    assert f"{first}\n" in text and f"{second}\n" in text and text.count("last.pt") == 2
    assert "run first, started just now, not ended; in the latest training otherwise: learning_rate 0.25 -> 0.5" in text
    assert "run second, started just now, ended\n" in text
    listed = {each["run"]: each for each in program.json("list", tmp_path)}
    assert listed["first"]["differs"] == ["learning_rate 0.25 -> 0.5"] and not listed["first"]["ended"]
    assert listed["second"]["differs"] == [] and listed["second"]["ended"]
    assert [each["name"] for each in listed["second"]["own"]] == ["last.pt"]


def test_long_lists_are_shortened_only_for_people(program: Program, tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"model_{number}.bin").touch()
    text = program("list", tmp_path)
    assert "model_39.bin" in text and "model_0.bin" not in text and "20 more" in text
    assert "files of torch.save" in text
    (listed,) = program.json("list", tmp_path)
    assert len(listed["own"]) == 40 and "torch.save" in listed["recognised"]


def test_a_large_folder_is_not_counted_to_its_end(theirs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_files, "_COUNTED", 1)
    found = {each.name: each for each in own_files.own_files(str(theirs))}
    assert found["epoch-95/"].files is None and found["epoch-95/"].bytes is None
    assert found["step-90.npz"].bytes == 900


@pytest.mark.parametrize("command", [["verify"], ["verify", "--all"], ["show"], ["export", "--out", "w.safetensors"]])
def test_unsupported_actions_on_own_files_are_explained(program: Program, theirs: Path, command: list[str]) -> None:
    said = program.error(command[0], theirs, *command[1:])
    assert "holds no checkpoint" in said and "4 entries" in said and "only that program can tell" in said
    assert "`list` shows them" in said


def test_data_folders_are_distinguished_from_checkpoint_folders(program: Program, tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    for name in ("train/part-0.parquet", "manifest.json", "_SUCCESS"):
        (tmp_path / name).write_bytes(b"x")
    assert "holds data (train/part-0.parquet), and no checkpoint. Give" in program.error("list", tmp_path)
    (tmp_path / "weights.npz").write_bytes(b"x")  # a script that keeps its measurements beside its weights
    assert "weights.npz" in program("list", tmp_path)


def test_nothing_is_to_be_listed(program: Program, tmp_path: Path) -> None:
    assert "is empty" in program.error("list", tmp_path)
    (tmp_path / "checkpoint-1").mkdir()
    assert "holds no checkpoint" in program.error("list", tmp_path)
    # A training of ours that has saved nothing yet is no other program.
    (tmp_path / "d1-c2" / "attempts").mkdir(parents=True)
    (tmp_path / "d1-c2" / "attempts" / "00001.json").write_text(json.dumps({"number": 1}))
    assert "holds no checkpoint" in program.error("list", tmp_path)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["checkpoint-1/"], None),
        (["checkpoint-1/notes.txt"], None),
        (["checkpoint-1.pt"], "files of torch.save"),
        (["checkpoint-1/weights.pt"], "files of torch.save"),
        (["checkpoint-1/model.safetensors", "checkpoint-1/optimizer.pt"], "files of torch.save"),
        (
            ["checkpoint-1/trainer_state.json", "checkpoint-1/model.safetensors", "checkpoint-1/optimizer.pt"],
            "Give its model.safetensors as",
        ),
        (["trainer_state.json", "pytorch_model.bin"], "Give its pytorch_model.bin as"),
        (["trainer_state.json", "model-00001-of-00002.safetensors"], "Put its weights into one file"),
    ],
)
def test_a_tool_is_recognised_by_what_is_there(names: list[str], said: str | None) -> None:
    found = described(names)
    assert (found is None) == (said is None)
    assert said is None or (found and said in found)
    assert found is None or all(name not in found or any(name in given for given in names) for name in _FILES)


_FILES = ("model.safetensors", "pytorch_model.bin", "optimizer.pt")
