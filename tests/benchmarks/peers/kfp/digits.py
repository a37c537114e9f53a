"""`python digits.py 4`: runs under kfp.local, each component in a process of its own, without docker."""

import sys

from kfp import dsl, local


@dsl.component(install_kfp_package=False)
def load(train: dsl.Output[dsl.Dataset], test: dsl.Output[dsl.Dataset]):
    import joblib
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    parts = train_test_split(*load_digits(return_X_y=True), random_state=3)
    joblib.dump(parts[0::2], train.path)
    joblib.dump(parts[1::2], test.path)


@dsl.component(install_kfp_package=False)
def train(data: dsl.Input[dsl.Dataset], model: dsl.Output[dsl.Model]):
    import joblib
    from sklearn.ensemble import RandomForestClassifier

    joblib.dump(RandomForestClassifier(random_state=0).fit(*joblib.load(data.path)), model.path)


# One returned value: kfp.local 2.17 resolves no condition on a step that returns several, and skips the branch.
@dsl.component(install_kfp_package=False)
def evaluate(
    data: dsl.Input[dsl.Dataset], model: dsl.Input[dsl.Model], metrics: dsl.Output[dsl.Metrics], max_digits: int
) -> bool:
    import joblib
    from sklearn.metrics import accuracy_score, recall_score

    features, labels = joblib.load(data.path)
    found = joblib.load(model.path).predict(features)
    weak = int(sum(recall_score(labels, found, average=None) < 0.95))
    metrics.log_metric("accuracy", accuracy_score(labels, found))
    return weak <= max_digits


@dsl.component(install_kfp_package=False)
def register(model: dsl.Input[dsl.Model], registered: dsl.Output[dsl.Model]):
    import shutil

    shutil.copy(model.path, registered.path)


@dsl.pipeline
def digits(max_digits: int):
    loaded = load()
    trained = train(data=loaded.outputs["train"])
    evaluated = evaluate(data=loaded.outputs["test"], model=trained.outputs["model"], max_digits=max_digits)
    with dsl.If(evaluated.outputs["Output"] == True):  # noqa: E712 - kfp records the comparison
        register(model=trained.outputs["model"])


if __name__ == "__main__":
    local.init(local.SubprocessRunner(use_venv=False))
    digits(max_digits=int(sys.argv[1]))
