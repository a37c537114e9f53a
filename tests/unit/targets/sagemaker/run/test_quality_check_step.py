"""QualityCheck by our own engine: the six checks of data, the metrics of a model, and baselines that pass on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError, UserError
from drivetrain.registry.backends.local import LocalRegistry
from drivetrain.registry.record import ModelRecord
from drivetrain.run_store.reader import Ledger
from drivetrain.targets.sagemaker.run.jobs import quality_program
from drivetrain.targets.sagemaker.run.jobs.monitor_checks import metric_violations
from tests.fixtures.local_runs import BUCKET, LocalRuns

CSV = {"dataset_format": '{"csv": {"header": true}}'}
BEFORE = "id,age,plan,city\n" + "".join(f"{n},{20 + n % 40},{'ab'[n % 2]},c{n % 3}\n" for n in range(1000))


def checked(
    folder: Path, text: str, baseline: Path | None = None, name: str = "rows.csv", **given: Any
) -> tuple[list[dict[str, str]], Path]:
    """The violations of a file, and the folder of the files that were written."""
    base = folder / str(len([*folder.iterdir()]))
    (base / "data").mkdir(parents=True)
    (base / "data" / name).write_text(text)
    (base / "data/_SUCCESS").touch()
    for what in ("Statistics", "Constraints"):
        if baseline is None:
            continue
        (base / "processing/baseline" / what).mkdir(parents=True)
        file = f"{what.lower()}.json"
        (base / "processing/baseline" / what / file).write_bytes((baseline / file).read_bytes())
    variables = {**CSV, "dataset_source": str(base / "data"), "output_path": str(base / "out"), **given}
    return quality_program.checked(base, variables), base / "out"


def content(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}.json").read_text())


def test_the_same_data_again_violate_nothing_and_each_change_one_check(tmp_path: Path) -> None:
    none, baseline = checked(tmp_path, BEFORE)
    assert none == [] and not (baseline / "constraint_violations.json").exists()
    assert content(baseline, "statistics")["dataset"] == {"item_count": 1000}
    assert checked(tmp_path, BEFORE, baseline)[0] == []
    rows = [line.split(",") for line in BEFORE.splitlines()[1:]]
    for row in rows:
        row[1] = str(int(row[1]) + 20)
    rows[0][2], rows[1][0], rows[2][3] = "z", "x", ""
    text = "id,age,plan,town\n" + "".join(",".join(row) + "\n" for row in rows)
    violations, written = checked(tmp_path, text, baseline)
    found = {(each["feature_name"], each["constraint_check_type"]) for each in violations}
    assert found == {
        ("id", "data_type_check"),
        ("age", "baseline_drift_check"),
        ("plan", "categorical_values_check"),
        ("city", "missing_column_check"),
        ("town", "extra_column_check"),
    }
    assert content(written, "constraint_violations") == {"violations": violations}
    [drift] = [each["description"] for each in violations if each["feature_name"] == "age"]
    assert drift == "Baseline drift distance: 0.4195 exceeds threshold: 0.1"  # 0.5 less 1.8 sqrt(2 / 1000)
    emptied = BEFORE.replace(",20,", ",,")
    assert [each["constraint_check_type"] for each in checked(tmp_path, emptied, baseline)[0]] == ["completeness_check"]


@pytest.mark.parametrize(
    ("name", "text", "form", "names"),
    [
        ("rows.csv", "1,a\n2,b\n", '{"csv": {"header": false}}', ("_c0", "_c1")),
        ("part-0", "n,t\n1,a\n2,b\n", '{"csv": {"header": true}}', ("n", "t")),
        ("rows.json", '{"n": 1, "t": "a"}\n', '{"json": {"lines": true}}', ("n", "t")),
    ],
)
def test_files_by_their_format(tmp_path: Path, name: str, text: str, form: str, names: tuple[str, ...]) -> None:
    """Without a header columns have Spark's names; a file's name need not say its format."""
    _, written = checked(tmp_path, text, name=name, dataset_format=form)
    features = content(written, "constraints")["features"]
    assert [(each["name"], each["inferred_type"]) for each in features] == [
        (names[0], "Integral"),
        (names[1], "String"),
    ]


def test_the_metrics_of_a_model(tmp_path: Path) -> None:
    quality: dict[str, Any] = {"analysis_type": "MODEL_QUALITY", "problem_type": "BinaryClassification"}
    names: dict[str, Any] = {
        "ground_truth_attribute": "y",
        "inference_attribute": "answer",
        "probability_attribute": "3",
    }
    text = "id,y,answer,p\n1,1,1,0.9\n2,1,0,0.4\n3,0,0,0.2\n4,0,1,0.6\n5,1,1.0,0.8\n"
    _, written = checked(tmp_path, text, **quality, **names)
    found = content(written, "statistics")["binary_classification_metrics"]
    assert found.pop("confusion_matrix") == {"0": {"0": 1, "1": 1}, "1": {"0": 1, "1": 2}}
    values = {name: round(entry["value"], 4) for name, entry in found.items()}
    assert values["accuracy"] == 0.6 and values["recall"] == values["precision"] == values["f1"] == 0.6667
    assert values["false_positive_rate"] == 0.5 and values["auc"] == 0.8333
    limits = content(written, "constraints")["binary_classification_constraints"]
    assert limits["false_negative_rate"]["comparison_operator"] == "GreaterThanThreshold"
    assert limits["auc"]["comparison_operator"] == "LessThanThreshold"
    worse, _ = checked(tmp_path, text.replace("5,1,1.0,0.8", "5,1,0,0.1"), written, **quality, **names)
    assert {"accuracy", "recall", "auc"} <= {each["metric_name"] for each in worse}
    _, written = checked(tmp_path, text, **{**quality, "problem_type": "MulticlassClassification"}, **names)
    several = content(written, "statistics")["multiclass_classification_metrics"]
    assert several["weighted_recall"]["value"] == several["accuracy"]["value"] == 0.6
    named: dict[str, Any] = {"ground_truth_attribute": "y", "inference_attribute": "p"}
    _, written = checked(tmp_path, "y,p\n1,2\n2,2\n3,5\n", **{**quality, "problem_type": "Regression"}, **named)
    found = {name: entry["value"] for name, entry in content(written, "statistics")["regression_metrics"].items()}
    assert found == pytest.approx({"mae": 1.0, "mse": 5 / 3, "rmse": (5 / 3) ** 0.5, "r2": -1.5})
    assert metric_violations({"mae": {"value": 1.0}}, content(written, "constraints")["regression_constraints"]) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"problem_type": "Ranking"}, "problem_type is 'Ranking'. Allowed: Regression, "),
        ({"ground_truth_attribute": "z"}, "ground_truth_attribute: there is no column 'z'. There are: y, p."),
        ({"inference_attribute": ""}, "give ground_truth_attribute, and inference_attribute or probability_attribute"),
        ({"problem_type": "Regression"}, "inference_attribute: column 'p' holds texts. Give one of numbers."),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path: Path, given: dict[str, str], said: str) -> None:
    named: dict[str, Any] = {
        "analysis_type": "MODEL_QUALITY",
        "problem_type": "BinaryClassification",
        "ground_truth_attribute": "y",
    }
    with pytest.raises(InputError, match=said):
        checked(tmp_path, "y,p\n1,a\n", **{**named, "inference_attribute": "p", **given})


def quality_check(runs: LocalRuns, name: str, data: str, **fields: Any) -> dict[str, Any]:
    step = runs.processing(name, "", inputs={"baseline_dataset_input": data}, outputs=["out"])
    del step["Arguments"]["AppSpecification"]["ContainerEntrypoint"]
    folder = "/opt/ml/processing"
    places = {"dataset_source": f"{folder}/input/baseline_dataset_input", "output_path": f"{folder}/output/out"}
    step["Arguments"]["Environment"] = {**CSV, **places}
    return {**step, "Type": "QualityCheck", "CheckType": "DATA_QUALITY", **fields}


def test_a_step_s_baseline_is_checked_by_the_next_and_stops_it(tmp_path: Path) -> None:
    """The first is new, the second has it supplied, and fails; a third that only reports goes on."""
    runs = LocalRuns(tmp_path)
    data = runs.put("data/rows.csv", BEFORE)
    new = quality_check(runs, "new", data, SkipCheck=True, RegisterNewBaseline=True)
    supplied = {
        f"SuppliedBaseline{what}": {"Get": f"Steps.new.BaselineUsedForDriftCheck{what}"}
        for what in ("Statistics", "Constraints")
    }
    moved = runs.put("moved/rows.csv", BEFORE.replace(",a,", ",z,").replace("id,", "key,"))
    reports = quality_check(runs, "reports", moved, FailOnViolation=False, **supplied)
    stops = quality_check(runs, "stops", moved, **supplied, DependsOn=["reports"])
    summary = runs.start([new, reports, stops])
    assert summary.status == "Failed"
    said = "stops: the baseline is violated: id: this column is in the baseline, and not in these data; plan: only"
    assert str(summary.reason).startswith(said), summary.reason
    with Ledger(runs.home) as ledger:
        steps = {each.name: each for each in ledger.steps(summary.execution)}
        response = dict(ledger.step(summary.execution, "reports").response)
    assert "plan: only 50.0000% of the values" in str(steps["reports"].value)
    assert response["ViolationReport"].endswith("/reports/out/constraint_violations.json")
    used, own = (response[f"{which}Constraints"] for which in ("BaselineUsedForDriftCheck", "CalculatedBaseline"))
    assert used.endswith("/new/out/constraints.json") and own.endswith("/reports/out/constraints.json")


def test_without_a_baseline_and_with_scripts_it_is_refused(runs: LocalRuns) -> None:
    data = runs.put("data/rows.csv", BEFORE)
    of_group = quality_check(runs, "it", data, ModelPackageGroupName="g")
    summary = runs.start([of_group])
    assert "has no baseline to check against. Give SuppliedBaselineConstraints" in str(summary.reason)
    step = quality_check(runs, "it", data, SkipCheck=True, SuppliedBaselineStatistics=f"{BUCKET}/gone.json")
    step["Arguments"]["Environment"]["record_preprocessor_script"] = "/opt/ml/processing/input/script/a.py"
    with pytest.raises(UserError, match=r"record_preprocessor_script runs in Model Monitor's .*--stub it=outputs"):
        runs.start([step])


def test_the_baseline_of_the_newest_approved_version(runs: LocalRuns) -> None:
    """As check_data leaves it with a version."""
    features = [{"name": "id", "inferred_type": "String", "completeness": 1.0}]
    runs.put("old/constraints.json", json.dumps({"features": features}))
    runs.put("old/statistics.json", "{}")
    record = ModelRecord(artifact="s3://bucket/model.tar.gz", baselines=f"{BUCKET}/old")
    runs.home.create()
    LocalRegistry(runs.home.ledger).register("g", "0" * 64, record, metrics={}, execution=None, approval="Approved")
    step = quality_check(runs, "it", runs.put("data/rows.csv", BEFORE), ModelPackageGroupName="g")
    said = "it: the baseline is violated: id: Expected data type: String. Observed: Integral; age: this column"
    assert str(runs.start([step]).reason).startswith(said)


@pytest.fixture
def runs(tmp_path: Path) -> LocalRuns:
    return LocalRuns(tmp_path)
