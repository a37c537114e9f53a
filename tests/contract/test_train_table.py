"""Train on tables: the same trees after an interruption, what the options mean, and bad input in one line each."""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.telling.content.card import BarsPart, read_card
from drivetrain.training import table_data, table_health
from drivetrain.training.input_pipeline.prepared import PreparedData
from drivetrain.training.process import Process, join_group
from drivetrain.training.table_config import TableConfig, TableFolders
from drivetrain.training_scripts import train_table
from drivetrain.training_scripts.estimators import lightgbm, xgboost
from tests.fixtures.tables import write_tables

CATEGORIES = {"categories": ["plan"]}
DRAWN = {**CATEGORIES, "subsample": 0.7, "colsample_bynode": 0.5, "max_depth": 3}
# The options of each estimator by which random numbers decide on rows and columns.
DRAWN_BY: dict[str, tuple[str, dict[str, Any]]] = {
    "xgboost": ("xgboost", DRAWN),
    "lightgbm": (
        "lightgbm",
        {
            **CATEGORIES,
            "bagging_fraction": 0.7,
            "bagging_freq": 1,
            "feature_fraction": 0.7,
            "feature_fraction_bynode": 0.8,
        },
    ),
    # No leaf can be split after the first round: the others add no tree.
    "ended": ("lightgbm", {**CATEGORIES, "bagging_fraction": 0.6, "bagging_freq": 1, "min_data_in_leaf": 130}),
    "plain": ("lightgbm", {**CATEGORIES, "num_leaves": 7}),
    "goss": ("lightgbm", {**CATEGORIES, "data_sample_strategy": "goss", "learning_rate": 0.9}),
    "seldom": ("lightgbm", {**CATEGORIES, "bagging_fraction": 0.5, "bagging_freq": 2, "extra_trees": True}),
    "boosted": ("sklearn", {**CATEGORIES, "model_options": {"max_features": 0.5, "max_leaf_nodes": 7}}),
    "forest": ("sklearn", {**CATEGORIES, "model": "random_forest", "model_options": {"max_depth": 4}}),
}
BOOSTED = pytest.mark.parametrize("estimator", ["xgboost", "lightgbm", "sklearn"])
WEIGHTED = {"weight_column": "weight", "save_every": 3, "early_stopping": 4, "rounds": 16}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_tables(tmp_path_factory.mktemp("tables"))


def fit(tables: dict[str, Path], folder: Path, options: Any = CATEGORIES, **given: Any) -> Path:
    """The model folder of a training whose places are in `folder`."""
    places = TableFolders(
        train=tables["train"],
        validation=tables.get("validation"),
        model=folder / "model",
        output=folder / "output",
        checkpoints=folder / "checkpoints",
    )
    config = TableConfig(estimator_options=json.dumps(options), **{"threads": 1, "rounds": 4, **given})
    with join_group(framework="") as process:
        train_table.train(config, places, process)
    return folder / "model"


def described(model: Path) -> dict[str, Any]:
    return json.loads((model / "model.json").read_text())


def answers(model: Path, data: Path, **changed: Any) -> dict[str, Any]:
    reader = PreparedData(data)
    reader.missing = frozenset(reader.column_names)
    about = described(model)
    module = importlib.import_module(about["answers"])
    return module.predict(module.load(model), {**reader.read(about["columns"]), **changed})


class KilledError(BaseException):
    pass


def kill_at(monkeypatch: pytest.MonkeyPatch, place: str, number: int) -> None:
    """Interrupt the training at the `number`-th call of a function of its loop."""
    calls = iter(range(1, number + 1))
    own: Callable[..., Any] = getattr(train_table, place)

    def killed(*given: Any, **named: Any) -> Any:
        if next(calls, number) == number:
            monkeypatch.setattr(train_table, place, own)
            raise KilledError
        return own(*given, **named)

    monkeypatch.setattr(train_table, place, killed)


@pytest.fixture(scope="module")
def whole(tables: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The model of a training that draws rows and columns and that nothing interrupts."""

    @functools.cache
    def trained(which: str) -> Path:
        estimator, options = DRAWN_BY[which]
        return fit(tables, tmp_path_factory.mktemp(which), options, estimator=estimator, **WEIGHTED)

    return trained


@pytest.mark.slow_cases("lightgbm-3", "lightgbm-13", "boosted-4", "boosted-7")
@pytest.mark.parametrize(
    ("which", "round_"),
    [
        *(("xgboost", each) for each in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13)),
        *(("lightgbm", each) for each in (3, 7, 13)),
        *(("ended", 5), ("plain", 7), ("goss", 7), ("seldom", 4), ("boosted", 4), ("boosted", 7), ("forest", 7)),
    ],
)
def test_an_interrupted_training_gives_the_same_trees(
    which: str,
    round_: int,
    whole: Callable[[str], Path],
    tables: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected, (estimator, options) = whole(which), DRAWN_BY[which]
    kill_at(monkeypatch, "beat", round_)
    with pytest.raises(KilledError):
        fit(tables, tmp_path, options, estimator=estimator, **WEIGHTED)
    model = fit(tables, tmp_path, options, estimator=estimator, **WEIGHTED)
    for name in (described(model)["weights"]["file"], "model.json", "../output/history.json"):
        assert (model / name).read_bytes() == (expected / name).read_bytes(), name


def test_a_training_that_was_killed_after_its_end_learns_nothing_more(
    tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kill_at(monkeypatch, "save_model", 1)
    with pytest.raises(KilledError):
        fit(tables, tmp_path, DRAWN, **WEIGHTED)
    first = capsys.readouterr().out
    model = fit(tables, tmp_path, DRAWN, **WEIGHTED)
    again = capsys.readouterr().out
    assert "round 1/" in first and "round 1/" not in again and "resuming from" in again
    stopped = described(model)["training"]["stopped_early"]
    assert stopped == ("early stopping" in again)


def test_a_damaged_checkpoint_is_passed_by(
    tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = fit(tables, tmp_path / "whole", DRAWN, rounds=9, save_every=3)
    kill_at(monkeypatch, "beat", 8)
    with pytest.raises(KilledError):
        fit(tables, tmp_path, DRAWN, rounds=9, save_every=3)
    torn = tmp_path / "checkpoints" / "step-00000006" / "model"
    torn.write_bytes(torn.read_bytes()[:-7])
    model = fit(tables, tmp_path, DRAWN, rounds=9, save_every=3)
    said = capsys.readouterr().out
    assert "checkpoint 6 is damaged" in said and "step-00000003" in said
    assert (model / "model.ubj").read_bytes() == (expected / "model.ubj").read_bytes()


@BOOSTED
def test_early_stopping_keeps_the_best_round(estimator: str, tables: dict[str, Path], tmp_path: Path) -> None:
    fast = {"model_options": {"learning_rate": 1.0}} if estimator == "sklearn" else {"learning_rate": 1.0}
    given = {"options": {**CATEGORIES, **fast}, "estimator": estimator, "save_every": 8}
    model = fit(tables, tmp_path, rounds=60, early_stopping=5, **given)
    about = described(model)
    history = json.loads((tmp_path / "output" / "history.json").read_text())
    losses = [entry["validation_loss"] for entry in history]
    best = int(np.argmin(losses)) + 1
    assert about["training"]["stopped_early"] and len(losses) == best + 5
    assert about["step"] == about["best"]["step"] == best and about["best"]["value"] == min(losses)
    assert about["metrics"]["validation_loss"] == min(losses)
    assert [entry["step"] for entry in history if entry.get("best")] == [best]
    shorter = answers(fit(tables, tmp_path / "shorter", rounds=best, **given), tables["test"])
    assert answers(model, tables["test"])["score"].tolist() == shorter["score"].tolist()


def test_the_model_describes_itself(tables: dict[str, Path], tmp_path: Path) -> None:
    about = described(fit(tables, tmp_path))
    assert about["framework"] == "functions" and about["style"] == "functions"
    assert about["answers"] == "drivetrain.training_scripts.estimators.xgboost"
    assert about["task"] == {"kind": "binary", "num_classes": 2, "class_names": ["leaves", "stays"], "threshold": 0.5}
    assert about["columns"] == ["age", "visits", "plan", "weight"], "no label, no key"
    assert about["weights"]["file"] == "model.ubj"
    assert about["needs"] == {"xgboost-cpu": "3.2.0"}
    assert {"name": "plan", "levels": ["free", "pro", "team"]} in about["table"]["features"]
    gains = about["table"]["importance"]
    assert sum(gains.values()) == pytest.approx(1) and min(gains, key=lambda name: gains[name]) == "weight"
    assert about["data"]["reader_options"]["missing"] == ["age", "plan", "weight"], "whole numbers stay whole"


@pytest.mark.parametrize("library", [xgboost, lightgbm], ids=["xgboost", "lightgbm"])
def test_the_model_says_how_far_each_column_moves_its_answers(
    library: Any, tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_health, "_LEAST_ROWS", 256)
    model = fit(tables, tmp_path, estimator=library.__name__.rpartition(".")[2])
    explained = described(model)["table"]["explained"]
    loaded = library.load(model)
    reader = PreparedData(tables["validation"])
    reader.missing = frozenset(reader.column_names)
    matrix = loaded.features.matrix(reader.read(loaded.features.names))
    found = library.explain((model / library.WEIGHTS).read_bytes(), matrix, loaded.features)
    margins = answers(model, tables["validation"])["margin"]
    assert found.shape == (len(margins), 1, 5) and np.abs(found.sum(axis=2)[:, 0] - margins).max() < 1e-4
    assert explained["rows"] == len(margins) == 200 and explained["held_out"]
    moves = [explained["moves"][name] for name in loaded.features.names]
    assert moves == pytest.approx(np.abs(found[:, 0, :4]).mean(axis=0).tolist())
    assert "plan" not in explained["ways"], "a category has no direction"
    card = read_card("train", tmp_path / "output")
    assert card is not None and [type(part).__name__ for part in card.parts] == ["TextPart", "BarsPart", "BarsPart"]
    assert isinstance(card.parts[1], BarsPart) and len(card.parts[1].rows) == 4


@pytest.mark.parametrize(
    ("rule", "label", "options"),
    [
        ("label_in_a_column", lambda all_: np.where(all_["visits"] > 9, "many", "few"), {}),
        ("no_better_than_guessing", lambda all_: np.random.default_rng(3).random(len(all_["age"])), {}),
        ("constant_answers", lambda all_: np.random.default_rng(3).random(len(all_["age"])), {"gamma": 1e9}),
    ],
)
def test_a_health_rule_fires_on_its_model(rule: str, label: Any, options: dict[str, Any], tmp_path: Path) -> None:
    tables = write_tables(tmp_path, label=label, plan=None)
    fit(tables, tmp_path, options, rounds=60)
    health = json.loads((tmp_path / "output" / "health" / "health.json").read_text())
    assert rule in [finding["rule"] for finding in health["findings"]]
    assert health["healthy"] == (rule != "constant_answers")
    failed = described(tmp_path / "model").get("health", {}).get("failed", {})
    assert list(failed) == (["constant_answers"] if rule == "constant_answers" else [])


@pytest.mark.parametrize(
    ("model", "rule"), [("decision_tree", "label_in_a_column"), ("hist_gradient_boosting", "no_better_than_guessing")]
)
def test_health_rules_look_at_models_of_scikit_learn(model: str, rule: str, tmp_path: Path) -> None:
    known = rule == "label_in_a_column"
    made = (lambda all_: np.where(all_["visits"] > 9, "many", "few")) if known else None
    tables = write_tables(
        tmp_path, label=made or (lambda all_: np.random.default_rng(3).random(len(all_["age"]))), plan=None
    )
    fit(tables, tmp_path, {"model": model}, estimator="sklearn", rounds=30)
    health = json.loads((tmp_path / "output" / "health" / "health.json").read_text())
    assert rule in [finding["rule"] for finding in health["findings"]]


def test_a_rule_ends_the_training_and_a_healthy_one_is_silent(
    tables: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fit(tables, tmp_path / "healthy", rounds=8)
    assert "health: healthy=1 none of" in capsys.readouterr().out
    rules = json.dumps({"overfitting": {"action": "stop", "share": 0.0, "scale": 0.0, "validations": 1}})
    learns_by_heart = {**CATEGORIES, "learning_rate": 1.0, "max_depth": 12, "min_child_weight": 0.0}
    with pytest.raises(InputError, match=r"stopped at round \d+ by the health rule overfitting"):
        fit(tables, tmp_path / "stopped", learns_by_heart, rounds=40, health_rules=rules)
    assert not (tmp_path / "stopped" / "model").exists()
    with pytest.raises(InputError, match="'dead_activations' watches layers, which this training does not record"):
        fit(tables, tmp_path / "other", health_rules='{"dead_activations": {"action": "stop"}}')


@pytest.mark.parametrize("which", ["xgboost", "lightgbm", "boosted", "forest", "linear"])
def test_a_category_that_training_never_saw_counts_as_missing(
    which: str, tables: dict[str, Path], tmp_path: Path
) -> None:
    estimator, options = {**DRAWN_BY, "linear": ("sklearn", {**CATEGORIES, "model": "logistic_regression"})}[which]
    model = fit(tables, tmp_path, options, estimator=estimator)
    rows = PreparedData(tables["test"]).rows
    unseen = answers(model, tables["test"], plan=np.array(["gold"] * rows, dtype=object))
    missing = answers(model, tables["test"], plan=np.array([None] * rows, dtype=object))
    seen = answers(model, tables["test"], plan=np.array(["pro"] * rows, dtype=object))
    assert unseen["score"].tolist() == missing["score"].tolist() != seen["score"].tolist()


def test_scores_are_those_of_the_library(tables: dict[str, Path], tmp_path: Path) -> None:
    model = fit(tables, tmp_path)
    found, loaded = answers(model, tables["test"]), xgboost.load(model)
    reader = PreparedData(tables["test"])
    reader.missing = frozenset(reader.column_names)
    matrix = loaded.features.matrix(reader.read(loaded.features.names))
    expected = loaded.booster.inplace_predict(matrix)
    assert np.abs(found["score"] - expected).max() < 1e-6
    labels = reader.read(["label"])["label"]
    assert np.mean((found["score"] > 0.5) == (labels == "stays")) > 0.75


def test_a_linear_model_is_that_of_columns_that_numpy_prepares(tables: dict[str, Path], tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    model = fit(tables, tmp_path, {**CATEGORIES, "model": "logistic_regression"}, estimator="sklearn")
    again = fit(tables, tmp_path / "again", {**CATEGORIES, "model": "logistic_regression"}, estimator="sklearn")
    assert (model / "model.skops").read_bytes() == (again / "model.skops").read_bytes()
    names, data = ("age", "visits", "weight"), {}
    for part in ("train", "test"):
        reader = PreparedData(tables[part])
        reader.missing = frozenset(reader.column_names)
        data[part] = reader.read([*names, "plan", "label"])
    medians = [np.nanmedian(data["train"][name]) for name in names]
    made = {}
    for part, columns in data.items():
        numbers = np.stack(
            [np.where(np.isnan(columns[name]), medians[at], columns[name]) for at, name in enumerate(names)]
        )
        plans = np.stack([columns["plan"] == plan for plan in ("free", "pro", "team")])
        made[part] = numbers, plans
    center, scale = made["train"][0].mean(axis=1), made["train"][0].std(axis=1)
    made = {
        part: np.vstack([plans, (numbers.T - center).T / scale[:, None]]).T for part, (numbers, plans) in made.items()
    }
    reference = LogisticRegression().fit(made["train"], data["train"]["label"] == "stays")
    found = answers(model, tables["test"])["score"]
    assert np.abs(found - reference.predict_proba(made["test"])[:, 1]).max() < 1e-3


@BOOSTED
def test_classes_of_several_kinds(estimator: str, tmp_path: Path) -> None:
    tables = write_tables(tmp_path, label=lambda all_: [f"plan {plan}" for plan in all_["plan"]], plan=None)
    about = described(model := fit(tables, tmp_path, {}, estimator=estimator))
    assert about["task"]["kind"] == "multiclass" and about["task"]["class_names"][0] == "plan None"
    found = answers(model, tables["test"])
    assert list(found) == ["score_0", "score_1", "score_2", "score_3"]
    assert np.abs(sum(found.values()) - 1).max() < 1e-12


def test_numbers_are_a_regression_unless_the_task_says_classes(tmp_path: Path) -> None:
    tables = write_tables(tmp_path, label=lambda all_: all_["visits"] // 10, visits=None)
    model = fit(tables, tmp_path / "numbers")
    assert described(model)["task"]["kind"] == "regression" and list(answers(model, tables["test"])) == ["predicted"]
    model = fit(tables, tmp_path / "classes", task="multiclass")
    assert described(model)["task"] == {"kind": "multiclass", "num_classes": 3, "class_names": [], "threshold": 0.5}


@pytest.mark.slow_cases("sklearn")
@BOOSTED
def test_quantiles_cover_what_they_say(estimator: str, tmp_path: Path) -> None:
    tables = write_tables(tmp_path, num_rows=1000, label=lambda all_: all_["visits"] + all_["weight"], visits=None)
    model = fit(tables, tmp_path, {**CATEGORIES, "quantiles": [0.1, 0.5, 0.9]}, rounds=30, estimator=estimator)
    found = answers(model, tables["train"])
    assert (found["low"] <= found["predicted"]).all() and (found["predicted"] <= found["high"]).all()
    labels = PreparedData(tables["train"]).read(["label"])["label"]
    gaps = [(labels - found[name], share) for name, share in (("low", 0.1), ("predicted", 0.5), ("high", 0.9))]
    pinball = np.mean([np.maximum(share * gap, (share - 1) * gap).mean() for gap, share in gaps])
    assert described(model)["metrics"]["train_loss"] == pytest.approx(pinball, rel=2e-3), (
        "answers in order are a little better"
    )
    assert 0.75 < np.mean((found["low"] <= labels) & (labels <= found["high"])) < 0.95


@pytest.mark.slow_cases("boosted")
@pytest.mark.parametrize(
    ("estimator", "more"),
    [("xgboost", {}), ("lightgbm", {}), ("sklearn", {}), ("sklearn", {"model": "extra_trees"})],
    ids=["xgboost", "lightgbm", "boosted", "forest"],
)
def test_a_monotone_column_only_raises_the_answer(
    estimator: str, more: dict[str, Any], tables: dict[str, Path], tmp_path: Path
) -> None:
    model = fit(tables, tmp_path, {**CATEGORIES, "monotone": {"age": 1}, **more}, rounds=10, estimator=estimator)
    rows = PreparedData(tables["test"]).rows
    scores = [answers(model, tables["test"], age=np.full(rows, float(age)))["score"] for age in range(20, 60, 4)]
    assert (np.diff(scores, axis=0) >= 0).all()


@BOOSTED
def test_balanced_classes_raise_the_scores_of_the_rare_one(estimator: str, tmp_path: Path) -> None:
    def rare(columns: dict[str, Any]) -> list[int]:
        return [int(label == "stays" and row % 5 == 0) for row, label in enumerate(columns["label"])]

    tables = write_tables(tmp_path, label=rare)
    means, more = [], {"model": "logistic_regression"} if estimator == "sklearn" else {}
    for kind in ("none", "balanced"):
        model = fit(tables, tmp_path / kind, {**CATEGORIES, "class_weights": kind, **more}, estimator=estimator)
        means.append(answers(model, tables["test"])["score"].mean())
    assert means[0] * 1.5 < means[1] < 0.5, "the rare class counts as much as the other"


def test_an_estimator_of_ones_own_is_one_file(
    tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"estimator": "tests.fixtures.dry_estimator", **WEIGHTED}
    expected = fit(tables, tmp_path / "whole", **given)
    kill_at(monkeypatch, "beat", 5)
    with pytest.raises(KilledError):
        fit(tables, tmp_path / "killed", **given)
    model = fit(tables, tmp_path / "killed", **given)
    assert (model / "line.json").read_bytes() == (expected / "line.json").read_bytes()
    assert described(model)["answers"] == "tests.fixtures.dry_estimator"


def test_cuts_of_many_rows_are_made_of_a_sample(
    tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_data, "_SAMPLED_ROWS", 50)
    model = fit(tables, tmp_path / "sampled")
    other = fit(tables, tmp_path / "other", seed=1)
    assert (model / "model.ubj").read_bytes() != (other / "model.ubj").read_bytes()


BAD: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    # changed columns, options, settings, what is said
    "text": (
        {},
        {},
        {},
        r"column 'plan' holds '\w+', where numbers are read. Name the column in the option ",
    ),
    "no-column": ({}, {"categories": ["plann"]}, {}, "categories: the data have no column 'plann' to learn from"),
    "option": ({}, {"max_dept": 3}, {}, "estimator 'xgboost' has no option 'max_dept'. Did you mean 'max_depth'"),
    "value": ({}, {"subsample": 1.5}, {}, "subsample=1.5; allowed are numbers above 0 to 1."),
    "json": ({}, [], {}, "estimator_options .* are not a JSON object"),
    "estimator": ({}, {}, {"estimator": "xgbost"}, "Did you mean 'xgboost'"),
    "lacking": ({}, {}, {"estimator": "tests.fixtures.tables"}, "lacks NEEDS, WEIGHTS"),
    "weights": ({}, CATEGORIES, {"weight_column": "weigth"}, "column 'weigth'"),
    "text-weights": ({}, CATEGORIES, {"weight_column": "label"}, "weight_column='label' holds"),
    "negative": (
        {"weight": lambda all_: all_["weight"] - 1},
        CATEGORIES,
        {"weight_column": "weight"},
        "row .*weight_column='weight' is no finite number from 0; .* such rows",
    ),
    "nan-label": (
        {"label": lambda all_: np.where(all_["visits"] == 3, np.nan, all_["visits"])},
        CATEGORIES,
        {},
        "part-00000.parquet, row .*: label 'label' is empty or not finite",
    ),
    "one-class": ({"label": lambda all_: ["a"] * len(all_["id"])}, CATEGORIES, {}, "has 1 classes .'a'.; task=binary"),
    "classes": (
        {"label": lambda all_: all_["visits"] + 1},
        CATEGORIES,
        {"task": "multiclass"},
        "classes of task=multiclass are texts, or whole numbers from 0. For other numbers say task=regression",
    ),
    "regression": ({}, CATEGORIES, {"task": "regression"}, "label 'label' holds '.*', which is no number"),
    "monotone": ({}, {**CATEGORIES, "monotone": {"plan": 1}}, {}, "monotone: 'plan' is a category"),
    "ways": ({}, {**CATEGORIES, "monotone": {"age": 2}}, {}, "monotone names columns, each with 1 or -1"),
    "quantiles": ({}, {**CATEGORIES, "quantiles": [0.9, 0.5]}, {}, "quantiles are three rising numbers"),
    "no-quantiles": ({}, {**CATEGORIES, "quantiles": [0.1, 0.5, 0.9]}, {}, "quantiles are of a regression"),
    "objective": ({}, {**CATEGORIES, "objective": "reg:gamma"}, {}, "no objective 'reg:gamma' of binary. Allowed: bin"),
    "lightgbm-objective": (
        {},
        {**CATEGORIES, "objective": "gamma"},
        {"estimator": "lightgbm"},
        "no objective 'gamma' of binary. Allowed: binary.",
    ),
    "lightgbm-bagging": (
        {},
        {**CATEGORIES, "bagging_fraction": 0.5},
        {"estimator": "lightgbm"},
        "bagging_fraction draws no rows while bagging_freq is 0",
    ),
    "lightgbm-label": (
        {"label": lambda all_: all_["age"] and all_["visits"] - 5.0},
        {**CATEGORIES, "objective": "poisson"},
        {"estimator": "lightgbm"},
        "LightGBM refuses it: .*poisson.* at least one target label is negative",
    ),
    "sklearn-model": ({}, {"model": "random_forrest"}, {"estimator": "sklearn"}, "Did you mean 'random_forest'"),
    "sklearn-task": (
        {},
        {**CATEGORIES, "model": "ridge"},
        {"estimator": "sklearn"},
        "model 'ridge' does not learn bina",
    ),
    "sklearn-option": (
        {},
        {**CATEGORIES, "model_options": {"max_leaf_node": 3}},
        {"estimator": "sklearn"},
        "'hist_gradient_boosting' has no 'max_leaf_node'. Did you mean 'max_leaf_nodes'",
    ),
    "sklearn-ours": (
        {},
        {**CATEGORIES, "model": "extra_trees", "model_options": {"n_estimators": 3}},
        {"estimator": "sklearn"},
        "model_options: 'n_estimators' is decided by the setting rounds",
    ),
    "sklearn-value": (
        {},
        {**CATEGORIES, "model": "logistic_regression", "model_options": {"C": -1}},
        {"estimator": "sklearn"},
        "scikit-learn refuses it: The 'C' parameter of LogisticRegression must be a float in the range",
    ),
    "sklearn-monotone": (
        {},
        {**CATEGORIES, "model": "logistic_regression", "monotone": {"age": 1}},
        {"estimator": "sklearn"},
        "model 'logistic_regression' takes no monotone constraints",
    ),
    "sklearn-quantiles": (
        {"label": lambda all_: all_["visits"]},
        {**CATEGORIES, "model": "random_forest", "quantiles": [0.1, 0.5, 0.9]},
        {"estimator": "sklearn"},
        "model 'random_forest' learns no quantiles",
    ),
    "gamma": (
        {"label": lambda all_: all_["age"] and all_["visits"] - 5.0},
        {**CATEGORIES, "objective": "reg:gamma"},
        {},
        "XGBoost refuses it: label must be positive for gamma regression",
    ),
}


@pytest.mark.parametrize("case", list(BAD))
def test_bad_input_is_one_line(case: str, tmp_path: Path) -> None:
    changed, options, settings, said = BAD[case]
    with pytest.raises(InputError, match=said) as refused:
        fit(write_tables(tmp_path, num_rows=60, **changed), tmp_path, options, **settings)
    assert "\n" not in str(refused.value)


def test_a_class_that_training_never_saw_is_refused(tables: dict[str, Path], tmp_path: Path) -> None:
    other = write_tables(tmp_path, num_rows=60, label=lambda all_: ["moves", *all_["label"][1:]])
    with pytest.raises(InputError, match=r"row 1 .*none of the training's classes \('leaves', 'stays'\); 1 such rows"):
        fit({"train": tables["train"], "validation": other["validation"]}, tmp_path)


def test_early_stopping_without_validation_is_refused(tables: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="early_stopping=3 watches the loss on validation data, and there is none"):
        fit({"train": tables["train"]}, tmp_path, early_stopping=3)


def test_a_library_that_is_not_installed_is_named(
    tables: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xgboost, "NEEDS", ("no-such-boost-cpu",))
    said = (
        r"estimator 'xgboost' needs no-such-boost-cpu, which is not installed here: pip install 'drivetrain\[trees\]'"
    )
    with pytest.raises(InputError, match=said):
        fit(tables, tmp_path)


@pytest.mark.parametrize("estimator", ["lightgbm", "sklearn"])
def test_an_estimator_of_one_host_refuses_several_processes(
    estimator: str, tables: dict[str, Path], tmp_path: Path
) -> None:
    places = TableFolders(train=tables["train"], model=tmp_path)
    with pytest.raises(
        InputError, match=f"estimator '{estimator}' learns in one process with threads, and 2 are to run"
    ):
        train_table.train(TableConfig(estimator=estimator), places, Process(0, 2, 0, 2, None))


def test_prediction_refuses_other_columns(tables: dict[str, Path], tmp_path: Path) -> None:
    model = xgboost.load(fit(tables, tmp_path))
    with pytest.raises(InputError, match="there is no column 'age', which the model reads"):
        xgboost.predict(model, {"visits": np.ones(2)})
    texts = {name: np.array(["x", "y"], dtype=object) for name in ("age", "visits", "plan", "weight")}
    with pytest.raises(InputError, match="column 'age' holds 'x', where numbers are read"):
        xgboost.predict(model, texts)
