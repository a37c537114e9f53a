"""One test a rule about names of metrics: the smallest pipeline that breaks it, and what is left to the run."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drivetrain import Pipeline, SpecError, fail, step, tune, when
from drivetrain.authoring.tune import one_of
from drivetrain.catalog.strategies import metrics_of_recipe
from drivetrain.components.compare import compare
from drivetrain.components.describe_model import describe_model
from drivetrain.components.evaluate import evaluate
from drivetrain.components.train import train
from drivetrain.rules import metric_rules

DATA = "s3://bucket/data/"
OWN = """
class Recipe:
    def metrics(self, outputs, targets):
        return {"mae": outputs, "hit_rate": targets}
"""


def pipeline(compared: dict[str, Any] | None = None, scoring: str = "", metric: str = "accuracy", **given: Any) -> None:
    model = step(train, train=DATA, validation=DATA, **given)
    scores = step(evaluate, model=model["model"], data=DATA, scoring=scoring)
    decided = step(compare, evaluation=scores["report"], model=model["model"], data=DATA, group="g", **(compared or {}))
    gate = when(scores.metric(metric) >= 0.5, name="gate", then=[decided])
    Pipeline(name="p", steps=[model, scores, gate])


def refusal(make: Callable[..., object], *args: Any, **given: Any) -> str:
    with pytest.raises(SpecError) as caught:
        make(*args, **given)
    return str(caught.value)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "faces.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "faces"


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in metric_rules.rule} <= tests


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("metric", "acuracy"),
        ("floors", '{"acuracy@site=*": 0.9}'),
        ("budgets", '{"acuracy": 0.01}'),
    ],
)
def test_rule_decided_metrics_are_measured(field: str, given: str) -> None:
    said = refusal(pipeline, {field: given})
    assert f"step 'compare': {field}: step 'evaluate' measures no 'acuracy'. Did you mean 'accuracy'?" in said
    assert "step 'gate': metric: step 'evaluate' measures no 'acuracy'. Did" in refusal(pipeline, metric="acuracy")
    assert "measures no 'f1'" in refusal(pipeline, {"metric": "f1"}, scoring="accuracy, top_k(k=5)")


def test_metrics_of_classes_averages_and_own_modules_are_measured() -> None:
    pipeline({"metric": "f1_macro", "floors": '{"accuracy_class_3": 0.9, "loss": 1}'}, metric="num_samples")
    pipeline({"metric": "gini"}, scoring="accuracy, my_metrics.gini(at=(1, (2, 3)))", metric="gini_1")
    pipeline({"metric": "gini"}, scoring="top_k(k=5)", recipe="elsewhere.faces")  # whose metrics nobody can read


def test_models_of_functions_and_answers_have_no_metrics_of_their_own() -> None:
    model = step(describe_model, trained="s3://bucket/model/", data=DATA, task="binary")
    for given in ({"model": model["model"]}, {"answers": "s3://bucket/answers/", "task": "binary"}):
        scores = step(evaluate, data=DATA, **given)
        gate = when(scores.metric("auroc_class_1") >= 0.5, name="gate", then=[fail("no")])
        Pipeline(name="p", steps=[model, scores, gate])
        gate = when(scores.metric("aurok") >= 0.5, name="gate", then=[fail("no")])
        assert "measures no 'aurok'. Did you mean 'auroc'?" in refusal(Pipeline, name="p", steps=[model, scores, gate])


def test_rule_evaluations_measure_what_they_are_told() -> None:
    assert "scoring: there is no metric 'acuracy'. Did you mean 'accuracy'?" in refusal(pipeline, scoring="acuracy, f1")


def test_rule_watched_metrics_are_logged(own: str) -> None:
    slip = {"monitor": "validation_acuracy", "early_stopping": 3}
    assert "no metric of its recipe. Did you mean 'validation_accuracy'?" in refusal(pipeline, **slip)
    said = refusal(pipeline, metric="mae", recipe=own, keep_best=True, monitor="validation_accuracy")
    assert "'validation_accuracy' is no metric of its recipe" in said
    pipeline(metric="hit_rate", recipe=own, keep_best=True, monitor="validation_mae")
    pipeline(monitor="validation_acuracy")  # nothing watches it


def test_a_training_logs_the_metrics_of_its_recipe(own: str) -> None:
    trained = step(train, train=DATA, validation=DATA, recipe=own)
    assert trained.logs["validation_mae"] == trained.logs["validation_loss"].replace(
        "validation_loss", "validation_mae"
    )
    assert trained.metric("validation_hit_rate") == trained.logged("validation_hit_rate")
    assert "validation_accuracy" not in trained.logs
    assert "logs no 'validation_hit_rat'. Did you mean 'validation_hit_rate'" in refusal(
        trained.metric, "validation_hit_rat"
    )
    search = tune(trained, objective="validation_mae", learning_rate=one_of(0.1, 0.2), max_trainings=2)
    assert not search.search.maximize
    assert search.metric("validation_mae") == search.logged("validation_mae")


def test_an_unlogged_objective_is_refused_with_a_suggestion() -> None:
    trained = step(train, train=DATA, validation=DATA)
    assert "Did you mean 'validation_accuracy'" in refusal(
        tune, trained, objective="validation_acuracy", learning_rate=one_of(0.1, 0.2), max_trainings=2
    )


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ('return {"a": outputs}', ("a",)),
        ('if outputs:\n            return {"a": 1}\n        return {"b": 2, "a": 3}', ("a", "b")),
        ("return {}", ()),
        ('return {name: 1 for name in "ab"}', None),
        ('return {"a": 1, **targets}', None),
        ("return dict(a=1)", None),
        ('def inner():\n            return {"c": 1}\n        return {"a": inner()}', None),
    ],
)
def test_metric_names_are_read_from_literals_of_the_recipe(
    body: str, names: tuple[str, ...] | None, tmp_path: Path
) -> None:
    file = tmp_path / "faces.py"
    file.write_text(f"class Recipe:\n    def metrics(self, outputs, targets):\n        {body}\n", encoding="utf-8")
    assert metrics_of_recipe(file) == names


def test_computed_metric_names_of_a_recipe_are_unknown(tmp_path: Path) -> None:
    file = tmp_path / "faces.py"
    file.write_text("from other import Recipe\n", encoding="utf-8")
    assert metrics_of_recipe(file) is None
