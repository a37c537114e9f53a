"""Whole tensors, from any cut of them, written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors import safe_open

from tests.unit.training.checkpointing.inspection.program import AVERAGE, HISTORY, TENSORS, WEIGHT, Program


def test_export_takes_the_average(program: Program, made, tmp_path: Path) -> None:
    made.save(20, TENSORS)
    out = tmp_path / "weights.safetensors"
    assert "the moving average in the parameters' place, 2 tensors" in program("export", made.folder, "--out", out)
    assert _tensors(out) == {"0.weight": AVERAGE, "0.running_mean": [7.0]}
    program("export", made.folder, "--out", out, "--no-average", "--force")
    assert _tensors(out) == {"0.weight": WEIGHT, "0.running_mean": [7.0]}
    program("export", made.folder, "--out", out, "--best", "--force")
    assert _tensors(out) == {"0.weight": [9.0] * 12, "0.running_mean": [8.0]}
    program("export", made.folder, "--out", out, "--optimizer", "--force")
    assert _tensors(out).keys() == TENSORS.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "weights.safetensors"]


def test_export_of_a_model_folder(program: Program, made, tmp_path: Path) -> None:
    made.save(20, TENSORS, state={"history": HISTORY, "watch": {"best_step": 10}})
    out = tmp_path / "model"
    done = program.json("export", made.folder, "--out", out)
    described = json.loads((out / "model.json").read_text())
    assert described["weights"] == {"file": "model.safetensors", "bytes": done["bytes"], "sha256": done["sha256"]}
    assert described["recipe"] == "digits_cnn" and described["format"] == 1
    assert (described["step"], described["metrics"]) == (20, {"validation_loss": 0.25})
    program("export", made.folder, "--out", out, "--best", "--force")
    described = json.loads((out / "model.json").read_text())
    assert (described["step"], described["metrics"]) == (10, {"validation_loss": 0.5})
    # The average was validated, and not the weights.
    program("export", made.folder, "--out", out, "--no-average", "--force")
    assert json.loads((out / "model.json").read_text())["metrics"] == {}
    assert sorted(path.name for path in out.iterdir()) == ["model.json", "model.safetensors"]


def _tensors(path: Path) -> dict[str, list[float]]:
    with safe_open(path, "numpy") as file:
        return {name: file.get_tensor(name).ravel().tolist() for name in file.keys()}  # noqa: SIM118


def test_export_overwrites_nothing(program: Program, made, tmp_path: Path, flip: Callable[..., None]) -> None:
    folder = made.save(20, TENSORS)
    file, model, own = tmp_path / "w.safetensors", tmp_path / "model", tmp_path / "own"
    for path in (file, model):
        program("export", made.folder, "--out", path)
        assert "--force" in program.error("export", made.folder, "--out", path)
    own.mkdir()
    (own / "thesis.tex").touch()
    assert "thesis.tex" in program.error("export", made.folder, "--out", own, "--force")
    assert "is a folder" in program.error("export", made.folder, "--out", _folder(tmp_path / "x.safetensors"))
    assert "there is no folder" in program.error("export", made.folder, "--out", tmp_path / "no" / "w.safetensors")
    assert "is a file" in program.error("export", made.folder, "--out", folder / "state.json")
    before = {path.name: path.read_bytes() for path in (file, *model.iterdir())}
    # What is damaged is not exported, and what is there stays.
    flip(folder / "rank-00001-of-00002.safetensors")
    for path in (file, model):
        assert "rank-00001" in program.error("export", made.folder, "--out", path, "--force", code=1)
    assert before == {path.name: path.read_bytes() for path in (file, *model.iterdir())}
    assert not list(tmp_path.glob(".*"))


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_full_disk_keeps_existing_files(
    program: Program, made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.save(20, TENSORS)
    model = tmp_path / "model"
    program("export", made.folder, "--out", model)
    before = {path.name: path.read_bytes() for path in model.iterdir()}

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("drivetrain.training.checkpointing.inspection.export.os.fsync", full)
    assert "No space left" in program.error("export", made.folder, "--out", model, "--force")
    assert "No space left" in program.error("export", made.folder, "--out", tmp_path / "other")
    assert before == {path.name: path.read_bytes() for path in model.iterdir()}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints", "model"]


def test_export_of_an_undescribed_model(program: Program, made, tmp_path: Path) -> None:
    made.save(1, TENSORS, state={"description": None})
    assert "--out NAME.safetensors" in program.error("export", made.folder, "--out", tmp_path / "model")
    assert "writes one file" in program.error("export", made.folder, "--out", tmp_path / "model", "--optimizer")
    made.save(2, {"w": ([1.0], (1,), [((0,), (1,))])})
    assert "Take all with --optimizer" in program.error("export", made.folder, "--out", tmp_path / "w.safetensors")
    made.save(3)
    assert "keep_best" in program.error("export", made.folder, "--best", "--out", tmp_path / "w.safetensors")


def test_damage_is_described_in_sentences(program: Program, three, tmp_path: Path, flip: Callable[..., None]) -> None:
    flip(three.folder / "step-00000100" / "rank-00000-of-00002.safetensors")
    out = tmp_path / "w.safetensors"
    said = program.error("export", three.folder, "--out", out, code=1)
    assert said.startswith("error: this checkpoint is damaged: step-00000100/rank-00000-of-00002.safetensors has the")
    assert said.endswith(". To see all that is wrong with it, run verify.\n")
    (three.folder / "step-00000020" / "rank-00000-of-00002.safetensors").unlink()
    said = program.error("export", three.folder, "20", "--out", out, code=1)
    assert said.startswith("error: this checkpoint is incomplete: ") and "is not there. To see all" in said


@pytest.mark.parametrize("name", ["x", "x.safetensors"])
def test_a_place_where_nothing_can_be_made_is_named_as_it_was_given(program: Program, made, name: str) -> None:
    made.save(20, TENSORS)
    said = program.error("export", made.folder, "--out", f"/proc/{name}")
    assert said == f"error: /proc/{name} cannot be written: No such file or directory. Give another place.\n"


@pytest.mark.parametrize("out", ["", "  "])
def test_an_empty_name_is_refused(
    program: Program, made, tmp_path: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.save(20, TENSORS)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert "--out is empty" in program.error("export", made.folder, "--out", out)
    assert not list((tmp_path / "here").iterdir())


DESCRIPTION = {"recipe": "digits_cnn", "recipe_options": {}, "precision": "fp32"}


def test_the_code_of_a_model_is_exported_and_obsolete_code_removed(
    program: Program, made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model"
    first = {"inference.py": "first = 'é'\n", "modules/drivetrain/__init__.py": "", "modules/own/recipe.py": "a"}
    made.save(10, TENSORS, state={"description": {**DESCRIPTION, "code": first}})
    program("export", made.folder, "--out", out)
    assert _code(out) == first
    assert "code" not in json.loads((out / "model.json").read_text())
    second = {"inference.py": "second\n", "modules/own/other.py": "b"}
    made.save(20, TENSORS, state={"description": {**DESCRIPTION, "code": second}})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("drivetrain.training.checkpointing.inspection.export.os.fsync", full)
        assert "No space left" in program.error("export", made.folder, "--out", out, "--force")
    assert _code(out) == first and (out / "model.json").is_file()
    program("export", made.folder, "--out", out, "--force")
    assert _code(out) == second
    made.save(30, TENSORS)  # by a training that kept no code
    program("export", made.folder, "--out", out, "--force")
    assert sorted(path.name for path in out.iterdir()) == ["model.json", "model.safetensors"]


def _code(folder: Path) -> dict[str, str]:
    files = [path for path in (folder / "code").rglob("*") if path.is_file()]
    return {str(path.relative_to(folder / "code")): path.read_text(encoding="utf-8") for path in files}


@pytest.mark.parametrize(
    "code",
    [{"../evil.py": "x"}, {"/tmp/evil.py": "x"}, {"a/../../evil.py": "x"}, {"run.sh": "x"}, {"a.py": 3}, ["a.py"], "x"],
)
def test_code_outside_the_folder_is_not_written(code: object, program: Program, made, tmp_path: Path) -> None:
    made.save(20, TENSORS, state={"description": {**DESCRIPTION, "code": code}})
    said = program.error("export", made.folder, "--out", tmp_path / "model")
    assert "which is no module of a model" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoints"]
