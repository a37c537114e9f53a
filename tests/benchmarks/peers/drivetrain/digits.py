"""`drivetrain run digits.py`, then `drivetrain run digits.py --set max_digits=3`."""

from drivetrain import Pipeline, fail, register, step, when
from drivetrain.components import Value, component


@component
def load() -> Value:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    return train_test_split(*load_digits(return_X_y=True), random_state=3)


@component
def train(data: Value) -> Value:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=0).fit(data[0], data[2])


@component
def evaluate(data: Value, model: Value, max_digits: int) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, recall_score

    found = model.predict(data[1])
    weak = int(sum(recall_score(data[3], found, average=None) < 0.95))
    return {"accuracy": accuracy_score(data[3], found), "excess": weak - max_digits}


def digits(max_digits: int = 4) -> Pipeline:
    data = step(load)
    model = step(train, data=data)
    scores = step(evaluate, data=data, model=model, max_digits=max_digits)
    version = register(model=model, metrics=scores, group="digits")
    gate = when(scores.metric("excess") <= 0, then=[version], otherwise=[fail("too many digits are read badly")])
    return Pipeline(name="digits", steps=[data, model, scores, gate])
