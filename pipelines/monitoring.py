"""Watch what the approved model of churn serves: drift of its inputs and predictions, and its quality by late labels.

    drivetrain run churn
    drivetrain models approve churn 1
    drivetrain run monitoring                                  # on the rows of churn, which have not drifted
    drivetrain run monitoring --set served=today.csv --set labels=left.csv

A drift or a drop is told once; a run without an approved model fails and says so.
"""

import json

from drivetrain import Pipeline, fail, step, when
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.check_served import check_served
from drivetrain.components.fetch_previous import fetch_previous
from drivetrain.components.find_previous import find_previous
from drivetrain.components.prepare_data import prepare_data

# The model is known when the pipeline runs: these packages ask a model of train_table with XGBoost.
predict = batch_predict._replace(needs=("xgboost-cpu", "pyarrow", "numpy"))


def monitoring(
    served: str = "example:churn",
    labels: str = "",
    group: str = "churn",
    label: str = "churn",
    share_moved: float = 0.1,
    max_drop: float = 0.02,
) -> Pipeline:
    """The steps.

    Args:
        served: a file or folder of the rows that were served: a path, or an s3:// URI.
        labels: a file or folder of the labels that have arrived, with the key; "" for none yet.
        group: the registered models; the approved one is watched.
        label: the column of the label.
        share_moved: a column has drifted where surely more of its rows have moved, or become empty or filled.
        max_drop: how much worse than promised the metric of the approval may be.
    """
    approved = step(find_previous, group=group)
    named = {name: approved.text(name) for name in ("version", "content_hash")}
    model = step(fetch_previous, group=group, registry="auto", **named)
    rows = step(prepare_data, raw=served, key="customer", validation_percent=0, test_percent=0)
    scores = step(predict, model=model["previous"], data=rows["train"])
    watched = step(
        check_served,
        data=rows["train"],
        predictions=scores["output"],
        group=group,
        rules=json.dumps({"drift": {each: {"warn": share_moved} for each in ("share_moved", "nulls_moved")}}),
        label=label,
        max_drop=max_drop,
        labels=labels or None,
    )
    none = fail(f"no version of {group} is approved: drivetrain models approve {group} VERSION")
    found = when(approved.text("version").equals("none"), then=[none], otherwise=[model, rows, scores, watched])
    return Pipeline(name="monitoring", steps=[approved, found])
