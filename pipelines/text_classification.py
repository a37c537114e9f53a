"""Learn whether a review is good or bad with a model of transformers, all of whose weights are trained.

    drivetrain run text_classification
    drivetrain run text_classification --set weights=bert     # a folder that save_pretrained wrote

The reviews are made up, and the model that it begins with is a tiny one with random weights. Nothing is downloaded.
"""

import json

from drivetrain import Pipeline, fail, register, step, when
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train


def text_classification(
    reviews: str = "example:reviews", weights: str = "example:tiny_llama", epochs: int = 5, min_accuracy: float = 0.7
) -> Pipeline:
    """The steps, and what is done with the model.

    Args:
        reviews: a file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI.
        weights: the folder of a pretrained model.
        epochs: how often the training data is gone through.
        min_accuracy: the floor: a model below it is not registered.
    """
    data = step(prepare_data, raw=reviews, key="id", label="label", validation_percent=15, test_percent=25)
    model = step(
        train,
        train=data["train"],
        validation=data["validation"],
        weights=weights,
        recipe="huggingface",
        recipe_options=json.dumps({"head": "sequence_classification", "num_labels": 2, "length": 16}),
        epochs=epochs,
        learning_rate=0.003,
    )
    scores = step(evaluate, model=model["model"], data=data["test"])
    version = register(model=model["model"], evaluation=scores, group="text-classification")
    good = scores.metric("accuracy") >= min_accuracy
    gate = when(good, then=[version], otherwise=[fail("below the floor")])
    return Pipeline(name="text-classification", steps=[data, model, scores, gate])
