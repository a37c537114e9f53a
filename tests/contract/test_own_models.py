"""Models of no recipe of ours are gated by the same evidence: each is compared with its predecessor's kept answers."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.register_model import register_model
from drivetrain.registry.registry import open_registry
from tests.contract.test_answers import write_model
from tests.distributed.prepared_data import write_prepared
from tests.fixtures.forked_python import forked_python

ROWS = 400


class Place:
    """A test set, a registry, and models that are a folder with one number: how well they see the answer."""

    def __init__(self, folder: Path) -> None:
        random = np.random.default_rng(0)
        self.folder, self.registry = folder, f"local:{folder}/ledger.db"
        self.labels, self.noise = random.integers(0, 2, ROWS), random.normal(size=ROWS)
        keys = [f"c{row:03d}" for row in random.permutation(ROWS)]
        self.keys = keys
        inputs = {f"x{number}": random.normal(size=ROWS).astype(np.float32) for number in range(4)}
        self.data = write_prepared(folder / "test", {"id": keys, **inputs, "label": self.labels})

    def model(self, sees: float) -> Path:
        folder = self.folder / f"model-{sees}"
        folder.mkdir()
        (folder / "model.txt").write_text(str(sees))
        return folder

    def answers(self, model: Path) -> Path:
        """By a program of the user's own, in an order of its own."""
        sees = float((model / "model.txt").read_text())
        path = model.with_suffix(".csv")
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["score", "id"])
            for row in reversed(range(ROWS)):
                logit = sees * (2 * self.labels[row] - 1) + self.noise[row]
                writer.writerow([1 / (1 + math.exp(-logit)), self.keys[row]])
        return path

    def evaluated(self, model: Path, **settings: Any) -> Path:
        report = self.folder / f"report-{model.name}"
        evaluate(model, self.data, report, self.answers(model), task="binary", **settings)
        return report

    def compared(self, model: Path, report: Path, **given: Any) -> dict[str, Any]:
        options = {"group": "churn", "registry": self.registry, "first": True, "metric": "auroc", **given}
        return dict(compare(report, model, self.data, self.folder / "decision", **options))

    def registered(self, model: Path, report: Path) -> int:
        version = register_model(
            *(model, None, report, self.folder / "decision", None),
            group="churn",
            registry=self.registry,
        ).version
        open_registry(self.registry).set_status("churn", version, "Approved")
        return version

    @property
    def decided(self) -> dict[str, Any]:
        return json.loads((self.folder / "decision/decision.json").read_text())


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # where the recipe any_task is
    with forked_python():
        yield Place(tmp_path)


def test_a_model_of_ones_own_is_compared_with_its_predecessor(place: Place) -> None:
    first, better, worse = (place.model(sees) for sees in (0.3, 1.5, 0.2))
    report = place.evaluated(first)
    assert place.compared(first, report)["verdict"] == "register"
    assert place.registered(first, report) == 1
    # The second is measured by other metrics and more replicates: the champion's answers are, too.
    report = place.evaluated(better, scoring="auroc, f1", bootstrap=300)
    found = place.compared(better, report)
    assert (found["verdict"], found["champion_version"]) == ("register", 1) and found["low"] > 0.1
    differences = {one["metric"] for one in place.decided["differences"]}
    assert differences == {"auroc", "f1", "loss"}
    assert place.registered(better, report) == 2
    report = place.evaluated(worse)
    found = place.compared(worse, report)
    assert found["verdict"] != "register" and found["champion_version"] == 2 and found["high"] < 0


def test_a_model_of_a_recipe_and_one_of_ones_own_are_compared_either_way(place: Place) -> None:
    """The metrics of both are compared. Their losses are of two kinds, and are not."""
    strong = place.model(1.5)
    ours = write_model(place.folder / "ours", "tests.fixtures.any_task", {"kind": "one logit"})
    report = place.evaluated(strong)
    place.compared(strong, report)
    place.registered(strong, report)
    asked = place.folder / "report-ours"
    evaluate(ours, place.data, asked)
    assert place.compared(ours, asked)["high"] < 0
    assert "loss" not in {one["metric"] for one in place.decided["differences"]}
    with pytest.raises(InputError, match=r"the candidate's is the one of its recipe, and the champion's is log loss"):
        place.compared(ours, asked, metric="loss")
    # The other way round the champion is asked.
    version = register_model(*(ours, None, asked, None, None), group="ours", registry=place.registry).version
    open_registry(place.registry).set_status("ours", version, "Approved")
    found = place.compared(strong, report, group="ours")
    assert (found["champion_version"], found["verdict"]) == (1, "register") and found["low"] > 0
    with pytest.raises(InputError, match=r"the candidate's is log loss, and the champion's is the one of its recipe"):
        place.compared(strong, report, group="ours", budgets='{"loss": 0.1}')


def test_a_champion_without_answers_to_this_data_is_named(place: Place) -> None:
    first, second = place.model(0.3), place.model(1.5)
    report = place.evaluated(first)
    place.compared(first, report)
    place.registered(first, report)
    kept = report / "predictions/part-00000.parquet"
    whole = kept.read_bytes()
    kept.write_bytes(whole[:-1] + b"x")
    candidate = place.evaluated(second)
    with pytest.raises(InputError, match=r"part-00000\.parquet is not the file that evaluation\.json names"):
        place.compared(second, candidate)
    kept.write_bytes(whole)
    place.data = write_prepared(place.folder / "later", {"id": place.keys, "label": 1 - place.labels})
    candidate = place.evaluated(second)
    with pytest.raises(InputError) as raised:
        place.compared(second, candidate)
    assert str(raised.value) == (
        "the champion, version 1 of churn, cannot be compared with: it is a model of your own, which cannot be asked, "
        "and it keeps no answers to this data: its report is of another test set. Let it answer this data, and give "
        "compare the report of these answers as champion_evaluation. Restore it, or reject that version: "
        "then an approved one before it is the champion."
    )
    with pytest.raises(InputError, match=r"is the evaluation of another model than version 1, the champion"):
        place.compared(second, candidate, champion_evaluation=candidate)
    again = place.folder / "report-again"
    evaluate(first, place.data, again, place.answers(first), task="binary")
    assert place.compared(second, candidate, champion_evaluation=again)["champion_version"] == 1
    assert place.decided["difference"]["value"] < 0  # (the labels are the other way round)


TEXTS = ["ant", "bee", "wasp"]


def answers_of(place: Place, task: str, hits: float) -> tuple[Path, Path]:
    """A model, and the table of what it answers: right, but for about `1 - hits` of the rows."""
    model = place.model(hits)
    right = np.random.default_rng(1).random(ROWS) < hits
    names = [TEXTS[row % 3] for row in range(ROWS)]
    said = [name if hit else "fly" for name, hit in zip(names, right, strict=True)]
    scores = np.where(right, 0.9, 0.05)
    columns: dict[str, dict[str, Any]] = {
        "text": {"text": said},
        "regression": {"predicted": scores, "low": scores - 0.2, "high": scores + (2 - hits)},
        "multiclass": {f"score_{name}": np.where(np.array(names) == name, scores, (1 - scores) / 2) for name in TEXTS},
    }
    parquet.write_table(pa.table({"key": place.keys, **columns[task]}), model.with_suffix(".parquet"))
    return model, model.with_suffix(".parquet")


METRICS = {"text": "exact_match", "multiclass": "accuracy", "regression": "width"}


@pytest.mark.parametrize("task", METRICS)
def test_what_a_report_keeps_is_read_again(task: str, place: Place) -> None:
    """Texts, named classes with labels that are text, and the ends of intervals."""
    labels = [1.0] * ROWS if task == "regression" else [TEXTS[row % 3] for row in range(ROWS)]
    place.data = write_prepared(place.folder / task, {"id": place.keys, "label": labels})
    metric = METRICS[task]
    for hits in (0.6, 0.9):
        model, table = answers_of(place, task, hits)
        report = place.folder / f"report-{hits}"
        evaluate(model, place.data, report, table, task=task)
        found = place.compared(model, report, metric=metric)
        assert found["verdict"] == "register"
        place.registered(model, report)
    assert metric in {one["metric"] for one in place.decided["differences"]}
