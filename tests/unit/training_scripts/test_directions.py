"""Which way a metric of a recipe's own is better: from the recipe to the best model and to the decision."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.base.errors import InputError as ComponentError
from drivetrain.decision.deciding import Champion, decide
from drivetrain.decision.evaluation import read_evaluation
from drivetrain.decision.policy import Policy
from drivetrain.training.checkpointing.inspection.listing import list_training
from drivetrain.training.checkpointing.inspection.trainings import find
from drivetrain.training.checkpointing.store.retention import watched
from drivetrain.training.config import Config, Folders
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.process import Process
from drivetrain.training.recipe import direction, load_recipe
from drivetrain.training_scripts.evaluate import run
from drivetrain.training_scripts.train import train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
SAYS = '{"error_rate": False}'
OWN = """
from dataclasses import dataclass
from drivetrain.training_scripts.recipes import digits_cnn
@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    channels: int = 4
    hidden: int = 16
    {says}
    def metrics(self, outputs, targets):
        right = outputs.argmax(dim=1) == targets
        return {{"accuracy": right, "error_rate": ~right}}
"""


@pytest.fixture
def data(prepared_data: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, says in {
        "says_it": f"higher_is_better = {SAYS}",
        "says_nothing": "",
        "says_more": 'higher_is_better = {"eror_rate": False}',
        "says_words": 'higher_is_better = {"error_rate": "lower"}',
    }.items():
        (tmp_path / f"{name}.py").write_text(OWN.format(says=says))
    monkeypatch.syspath_prepend(tmp_path)
    return prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(60))


def config(recipe: str, **changed: Any) -> Config:
    # At such a rate it learns, and then forgets: the last validation is not the best one.
    fields: dict[str, Any] = {"epochs": 1, "global_batch": 30, "validate_every": 1, "learning_rate": 0.05}
    watching = {"monitor": "validation_error_rate", "keep_best": True}
    return Config(recipe=recipe, **(fields | watching | changed))


def trained(data: Path, given: Config) -> list[dict[str, Any]]:
    out = data.parent / "out"
    train(given, Folders(train=data, validation=data, model=out / "model", output=out), ALONE)
    return json.loads((out / "history.json").read_text())


def evaluated(data: Path, *, recipe: str, epochs: int) -> Path:
    """The report of a model of so many epochs."""
    folder = data.parent / f"{recipe}-{epochs}"
    given = Config(recipe=recipe, epochs=epochs, global_batch=20, learning_rate=0.01)
    train(given, Folders(train=data, model=folder / "model"), ALONE)
    run(folder / "model", data, ALONE, settings=Settings(bootstrap=100), report=folder / "report", model_hash="")
    return folder / "report"


def test_the_recipe_says_it_and_names_of_metrics_are_known(data: Path) -> None:
    recipe = load_recipe("says_it", {})
    assert [direction(recipe, name) for name in ("loss", "accuracy", "error_rate")] == [False, True, False]
    recipe = load_recipe("says_nothing", {})
    assert direction(recipe, "accuracy") is True and direction(recipe, "mae") is False
    assert [direction(recipe, name) for name in ("error_rate", "side_loss", "confusion_matrix")] == [None] * 3


def test_the_best_model_and_the_best_checkpoint_are_those_with_fewest_errors(data: Path) -> None:
    kept, out = data.parent / "checkpoints", data.parent / "out"
    given = config("says_it", epochs=4, keep_best_n=2, checkpoint_every="2steps")
    train(given, Folders(train=data, validation=data, model=out / "model", output=out, checkpoints=kept), ALONE)
    history = json.loads((out / "history.json").read_text())
    rates = [entry["validation_error_rate"] for entry in history]
    (best,) = (entry for entry in history if entry.get("best"))
    assert best["validation_error_rate"] == min(rates) < max(rates)
    description = json.loads((out / "model" / "model.json").read_text())
    assert description["best"]["value"] == min(rates) and description["step"] == best["step"]
    (training,) = find(str(kept)).trainings
    rows = [row for row in list_training(training).rows if "validation_error_rate" in row.metrics]
    (best_row,) = (row for row in rows if row.best)
    rates = [row.metrics["validation_error_rate"] for row in rows]
    assert best_row.metrics["validation_error_rate"] == min(rates) < max(rates)


@pytest.mark.parametrize("watching", [{"keep_best": True}, {"early_stopping": 2}, {"keep_best_n": 1}])
def test_without_a_direction_no_metric_is_monitored(
    watching: dict[str, Any], data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError, match=r"^monitor=validation_error_rate: nothing says whether more of 'error_rate'"):
        trained(data, config("says_nothing", **{"keep_best": False, **watching}))
    assert "step 1" not in capsys.readouterr().out


def test_an_undirected_metric_is_still_logged(data: Path) -> None:
    history = trained(data, config("says_nothing", keep_best=False, max_steps=2))
    assert all(0 <= entry["validation_error_rate"] <= 1 for entry in history) and len(history) == 2


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ("says_more", r"says_more: higher_is_better of the recipe: no metric 'eror_rate'\. Did you mean 'error_rate'"),
        ("says_words", r"higher_is_better is {'error_rate': 'lower'}\. Allowed: names of its metrics with True or"),
    ],
)
def test_wrong_directions_are_refused_before_the_first_step(recipe: str, message: str, data: Path) -> None:
    with pytest.raises(InputError, match=message):
        trained(data, config(recipe, monitor="validation_loss"))


def test_a_candidate_with_more_errors_is_not_better(data: Path) -> None:
    worse, better = (read_evaluation(evaluated(data, recipe="says_it", epochs=epochs)) for epochs in (1, 12))
    rates = [one.whole.metrics["error_rate"].value for one in (worse, better)]
    assert rates[0] > rates[1] + 0.3
    by_errors = Policy(metric="error_rate")
    for candidate, champion, verdict in ((worse, better, "keep champion"), (better, worse, "register")):
        other = Champion(version=1, content_hash="", evaluation=champion)
        assert decide(candidate, other, by_errors).verdict == verdict
    ceiling = Policy(metric="accuracy", floors=json.dumps({"error_rate": sum(rates) / 2}))
    assert [decide(one, None, ceiling).floors_met for one in (worse, better)] == [False, True]


def test_without_a_direction_nothing_is_decided(data: Path) -> None:
    read = read_evaluation(evaluated(data, recipe="says_nothing", epochs=1))
    assert read.whole.metrics["error_rate"].higher_is_better is None
    with pytest.raises(ComponentError, match="metric='error_rate' cannot decide: nothing says whether more of it is"):
        decide(read, None, Policy(metric="error_rate"))
    with pytest.raises(ComponentError, match="'error_rate' cannot be limited: nothing says whether more of it is"):
        decide(read, None, Policy(metric="accuracy", floors='{"error_rate": 0.5}'))


def test_versions_that_did_not_note_it_went_by_the_name() -> None:
    """What such a one took for the best is forgotten where the recipe says otherwise."""
    by_errors = {"config": {"monitor": "validation_error_rate"}}
    assert watched({**by_errors, "watch": {"best": 0.5}}) == ("validation_error_rate", True)
    assert watched({**by_errors, "watch": {"higher_is_better": False}}) == ("validation_error_rate", False)
    assert watched({**by_errors, "watch": {"higher_is_better": None}}) is None
    assert watched({"config": {"monitor": "validation_loss"}}) == ("validation_loss", False)
    assert watched({"config": {}}) is None
