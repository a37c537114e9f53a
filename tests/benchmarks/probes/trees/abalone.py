"""`drivetrain run abalone.py`: from a CSV file to a version that a floor and the champion decided on."""

from drivetrain import Pipeline, fail, register, step, when
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_table import train_table

OPTIONS = '{"categories": ["sex"], "max_depth": 5, "learning_rate": 0.1}'


def abalone(raw: str = "abalone.csv") -> Pipeline:
    data = step(prepare_data, raw=raw, key="id", label="rings", schema="rings:float64", extra_columns="keep")
    model = step(
        train_table,
        train=data["train"],
        validation=data["validation"],
        rounds=100,
        early_stopping=20,
        estimator_options=OPTIONS,
    )
    scores = step(evaluate, model=model["model"], data=data["test"])
    verdict = step(
        compare,
        evaluation=scores["report"],
        model=model["model"],
        data=data["test"],
        group="abalone",
        metric="rmse",
        floors='{"rmse": 3}',
        first=True,
    )
    version = register(model=model["model"], evaluation=scores, decision=verdict, group="abalone")
    gate = when(verdict.metric("register").equals(1), then=[version], otherwise=[fail("not better")])
    return Pipeline(name="abalone", steps=[data, model, scores, verdict, gate])
