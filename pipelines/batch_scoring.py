"""Score customers with the approved model of churn, by hand or whenever a file of them arrives.

    drivetrain run churn
    drivetrain models approve churn 1
    drivetrain run batch_scoring
    drivetrain apply batch_scoring -c production.yaml --set bucket=arrivals    # each upload starts it

A run without an approved model fails and says so.
"""

from drivetrain import Pipeline, Upload, fail, step, when
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.fetch_previous import fetch_previous
from drivetrain.components.find_previous import find_previous
from drivetrain.components.prepare_data import prepare_data

# The model is known when the pipeline runs: these packages ask a model of train_table with XGBoost.
predict = batch_predict._replace(needs=("xgboost-cpu", "pyarrow", "numpy"))


def batch_scoring(customers: str = "example:churn", group: str = "churn", bucket: str = "") -> Pipeline:
    """The steps, and what starts them.

    Args:
        customers: a file or folder of them: a path, or an s3:// URI; not used with a bucket.
        group: the registered models; the approved one is asked.
        bucket: each upload of customers/*.csv to this bucket starts the pipeline, which scores all that is there.
    """
    arrivals = f"s3://{bucket}/customers/" if bucket else customers
    approved = step(find_previous, group=group)
    named = {name: approved.text(name) for name in ("version", "content_hash")}
    model = step(fetch_previous, group=group, registry="auto", **named)
    rows = step(prepare_data, raw=arrivals, key="customer", validation_percent=0, test_percent=0)
    scores = step(predict, model=model["previous"], data=rows["train"], keep="plan, state")
    none = fail(f"no version of {group} is approved: drivetrain models approve {group} VERSION")
    found = when(approved.text("version").equals("none"), then=[none], otherwise=[model, rows, scores])
    uploads = [Upload(name="arrived", bucket=bucket, prefix="customers/", once_per="10 minutes")] if bucket else []
    return Pipeline(name="batch-scoring", steps=[approved, found], triggers=uploads)
