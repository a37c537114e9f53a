"""`python by_hand.py`: the same with xgboost and MLflow, in one process and without intervals."""

import mlflow
import numpy as np
import pandas as pd
import xgboost as xgb
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error
from sklearn.model_selection import train_test_split

mlflow.set_tracking_uri("sqlite:///mlflow.db")
frame = pd.read_csv("abalone.csv", dtype={"sex": "category"})
train, rest = train_test_split(frame, test_size=0.2, random_state=7)
validation, test = train_test_split(rest, test_size=0.5, random_state=7)


def matrix(rows):
    return xgb.DMatrix(rows.drop(columns=["id", "rings"]), rows["rings"], enable_categorical=True)


with mlflow.start_run() as run:
    options = {"max_depth": 5, "learning_rate": 0.1, "tree_method": "hist"}
    mlflow.log_params(options)
    booster = xgb.train(
        options,
        matrix(train),
        100,
        evals=[(matrix(train), "train"), (matrix(validation), "validation")],
        early_stopping_rounds=20,
        verbose_eval=False,
    )
    answers = booster.predict(matrix(test), iteration_range=(0, booster.best_iteration + 1))
    found = {
        "rmse": root_mean_squared_error(test["rings"], answers),
        "mae": mean_absolute_error(test["rings"], answers),
        "r2": r2_score(test["rings"], answers),
        "max_error": float(np.abs(test["rings"] - answers).max()),
    }
    mlflow.log_metrics(found)
    model = mlflow.xgboost.log_model(booster, name="model")
client = mlflow.MlflowClient()
try:
    champion = client.get_model_version_by_alias("abalone", "champion")
    best = client.get_run(champion.run_id).data.metrics["rmse"]
except mlflow.exceptions.MlflowException:
    best = float("inf")
if found["rmse"] > 3 or found["rmse"] >= best:
    raise SystemExit(f"not registered: rmse {found['rmse']:.3f}, the champion's {best:.3f}")
version = mlflow.register_model(model.model_uri, "abalone")
print("registered version", version.version)
