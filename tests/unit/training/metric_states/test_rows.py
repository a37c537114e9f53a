"""What rows say, against the values that were counted: by whatever ranks, and in whatever batches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.decision.rows import Rows, read_rows
from drivetrain.training.evaluation.files import ROWS_FILE, write_arrays
from drivetrain.training.metric import Metric, Samples, load_metrics
from drivetrain.training.metric_states import rows as module
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.own_values import own_metrics
from drivetrain.training.metric_states.result import Bootstrap, Evaluation
from drivetrain.training.process import Process
from drivetrain.training.task import Kind, Task
from tests.fixtures.evaluated_samples import KINDS, SITES, YEARS, Given, samples, taken

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
SCORING = {
    "binary": 'accuracy, precision(average="macro"), recall, f1(per_class=true), specificity, auroc, log_loss, brier',
    "multiclass": "accuracy, balanced_accuracy, f1(per_class=true), recall, precision(per_class=true), log_loss, "
    "brier, specificity(per_class=true), top_k(k=2), auroc(per_class=true), mcc",
    "multilabel": "accuracy, f1(per_class=true), recall, precision, auroc",
    "regression": "mae, mse(per_output=true), rmse, r2, quantile_error(q=0.3), mape",
    "tokens": "perplexity",
    "segmentation": "accuracy, iou",
    "values": "",
}
SILENT = {
    "multiclass": {"mcc", "specificity_micro"},
    "multilabel": {"f1_micro", "recall_micro", "precision_micro"},
    "regression": {"r2"},
    "segmentation": {"iou_macro", "iou_micro", "iou_weighted"},
}


def read(result: Evaluation, folder: Path) -> Rows:
    assert result.rows is not None
    write_arrays(folder / ROWS_FILE, result.rows.arrays)
    found = read_rows(folder)
    assert found is not None
    return found


def evaluated(given: Given, metrics: Mapping[str, Metric] | None = None, *, key: str = "id") -> Evaluation:
    every = {**own_metrics(given.task, {"hit": "bool", "margin": "float"}, weighted=given.kind == "tokens")}
    every |= load_metrics(SCORING[given.kind], given.task) if metrics is None else metrics
    drawing = Bootstrap(replicates=2, key=key)
    counting = Accumulator(
        ALONE, given.task, every, num_rows=given.num_rows, slices=[SITES, YEARS], bootstrap=drawing, exact=True
    )
    found, columns = samples(given)
    for start in reversed(range(0, given.num_rows, given.batch_size)):
        rows = np.arange(start, min(start + given.batch_size, given.num_rows))
        counting.update(rows, *taken(found, columns, rows))
    return counting.finish()


@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_to_the_value_that_was_counted(kind: Kind, tmp_path: Path) -> None:
    given = Given(kind, 60)
    result = evaluated(given)
    rows = read(result, tmp_path)
    groups = {"": result.whole, **{f"{one.column}={one.value}": one for one in result.slices}}
    for name, group in groups.items():
        for metric, measured in group.metrics.items():
            values = rows.values(metric, name)
            if values is None:
                assert metric in SILENT.get(kind, ()), metric
                continue
            inside = rows.members(name)
            assert np.isnan(values[~inside]).all() and inside.sum() == group.num_samples
            allowed = measured.bound + 1e-6 * float(np.abs(values[inside]).max(initial=0))
            assert values[inside].mean() == pytest.approx(measured.value, rel=1e-6, abs=allowed), (name, metric)
    assert rows.keyed and len(set(rows.keys.tolist())) == len(set(samples(given)[1]["id"]))


@dataclass(frozen=True)
class Halves:
    """Whether the own metric `hit` holds."""

    levels: int = 2

    def numbers(self, samples: Samples) -> Any:
        return samples.values["hit"]


@dataclass(frozen=True)
class Custom:
    """A metric of somebody's own, which is a share."""

    kinds: ClassVar[tuple[Kind, ...]] = ("values",)
    higher_is_better: ClassVar[bool | None] = True

    def tallies(self, task: Task) -> Any:
        return own_metrics(task, {"hit": "bool"})["hit"].tallies(task)

    def compute(self, task: Task, counted: Any) -> Any:
        return own_metrics(task, {"hit": "bool"})["hit"].compute(task, counted)

    def rows(self, task: Task) -> Mapping[str, module.Form]:
        return {"": module.Share((module.Is(Halves()),))}


def test_a_metric_of_ones_own_says_of_what_it_is_a_share(tmp_path: Path) -> None:
    result = evaluated(Given("values", 30), {"custom": Custom()}, key="")
    rows = read(result, tmp_path)
    share = rows.share("custom")
    assert share is not None and not rows.keyed
    assert share[0].tolist() == samples(Given("values", 30))[0].values["hit"].tolist() and share[1].all()
    assert share[0].mean() == result.whole.metrics["custom"].value


def test_columns_beyond_the_limit_are_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Given("multiclass", 64)
    monkeypatch.setattr(module, "MOST_BYTES", 64 * (8 + 2) + 64 // 8 + 64 + 10)  # keys and slices, bits, classes
    table = evaluated(given, load_metrics("auroc, recall(per_class=true), precision", given.task))
    rows = read(table, tmp_path)
    assert {"hit", "hit_class_0"} < rows.forms.keys()
    assert {"loss", "margin", "auroc_macro", "recall_class_2"} < set(rows.left_out)
    assert table.rows is not None and table.rows.left_out == rows.left_out
    monkeypatch.setattr(module, "MOST_BYTES", 64)
    nothing = read(evaluated(given), tmp_path)
    assert not nothing.forms and not nothing.num_rows and "hit" in nothing.left_out


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    assert read_rows(tmp_path) is None
    result = evaluated(Given("values", 9))
    assert result.rows is not None
    arrays = dict(result.rows.arrays)
    for damaged in ({"column_0": arrays["column_0"][:5]}, {"about": np.zeros(3, np.uint8)}):
        write_arrays(tmp_path / ROWS_FILE, {**arrays, **damaged})
        with pytest.raises(InputError, match=r"holds no rows of an evaluation: .* Evaluate the model again"):
            read_rows(tmp_path)
    (tmp_path / ROWS_FILE).write_bytes(b"PK")
    with pytest.raises(InputError, match="holds no rows"):
        read_rows(tmp_path)
