"""`drivetrain run digits.py`, then `drivetrain run digits.py --set max_digits=3`."""

import pickle

from drivetrain import Pipeline, Settings, fail, register, step, when
from drivetrain.components import Input, Output, component


class Digits(Settings):
    max_digits: int = 4


@component
def load(data: Output) -> None:
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    parts = train_test_split(*load_digits(return_X_y=True), random_state=3)
    (data / "parts.pkl").write_bytes(pickle.dumps(parts))


@component
def train(data: Input, model: Output) -> None:
    from sklearn.ensemble import RandomForestClassifier

    parts = pickle.loads((data / "parts.pkl").read_bytes())
    (model / "model.pkl").write_bytes(pickle.dumps(RandomForestClassifier(random_state=0).fit(parts[0], parts[2])))


@component
def evaluate(data: Input, model: Input, max_digits: int) -> dict[str, float]:
    from sklearn.metrics import accuracy_score, recall_score

    _, features, _, labels = pickle.loads((data / "parts.pkl").read_bytes())
    found = pickle.loads((model / "model.pkl").read_bytes()).predict(features)
    weak = int(sum(recall_score(labels, found, average=None) < 0.95))
    return {"accuracy": accuracy_score(labels, found), "excess": weak - max_digits}


def digits(settings: Digits) -> Pipeline:
    loaded = step(load)
    trained = step(train, data=loaded["data"])
    evaluated = step(evaluate, data=loaded["data"], model=trained["model"], max_digits=settings.max_digits)
    version = register(model=trained["model"], metrics=evaluated, group="digits")
    gate = when(evaluated.metric("excess") <= 0, then=[version], otherwise=[fail("too many digits are read badly")])
    return Pipeline(name="digits", steps=[loaded, trained, evaluated, gate])
