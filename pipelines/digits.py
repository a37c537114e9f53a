"""Learn handwritten digits, and register the model if it is good enough: the pipeline of the README.

    drivetrain run digits
    drivetrain run digits --set min_accuracy=0.99

The data are the 1,797 digits that come with scikit-learn.
"""

from drivetrain import Pipeline, fail, register, step, when
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train


def digits(epochs: int = 5, min_accuracy: float = 0.9) -> Pipeline:
    """The steps, and what is done with the model.

    Args:
        epochs: how often the training data is gone through.
        min_accuracy: the floor: a model below it is not registered.
    """
    data = step(prepare_data, raw="example:digits", key="id", label="label", test_percent=20)
    model = step(train, train=data, recipe="digits_cnn", epochs=epochs, learning_rate=0.003)
    scores = step(evaluate, model=model, data=data["test"])
    good = scores.metric("accuracy") >= min_accuracy
    version = register(model=model, evaluation=scores, group="digits")
    gate = when(good, then=[version], otherwise=[fail("not good enough")])
    return Pipeline(name="digits", steps=[data, model, scores, gate])
