"""Train one model per site, side by side: the same steps, once per item of a list.

    drivetrain run per_site
    drivetrain run per_site --set 'states=["BE", "SN", "TH"]'

Each model learns from the rows of its own state, and is measured on others of them.
"""

import json

from drivetrain import Pipeline, current_item, for_each, join, step
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_table import train_table
from drivetrain.components.transform_data import transform_data


def per_site(
    customers: str = "example:churn", states: tuple[str, ...] = ("BE", "NW"), rounds: int = 40, parallel: int = 2
) -> Pipeline:
    """The steps.

    Args:
        customers: a file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI.
        states: the sites.
        rounds: trees of each model.
        parallel: how many sites are worked on at a time.
    """
    state = current_item("String")
    rows = step(
        transform_data, raw=customers, plan=join('[{"filter": {"equal": ["state", {"value": "', state, '"}]}}]')
    )
    data = step(prepare_data, raw=rows["output"], key="customer", label="churn", test_percent=30, validation_percent=0)
    options = json.dumps({"max_depth": 3, "learning_rate": 0.1, "categories": ["plan"], "ignore": ["state"]})
    model = step(train_table, train=data["train"], rounds=rounds, estimator_options=options)
    scores = step(evaluate, model=model["model"], data=data["test"])
    sites = for_each(list(states), [rows, data, model, scores], name="sites", max_concurrency=parallel)
    return Pipeline(name="per-site", steps=[sites])
