"""check_data over the nights of a group: what passes, warns and fails, what is kept, and what an answer changes."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.check_data import check_data
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data.manifest import Manifest
from drivetrain.decision.data_nights import accept, forget, kept_history
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import open_registry

FIRST, NIGHTS, ROWS = date(2026, 9, 1), 12, 600
SIDES = ("train", "validation", "test")


def table(night: int, scale: float = 1.0, nulls: float = 0.02, rows: int = ROWS, **more: Any) -> pa.Table:
    random = np.random.default_rng([night, 7])
    x = random.normal(5, 2, rows)
    age = np.where(random.random(rows) < nulls, np.nan, random.integers(18, 80, rows))
    columns = {
        "id": np.arange(rows) + night * ROWS,
        "x": x * scale,
        "age": pa.array(age, from_pandas=True),
        "country": random.choice(["AT", "CH", "DE"], rows, p=[0.2, 0.5, 0.3]),
        "label": (random.random(rows) < 1 / (1 + np.exp(5 - x))).astype(int),
    }
    return pa.table({**columns, **more})


class Group:
    """A registry, and the nights of a group's data."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registry = open_registry(f"local:{folder / 'ledger.db'}")

    def prepare(self, night: int, rows: pa.Table | None = None) -> Path:
        raw, out = self.folder / f"raw{night}", self.folder / f"sets{night}"
        raw.mkdir(exist_ok=True)
        pq.write_table(table(night) if rows is None else rows, raw / "rows.parquet")
        folders: dict[str, Any] = {side: out / side for side in SIDES}
        prepare_data(raw=raw, **folders, key="id", label="label")
        return out

    def check(self, number: int, rows: pa.Table | None = None, **options: Any) -> dict[str, Any]:
        out = self.prepare(number, rows)
        given: dict[str, Any] = {side: out / side for side in SIDES}
        given |= {"group": "churn", "registry": f"local:{self.folder / 'ledger.db'}", "on_failure": "report"}
        given |= {"night": str(FIRST + timedelta(number)), **options}
        return dict(check_data(report=self.report(number), **given))

    def report(self, night: int) -> Path:
        return self.folder / f"report{night}"

    def found(self, night: int) -> dict[str, Any]:
        return json.loads((self.report(night) / "data_check.json").read_bytes())


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Group:
    group = Group(tmp_path_factory.mktemp("nights"))
    verdicts = [group.check(night)["verdict"] for night in range(NIGHTS)]
    assert verdicts == ["not judged"] * 8 + ["passed"] * (NIGHTS - 8)
    return group


@pytest.fixture
def group(clean: Group, tmp_path: Path) -> Group:
    """A copy of the registry after the clean nights."""
    import shutil

    shutil.copytree(clean.folder / "evidence", tmp_path / "evidence")
    return Group(tmp_path)


def test_a_unit_times_1000_fails_and_is_not_among_the_accepted_nights(group: Group) -> None:
    got = group.check(20, table(20, scale=1000))
    assert (got["failed"], got["passed"], got["nights"], got["rows"]) == (1, 0, NIGHTS, ROWS)
    (alarm,) = [each for each in group.found(20)["alarms"] if each["column"] == "x"]
    assert alarm["verdict"] == "failed" and "tonight; the last 12 nights had" in alarm["sentence"]
    history = kept_history(group.registry, "churn")
    assert len(history) == NIGHTS and history.records[-1]["what"] == "failed"
    assert group.check(21)["passed"] == 1 and kept_history(group.registry, "churn").alarms == ()


def test_a_failing_night_stops_the_run_unless_it_is_reported_or_dry(group: Group) -> None:
    bad = table(20, scale=1000)
    with pytest.raises(InputError, match=r"the data of 2026-09-21 failed: x failed\. .* data alarms churn --accept"):
        group.check(20, bad, on_failure="stop")
    assert group.found(20)["verdict"] == "failed", "the report is there"
    dry = group.check(20, bad, on_failure="stop", dry=True)
    assert (dry["verdict"], dry["passed"], dry["failed"]) == ("failed", 1, 0)


def test_a_limit_fails_from_the_size_that_the_rule_names(group: Group) -> None:
    rules = json.dumps(
        {"nights": {"columns": {"age": {"nulls": {"fail": "+2 points"}}}}, "columns": {"age": {"min": 0}}}
    )
    assert group.check(20, table(20, nulls=0.05))["failed"] == 0
    assert group.check(21, rules=rules)["failed"] == 0
    got = group.check(22, table(22, nulls=0.05), rules=rules)
    assert got["failed"] == 1 and "(limit +2 points from" in got["why"]


def test_the_same_night_again_has_its_verdict_and_is_kept_once(group: Group) -> None:
    first = group.check(20)
    assert group.check(20) == first and len(kept_history(group.registry, "churn")) == NIGHTS + 1
    assert group.check(3)["nights"] == 3, "an earlier night is judged by those before it"
    assert len(kept_history(group.registry, "churn")) == NIGHTS + 1


def test_an_accepted_alarm_begins_the_columns_nights_anew(group: Group) -> None:
    assert group.check(20, table(20, scale=1000))["failed"] == 1
    with pytest.raises(InputError, match="no alarm is open on 'age'"):
        accept(group.registry, "churn", ["age"], who="ann", why="new unit", day=FIRST)
    accept(group.registry, "churn", ["x"], who="ann", why="new unit", day=FIRST)
    record = kept_history(group.registry, "churn").records[-1]
    assert (record["what"], record["columns"], record["who"], record["why"]) == ("accepted", ["x"], "ann", "new unit")
    assert group.check(20, table(20, scale=1000))["passed"] == 1
    assert group.check(21, table(21, scale=1000))["passed"] == 1


def test_a_forgotten_history_begins_anew_with_its_records(group: Group) -> None:
    assert group.check(20, table(20, scale=1000))["failed"] == 1
    forget(group.registry, "churn", who="ann", why="another source", day=FIRST)
    history = kept_history(group.registry, "churn")
    assert (len(history), history.alarms) == (0, ())
    assert [(each["what"], each.get("why")) for each in history.records][1:] == [("forgotten", "another source")]
    assert group.check(21, table(21, scale=1000))["nights"] == 0
    (group.folder / "evidence" / "churn-data.npz").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"is damaged .* data alarms GROUP --forget"):
        group.check(22)
    forget(group.registry, "churn", who="ann", why="damaged", day=FIRST)
    assert group.check(22)["nights"] == 0


def test_an_unanswered_alarm_fails_as_often_as_the_rule_says_and_says_since_when(group: Group) -> None:
    rules = json.dumps({"nights": {"unanswered": "warn after 2"}})
    failed = [group.check(night, table(night, scale=1000), rules=rules)["failed"] for night in (20, 21, 22)]
    assert failed == [1, 1, 0]
    assert group.found(22)["verdict"] == "warned" and "since Monday" in " ".join(group.found(22)["why"])


def test_a_batch_is_compared_with_the_training_set_of_the_approved_version(group: Group) -> None:
    group.check(20)
    hashed = Manifest.read(group.folder / "sets20" / "train", checksums=False).content_hash
    group.registry.register(
        "churn", "a" * 64, ModelRecord(artifact="s3://m/model.tar.gz", lineage={"data": hashed}), approval="Approved"
    )
    rules = json.dumps({"drift": {"share_moved": {"warn": 0.05, "fail": 0.3}}})
    assert group.check(21, rules=rules)["drifted_columns"] == 0
    moved = table(22).set_column(3, "country", pa.array(["CH"] * 500 + ["FR"] * 100))
    got = group.check(22, moved, rules=rules)
    accept(group.registry, "churn", ["country"], who="ann", why="a new country", day=FIRST)
    answered = group.check(23, moved.set_column(0, "id", pa.array(range(99_000, 99_000 + ROWS))), rules=rules)
    assert answered["drifted_columns"] == 0
    assert (got["drifted_columns"], got["passed"]) == (1, 0) and "against the training set of version 1" in got["why"]
    drift = group.found(22)["drift"]
    assert drift["version"] == 1 and drift["columns"] == ["x", "age", "country", "label"]
    (picture,) = [each for each in group.found(22)["distributions"] if each["column"] == "country"]
    assert picture["names"] == ["AT", "CH", "DE", "others"] and picture["tonight"][3] == pytest.approx(1 / 6, abs=1e-6)


def test_a_column_that_is_gone_fails_and_a_new_one_does_not(group: Group) -> None:
    got = group.check(20, table(20, new=np.ones(ROWS)).drop_columns(["age"]))
    assert got["failed"] >= 1 and "age is gone" in got["why"] and "new" not in group.found(20)["why"][0]


def test_a_column_of_another_type_fails_until_it_is_accepted(group: Group) -> None:
    texts = table(20).set_column(1, "x", pa.array([f"{row} pcs" for row in range(ROWS)]))
    got = group.check(20, texts)
    assert got["failed"] == 1 and "x holds texts tonight, and held numbers before" in got["why"]
    accept(group.registry, "churn", ["x"], who="ann", why="new form", day=FIRST)
    assert group.check(20, texts)["passed"] == 1


def test_shares_of_a_text_columns_values_are_judged(group: Group) -> None:
    got = group.check(20, table(20).set_column(3, "country", pa.array(["CH"] * ROWS)))
    assert got["failed"] >= 3 and "share of rows of country=DE: 0 % tonight" in got["why"]


def test_data_of_an_earlier_night_are_named_and_kept_once(group: Group) -> None:
    group.check(20)
    got = group.check(20, night=str(FIRST + timedelta(25)))
    assert (got["failed"], got["warned"]) == (0, 1) and "no row is new: the data are those of 2026-09-21" in got["why"]
    assert len(kept_history(group.registry, "churn")) == NIGHTS + 1


def test_repaired_data_of_a_night_replace_it(group: Group) -> None:
    group.check(20)
    assert group.check(21, night=str(FIRST + timedelta(20)))["nights"] == NIGHTS
    assert len(kept_history(group.registry, "churn")) == NIGHTS + 1


def test_sets_of_different_runs_are_refused(group: Group) -> None:
    one, other = group.prepare(20), group.prepare(21)
    given: dict[str, Any] = {"train": one / "train", "test": other / "test", "report": group.report(20)}
    with pytest.raises(InputError, match="the sets are of different runs"):
        check_data(group="churn", registry=f"local:{group.folder / 'ledger.db'}", **given)


def test_stale_data_fail_by_the_night_that_is_given(group: Group) -> None:
    stamps = pa.array([np.datetime64("2026-09-18T10:00", "us")] * ROWS)
    rules = json.dumps({"fresh": {"at": 2}})
    got = group.check(20, table(20, at=stamps), rules=rules)
    assert got["failed"] == 1 and "at is stale: its newest value is 2.6 days old, and may be 2" in got["why"]
    assert group.check(20, table(20, at=stamps), rules=rules, night="2026-09-19")["failed"] == 0
    assert "at lies in the future" in group.check(20, table(20, at=stamps), rules=rules, night="2026-09-16")["why"]


def test_model_monitors_files_name_the_violations(group: Group) -> None:
    group.check(20, table(20, nulls=0.4))
    monitor = group.report(20) / "model_monitor"
    statistics, constraints, found = (
        json.loads((monitor / f"{name}.json").read_bytes())
        for name in ("statistics", "constraints", "constraint_violations")
    )
    assert statistics["dataset"] == {"item_count": ROWS}
    (age,) = [each for each in statistics["features"] if each["name"] == "age"]
    assert age["inferred_type"] == "Fractional" and age["numerical_statistics"]["common"]["num_missing"] > 200
    assert [each["inferred_type"] for each in constraints["features"]][3] == "String"
    assert constraints["features"][3]["string_constraints"] == {"domains": ["AT", "CH", "DE"]}
    assert ("age", "completeness_check") in {
        (each["feature_name"], each["constraint_check_type"]) for each in found["violations"]
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rules": "{"}, "which is not JSON"),
        ({"rules": '{"nights": {"colums": {}}}'}, "rules: nights: 'colums' is not allowed"),
        ({"rules": '{"nights": {"columns": {"age": {"null": {"fail": 1}}}}}'}, "'null' is no statistic"),
        ({"rules": '{"nights": {"columns": {"agee": {"nulls": {"fail": 1}}}}}'}, "no column is called 'agee'"),
        ({"rules": '{"drift": {"psi": {"fail": 1}}}'}, "'psi' is no measure"),
        (
            {"rules": '{"drift": {"share_moved": {"fail": 2}}}'},
            "share_moved: fail: 2 is not allowed. Give a number from 0 to 1",
        ),
        ({"rules": '{"fresh": {"age": "old"}}'}, "fresh: age: 'old' is not allowed"),
        ({"rules": '{"fresh": {"age": 2}}'}, "fresh: 'age' is no column of dates or time stamps"),
        ({"rules": '{"nights": {"columns": {"id": {"mean": {"fail": 1}}}}}'}, "Nothing of a key is judged"),
        ({"rules": '{"nights": {"columns": {"label": {"class_share": {"fail": 1}}}}}'}, "Name a class: label=CLASS"),
        ({"night": "yesterday"}, "night is 'yesterday'"),
        ({"warnings_a_year": 0.0}, "warnings_a_year=0 is not allowed"),
    ],
)
def test_bad_input_is_refused_in_one_line(group: Group, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        group.check(20, **options)
    assert "\n" not in str(raised.value)
    assert len(kept_history(group.registry, "churn")) == NIGHTS


def test_values_with_an_open_alarm_are_not_among_the_accepted_ones(group: Group) -> None:
    rules = json.dumps({"nights": {"columns": {"x": {"mean": {"warn": "2 %"}}}}})
    got = group.check(20, table(20, scale=1.03), rules=rules)
    assert (got["failed"], got["warned"]) == (0, 1)
    history = kept_history(group.registry, "churn")
    assert len(history) == NIGHTS + 1
    kept = history.aligned(["x", "age"])["mean"]
    assert np.isnan(kept[-1, 0]) and not np.isnan(kept[:-1]).any() and not np.isnan(kept[-1, 1])


def test_a_class_that_no_row_has_is_a_share_of_0(group: Group) -> None:
    got = group.check(20, table(20).set_column(4, "label", pa.array([0] * ROWS)))
    assert got["failed"] >= 1 and "share of rows of label=1: 0 % tonight" in got["why"]
