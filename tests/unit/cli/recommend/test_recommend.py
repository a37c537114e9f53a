"""The recommendation as people and scripts read it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.recommend import profile
from drivetrain.recommend.facts import read_file
from drivetrain.recommend.facts_places import SHIPPED

SHIPPED_DIGITS = SHIPPED / "digits_cnn.facts.json"
PIPELINE = """
from drivetrain.components.train import train
from drivetrain import Cluster, Pipeline, step

def nightly() -> Pipeline:
    cluster = Cluster(instance_type="ml.g5.12xlarge", count=2)
    small = step(train, name="small", train="s3://b/k/", recipe="digits_cnn", global_batch=256, cluster=cluster)
    return Pipeline(name="nightly", steps=[small])
"""


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Nothing is measured; what was asked for is noted."""
    asked: list[tuple[str, Any]] = []

    def measure(recipe: str, options: Any, folder: Any, write_speed: Any = None) -> dict[str, Any]:
        asked.append((recipe, dict(options)))
        file = read_file(SHIPPED_DIGITS)
        found = {**file.measurements[0], "recipe": recipe, "recipe_options": dict(options)}
        found |= {"source_hash": file.source_hash, "torch": file.torch}
        return found | ({"write_bytes_per_second": 5e8} if write_speed else {})

    monkeypatch.setattr(profile, "measure", measure)
    monkeypatch.setattr("drivetrain.cli.recommend.cases.measure", measure)
    return asked


def test_a_table_and_a_choice(drivetrain, measured: list[Any]) -> None:
    text = drivetrain("recommend", "--recipe", "digits_cnn", "--instance", "ml.g5.12xlarge", "--global-batch", "256")
    lines = text.splitlines()
    assert lines[0] == "digits_cnn, 151,306 parameters, 264 bytes a sample, global batch 256, fp32"
    language = drivetrain("recommend", "--recipe", "decoder_lm", "--instance", "ml.g5.12xlarge", "--global-batch", "8")
    assert ", sequences of 256, " in language.splitlines()[0]
    assert lines[1].startswith("on 1 x ml.g5.12xlarge (4 x A10G of 22.35 GiB")
    assert lines[3].split()[:4] == ["STRATEGY", "LAYOUT", "PARAM.", "GRAD."]
    ddp = next(line for line in lines if line.startswith("ddp"))
    assert "replicate 4" in ddp and " yes " in ddp and "907.8 kB" in ddp
    assert "not single: for one process; there are 4" in lines
    assert "Estimates. Memory in MiB a GPU; it may fill 19,453.4 of 22,886.4 (15% stay free)." in text
    assert lines[-1].startswith("Choice: ddp: every GPU has room for the whole model")
    assert measured == []  # its facts come with the package


def test_json_for_scripts(drivetrain) -> None:
    found = json.loads(drivetrain("recommend", "--recipe", "digits_cnn", "--instance", "ml.m5.xlarge", "--json"))
    assert len(found) == 1
    assert (found[0]["choice"], found[0]["strategy_options"], found[0]["estimates"]) == ("single", {}, True)
    rows = {row["strategy"]: row for row in found[0]["strategies"]}
    assert rows["single"]["fits"] and rows["single"]["memory_bytes"]["parameters"] == 151_306 * 4
    assert rows["ddp"] == {"strategy": "ddp", "possible": False, "note": "one process: nothing to share"}


def test_several_instances(drivetrain) -> None:
    found = drivetrain("recommend", "--recipe", "digits_cnn", "--instance", "local", "--instance", "ml.p4d.24xlarge")
    assert found.count("Choice: ") == 2 and "Choice: single" in found and "Choice: ddp" in found


def test_a_pipeline_gives_recipe_batch_and_machines(
    drivetrain, measured: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # the last column is shortened to the width
    file = drivetrain.write("nightly.py", PIPELINE)
    text = drivetrain("recommend", file)
    assert text.startswith("step small: digits_cnn, 151,306 parameters, 264 bytes a sample, global batch 256, fp32")
    assert "on 2 x ml.g5.12xlarge" in text and "8 processes (2 hosts x 4)" in text and "crosses hosts" in text
    assert "1 process" in drivetrain("recommend", file, "--instance", "ml.m5.large", "--hosts", "1")


def test_facts_are_written_beside_the_pipeline(drivetrain, measured: list[Any]) -> None:
    file = drivetrain.write("weekly.py", PIPELINE)
    drivetrain("recommend", file, "--write")
    path = drivetrain.folder / "digits_cnn.facts.json"
    assert f"Wrote {path}." in drivetrain.err
    assert path.read_text() == SHIPPED_DIGITS.read_text()
    assert measured == [("digits_cnn", {})]
    drivetrain("recommend", file, "--recipe-options", '{"hidden": 7}', "--write-speed", drivetrain.folder)
    written = read_file(path)
    assert [each["recipe_options"] for each in written.measurements] == [{"hidden": 7}, {}]
    assert written.checkpoint_bytes_per_second == {"ml.g5.12xlarge": 5e8}


def test_unmeasured_recipes_are_measured(drivetrain, measured: list[Any]) -> None:
    drivetrain("recommend", "--recipe", "digits_cnn", "--recipe-options", '{"hidden": 7}')
    assert measured == [("digits_cnn", {"hidden": 7})]
    assert "Measuring recipe digits_cnn (there are no facts of recipe 'digits_cnn' with options" in drivetrain.err
    assert not list(drivetrain.folder.glob("*.facts.json"))


def test_nothing_fits_is_a_failure(drivetrain, measured: list[Any]) -> None:
    more = ("--instance", "ml.g5.xlarge", "--global-batch", "9999999")
    text = drivetrain("recommend", "--recipe", "digits_cnn", *more, code=1)
    assert "Nothing fits: the least is single with" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give a recipe"),
        (["--recipe", "digit_cnn"], "no recipe 'digit_cnn'"),
        (["--recipe", "digits_cnn", "--instance", "ml.g5.12xlage"], "Did you mean 'ml.g5.12xlarge'"),
        (["--recipe", "digits_cnn", "--recipe-options", "{"], "--recipe-options '{' are not JSON"),
        (["--recipe", "digits_cnn", "--precision", "fp23"], "Did you mean 'fp32'"),
        (["--recipe", "digits_cnn", "--set", "a=1"], "settings of a pipeline"),
        (["--recipe", "digits_cnn", "--instance", "ml.g5.xlarge", "--processes", "3"], "3 processes, but ml.g5.xlarge"),
        (
            ["--recipe", "digits_cnn", "--instance", "local", "--instance", "ml.m5.large", "--write-speed", "."],
            "measures the disk of this machine, but there are 2 instance types",
        ),
        (["nowhere"], "No pipeline 'nowhere'"),
    ],
)
def test_bad_input_is_one_message(drivetrain, arguments: list[str], message: str) -> None:
    assert message in drivetrain.error("recommend", *arguments)


def test_a_pipeline_without_a_training(drivetrain) -> None:
    text = PIPELINE[: PIPELINE.index("    small =")] + "    return Pipeline(name='nightly')\n"
    file = drivetrain.write("without.py", text)
    assert "has no step of drivetrain's train component" in drivetrain.error("recommend", file)
