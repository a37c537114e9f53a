"""Train with a scikit-learn script as it is; a model is registered if it is better than the approved one.

    drivetrain run own_script
    drivetrain models approve own-script 1
    drivetrain run own_script --set gamma=0.0005        # another model: is it significantly better?

The folder `own` has the script, which imports nothing of drivetrain, and `answer.py`, by which its model answers.
"""

import json

from drivetrain import Pipeline, register, step, when
from drivetrain.components.compare import compare
from drivetrain.components.describe_model import describe_model
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train_script import train_script

training = train_script._replace(needs=("scikit-learn", "joblib", "pyarrow"))


def own_script(table: str = "example:digits", source: str = "example:own", gamma: float = 0.001) -> Pipeline:
    """The steps, and what is done with the model.

    Args:
        table: a file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI.
        source: the folder with fit.py and answer.py.
        gamma: a hyperparameter of the script.
    """
    data = step(prepare_data, raw=table, key="id", label="label", validation_percent=0, test_percent=25)
    fitted = step(
        training,
        train=data["train"],
        source=source,
        script="fit.py",
        launcher="python",
        hyperparameters=json.dumps({"gamma": gamma}),
    )
    model = step(describe_model, trained=fitted["model"], data=data["train"], source=source, task="multiclass")
    tested = {"model": model["model"], "data": data["test"]}
    scores = step(evaluate, **tested)
    verdict = step(compare, evaluation=scores["report"], **tested, group="own-script", metric="accuracy", first=True)
    version = register(model=model["model"], evaluation=scores, decision=verdict, group="own-script")
    gate = when(verdict.metric("register").equals(1), then=[version])
    return Pipeline(name="own-script", steps=[data, fitted, model, scores, verdict, gate])
