"""CPU seconds of learning trees and of measuring answers, ours and by the libraries alone, in turns in one process.

Trees are learnt on one thread: several wait for each other at full speed, which on a busy machine is most of the time.

    python main.py learn SCRATCH ROWS ROUNDS ESTIMATOR    "plain", "sampled": [ours, the library alone] of each round
    python main.py measure ROWS ROUNDS       "metrics": [ours, scikit-learn] of each round; "replicates": seconds

The last line of the output is a JSON object.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

FEATURES, TREES, SAVES, BATCH = 20, 100, 4, 1 << 16
OPTIONS: dict[str, dict[str, Any]] = {
    "xgboost": {"max_depth": 6, "learning_rate": 0.1},
    "lightgbm": {"num_leaves": 31, "learning_rate": 0.1},
    "sklearn": {"model_options": {"max_leaf_nodes": 31, "learning_rate": 0.1}},
}
SAMPLED: dict[str, dict[str, Any]] = {
    "xgboost": {"subsample": 0.8, "colsample_bytree": 0.8},
    "lightgbm": {"bagging_fraction": 0.8, "bagging_freq": 1, "feature_fraction": 0.8},
}


def cpu(work: Callable[[], Any]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def learn(scratch: Path, rows: int, rounds: int, estimator: str = "xgboost") -> dict[str, Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from drivetrain.components.prepare_data import prepare_data

    random = np.random.default_rng(7)
    matrix = random.normal(size=(rows, FEATURES))
    label = matrix[:, 0] + matrix[:, 1] * matrix[:, 2] + random.normal(size=rows) > 0
    matrix[random.random(matrix.shape) < 0.03] = np.nan
    columns = {f"x{number}": pa.array(matrix[:, number], from_pandas=True) for number in range(FEATURES)}
    pq.write_table(pa.table({"id": np.arange(rows), **columns, "label": label.astype(int)}), scratch / "raw.parquet")
    sides = [scratch / side for side in ("train", "validation", "test")]
    with contextlib.redirect_stdout(io.StringIO()):
        prepare_data(scratch / "raw.parquet", *sides, key="id", label="label")
    found: dict[str, Any] = {}
    for kind, more in (("plain", {}), ("sampled", SAMPLED.get(estimator))):
        if more is not None:
            options = {**OPTIONS[estimator], **more}
            ours, alone = partial(_ours, scratch, estimator, options), partial(ALONE[estimator], scratch, options)
            ours()
            alone()
            found[kind] = [[cpu(ours), cpu(alone)] for _ in range(rounds)]
    return found


def _ours(scratch: Path, estimator: str, options: dict[str, Any]) -> None:
    import shutil

    from drivetrain.training.process import join_group
    from drivetrain.training.table_config import TableConfig, TableFolders
    from drivetrain.training_scripts.train_table import train

    for name in ("model", "checkpoints"):
        shutil.rmtree(scratch / name, ignore_errors=True)
    given = json.dumps(options)
    config = TableConfig(estimator=estimator, rounds=TREES, early_stopping=TREES, threads=1, estimator_options=given)
    folders = TableFolders(
        train=scratch / "train",
        validation=scratch / "validation",
        model=scratch / "model",
        checkpoints=scratch / "checkpoints",
    )
    with contextlib.redirect_stdout(io.StringIO()), join_group(60, "") as process:
        train(config, folders, process)


def _read(scratch: Path, side: str) -> tuple[Any, Any]:
    import pyarrow.parquet as pq

    from drivetrain.data.manifest import Manifest

    table = pq.read_table([scratch / side / shard.file for shard in Manifest.read(scratch / side).shards])
    names = [f"x{number}" for number in range(FEATURES)]
    matrix = np.stack([table[name].to_numpy().astype(np.float32) for name in names], axis=1)
    return matrix, table["label"].to_numpy()


def _xgboost(scratch: Path, options: dict[str, Any]) -> None:
    import xgboost

    train = xgboost.QuantileDMatrix(*_read(scratch, "train"), nthread=1)
    validation = xgboost.DMatrix(*_read(scratch, "validation"), nthread=1)
    booster = xgboost.train(
        {**options, "tree_method": "hist", "objective": "binary:logistic", "nthread": 1},
        train,
        TREES,
        evals=[(train, "train"), (validation, "validation")],
        early_stopping_rounds=TREES,
        verbose_eval=False,
    )
    booster.save_model(scratch / "alone.ubj")


def _lightgbm(scratch: Path, options: dict[str, Any]) -> None:
    import lightgbm

    alike = {"num_threads": 1, "force_row_wise": True, "deterministic": True, "verbosity": -1}
    parameters = {**options, **alike, "objective": "binary"}
    train = lightgbm.Dataset(*_read(scratch, "train"), params=parameters)
    validation = lightgbm.Dataset(*_read(scratch, "validation"), reference=train, params=parameters)
    booster = lightgbm.train(
        parameters,
        train,
        TREES,
        valid_sets=[train, validation],
        valid_names=["train", "validation"],
        callbacks=[lightgbm.early_stopping(TREES, verbose=False)],
    )
    booster.save_model(scratch / "alone.txt")


def _sklearn(scratch: Path, options: dict[str, Any]) -> None:
    """Its own early stopping measures the loss of each round, as ours does, on a part of the training data."""
    import pickle

    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    matrix, labels = _read(scratch, "train")
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(
            **options["model_options"],
            max_iter=TREES,
            early_stopping=True,
            validation_fraction=0.1,
            n_iter_no_change=TREES,
            random_state=0,
        ).fit(matrix, labels)
    (scratch / "alone.pickle").write_bytes(pickle.dumps(model))


ALONE = {"xgboost": _xgboost, "lightgbm": _lightgbm, "sklearn": _sklearn}


def measure(rows: int, rounds: int) -> dict[str, Any]:
    from drivetrain.training.metric import Samples, load_metrics
    from drivetrain.training.metric_states.accumulator import Accumulator
    from drivetrain.training.metric_states.result import Bootstrap
    from drivetrain.training.process import join_group
    from drivetrain.training.task import Task

    random = np.random.default_rng(7)
    scores = random.random(rows)
    targets = (random.random(rows) < scores).astype(np.int64)
    predicted = (scores >= 0.5).astype(np.int64)
    task = Task("binary", 2)
    names = "accuracy balanced_accuracy precision recall f1 specificity mcc cohen_kappa auroc average_precision"
    metrics = load_metrics(", ".join([*names.split(), "brier", "log_loss"]), task)

    def ours(bootstrap: Bootstrap | None = None) -> dict[str, float]:
        with join_group(60, "") as process:
            counting = Accumulator(process, task, metrics, num_rows=rows, bootstrap=bootstrap)
            for start in range(0, rows, BATCH):
                part = slice(start, start + BATCH)
                samples = Samples(scores=scores[part], targets=targets[part], predicted=predicted[part])
                counting.update(np.arange(start, min(rows, start + BATCH)), samples)
            return {name: measured.value for name, measured in counting.finish().whole.metrics.items()}

    def theirs() -> dict[str, float]:
        import sklearn.metrics as sk

        return {
            "accuracy": sk.accuracy_score(targets, predicted),
            "balanced_accuracy": sk.balanced_accuracy_score(targets, predicted),
            "precision": sk.precision_score(targets, predicted),
            "recall": sk.recall_score(targets, predicted),
            "f1": sk.f1_score(targets, predicted),
            "specificity": sk.recall_score(targets, predicted, pos_label=0),
            "mcc": sk.matthews_corrcoef(targets, predicted),
            "cohen_kappa": sk.cohen_kappa_score(targets, predicted),
            "auroc": sk.roc_auc_score(targets, scores),
            "average_precision": sk.average_precision_score(targets, scores),
            "brier": sk.brier_score_loss(targets, scores),
            "log_loss": sk.log_loss(targets, scores),
        }

    counted, expected = ours(), theirs()
    for name, value in expected.items():
        if abs(counted[name] - value) > 1e-4:
            raise SystemExit(f"{name} is {counted[name]!r}, and {value!r} by scikit-learn")
    return {
        "metrics": [[cpu(ours), cpu(theirs)] for _ in range(rounds)],
        "replicates": [cpu(lambda: ours(Bootstrap(replicates=200))) for _ in range(rounds)],
    }


if __name__ == "__main__":
    what, *given = sys.argv[1:]
    if what == "learn":
        made = learn(Path(given[0]), int(given[1]), int(given[2]), given[3])
    else:
        made = measure(*map(int, given))
    print(json.dumps(made))
