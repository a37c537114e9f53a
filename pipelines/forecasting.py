"""Forecast sales with LightGBM: a median with an interval around it, measured on later days alone.

    drivetrain run forecasting --set test_from=2025-10-01

The table is made up. The model learns from 2023 and 2024, stops by 2025 to June, and is measured on the months after.
"""

import json

from drivetrain import Pipeline, register, step, when
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_table import train_table


def forecasting(
    sales: str = "example:demand", validation_from: str = "2025-01-01", test_from: str = "2025-07-01", rounds: int = 300
) -> Pipeline:
    """The steps, and what is done with the model.

    Args:
        sales: a file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI.
        validation_from: the first day after those that the model learns from.
        test_from: the first day that it is measured on.
        rounds: the most trees a quantile; training ends earlier when the loss on the validation days grows.
    """
    data = step(
        prepare_data,
        raw=sales,
        key="id",
        label="sold",
        schema="day:date32,sold:float64",
        extra_columns="keep",
        split_by="time:day",
        validation_from=validation_from,
        test_from=test_from,
    )
    options = {
        "quantiles": [0.05, 0.5, 0.95],
        "categories": ["shop", "weekday"],
        "ignore": ["day"],
        "learning_rate": 0.1,
    }
    model = step(
        train_table,
        train=data["train"],
        validation=data["validation"],
        estimator="lightgbm",
        estimator_options=json.dumps(options),
        rounds=rounds,
        early_stopping=20,
    )
    tested = {"model": model["model"], "data": data["test"]}
    scores = step(evaluate, **tested, slices="shop")
    verdict = step(compare, evaluation=scores["report"], **tested, group="forecasting", metric="mae", first=True)
    version = register(model=model["model"], evaluation=scores, decision=verdict, group="forecasting")
    gate = when(verdict.metric("register").equals(1), then=[version])
    return Pipeline(name="forecasting", steps=[data, model, scores, verdict, gate])
