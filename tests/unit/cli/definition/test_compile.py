from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def test_stdout_and_file_have_the_same_definition(drivetrain) -> None:
    printed = drivetrain("compile", "retraining")
    assert [step["Name"] for step in json.loads(printed)["Steps"]][:2] == ["prepare", "train"]
    assert drivetrain("compile", "retraining", "-o", drivetrain.folder / "r.json") == ""
    assert "Wrote" in drivetrain.err
    assert (drivetrain.folder / "r.json").read_text() == printed
    assert not list(drivetrain.folder.glob(".*part"))
    told = json.loads(drivetrain("compile", "retraining", "--json"))
    assert told["definition"] == printed and isinstance(told["warnings"], list)
    told = json.loads(drivetrain("compile", "retraining", "-o", drivetrain.folder / "r.json", "--json"))
    assert told["file"] == str(drivetrain.folder / "r.json") and list(Path(told["objects"]).rglob("*.gz"))


def test_output_keeps_links_and_pipes(drivetrain) -> None:
    """Replaced by a file, /dev/null would be gone for the whole machine."""
    folder = drivetrain.folder
    printed = drivetrain("compile", "retraining")
    (folder / "link.json").symlink_to("real.json")
    drivetrain("compile", "retraining", "-o", folder / "link.json")
    assert (folder / "link.json").is_symlink() and (folder / "real.json").read_text() == printed
    os.mkfifo(folder / "pipe")
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit((folder / "pipe").read_text)
        drivetrain("compile", "retraining", "-o", folder / "pipe")
        assert read.result() == printed
    assert (folder / "pipe").is_fifo() and not list(folder.glob(".*part"))


def test_remedies_named_by_a_decision_are_settings(drivetrain) -> None:
    printed = drivetrain("compile", "retraining", "--set", "nights=bonferroni", "--set", "lines=8")
    (compare,) = (step for step in json.loads(printed)["Steps"] if step["Name"] == "compare")
    given = compare["Arguments"]["AppSpecification"]["ContainerArguments"]
    assert [given[given.index(name) + 1] for name in ("--nights", "--lines")] == ["bonferroni", "8"]


def test_settings_reach_the_definition(drivetrain) -> None:
    printed = drivetrain("compile", "retraining", "--set", "epochs=33")
    (train,) = [step for step in json.loads(printed)["Steps"] if step["Name"] == "train"]
    assert train["Arguments"]["HyperParameters"]["epochs"] == "33"


def test_bad_input(drivetrain) -> None:
    assert "Did you mean 'epochs'?" in drivetrain.error("compile", "retraining", "--set", "epoch=3")
    assert "there is no folder" in drivetrain.error("compile", "retraining", "-o", drivetrain.folder / "a" / "b.json")
    assert "is a folder" in drivetrain.error("compile", "retraining", "-o", drivetrain.folder)
    drivetrain.write("broken.py", "def pipeline(:\n")
    assert "broken.py, line 1" in drivetrain.error("compile", drivetrain.folder / "broken.py")


def test_an_error_while_the_users_function_runs_names_its_line(drivetrain) -> None:
    file = drivetrain.write(
        "late.py",
        "from drivetrain import Pipeline\n\ndef late() -> Pipeline:\n    return Pipeline(name={}['name'])\n",
    )
    assert drivetrain.error("compile", file) == "error: late.py, line 4: KeyError: 'name'\n"


def test_the_settings_file_of_a_pipeline_is_not_overwritten(drivetrain, monkeypatch) -> None:
    monkeypatch.chdir(drivetrain.folder)
    settings = drivetrain.write("retraining.yaml", "epochs: 7\n")
    error = drivetrain.error("compile", "retraining", "-o", "retraining.yaml")
    assert "is the file with the pipeline's settings" in error and settings.read_text() == "epochs: 7\n"
    other = drivetrain.write("other.yaml", "epochs: 8\n")
    assert "Give another name" in drivetrain.error("compile", "retraining", "-c", "other.yaml", "-o", "./other.yaml")
    assert other.read_text() == "epochs: 8\n"


def test_settings_outside_their_block_are_refused_with_the_place(drivetrain) -> None:
    error = drivetrain.error("compile", "retraining", "--set", "deployment.prefix=vision")
    assert "It belongs in the block of its target: deployment.targets.sagemaker.prefix" in error
