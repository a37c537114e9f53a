"""check_served on answers that a capture brings, or none: drift against the training set, and what is refused."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.cli.main import run
from drivetrain.components.check_data import check_data
from drivetrain.components.check_served import check_served
from drivetrain.components.evaluate import evaluate
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest
from drivetrain.decision.data_nights import accept
from drivetrain.decision.served_check import Promised, promised_of
from drivetrain.decision.served_findings import kept_findings
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registration import read_evaluation
from drivetrain.registry.registry import open_registry

ROWS = 1_000


class Group:
    """An approved regression of y = x with noise, whose answers are x; and rows that it served."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.url = folder, f"local:{folder / 'ledger.db'}"
        self.registry = open_registry(self.url)

    def prepare(self, name: str, columns: dict[str, Any], **options: Any) -> Path:
        sets: dict[str, Any] = {side: self.folder / name / side for side in ("train", "validation", "test")}
        pq.write_table(pa.table(columns), self.folder / f"{name}.parquet")
        prepare_data(raw=self.folder / f"{name}.parquet", key="id", validation_percent=0, **sets, **options)
        return self.folder / name

    def rows(self, seed: int, shift: float = 0.0, noise: float = 0.3) -> dict[str, Any]:
        random = np.random.default_rng(seed)
        x = random.normal(size=ROWS) + shift
        return {"id": np.arange(ROWS) + seed * ROWS, "x": x, "y": x + noise * random.normal(size=ROWS)}

    def approve(self) -> None:
        sets = self.prepare("trained", self.rows(1), label="y", test_percent=50)
        check_data(
            train=sets / "train", report=self.folder / "night", group="loads", registry=self.url, night="2026-11-01"
        )
        test = pq.read_table(next((sets / "test").rglob("*.parquet")))
        pq.write_table(pa.table({"id": test["id"], "predicted": test["x"]}), self.folder / "answers.parquet")
        report = self.folder / "report"
        evaluate(
            None, sets / "test", report, answers=self.folder / "answers.parquet", task="regression", predictions=True
        )
        lineage = {
            "data": Manifest.read(sets / "train", checksums=False).content_hash,
            "report": read_evaluation(report)["report_hash"],
        }
        record = ModelRecord(artifact="s3://m/model.tar.gz", lineage=lineage, quality=f"{report}/model_quality.json")
        self.registry.register("loads", "a" * 64, record, approval="Approved")

    def check(self, rows: dict[str, Any], labels: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        data = self.prepare("served", rows, test_percent=0) / "train"
        given: dict[str, Any] = {"day": "2026-11-30", "registry": self.url, "group": "loads", **options}
        if labels is not None:
            pq.write_table(pa.table(labels), self.folder / "labels.parquet")
            given |= {"labels": self.folder / "labels.parquet", "metric": given.get("metric", "mse")}
        return dict(check_served(data=data, report=self.folder / "seen", **given))

    def found(self) -> dict[str, Any]:
        return json.loads((self.folder / "seen" / "served_check.json").read_bytes())


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory) -> Group:
    made = Group(tmp_path_factory.mktemp("served"))
    made.approve()
    return made


def captured(rows: dict[str, Any]) -> dict[str, Any]:
    return {"id": rows["id"], "x": rows["x"], "predicted": rows["x"]}


def test_predicted_numbers_and_late_labels_are_held_against_the_report(group: Group) -> None:
    rows = group.rows(2)
    labels = {"id": rows["id"][:600], "y": rows["y"][:600]}
    clean = group.check(captured(rows), labels)
    assert (clean["drift"], clean["quality_drop"], clean["verdict"], clean["labelled_share"]) == (0, 0, "passed", 0.6)
    assert clean["metric"] == pytest.approx(0.09, rel=0.3) and clean["promised"] == pytest.approx(0.09, rel=0.3)
    assert group.found()["drift"]["columns"] == ["x", "predicted"]
    moved = group.rows(3, shift=0.5, noise=0.6)
    late = np.argsort(-moved["x"])[:500]
    got = group.check(captured(moved), {"id": moved["id"][late], "y": moved["y"][late]})
    assert (got["drifted_columns"], got["quality_drop"]) == (2, 1)
    assert "predicted that moved" in got["why"] and "against the test set of version 1" in got["why"]
    assert "Labels that arrive early are a biased sample" in got["why"]
    drift, drop = kept_findings(group.registry, "loads").findings
    assert set(drift.columns) == {"x", "predicted"} and drop.metric == "mse"


def test_a_drop_of_earlier_rows_is_told_and_a_drift_says_why_not(group: Group) -> None:
    rows = group.rows(8)
    assert group.check(captured(rows), {"id": rows["id"], "y": rows["y"]})["verdict"] == "passed"
    assert not any(each.is_open for each in kept_findings(group.registry, "loads").findings)
    moved = group.rows(9, shift=0.5, noise=0.6)
    late = group.check(captured(moved), {"id": moved["id"], "y": moved["y"]}, day="2026-11-02")
    assert late["verdict"] == "data drift and quality drop"
    assert "The drift is not told: the newer rows of 2026-11-30 had none." in late["why"]
    told = [each for each in kept_findings(group.registry, "loads").findings if each.day == "2026-11-02"]
    assert [(each.metric, each.is_open) for each in told] == [("mse", True)]


def test_bad_labels_and_labels_of_other_keys_lose_no_drift(group: Group, capsys: pytest.CaptureFixture[str]) -> None:
    rows = group.rows(10, shift=0.5)
    labels = rows["y"].copy()
    labels[:3] = np.inf
    few = group.check(captured(rows), {"id": rows["id"], "y": labels})
    assert few["drift"] == 1 and few["metric"] == pytest.approx(0.09, rel=0.3)
    assert "3 labels are none of the task, such as 'inf', left out" in few["why"]
    labels[:100] = np.inf
    many = group.check(captured(rows), {"id": rows["id"], "y": labels})
    assert many["drift"] == 1 and many["quality_drop"] == 0 and "metric" not in many
    other = group.check(captured(rows), {"id": np.char.zfill(rows["id"].astype(str), 8), "y": rows["y"]})
    assert other["drift"] == 1 and "Quality" not in other["why"]
    told = capsys.readouterr().out
    assert (
        "Quality is not judged: 100 of 1,000 labels are none of the task, such as 'inf'. Allowed" in told
        and "Allowed are finite numbers" in told
    )
    assert "0 of 1,000 labels have the key of a served row: " in told and "'00010000'" in told


def test_columns_that_are_empty_or_new_are_said(group: Group) -> None:
    rows = captured(group.rows(11))
    got = group.check({**rows, "x": pa.nulls(ROWS, "string"), "colour": rows["x"]})
    assert "x is empty, and was not in the training set of version 1." in got["why"]
    assert "Not among the columns of the training set: colour." in got["why"] and got["drifted_columns"] == 1
    alone = group.check({"id": [1], "x": [0.1]})
    assert alone["why"].startswith("1 column lies within its limits.")
    assert "2026-11-30, 1 row." in (group.folder / "seen" / "served_check.md").read_text()


def test_a_report_of_a_local_run_is_read_outside_of_a_run(group: Group) -> None:
    version = group.registry.champion("loads")
    assert version is not None
    assert group.registry.objects is not None
    shutil.copytree(group.folder / "report", group.registry.objects / "drivetrain-local" / "report")
    far = replace(version, record=replace(version.record, quality="s3://drivetrain-local/report/model_quality.json"))
    assert isinstance(promised_of(far, group.folder / "fetched", group.registry.objects), Promised)
    gone = replace(far, record=replace(far.record, quality="s3://drivetrain-local/gone/model_quality.json"))
    told = promised_of(gone, group.folder / "fetched", group.registry.objects)
    assert isinstance(told, str) and "there is nothing at s3://drivetrain-local/gone/evaluation.json" in told


def test_open_findings_are_shown_and_an_accepted_column_has_not_drifted(
    group: Group, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    kept = (group.folder / "evidence" / "loads-data.npz").read_bytes()
    rows = captured(group.rows(4, shift=0.5))
    assert group.check(rows)["drifted_columns"] == 2
    alarms = ["data", "alarms", "loads", "--registry", group.url]
    capsys.readouterr()
    assert run(alarms) == 0
    shown = capsys.readouterr().out
    assert re.search(r"SERVED +SINCE +WHY\s+data drift +2026-11-30 +x, predicted drifted: ", shown), shown
    assert "Accept one: drivetrain data alarms loads --accept x" in shown
    with pytest.raises(InputError, match="no alarm is open on 'z'"):
        accept(group.registry, "loads", ["x", "z"], who="ann", why="a new sensor", day=date(2026, 11, 2))
    assert run([*alarms, "--accept", "x", "--accept", "predicted", "--why", "a new sensor"]) == 0
    assert "--accept" not in capsys.readouterr().out.split("SERVED")[1]
    assert group.check(rows)["drifted_columns"] == 0
    assert not any(each.is_open for each in kept_findings(group.registry, "loads").findings if each.columns)
    (group.folder / "evidence" / "loads-data.npz").write_bytes(kept)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ({}, {"group": "none"}, "no version of none is approved: drivetrain models approve none VERSION"),
        ({}, {"day": "today"}, "day is 'today'. Give a day"),
        ({}, {"day": "2999-01-01"}, "day is 2999-01-01, which lies in the future"),
        ({}, {"metric": "auroc"}, r"metric: the report of version 1 of loads has no 'auroc'"),
        ({}, {"label": "left"}, "'left'"),
        ({"predicted": None}, {}, "labels are joined to predictions by key"),
    ],
)
def test_bad_input_is_refused_in_one_line(
    group: Group, rows: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    served = {name: values for name, values in {**captured(group.rows(6)), **rows}.items() if values is not None}
    with pytest.raises(InputError, match=message) as raised:
        group.check(served, {"id": [6000], "y": [1.0]}, **options)
    assert "\n" not in str(raised.value)


def test_predictions_of_other_rows_are_refused(group: Group) -> None:
    other = group.folder / "trained" / "train"
    with pytest.raises(InputError, match="has no predictions of"):
        group.check(captured(group.rows(7)), predictions=other)


def test_a_drift_is_kept_before_labels_that_cannot_be_read_end_the_look(group: Group) -> None:
    rows = captured(group.rows(14, shift=0.5))
    with pytest.raises(InputError, match="labels"):
        group.check(rows, {"id": rows["id"], "other": rows["x"]}, day="2026-11-29", label="y")
    assert group.found()["day"] == "2026-11-29"
    assert "2026-11-29" in {look["day"] for look in kept_findings(group.registry, "loads").looks}
