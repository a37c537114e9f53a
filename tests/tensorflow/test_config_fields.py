"""Each field of Config does under TensorFlow what it says, or is refused by name.

(tests/unit/rules/test_strategy_rules.py shows that those are refused when a pipeline is checked.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drivetrain.catalog.strategies import refused_fields
from drivetrain.training.config import Config
from drivetrain.training.loop.schedule import Schedule
from tests.distributed.prepared_data import digit_columns, write_prepared
from tests.tensorflow.trainings import Work, apart, run

pytestmark = pytest.mark.tensorflow

NOTING = {"recipe": "tests.tensorflow.noting", "recipe_options": "{}", "epochs": 2, "keep_best": False}
NO_STEP = {"learning_rate": 1e-30, "max_steps": 1}
"""What the model starts from."""
REPEATED = [int(label) % 3 for label in digit_columns(50)["label"]]
"""What each row weighs in tests.tensorflow.weighing."""
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "start": NO_STEP,
    "first_step": {"max_steps": 1},
    "accumulation": {"accumulation": 3},
    "xla": {"compile": True, "accumulation": 2},
    "xla_unwatched": {"compile": True, "accumulation": 2, "health": False},
    "fp64": {"precision": "fp64"},
    "tf32": {"precision": "tf32"},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16"},
    "overflow": {"precision": "fp16", "recipe_options": '{"loss_factor": 1e4}', "max_steps": 1, "ema_decay": 0.5},
    "average_step": {"ema_decay": 0.75, "max_steps": 1},
    "average": {"ema_decay": 0.75, "keep_best": True},
    "average_resumed": {"ema_decay": 0.75, "keep_best": True, "max_steps": 5},
    "warm": {"schedule": "cosine", "warmup_epochs": 0.5, "lr_scaling": "sqrt", "base_batch": 4},
    "cycles": {"schedule": "sgdr", "warmup_epochs": 0.0, "cycle_epochs": 0.5, "cycle_growth": 2.0},
    "undecayed": {"recipe_options": '{"optimizer_name": "adamw"}', "max_steps": 1, "weight_decay": 0.0},
    "decayed": {"recipe_options": '{"optimizer_name": "adamw"}', "max_steps": 1, "weight_decay": 0.5},
    "unclipped": {"max_steps": 1, "clip_norm": 0.0},
    "clipped": {"max_steps": 1, "clip_norm": 0.01},
    "stops": {"early_stopping": 1, "validate_every": 2, "monitor": "validation_accuracy", "learning_rate": 1e-30},
    "dropped": {"drop_last": True, "epochs": 1},
    "norms": {"recipe_options": '{"makes": "batch_norm"}', "epochs": 1},
    "other_seed": {"seed": 1, "epochs": 1},
    "when_needed": {"prefetch": 0, "epochs": 1},
    "windows": {"shuffle_window": 10, "epochs": 1},
    "balanced": {"sampling": "balanced", "epochs": 1},
    "weighted": {"sampling": "weighted", "weight_column": "label", "epochs": 1},
    "kept": {
        **{"keep_last": 1, "keep_best_n": 1, "keep_every_hours": 1.0, "async_checkpoints": False, "mtbf_hours": 1.0},
        **{"checkpoint_every": "1steps", "log_every": 3, "collective_timeout": 30.0},
    },
    "fresh": {"seed": 1, "max_steps": 1},
    "unwatched": {"health": False, "epochs": 1},
    "watched": {"health_cost": 1.0, "health_rules": '{"overfitting": "off"}', "epochs": 1},
    "profiled": {"profile": 2, "epochs": 1},
    "npz": {"reader": "npz", "reader_options": '{"label": "label"}', "epochs": 1},
    "weighed": {"recipe": "tests.tensorflow.weighing", "global_batch": 50, "max_steps": 1, "clip_norm": 0.0},
    "weighed_classes": {"class_weights": "balanced", "max_steps": 1},
    "repeated": {"global_batch": sum(REPEATED), "max_steps": 1, "clip_norm": 0.0},
}
# In the folders of before.
AGAIN = {"average_resumed": RUNS["average"], "fresh": {"seed": 0, "max_steps": 1}}
# Which start from the weights of "plain".
FROM_WEIGHTS = {"started": NO_STEP, "other_head": NO_STEP | {"recipe_options": '{"num_classes": 9}'}}
WITHOUT_VALIDATION = ("dropped", "other_seed", "when_needed", "windows", "balanced", "weighted", "npz")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Work]:
    yield Work(tmp_path_factory.mktemp("fields"))


@pytest.fixture(scope="module")
def noted(work: Work) -> dict[str, dict[str, Any]]:
    """What each of the trainings came to, all of them in one process."""
    listed = [*RUNS.items(), *AGAIN.items(), *FROM_WEIGHTS.items()]
    given = work.given(*((name, NOTING | change) for name, change in listed))
    (work.folder / "archive").mkdir()
    columns = {name: values for name, values in digit_columns(50).items() if name != "id"}
    np.savez(work.folder / "archive/train.npz", **columns)
    rows = np.repeat(np.arange(50), REPEATED)
    again = {name: values[rows] for name, values in columns.items()} | {"id": [f"{n}" for n in range(len(rows))]}
    others = {"npz": work.folder / "archive", "repeated": write_prepared(work.folder / "repeated_rows", again)}
    for one in given["runs"]:
        name = Path(one["target"]).name
        one["validates"] = name not in WITHOUT_VALIDATION
        if name in FROM_WEIGHTS:
            one["weights"] = str(work.folder / "plain/model")
        if name in others:
            one["data"] = str(others[name])
    return {name: noted for (name, _), noted in zip(listed, run(given)["runs"], strict=True)}


def shown_accumulation(work: Work, noted: Any) -> None:
    """Pieces of 6 of 16 rows, filled up; the sums are the same."""
    assert noted["accumulation"]["rows"] == [6] and noted["plain"]["rows"] == [16]
    assert work.distance("plain", "accumulation") < 1e-6


def shown_compile(work: Work, noted: Any) -> None:
    assert noted["xla"]["xla"] and not noted["plain"]["xla"]
    assert work.distance("plain", "xla") < 1e-6


def shown_precision(work: Work, noted: Any) -> None:
    computes = {name: noted[name]["computes_in"] for name in ("plain", "fp64", "tf32", "bf16", "fp16")}
    assert computes == {
        **{"plain": "float32", "fp64": "float64", "tf32": "float32"},
        **{"bf16": "bfloat16", "fp16": "float16"},
    }
    assert [noted[name]["tf32"] for name in ("plain", "tf32", "bf16")] == [False, True, False]
    kept = {name: {str(values.dtype) for values in work.weights(name).values()} for name in computes}
    assert kept == {name: {"float64" if name == "fp64" else "float32"} for name in computes}
    assert work.distance("plain", "tf32") == 0.0  # (it is of GPUs)
    assert 0 < work.distance("plain", "fp64") < 1e-6
    assert 1e-6 < work.distance("plain", "fp16") < 0.02
    assert 1e-4 < work.distance("plain", "bf16") < 0.1
    assert noted["fp16"]["loss_scale"] == 2.0**16
    # A gradient that overflows halves the scale, and is neither a step nor part of an average.
    assert noted["overflow"]["loss_scale"] == 2.0**15
    assert work.distance("start", "overflow") < 1e-28


def shown_ema_decay(work: Work, noted: Any) -> None:
    first, second = work.weights("start"), work.weights("first_step")
    assert apart(first, second) > 1e-3
    averaged = {name: 0.75 * first[name] + 0.25 * second[name] for name in first}
    assert apart(averaged, work.weights("average_step")) < 1e-7
    assert work.distance("average", "plain") > 1e-3
    assert work.distance("average", "average_resumed") == 0.0
    assert work.history("average")[-1] == work.history("average_resumed")[-1]


def shown_schedule(work: Work, noted: Any) -> None:
    expected = {
        "warm": (0.1, Schedule(kind="cosine", warmup_steps=2, total_steps=8)),
        "cycles": (0.05, Schedule(kind="sgdr", warmup_steps=0, total_steps=8, cycle_steps=2, cycle_growth=2.0)),
    }
    for name, (highest, schedule) in expected.items():
        rates = [row["learning_rate"] for row in work.steps(name)]
        assert rates == pytest.approx([highest * schedule.factor(step) for step in range(8)])
    assert work.distance("warm", "plain") > 1e-3


def shown_weight_decay(work: Work, noted: Any) -> None:
    """AdamW's first step (I. Loshchilov and F. Hutter, 2019): rate times decay times the weight."""
    start = work.weights("start")
    rate = work.steps("decayed")[0]["learning_rate"]
    expected = {name: value - rate * 0.5 * start[name] for name, value in work.weights("undecayed").items()}
    assert apart(expected, work.weights("decayed")) < 1e-6
    assert work.distance("decayed", "undecayed") > 1e-3


def shown_clip_norm(work: Work, noted: Any) -> None:
    """SGD's first step is the rate times the gradient."""
    start, whole, short = (work.weights(name) for name in ("start", "unclipped", "clipped"))
    rate, norm = (work.steps("unclipped")[0][name] for name in ("learning_rate", "gradient_norm"))
    lengths = [sum(float(((of[n] - start[n]) ** 2).sum()) for n in start) ** 0.5 / rate for of in (whole, short)]
    assert lengths == pytest.approx([norm, 0.01], rel=1e-3)
    assert work.steps("clipped")[0]["gradient_norm"] == norm


def shown_early_stopping(work: Work, noted: Any) -> None:
    """Nothing is learnt: the second validation is no better."""
    assert [row["step"] for row in work.history("stops")] == [2, 4]


def shown_drop_last(work: Work, noted: Any) -> None:
    assert [row["step"] for row in work.steps("dropped")] == [1, 2, 3]
    # A model that looks across samples sees the 2 rows of a smaller last batch, and none that fill it up.
    assert noted["norms"]["rows"] == [16, 2]


def shown_order(work: Work, noted: Any) -> None:
    """Which samples come when: what reads is asked for them."""
    ones = {name: noted[name]["labels"] for name in WITHOUT_VALIDATION}
    whole = sorted(np.arange(50) % 8)
    assert all(sorted(ones[name][-50:]) == whole for name in ("when_needed", "windows", "other_seed", "npz"))
    assert ones["other_seed"][-50:] != ones["when_needed"][-50:] != ones["windows"][-50:]
    assert 0 not in ones["weighted"][-50:]  # which has the weight 0
    assert sorted(ones["balanced"][-50:]) != whole  # drawn anew for each row
    losses = [row["train_loss"] for row in work.steps("when_needed")]
    assert (
        losses
        == [row["train_loss"] for row in work.steps("npz")]
        == [row["train_loss"] for row in work.steps("plain")[:4]]
    )


def shown_checkpoints(work: Work, noted: Any) -> None:
    def steps(name: str) -> int:
        return len(list((work.folder / name / "checkpoints").rglob("manifest.json")))

    assert steps("kept") == 2 < steps("plain")  # the newest one, and the best
    assert work.distance("kept", "plain") == 0.0
    assert [row["step"] for row in work.steps("kept")] == [3, 4, 6, 8]


def shown_max_steps(work: Work, noted: Any) -> None:
    assert work.distance("fresh", "first_step") == 0.0


def shown_loss_weights(work: Work, noted: Any) -> None:
    """A row that weighs 2 counts as two rows, one that weighs 0 as none."""
    assert set(REPEATED) == {0, 1, 2}
    (weighed,), (repeated,) = work.steps("weighed"), work.steps("repeated")
    assert weighed["train_loss"] == pytest.approx(repeated["train_loss"], rel=1e-6)
    assert weighed["train_loss"] != pytest.approx(work.steps("first_step")[0]["train_loss"], rel=1e-4)
    assert work.distance("weighed", "repeated") < 1e-6 < work.distance("weighed", "start")


def shown_weights(work: Work, noted: Any) -> None:
    """A start from the weights of an earlier training; a last layer of another shape is left as it was drawn."""
    assert work.distance("plain", "started") < 1e-28
    plain, other = work.weights("plain"), work.weights("other_head")
    head = sorted(plain)[-2:]
    assert [other[name].shape for name in head] == [(16, 9), (9,)]
    assert apart(*({n: v for n, v in of.items() if n not in head} for of in (plain, other))) < 1e-28


def shown_class_weights(work: Work, noted: Any) -> None:
    """The rows are of 8 classes, two of which have one row more; how they are weighed has a suite of its own."""
    (weighed,), first = work.steps("weighed_classes"), work.steps("first_step")[0]
    assert 0 < abs(weighed["train_loss"] - first["train_loss"]) < 0.1
    assert 0 < work.distance("weighed_classes", "first_step") < 1e-3


def shown_tensorboard(work: Work, noted: Any) -> None:
    (file,) = (work.folder / "plain/output/tensorboard").rglob("events.*")
    assert all(tag in file.read_bytes() for tag in (b"train_loss", b"validation_accuracy", b"learning_rate"))


def shown_health(work: Work, noted: Any) -> None:
    """To the bit nothing is changed by it, with every step looked at, and where XLA compiles the pass."""
    folders = {name: work.folder / name / "output/health" for name in ("unwatched", "watched")}
    assert not folders["unwatched"].exists() and (folders["watched"] / "health.json").is_file()
    for watched in ("watched", "xla"):
        unwatched = "unwatched" if watched == "watched" else "xla_unwatched"
        assert work.distance(watched, unwatched) == 0.0
        losses, its = ([row["train_loss"] for row in work.steps(name)] for name in (watched, unwatched))
        assert losses == its


def shown_profile(work: Work, noted: Any) -> None:
    """To the bit nothing is changed by it. (test_trainings has the traces of two processes.)"""
    assert work.distance("profiled", "unwatched") == 0.0
    folder = work.folder / "profiled/output/profile"
    found = json.loads((folder / "operators.json").read_text())
    calls = {row["name"]: row["calls"] for row in found["operators"]}  # only the longest
    assert (found["steps"], found["on_gpu"], calls["_FusedConv2D"]) == (2, False, 4)
    times = [row["ms"] for row in found["operators"]]
    assert times == sorted(times, reverse=True) and 0 < sum(row["share"] for row in found["operators"]) < 1.001
    trace = json.loads((folder / "rank0-trace.json").read_text())
    for operator, times_called in {"_FusedConv2D": 4, "MaxPool": 2}.items():
        events = [event for event in trace["traceEvents"] if event["name"].endswith(f":{operator}")]
        assert len(events) == times_called and all(event["dur"] > 0 for event in events)


def shown_elsewhere(work: Work, noted: Any) -> None:
    """test_trainings trains under every strategy, and goes on with the best model."""


SHOWN: dict[str, Callable[[Work, Any], None]] = {
    "accumulation": shown_accumulation,
    "compile": shown_compile,
    "precision": shown_precision,
    "ema_decay": shown_ema_decay,
    **dict.fromkeys(
        ("schedule", "warmup_epochs", "lr_scaling", "base_batch", "cycle_epochs", "cycle_growth", "learning_rate"),
        shown_schedule,
    ),
    "weight_decay": shown_weight_decay,
    "class_weights": shown_class_weights,
    "clip_norm": shown_clip_norm,
    **dict.fromkeys(("early_stopping", "validate_every", "monitor"), shown_early_stopping),
    "drop_last": shown_drop_last,
    **dict.fromkeys(
        ("sampling", "weight_column", "shuffle_window", "seed", "prefetch", "reader", "reader_options"), shown_order
    ),
    **dict.fromkeys(
        ("checkpoint_every", "keep_last", "keep_best_n", "keep_every_hours", "async_checkpoints", "mtbf_hours"),
        shown_checkpoints,
    ),
    **dict.fromkeys(("log_every", "collective_timeout"), shown_checkpoints),
    "max_steps": shown_max_steps,
    "profile": shown_profile,
    **dict.fromkeys(("health", "health_cost", "health_rules"), shown_health),
    **dict.fromkeys(
        ("recipe", "recipe_options", "strategy", "strategy_options", "epochs", "global_batch", "keep_best"),
        shown_elsewhere,
    ),
}


def test_every_field_is_shown_here_or_refused_by_name() -> None:
    names = {field.name for field in fields(Config)}
    assert {*SHOWN} | {*refused_fields("tensorflow")} == names
    assert not {*SHOWN} & {*refused_fields("tensorflow")}
    used = {name for change in (*RUNS.values(), *AGAIN.values()) for name in change}
    assert {name for name, shown in SHOWN.items() if shown is not shown_elsewhere} <= used


@pytest.mark.parametrize(
    "shown", dict.fromkeys((*SHOWN.values(), shown_loss_weights, shown_weights, shown_tensorboard))
)
def test_a_field_has_its_documented_effect(shown: Callable[[Work, Any], None], work: Work, noted: Any) -> None:
    shown(work, noted)
