"""A calibrated model answers the same, whatever asks it: evaluate, batch_predict, its table, and what serves it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.compare import compare
from drivetrain.components.register_model import register_model
from drivetrain.data.key_sample import KeySample
from drivetrain.registry.card_sections import as_markdown
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.registry import open_registry
from drivetrain.training.calibration_config import CalibrationConfig
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.model_folder import read_description, write_code, write_description
from drivetrain.training.serving import functions
from drivetrain.training.serving import model as recipes
from drivetrain.training_scripts import calibrate, describe, predict
from drivetrain.training_scripts.evaluate import run as evaluate
from tests.contract.test_answers import ALONE, check_equal, reports, write_data, write_model
from tests.distributed.prepared_data import write_prepared
from tests.fixtures import any_task
from tests.fixtures.forked_python import forked_python

ROWS = 400
VALUES = {"sex": ["f", "m"], "site": ["x", "y"]}
KINDS = [kind for kind in any_task.KINDS if kind not in ("multilabel", "two numbers")]
ANSWERS = {
    "binary": 'return {"score": columns["score"]}',
    "regression": 'return {"predicted": columns["score"], "low": columns["score"] - 1, "high": columns["score"] + 1}',
}


def calibrated(model: Path, data: Path, to: Path, **given: Any) -> dict[str, float]:
    return calibrate.run(model, data, to, ALONE, CalibrationConfig(**given))


def labelled(kind: str, model: Path, data: Path, to: Path) -> Path:
    """The rows with labels that the model mostly knows."""
    predict.run(model, data, to / "raw", ALONE)
    rows = parquet.read_table(sorted(data.glob("*.parquet"))).to_pydict()
    told = parquet.read_table(to / "raw/part-00000.parquet")
    noise = np.random.default_rng(0).normal(size=len(told))
    if kind == "regression":
        label = told["predicted"].to_numpy() + noise
    elif "margin" in told.column_names:
        margin = told["margin"].to_numpy()
        label = (margin - np.median(margin) + 0.5 * margin.std() * noise > 0).astype(np.int64)
    else:
        scores = np.stack([told[name] for name in told.column_names if name.startswith("score_")])
        label = np.where(noise > 0.5, 0, scores.argmax(axis=0))
    return write_prepared(to / "data", {**rows, "label": label})


def write_table(folder: Path, seed: int, task: str) -> Path:
    """Two classes whose scores are far too sure, or numbers that are off by more than they say."""
    random = np.random.default_rng(seed)
    truth = random.normal(size=ROWS)
    if task == "binary":
        score, label = 1 / (1 + np.exp(-6 * truth)), (random.random(ROWS) < 1 / (1 + np.exp(-truth))).astype(np.int64)
    else:
        score, label = truth, truth + 2 * random.normal(size=ROWS)
    keys = KeySample("id")
    keys.add(pa.array(np.arange(ROWS) + seed * ROWS))
    groups = {name: random.choice(values, ROWS).tolist() for name, values in VALUES.items()}
    rows = {"id": np.arange(ROWS) + seed * ROWS, "score": score, **groups, "label": label}
    write_prepared(folder, rows)
    manifest = json.loads((folder / "manifest.json").read_text())
    listed = {name: {"values": [{"value": each, "rows": 1} for each in values]} for name, values in VALUES.items()}
    (folder / "manifest.json").write_text(json.dumps({**manifest, "statistics": listed, "keys": keys.entry()}))
    return folder


@pytest.fixture(scope="module", params=ANSWERS)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, dict[str, Path]]:
    """A task, a described model of it, and its data: train, calibration, test."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "own").mkdir()
    (folder / "own" / f"answer_{request.param}.py").write_text(
        f"def load(folder):\n    return None\n\n\ndef predict(model, columns):\n    {ANSWERS[request.param]}\n"
    )
    sides = ("train", "calibration", "test")
    data = {side: write_table(folder / side, seed, request.param) for seed, side in enumerate(sides)}
    (folder / "files").mkdir()
    (folder / "files" / "weights.txt").write_text("1")
    describe.run(
        *(folder / "files", data["train"], folder / "model"),
        source=folder / "own",
        answers=f"answer_{request.param}",
        task=request.param,
    )
    return request.param, folder / "model", data


def check_served(kind: str, model: Path, data: Path, answers: Path, served: type[Any]) -> None:
    """Answers to requests are those of the table."""
    read = parquet.read_table(sorted(data.glob("*.parquet")))
    loaded = served.load(model)
    columns = {name: read[name].to_numpy() for name in loaded.inputs.names}
    found = loaded.predict(columns)
    told = parquet.read_table(answers / "part-00000.parquet")
    names = [name for name in told.column_names if name.startswith("score")] or ["low", "high"]
    numbers = [*found.ends.values()] if found.scores is None else np.atleast_2d(found.scores.T)
    for name, values in zip(names, numbers, strict=True):
        assert told[name].to_numpy() == pytest.approx(values, abs=1e-6 if served is recipes.ServedModel else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_calibrated_recipe_answers_the_same_whatever_asks_it(kind: str, tmp_path: Path) -> None:
    write_model(tmp_path / "model", "tests.fixtures.any_task", {"kind": kind})
    description = read_description(tmp_path / "model")
    inputs = {"columns": [{"name": f"x{n}", "dtype": "float32", "shape": []} for n in range(4)]}
    write_description(tmp_path / "model", {**description, "inputs": inputs})
    data = labelled(kind, tmp_path / "model", write_data(tmp_path / "rows", kind), tmp_path)
    costs = {"false_negative_cost": 5.0} if any_task.KINDS[kind][0] == "binary" else {}
    numbers = calibrated(tmp_path / "model", data, tmp_path / "calibrated", **costs)
    asked, told = reports(tmp_path / "calibrated", data, tmp_path, Settings(batch_size=16, bootstrap=20))
    check_equal(asked, told, "distance")
    found, notes = asked["evaluation"]["metrics"], " ".join(asked["evaluation"].get("notes", ()))
    assert ("loss is the recipe's own, of the outputs before the calibration" in notes) == (kind != "regression")
    if kind == "regression":
        assert found["coverage"]["value"] >= 0.9 and found["width"]["higher_is_better"] is False
    else:
        assert found["log_loss"]["value"] == pytest.approx(numbers["log_loss"], rel=1e-9)
        assert numbers["log_loss"] <= numbers.get("log_loss_before", 9) + 1e-9
    if costs:
        assert found["cost"]["value"] == pytest.approx(numbers["threshold_cost"])
    check_served(kind, tmp_path / "calibrated", data, tmp_path / "answers", recipes.ServedModel)


def test_a_calibrated_model_of_functions_answers_the_same_and_better(own: Any, tmp_path: Path) -> None:
    task, model, data = own
    given: dict[str, Any] = {"false_positive_cost": 1.0, "false_negative_cost": 5.0} if task == "binary" else {}
    numbers = calibrated(model, data["calibration"], tmp_path / "calibrated", **given)
    evaluate(model, data["test"], ALONE, settings=Settings(), report=tmp_path / "before")
    before = json.loads((tmp_path / "before/evaluation.json").read_text())["metrics"]
    asked, told = reports(tmp_path / "calibrated", data["test"], tmp_path, Settings(bootstrap=20))
    asked["evaluation"].pop("loss")
    check_equal(asked, told)
    after = asked["evaluation"]["metrics"]
    if task == "binary":
        assert after["auroc"]["value"] == pytest.approx(before["auroc"]["value"], abs=1e-3)  # counted in bins
        assert after["log_loss"]["value"] < 0.5 * before["log_loss"]["value"]
        assert after["calibration_error"]["value"] < 0.3 * before["calibration_error"]["value"]
        assert asked["evaluation"]["task"]["threshold"] == numbers["threshold"] < 0.4
        assert abs(after["cost"]["value"] - numbers["threshold_cost"]) < 0.15
    else:
        assert before["coverage"]["value"] < 0.5 and abs(after["coverage"]["value"] - 0.9) < 0.06
    check_served(task, tmp_path / "calibrated", data["test"], tmp_path / "answers", functions.ServedModel)
    # Again: of the model as it was, and not of what the first one made.
    again = calibrated(tmp_path / "calibrated", data["calibration"], tmp_path / "again", **given)
    assert again == numbers
    assert (tmp_path / "again/model.json").read_bytes() == (tmp_path / "calibrated/model.json").read_bytes()
    if task == "binary":  # without costs the model's own threshold holds again
        calibrated(tmp_path / "again", data["calibration"], tmp_path / "without_costs")
        assert read_description(tmp_path / "without_costs")["task"]["threshold"] == 0.5


def test_the_accuracy_of_a_calibrated_recipe_is_that_of_its_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(recipe: object, outputs: Any, targets: object) -> dict[str, Any]:
        return {"accuracy": outputs[:, 0] > 1e9, "distance": outputs[:, 0]}

    monkeypatch.setattr(any_task.Recipe, "metrics", never)
    write_model(tmp_path / "model", "tests.fixtures.any_task", {"kind": "one logit"})
    data = labelled("one logit", tmp_path / "model", write_data(tmp_path / "rows", "one logit"), tmp_path)
    calibrated(tmp_path / "model", data, tmp_path / "calibrated")
    asked, told = reports(tmp_path / "calibrated", data, tmp_path, Settings(bootstrap=20))
    assert asked["evaluation"]["metrics"]["accuracy"] == told["evaluation"]["metrics"]["accuracy"]
    assert evaluate(tmp_path / "model", data, ALONE, settings=Settings(bootstrap=0))["accuracy"] == 0


@pytest.mark.slow
def test_a_calibrated_candidate_is_compared_with_an_uncalibrated_champion(own: Any, tmp_path: Path) -> None:
    task, model, data = own
    if task != "binary":
        return
    costs: dict[str, Any] = {"false_positive_cost": 1.0, "false_negative_cost": 5.0}
    calibrated(model, data["calibration"], tmp_path / "calibrated", **costs)
    found: dict[str, Any] = {}
    made: Any = None
    given: dict[str, Any] = {"group": "g", "registry": f"local:{tmp_path}/ledger.db", "first": True}
    settings = Settings(fairness="sex", slices="sex*site", bootstrap=100)
    with forked_python():
        for number, each in enumerate((model, tmp_path / "calibrated")):
            report, decision = tmp_path / f"report-{number}", tmp_path / f"decision-{number}"
            content = content_hash(each)
            evaluate(each, data["test"], ALONE, settings=settings, report=report, model_hash=content)
            limits = {"equalized_odds_sex": 0.5, "accuracy@sex*site=*": 0.9} if number else {}
            given |= {"metric": "cost" if number else "log_loss", "budgets": json.dumps(limits)}
            found = dict(compare(report, each, data["test"], decision, **given))
            assert found["verdict"] == "register" and found["champion_version"] == number
            made = register_model(each, None, report, decision, None, group="g", registry=given["registry"])
            open_registry(given["registry"]).set_status("g", made.version, "Approved")
    assert float(str(found["high"])) < 0  # it costs less
    version = open_registry(given["registry"]).version("g", made.version)
    card = as_markdown(version)
    assert "Probabilities calibrated on 400 rows of their own: log loss " in card
    assert "if a false positive and a false negative cost 1 and 5; " in card
    assert "demographic parity sex: taken for class 1 are " in card
    decided = (tmp_path / "decision-1/decision.json").read_text()
    assert "equalized_odds_sex" in decided and "sex*site=f*x" in decided


def test_what_a_calibration_cannot_be_made_of_is_refused(own: Any, tmp_path: Path) -> None:
    task, model, data = own
    with pytest.raises(InputError, match=r"was trained on .*train, where its answers are too good"):
        calibrated(model, data["train"], tmp_path / "calibrated")
    if task == "regression":
        with pytest.raises(InputError, match="costs choose the threshold of two classes"):
            calibrated(model, data["calibration"], tmp_path / "calibrated", false_negative_cost=5.0)
        with pytest.raises(InputError, match=r"a coverage of 0\.999 needs at least 999 rows, and .* has 400"):
            calibrated(model, data["calibration"], tmp_path / "calibrated", coverage=0.999)
        return
    calibrated(model, data["calibration"], tmp_path / "calibrated")
    evaluate(tmp_path / "calibrated", data["calibration"], ALONE, settings=Settings(bootstrap=0), report=tmp_path / "r")
    seen = json.loads((tmp_path / "r/evaluation.json").read_text())["data"]
    assert seen["calibrated_on"] is True and seen["shared_keys"]["keys"] == 0
    assert seen["shared_calibration_keys"] == {"keys": ROWS, "compared": ROWS, "share": 1.0}
    (tmp_path / "old").mkdir()
    write_description(tmp_path / "old", read_description(model))
    write_code(tmp_path / "old", {"inference.py": ""})
    with pytest.raises(InputError, match="trained by an earlier version, and its code/ would serve it without"):
        calibrated(tmp_path / "old", data["calibration"], tmp_path / "calibrated")
