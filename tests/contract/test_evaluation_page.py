"""docs/evaluation.md: its commands exist, its tables are what the code does, its example runs."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest

from drivetrain.components.evaluate import evaluate

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "evaluation.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z_0-9.]+)`", PAGE))


def test_every_parameter_has_its_line() -> None:
    (table,) = re.findall(r"\| parameter \|.*?\n\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\|(.*?)\|", table, re.MULTILINE)))) == set(
        evaluate.parameters
    )


def test_the_commands_have_flags_that_exist() -> None:
    from drivetrain.components import command_line

    commands = re.findall(r"^python -m drivetrain.components.evaluate (.*)$", PAGE.replace("\\\n", ""), re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        values = command_line.read(evaluate, shlex.split(command))
        assert values["data"] == Path("build/test")


def test_every_metric_is_named_and_the_defaults_are_those() -> None:
    from drivetrain.training_scripts import plugins
    from drivetrain.training_scripts.metrics import DEFAULTS

    assert set(plugins.names("metrics")) <= NAMED
    rows = {match[1]: match[2] for match in re.finditer(r"^\| `([a-z]+)` \|[^|]*\|([^|]*)\|$", PAGE, re.MULTILINE)}
    assert {kind: tuple(re.findall(r"`([a-z_0-9]+)`", rows[kind])) for kind in DEFAULTS} == dict(DEFAULTS)


def test_every_file_of_a_report_is_named() -> None:
    from drivetrain.training_scripts.evaluating import files

    names = (files.EVALUATION_FILE, files.BOOTSTRAP_FILE, files.CURVES_FILE, files.MODEL_QUALITY_FILE)
    assert set(names) <= NAMED
    assert f"`{files.PLOTS_FOLDER}/*.svg`" in PAGE
    assert f"`{files.PREDICTIONS_FOLDER}/part-00000.parquet`" in PAGE


def test_the_metric_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from drivetrain.training_scripts.evaluate import run
    from drivetrain.training_scripts.evaluating.settings import Settings
    from drivetrain.training_scripts.models.saved_model import save_model
    from drivetrain.training_scripts.process import Process
    from drivetrain.training_scripts.recipe import load_recipe
    from tests.distributed.prepared_data import digit_columns, write_prepared

    (example,) = [
        each for each in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) if "Sure" in each
    ]
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sure.py").write_text(example, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path / "own")
    torch.manual_seed(0)
    options = {"channels": 2, "hidden": 4}
    weights = {n: 20 * t for n, t in load_recipe("digits_cnn", options).model().state_dict().items()}
    described = {"recipe": "digits_cnn", "recipe_options": options, "precision": "fp32"}
    save_model(tmp_path / "model", weights, described)
    data = write_prepared(tmp_path / "data", digit_columns(20))
    process = Process(0, 1, 0, 1, torch.device("cpu"))
    settings = Settings(scoring="accuracy, sure(above=0.5)", mode="exact", bootstrap=20, predictions=True)
    numbers = run(tmp_path / "model", data, process, settings=settings, report=tmp_path / "report")
    import pyarrow.parquet as parquet

    table = parquet.read_table(tmp_path / "report" / "predictions").to_pydict()
    scores = zip(*(table[f"score_{number}"] for number in range(10)), strict=True)
    assert numbers["sure"] == sum(max(each) >= 0.5 for each in scores) / 20
    assert 0 < numbers["sure"] <= 1
    found = json.loads((tmp_path / "report" / "evaluation.json").read_text())["metrics"]["sure"]
    assert found["low"] <= found["value"] <= found["high"]
    sys.modules.pop("sure")
