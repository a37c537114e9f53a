"""`python digits.py 4`: the default local stack, SQLite and no server."""

import sys
from typing import Annotated, Any

from zenml import Model, get_step_context, log_metadata, pipeline, step


@step
def load() -> tuple[Annotated[Any, "train"], Annotated[Any, "test"]]:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    parts = train_test_split(*load_digits(return_X_y=True), random_state=3)
    return parts[0::2], parts[1::2]


@step
def train(data: Any) -> Annotated[Any, "classifier"]:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=0).fit(*data)


@step
def evaluate(data: Any, model: Any, max_digits: int) -> bool:
    from sklearn.metrics import accuracy_score, recall_score

    features, labels = data
    found = model.predict(features)
    weak = int(sum(recall_score(labels, found, average=None) < 0.95))
    log_metadata({"accuracy": float(accuracy_score(labels, found))})
    return weak <= max_digits


@step
def register(passed: bool) -> None:
    if not passed:
        raise ValueError("too many digits are read badly")
    get_step_context().model.set_stage("production", force=True)


@pipeline(model=Model(name="digits"))
def digits(max_digits: int):
    train_data, test_data = load()
    register(evaluate(test_data, train(train_data), max_digits))


if __name__ == "__main__":
    digits(max_digits=int(sys.argv[1]))
