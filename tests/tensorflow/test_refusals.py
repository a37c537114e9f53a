"""What TensorFlow's strategies cannot do is refused: what was given, why, and what to do instead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tensorflow.trainings import Work, run

pytestmark = pytest.mark.tensorflow

NOTING = "tests.tensorflow.noting"
CASES: list[tuple[dict[str, Any], str]] = [
    (
        {"recipe_options": '{"makes": "no_optimizer"}'},
        "optimizer() of the recipe returned none: a Keras model that was not compiled has no optimizer. Return one, "
        "such as keras.optimizers.AdamW(learning_rate, weight_decay=weight_decay); or compile the model",
    ),
    (
        {"recipe_options": '{"makes": "clips"}'},
        "has global_clipnorm=1.0, which Keras would do to each replica's part of a gradient. Leave it out, and give "
        "the training clip_norm.",
    ),
    (
        {"recipe_options": '{"makes": "schedules"}'},
        "has a schedule of its own. Give it the plain learning_rate, and the training a schedule.",
    ),
    (
        {"recipe_options": '{"makes": "no_pairs"}'},
        "it must return an optimizer, or a list of pairs: an optimizer, and variables that it trains",
    ),
    (
        {"recipe_options": '{"makes": "forgets"}'},
        "returned 1 optimizers that do not share out the 8 trainable variables. Give each variable to one of them.",
    ),
    (
        {"recipe": "tests.tensorflow.two_optimizers", "precision": "fp16"},
        "returned 2 optimizers, and with precision fp16 each would scale the loss. Use bf16, or return one optimizer.",
    ),
    ({"recipe_options": '{"makes": "mean_loss"}'}, "losses() of the recipe returned shape []; it must return one"),
    (
        {"recipe_options": '{"makes": "batch_norm"}', "accumulation": 3},
        "a batch of 16 samples cannot be dealt into 3 equal parts, and the model normalizes over samples "
        "(BatchNormalization; GroupNormalization does not). Give drop_last=True",
    ),
    (
        {"world_size": 2},
        "strategy 'tf_single' is for one process, but 2 were started. Use strategy 'tf_multi_worker'",
    ),
    ({"weights": "no_such_file"}, "weights 'no_such_file': no such file. Give a file of weights, or a model folder."),
    ({"weights": str(Path(__file__))}, "cannot be read as weights ("),
    ({"fused": True}, "fused=True: strategies of TensorFlow do not have it. Leave it out: a step is one graph"),
    (
        {"precision": "fp16", "recipe_options": '{"loss_factor": 1e30}', "epochs": 20},
        "precision fp16: gradients are not finite, whatever the scale of the loss",
    ),
    (
        {"strategy": "single"},
        f"recipe {NOTING!r} is of tensorflow, and strategy 'single' of torch. Choose a strategy of tensorflow: ",
    ),
    (
        {"recipe": "digits_cnn", "recipe_options": "{}"},
        "recipe 'digits_cnn' is of torch, and strategy 'tf_single' of tensorflow. Choose a strategy of torch: ",
    ),
]


def test_impossible_trainings_are_refused(tmp_path: Path) -> None:
    """All in one process."""
    work = Work(tmp_path)
    own = {"recipe": NOTING, "recipe_options": "{}", "keep_best": False}
    given = work.given(*((f"run{number}", own | change) for number, (change, _) in enumerate(CASES)))
    for one in given["runs"]:
        if "weights" in one["config"]:
            one["weights"] = one["config"].pop("weights")
        one |= {"refused": True, "validates": False, "world_size": one["config"].pop("world_size", 1)}
    found = run(given)["runs"]
    for (_, message), noted in zip(CASES, found, strict=True):
        assert message in noted.get("refused", "it trained")
    assert not list(tmp_path.glob("*/model"))
