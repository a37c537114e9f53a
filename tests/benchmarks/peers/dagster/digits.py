"""`dagster asset materialize -f digits.py --select '*' --config-json '{"ops": {"evaluation": {"config": ...}}}'`"""

import dagster as dg


class Limit(dg.Config):
    max_digits: int = 4


@dg.asset
def data():
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    return train_test_split(*load_digits(return_X_y=True), random_state=3)


@dg.asset
def model(data):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=0).fit(data[0], data[2])


@dg.asset
def evaluation(data, model, config: Limit):
    from sklearn.metrics import accuracy_score, recall_score

    found = model.predict(data[1])
    weak = int(sum(recall_score(data[3], found, average=None) < 0.95))
    return {"accuracy": accuracy_score(data[3], found), "weak": weak, "passed": weak <= config.max_digits}


@dg.asset
def registered(model, evaluation):
    if not evaluation["passed"]:
        raise ValueError(f"{evaluation['weak']} digits are read too badly")
    return model


defs = dg.Definitions([data, model, evaluation, registered])
