"""Fine-tune a language model of transformers with adapters (LoRA): a few of its weights learn how reviews are written.

    drivetrain run finetuning
    drivetrain run finetuning --set lora_rank=8 --set adapter=apart
    drivetrain run finetuning --set weights=my_llama     # a folder that save_pretrained wrote

The reviews are made up, and the model that it begins with is a tiny one with random weights. Nothing is downloaded.
"""

import json

from drivetrain import Pipeline, register, step
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.components.train import train


def finetuning(
    reviews: str = "example:reviews",
    weights: str = "example:tiny_llama",
    lora_rank: int = 4,
    adapter: str = "merged",
    epochs: int = 5,
) -> Pipeline:
    """The steps.

    Args:
        reviews: a file or folder of CSV, Parquet or JSON Lines: a path, or an s3:// URI.
        weights: the folder of a pretrained model.
        lora_rank: the rank of the adapters; 0 trains all weights.
        adapter: what is handed on: merged, a model like the one it began with; or apart.
        epochs: how often the training data is gone through.
    """
    data = step(prepare_data, raw=reviews, key="id", validation_percent=15, test_percent=25)
    options = {"head": "causal_lm", "length": 16, "lora_rank": lora_rank, "adapter": adapter}
    model = step(
        train,
        train=data["train"],
        validation=data["validation"],
        weights=weights,
        recipe="huggingface",
        recipe_options=json.dumps(options),
        epochs=epochs,
        learning_rate=0.01,
    )
    scores = step(evaluate, model=model["model"], data=data["test"])
    version = register(model=model["model"], evaluation=scores, group="finetuning")
    return Pipeline(name="finetuning", steps=[data, model, scores, version])
