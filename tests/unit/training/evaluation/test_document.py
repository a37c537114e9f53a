"""From what was counted to what is written and printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from drivetrain.base.order_statistics import enclosing
from drivetrain.training.evaluation import document, table
from drivetrain.training.evaluation.document import absolute_errors
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.metric import Metric, Samples, Value, load_metrics
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.result import Bootstrap, Evaluation, Group, Measured, Slice
from drivetrain.training.process import Process
from drivetrain.training.task import Task


class Counted:
    kinds: ClassVar = ("binary",)
    higher_is_better: ClassVar = True

    def tallies(self, task: Task) -> Mapping[str, Any]:
        return {}

    def compute(self, task: Task, counted: Mapping[str, Any]) -> Mapping[str, Value]:
        return {}


class Curve(Counted):
    def rankings(self, task: Task, samples: Any) -> Mapping[str, Any]:
        return {}

    def compute_exact(self, task: Task, ranked: Mapping[str, Any]) -> Mapping[str, Value]:
        return {}


METRICS: dict[str, Metric] = {"accuracy": Counted(), "auroc": Curve(), "f1": Counted()}
WHOLE = Group(
    num_samples=360,
    metrics={
        "loss": Measured(value=0.25, higher_is_better=False),
        "accuracy": Measured(value=0.975, low=0.95, high=0.99, interval_bound=0.125, higher_is_better=True),
        "auroc": Measured(value=0.5, bound=0.25, advice="use mode exact", higher_is_better=True),
        "accuracy_class_0": Measured(value=1.0, higher_is_better=True),
        "auroc_class_0": Measured(value=1.0, bound=0.125, higher_is_better=True),
    },
    undefined={"f1": "no positive sample"},
    replicates={"accuracy": (0.96, None, 0.98)},
    bounds={"accuracy": 0.125},
)
NORTH = Slice(
    column="site",
    value="north",
    num_samples=40,
    metrics={"accuracy": Measured(value=0.9)},
    undefined={"auroc": "one class"},
    replicates={"accuracy": (0.8, 0.9, 1.0)},
)
RESULT = Evaluation(
    task=Task("binary", 2),
    whole=WHOLE,
    slices=(NORTH,),
    bootstrap=Bootstrap(replicates=3, seed=1, confidence=0.95, key="id"),
    expected_rows=360,
    collectives=1,
)


@pytest.fixture
def content() -> dict[str, Any]:
    return document.document(
        RESULT, Settings(slices="site", batch_size=8), data={"rows": 360}, model={"step": 5}, processes=3
    )


def test_the_document(content: dict[str, Any]) -> None:
    assert content["format"] == 2
    assert content["task"] == {"kind": "binary", "num_classes": 2, "class_names": []}
    assert content["coverage"] == {"rows": 360, "counted": 360}
    assert content["settings"]["slices"] == ["site"]
    assert content["settings"]["processes"] == 3
    assert content["metrics"]["accuracy"] == {
        **{"value": 0.975, "bound": 0.0, "low": 0.95, "high": 0.99, "interval_bound": 0.125, "higher_is_better": True}
    }
    assert content["metrics"]["auroc"]["advice"] == "use mode exact"
    assert content["undefined"] == {"f1": "no positive sample"}
    (north,) = content["slices"]
    assert (north["column"], north["value"], north["num_samples"]) == ("site", "north", 40)
    assert north["undefined"] == {"auroc": "one class"}
    assert content["bootstrap"] == {
        **{"replicates": 3, "seed": 1, "confidence": 0.95, "by": "id", "file": "bootstrap.json"}
    }


def test_the_replicates() -> None:
    found = document.replicates(RESULT)
    assert found == {
        "metrics": {"accuracy": [0.96, None, 0.98]},
        "bounds": {"accuracy": 0.125},
        "slices": [{"column": "site", "value": "north", "metrics": {"accuracy": [0.8, 0.9, 1.0]}, "bounds": {}}],
    }


def test_numbers_that_may_be_off_come_with_their_bound() -> None:
    assert document.numbers(RESULT, METRICS) == {
        **{"num_samples": 360, "loss": 0.25, "accuracy": 0.975, "auroc": 0.5, "auroc_bound": 0.25},
        **{"accuracy_class_0": 1.0, "auroc_class_0": 1.0},
    }


def test_the_table(content: dict[str, Any]) -> None:
    assert list(table.lines(content)) == [
        "  metric            value  within  95 % interval",
        "  loss               0.25   exact",
        "  accuracy          0.975   exact   0.95 to 0.99",
        "  auroc               0.5  ± 0.25",
        "  accuracy_class_0      1   exact",
        "  auroc_class_0         1  ± 0.12",
        "  f1 is undefined: no positive sample",
        "  auroc: use mode exact",
        "",
        "  slice       samples       loss  accuracy      auroc",
        "  all             360       0.25     0.975        0.5",
        "  site=north       40  undefined       0.9  undefined",
    ]


def test_the_first_of_many_classes_are_shown() -> None:
    metrics = {f"f1_class_{number}": {"value": 0.5, "bound": 0.0} for number in range(100)}
    lines = list(table.lines({"metrics": metrics, "undefined": {}, "slices": [], "num_samples": 1, "bootstrap": None}))
    assert lines[-1] == "  and 88 more of single classes"
    assert len(lines) == 1 + 12 + 1


def test_a_result_belongs_to_the_metric_with_the_longest_name() -> None:
    names = {"f1", "f1_macro", "top_k_k_5"}
    owners = {result: document.owner(result, names) for result in ("f1", "f1_macro_x", "f1_micro", "top_k_k_5", "f1x")}
    assert owners == {"f1": "f1", "f1_macro_x": "f1_macro", "f1_micro": "f1", "top_k_k_5": "top_k_k_5", "f1x": None}


def evaluated(errors: np.ndarray, metrics: str = "mae, mse", *, drawn: bool = True, keys: int = 0) -> Evaluation:
    task, n = Task("regression", 1), len(errors)
    bootstrap = Bootstrap(replicates=20, key="id" if keys else "") if drawn else None
    alone = Process(0, 1, 0, 1, torch.device("cpu"))
    counting = Accumulator(alone, task, load_metrics(metrics, task), num_rows=n, bootstrap=bootstrap)
    samples = Samples(losses=errors**2, targets=errors[:, None], predicted=np.zeros((n, 1)))
    counting.update(np.arange(n), samples, {"id": np.arange(n) // keys} if keys else None)
    return counting.finish()


def test_order_statistics_enclose_them() -> None:
    errors = np.random.default_rng(0).standard_normal(300)
    found = absolute_errors(evaluated(errors))
    ordered, ends = np.sort(np.abs(errors)), enclosing(300, 0.9, 0.95)
    assert ends is not None and found["median"]["value"] == pytest.approx(np.median(np.abs(errors)))
    far = found["quantile_90"]
    assert (far["low"], far["high"]) == pytest.approx((ordered[ends[0]], ordered[ends[1]]))


def test_missing_intervals_are_reported() -> None:
    errors = np.random.default_rng(0).standard_normal(300)
    assert absolute_errors(evaluated(errors[:20]))["quantile_90"]["no_interval"] == "too few samples: 20"
    assert absolute_errors(evaluated(errors, keys=50))["median"]["no_interval"] == "samples share keys"
    assert absolute_errors(evaluated(errors, "mse")) == absolute_errors(evaluated(errors, drawn=False)) == {}
