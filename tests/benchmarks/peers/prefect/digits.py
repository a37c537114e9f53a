"""`python digits.py 4`: without a server of its own configured, Prefect starts a temporary one."""

import sys

from prefect import flow, task
from prefect.cache_policies import INPUTS, TASK_SOURCE

cached = task(persist_result=True, cache_policy=INPUTS + TASK_SOURCE)


@cached
def load():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    return train_test_split(*load_digits(return_X_y=True), random_state=3)


@cached
def train(features, labels):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=0).fit(features, labels)


@cached
def evaluate(features, labels, model, max_digits: int):
    from sklearn.metrics import accuracy_score, recall_score

    found = model.predict(features)
    weak = int(sum(recall_score(labels, found, average=None) < 0.95))
    return accuracy_score(labels, found), weak <= max_digits


@cached
def register(model):
    return model


@flow
def digits(max_digits: int):
    data = load()
    model = train(data[0], data[2])
    accuracy, passed = evaluate(data[1], data[3], model, max_digits)
    if not passed:
        raise ValueError(f"digits are read too badly (accuracy {accuracy:.4f})")
    register(model)


if __name__ == "__main__":
    digits(max_digits=int(sys.argv[1]))
