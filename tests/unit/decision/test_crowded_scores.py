"""From samples to the decision: what a report says of scores that lie close together misleads no decision."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from drivetrain.decision.deciding import Champion, decide
from drivetrain.decision.evaluation import Evaluation, read_evaluation
from drivetrain.decision.policy import Policy
from drivetrain.decision.rows import Rows
from drivetrain.training.evaluation import document
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.metric import Samples, load_metrics
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.result import Bootstrap
from drivetrain.training.process import Process
from drivetrain.training.task import Task
from tests.fixtures.reports import hashed

N = 400
TARGETS = np.random.default_rng(0).integers(0, 2, N)


def evaluated(folder: Path, scores: np.ndarray) -> Evaluation:
    """In mode exact: the values are exact, the replicates are in bins."""
    task = Task("binary", 2)
    counting = Accumulator(
        Process(0, 1, 0, 1, torch.device("cpu")),
        task,
        load_metrics("auroc", task),
        num_rows=N,
        exact=True,
        bootstrap=Bootstrap(replicates=100),
    )
    predicted = (scores >= 0.5).astype(np.int64)
    counting.update(np.arange(N), Samples(losses=np.zeros(N), targets=TARGETS, scores=scores, predicted=predicted))
    result = counting.finish()
    content = document.document(
        result, Settings(mode="exact"), data={"content_hash": "d", "rows": N, "key": None}, model={"content_hash": "m"}
    )
    folder.mkdir()
    (folder / "evaluation.json").write_text(json.dumps(hashed(content)))
    (folder / "bootstrap.json").write_text(json.dumps(document.replicates(result)))
    # As of metrics of which rows say nothing.
    return replace(read_evaluation(folder), evidence=Rows(keys=np.arange(N, dtype=np.uint64), keyed=False, columns=[]))


@pytest.mark.parametrize(("width", "told"), [(1e-9, True), (0.1, False)])
def test_a_worse_model_does_not_win_by_the_bins_of_the_other(tmp_path: Path, width: float, told: bool) -> None:
    random = np.random.default_rng(1)
    crowded = evaluated(tmp_path / "crowded", 0.3 + width * (TARGETS + 0.5 * random.normal(size=N)).clip(-2, 4))
    spread = evaluated(tmp_path / "spread", 1 / (1 + np.exp(-(TARGETS + 1.2 * random.normal(size=N)))))
    better, worse = crowded.whole.metrics["auroc"], spread.whole.metrics["auroc"]
    assert better.value - worse.value > 0.15 and better.bound < 1e-9
    decided = decide(spread, Champion(version=1, content_hash="c", evaluation=crowded), Policy(metric="auroc"))
    assert decided.verdict == "keep champion"
    difference = decided.difference
    assert difference is not None and difference.interval is not None
    assert difference.interval.low < difference.value < difference.interval.high
    assert difference.surest_gain(0.025) == pytest.approx(difference.interval.low)
    assert ("The interval is wider by 0.5" in " ".join(decided.why)) == told
