"""Search for the best options of XGBoost, and measure the best model on rows that the search did not see.

    drivetrain run tuning
    drivetrain run tuning --set trainings=12 --set parallel=4
    drivetrain runs show latest                      # the best values; the page draws every training

A search on SageMaker; Kubeflow has no such step.
"""

from drivetrain import Pipeline, between, register, step, tune
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_table import train_table


def tuning(customers: str = "example:churn", trainings: int = 6, parallel: int = 2, rounds: int = 100) -> Pipeline:
    """The steps.

    Args:
        customers: a file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI.
        trainings: how many are tried.
        parallel: how many run at a time.
        rounds: the most trees of each training.
    """
    data = step(prepare_data, raw=customers, key="customer", label="churn", validation_percent=15, test_percent=25)
    training = step(
        train_table,
        train=data["train"],
        validation=data["validation"],
        rounds=rounds,
        early_stopping=10,
        estimator_options='{"categories": ["plan", "state"]}',
    )
    search = tune(
        training,
        objective="validation_loss",
        strategy="Random",
        learning_rate=between(0.02, 0.3, scale="Logarithmic"),
        max_depth=between(2, 8),
        max_trainings=trainings,
        max_parallel=parallel,
        seed=7,
    )
    scores = step(evaluate, model=search["model"], data=data["test"], slices="plan")
    version = register(model=search["model"], evaluation=scores, group="tuning")
    return Pipeline(name="tuning", steps=[data, search, scores, version])
