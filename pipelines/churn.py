"""Learn which customers leave, with XGBoost: numbers, categories and empty cells, measured by plan.

    drivetrain run churn
    drivetrain models approve churn 1            # version 1 is the champion from now on
    drivetrain run churn --set rounds=40         # another model: is it significantly better?
    drivetrain init --from churn my_churn        # this pipeline and its data, as a project of your own

The table is made up: 3,000 customers of a telephone company.
"""

import json

from drivetrain import Pipeline, fail, register, step, when
from drivetrain.components.check_data import check_data
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_table import train_table


def churn(customers: str = "example:churn", rounds: int = 200, max_depth: int = 4, min_auroc: float = 0.7) -> Pipeline:
    """The steps, and what is done with the model.

    Args:
        customers: a file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI.
        rounds: the most trees; training ends earlier when 20 of them bring no better loss on the validation data.
        max_depth: of a tree.
        min_auroc: the floor: a model below it is not registered.
    """
    data = step(prepare_data, raw=customers, key="customer", label="churn", validation_percent=15, test_percent=25)
    sides = {side: data[side] for side in ("train", "validation", "test")}
    checked = step(check_data, **sides, group="churn")  # a night that fails ends the run
    options = {"max_depth": max_depth, "learning_rate": 0.1, "categories": ["plan", "state"]}
    model = step(
        train_table,
        train=data["train"],
        validation=data["validation"],
        estimator="xgboost",
        estimator_options=json.dumps(options),
        rounds=rounds,
        early_stopping=20,
        after=[checked],
    )
    scores = step(evaluate, model=model["model"], data=data["test"], slices="plan", predictions=True)
    verdict = step(
        compare,
        evaluation=scores["report"],
        model=model["model"],
        data=data["test"],
        group="churn",
        metric="auroc",
        floors=json.dumps({"auroc": min_auroc}),
        first=True,
    )
    version = register(model=model["model"], evaluation=scores, decision=verdict, data_check=checked, group="churn")
    too_low = when(verdict.metric("floors_met").equals(0), then=[fail("below the floor")], name="below-floor")
    gate = when(verdict.metric("register").equals(1), then=[version], otherwise=[too_low], name="register")
    return Pipeline(name="churn", steps=[data, checked, model, scores, verdict, gate])
