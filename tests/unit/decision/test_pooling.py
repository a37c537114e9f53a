"""The pipeline that a model is of: nights of one pipeline are pooled."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.decision.pooling import pipeline_of

TABLE = {
    "framework": "functions",
    "answers": "drivetrain.training_scripts.estimators.xgboost",
    "table": {"features": [{"name": "age"}], "options": {"max_depth": 6}, "importance": [0.5]},
    "training": {"rounds": 500, "seed": 1},
}
FILES = {"model.ubj": "1", "code/inference.py": "a", "code/own/answer.py": "b"}


def changed(**more: Any) -> str:
    return pipeline_of({**TABLE, **more}, FILES)


def test_another_training_of_the_same_pipeline_is_of_the_same_line() -> None:
    again = changed(training={"rounds": 500, "seed": 2}, table={**TABLE["table"], "importance": [0.7]})
    assert again == changed() == pipeline_of(TABLE, {**FILES, "model.ubj": "2"})


@pytest.mark.parametrize("other", [{"answers": "answer"}, {"table": {"options": {"max_depth": 7}}}, {"training": {}}])
def test_another_module_option_or_setting_is_of_another_line(other: dict[str, Any]) -> None:
    assert changed(**other) != changed()


def test_other_code_of_the_users_is_of_another_line() -> None:
    assert pipeline_of(TABLE, {**FILES, "code/own/answer.py": "c"}) != changed()
    described = {"framework": "functions", "answers": "answer"}
    assert pipeline_of(described, FILES) != pipeline_of({**described, "answers": "other"}, FILES)
