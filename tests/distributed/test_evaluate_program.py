"""The evaluate program: the same report from any number of ranks, to the byte."""

from __future__ import annotations

import json
import resource
import signal
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.data.key_sample import KeySample
from drivetrain.registry.report_hash import report_hash
from drivetrain.training.evaluation import subject
from drivetrain.training.evaluation.settings import Settings
from drivetrain.training.model_folder import with_threshold
from drivetrain.training.process import Process
from drivetrain.training.recipe import load_recipe
from drivetrain.training.torch.framework import Framework
from drivetrain.training_scripts import evaluate
from drivetrain.training_scripts.evaluate import run

OPTIONS = {"channels": 4, "hidden": 16}
SITES = ("east", "north", "west")
SETTINGS = Settings(batch_size=4, bootstrap=20, slices="site", predictions=True)


def columns(prepared_data: ModuleType, num_rows: int) -> dict[str, Any]:
    found = prepared_data.digit_columns(num_rows)
    return {**found, "site": [SITES[row % 3] for row in range(num_rows)]}


def write_data(prepared_data: ModuleType, folder: Path, given: dict[str, Any], sites: Any = SITES) -> Path:
    """Prepared data whose manifest lists the values of `site`."""
    prepared_data.write_prepared(folder, given)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["statistics"] = {"site": {"values": [{"value": site, "rows": 1} for site in sites]}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that is right now and then."""
    torch.manual_seed(0)
    recipe = load_recipe("digits_cnn", OPTIONS)
    tensors = recipe.model().state_dict()
    tensors = {name: tensor * 3 for name, tensor in tensors.items()}
    description = {"recipe": "digits_cnn", "recipe_options": OPTIONS, "precision": "fp32", "step": 7}
    Framework.save_model(tmp_path / "model", tensors, description)
    return tmp_path / "model"


def test_seen_data_are_reported(pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 10))
    manifest = json.loads((data / "manifest.json").read_text())
    leakage = {"rows": 2, "groups": {"site": 1}}
    keys = [KeySample("id"), KeySample("id")]
    for sample, given in zip(keys, ([1, 2, 3], [3, 4]), strict=True):
        sample.add(pa.array(given))
    here, there = (sample.entry() for sample in keys)
    (data / "manifest.json").write_text(json.dumps({**manifest, "leakage": leakage, "keys": here}))
    description = json.loads((model / "model.json").read_text())
    for of, same in ((manifest["content_hash"], True), ("0" * 64, False)):
        (model / "model.json").write_text(json.dumps({**description, "data": {"content_hash": of, "keys": there}}))
        pooled(1, evaluated, model, data, tmp_path / "report", Settings(bootstrap=0))
        told = read(tmp_path / "report")["data"]
        assert (told["trained_on"], told["leakage"]) == (same, leakage)
        assert told["shared_keys"] == {"keys": 1, "compared": 3, "share": 1.0}


def evaluated(process: Process, model: Path, data: Path, report: Path, settings: Settings) -> dict[str, float]:
    return run(model, data, process, settings=settings, report=report, model_hash="abc")


def refused(process: Process, *arguments: Any) -> str:
    with pytest.raises(InputError) as raised:
        evaluated(process, *arguments)
    return str(raised.value)


def read(report: Path) -> dict[str, Any]:
    return json.loads((report / "evaluation.json").read_text())


def contents(report: Path) -> dict[str, Any]:
    """All files, but for what says how many processes there were."""
    found: dict[str, Any] = {
        str(path.relative_to(report)): path.read_bytes() for path in report.rglob("*") if path.is_file()
    }
    document = json.loads(found["evaluation.json"])
    assert document.pop("report_hash") == report_hash(document)
    several = document["settings"].pop("processes") > 1
    assert document.pop("collectives") == several * (2 if document["bootstrap"] else 1)
    return {**found, "evaluation.json": document}


@pytest.mark.parametrize(
    "num_rows", [pytest.param(1, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow), 50]
)
def test_any_number_of_ranks_gives_the_same_bytes(
    num_rows: int, pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, num_rows))
    (alone,) = pooled(1, evaluated, model, data, tmp_path / "1", SETTINGS)
    expected = contents(tmp_path / "1")
    assert alone["num_samples"] == num_rows
    assert {"evaluation.json", "bootstrap.json", "curves.json", "model_quality.json", "suspects.json"} < set(expected)
    assert "plots/confusion_matrix.svg" in expected
    for world_size in (2, 3):
        several = pooled(world_size, evaluated, model, data, tmp_path / str(world_size), SETTINGS)
        assert several == [alone] * world_size
        assert contents(tmp_path / str(world_size)) == expected


def told(process: Process, data: Path, answers: Path, report: Path, settings: Settings) -> dict[str, float]:
    return run(None, data, process, answers=answers, settings=settings, report=report, model_hash="abc")


def test_any_number_of_ranks_gives_the_same_bytes_of_answers(
    pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    """From the table that an evaluation of the model wrote, whose columns are the same again."""
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 50))
    pooled(1, evaluated, model, data, tmp_path / "model-report", SETTINGS)
    table = tmp_path / "model-report/predictions"
    settings = replace(SETTINGS, task="multiclass", worst=3)
    (alone,) = pooled(1, told, data, table, tmp_path / "1", settings)
    expected = contents(tmp_path / "1")
    assert {"worst.json", "rows.npz", "curves.json", "plots/confusion_matrix.svg"} < set(expected)
    for world_size in (2, 3):
        several = pooled(world_size, told, data, table, tmp_path / str(world_size), settings)
        assert several == [alone] * world_size
        assert contents(tmp_path / str(world_size)) == expected
    theirs, ours = (
        parquet.read_table(folder / "predictions").drop(["loss"]) for folder in (table.parent, tmp_path / "1")
    )
    assert theirs.equals(ours)


@pytest.mark.slow
def test_data_that_is_too_large_to_be_held(
    forked: Any, prepared_data: ModuleType, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read as it comes, with the same result; what is wrong with a row is known when its turn comes."""
    given = columns(prepared_data, 50)
    data = write_data(prepared_data, tmp_path / "data", given)
    forked(1, evaluated, model, data, tmp_path / "held", SETTINGS)
    monkeypatch.setattr(subject, "MOST_HELD_ROWS", 49)
    for world_size in (1, 2):
        forked(world_size, evaluated, model, data, tmp_path / "read", SETTINGS)
        assert contents(tmp_path / "read") == contents(tmp_path / "held")
    given["label"][37] = 10
    data = write_data(prepared_data, tmp_path / "bad", given)
    for said in forked(2, refused, model, data, tmp_path / "read", SETTINGS):
        assert "part-00001.parquet, row 13 (id=" in said and "): label label=10 is outside the 10 classes" in said


def test_the_report_is_complete(pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 50))
    (numbers, _) = pooled(2, evaluated, model, data, tmp_path / "report", SETTINGS)
    found = read(tmp_path / "report")
    assert found["num_samples"] == 50
    assert found["coverage"] == {"rows": 50, "counted": 50}
    assert found["collectives"] == 2  # the bootstrap's is the second
    manifest = json.loads((data / "manifest.json").read_text())
    assert found["data"] == {"content_hash": manifest["content_hash"], "rows": 50, "key": "id"}
    assert found["model"] == {"content_hash": "abc", "recipe": "digits_cnn", "step": 7}
    assert found["bootstrap"]["by"] == "id"
    assert {one["value"]: one["num_samples"] for one in found["slices"]} == {"east": 17, "north": 17, "west": 16}
    # The classes of the data, each a mean; of those that do not occur nothing is said but why.
    assert "accuracy_class_7" in found["metrics"] and "accuracy_class_9" not in found["metrics"]
    replicates = json.loads((tmp_path / "report/bootstrap.json").read_text())
    assert len(replicates["metrics"]["accuracy"]) == 20
    accuracy = found["metrics"]["accuracy"]
    assert accuracy["low"] <= accuracy["value"] <= accuracy["high"]
    assert {name: entry["value"] for name, entry in found["metrics"].items()}.items() <= numbers.items()
    assert "multiclass_classification_metrics" in json.loads((tmp_path / "report/model_quality.json").read_text())


@pytest.mark.slow_cases("fsdp-3-1e-06", "tp-2-1e-05", "pp-2-1e-05")
@pytest.mark.parametrize(
    ("strategy", "world_size", "within"),
    [
        *(("fsdp", 2, 1e-6), ("tp", 2, 1e-5), ("pp", 2, 1e-5), ("fsdp", 3, 1e-6)),
        *(pytest.param(name, 4, 1e-5, marks=pytest.mark.slow) for name in ("hsdp", "fsdp_tp", "pp_ddp", "tp_pp_fsdp")),
    ],
)
def test_a_sharded_model_is_evaluated(
    strategy: str, world_size: int, within: float, pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 30))
    whole = Settings(batch_size=4, bootstrap=20, slices="site", predictions=True)
    degrees = {"hsdp": '{"shard": 2}', "fsdp_tp": '{"tensor": 2}', "pp_ddp": '{"stage": 2}'}
    degrees["tp_pp_fsdp"] = '{"tensor": 2, "stage": 2, "shard": 1}'
    cut = replace(whole, strategy=strategy, strategy_options=degrees.get(strategy, "{}"))
    (alone,) = pooled(1, evaluated, model, data, tmp_path / "whole", whole)
    several = pooled(world_size, evaluated, model, data, tmp_path / "cut", cut)
    assert several == [several[0]] * world_size
    assert set(several[0]) == set(alone)
    # (A bound says how scores share bins: one that goes over an edge moves a count.)
    values = {name: value for name, value in alone.items() if not name.endswith("_bound")}
    assert {name: several[0][name] for name in values} == pytest.approx(values, abs=within)
    expected = parquet.read_table(tmp_path / "whole/predictions").to_pydict()
    found = parquet.read_table(tmp_path / "cut/predictions").to_pydict()
    assert found.keys() == expected.keys()
    assert found["key"] == expected["key"]
    assert found["predicted"] == expected["predicted"]
    assert np.allclose(found["score_3"], expected["score_3"], atol=within, rtol=0)


def test_scikit_learn_says_the_same_of_the_predictions(
    pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    from sklearn import metrics

    given = columns(prepared_data, 120)
    given["label"] = np.arange(120) % 10  # all classes
    data = write_data(prepared_data, tmp_path / "data", given)
    settings = Settings(batch_size=16, bootstrap=0, predictions=True, mode="exact", slices="site")
    pooled(2, evaluated, model, data, tmp_path / "report", settings)
    table = parquet.read_table(tmp_path / "report/predictions")
    targets, predicted = table["target"].to_numpy(), table["predicted"].to_numpy()
    scores = np.stack([table[f"score_{number}"].to_numpy() for number in range(10)], axis=1)
    found = {name: entry["value"] for name, entry in read(tmp_path / "report")["metrics"].items()}
    assert found["accuracy"] == metrics.accuracy_score(targets, predicted)
    assert found["balanced_accuracy"] == pytest.approx(metrics.balanced_accuracy_score(targets, predicted), rel=1e-12)
    assert found["log_loss"] == pytest.approx(metrics.log_loss(targets, scores), rel=1e-12)
    assert found["mcc"] == pytest.approx(metrics.matthews_corrcoef(targets, predicted), rel=1e-12)
    for average in ("macro", "weighted"):
        auroc = metrics.roc_auc_score(targets, scores, multi_class="ovr", average=average)
        assert found[f"auroc_{average}"] == pytest.approx(auroc, rel=1e-12)
    assert found["loss"] == pytest.approx(table["loss"].to_numpy().mean(), rel=1e-12)
    # And of a slice.
    of_site = np.array(given["site"])[table["row"].to_numpy()] == "north"
    (north,) = [one for one in read(tmp_path / "report")["slices"] if one["value"] == "north"]
    assert north["metrics"]["accuracy"]["value"] == metrics.accuracy_score(targets[of_site], predicted[of_site])
    matrix = json.loads((tmp_path / "report/curves.json").read_text())["confusion_matrix"]["cells"]
    assert matrix == metrics.confusion_matrix(targets, predicted, labels=range(10)).tolist()


def test_a_bad_row_ends_all_ranks_with_one_error(
    pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    given = columns(prepared_data, 30)
    given["p5"] = given["p5"].astype(np.float64)
    given["p5"][13] = np.nan
    data = write_data(prepared_data, tmp_path / "data", given)
    report = tmp_path / "report"
    (alone,) = pooled(1, refused, model, data, report, SETTINGS)
    # As of a label: the file, and the row in it from 1.
    assert "part-00000.parquet, row 14 (id=" in alone and ") is nan: values of the data there" in alone
    for message in pooled(3, refused, model, data, report, SETTINGS):
        assert message.endswith(f": {alone}")
    assert not list(report.rglob("*.json")) and not list(report.rglob("*.parquet"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slices": "size"}, "'size'"),
        ({"slices": "p3"}, "p3"),
        ({"scoring": "acuracy"}, "Did you mean 'accuracy'"),
        ({"scoring": "mse"}, "multiclass"),
        ({"strategy": "ddpp"}, "Did you mean 'ddp'"),
        ({"strategy_options": "{"}, "are not JSON"),
        ({"strategy_options": '{"bucket": 1}'}, "bucket"),
        ({"strategy": "pp", "strategy_options": '{"stage": 2}'}, "needs"),
    ],
)
def test_invalid_settings_are_one_error(
    changes: dict[str, Any], message: str, pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 8))
    (said,) = pooled(1, refused, model, data, tmp_path / "report", Settings(bootstrap=0, **changes))
    assert message in said
    assert not (tmp_path / "report/evaluation.json").exists()


def test_a_value_that_the_manifest_does_not_list(
    pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 8), sites=("north", "east"))
    for said in pooled(2, refused, model, data, tmp_path / "report", SETTINGS):
        assert "'west'" in said and "'site'" in said


@pytest.mark.slow
@pytest.mark.shows("exact evaluation", strategies=["single", "dp"])
def test_strategies_whose_ranks_hold_the_whole_model(
    pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    """Their options are about gradients, and still have to be some."""
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 8))
    plain, report = Settings(bootstrap=0), tmp_path / "report"
    (expected, _) = pooled(2, evaluated, model, data, report, plain)
    with_options = replace(plain, strategy_options='{"bucket_mb": 5}')
    assert pooled(2, evaluated, model, data, report, with_options) == [expected] * 2
    assert pooled(2, evaluated, model, data, report, replace(plain, strategy="dp")) == [expected] * 2
    assert pooled(1, evaluated, model, data, report, replace(plain, strategy="single")) == [expected]
    for said in pooled(2, refused, model, data, report, replace(plain, strategy="single")):
        assert said.startswith("strategy 'single' is for one process, but 2 were started")


def test_predictions_need_a_folder(pooled: Any, model: Path, tmp_path: Path) -> None:
    (said,) = pooled(1, refused, model, tmp_path, None, SETTINGS)
    assert "--report" in said


@pytest.mark.slow
def test_a_metric_that_was_asked_for_by_name_must_be_defined(
    pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    given = columns(prepared_data, 8)
    given["label"] = np.zeros(8, dtype=np.int64)
    data = write_data(prepared_data, tmp_path / "data", given)
    report = tmp_path / "report"
    pooled(1, evaluated, model, data, report, SETTINGS)
    assert any(name.startswith("auroc") for name in read(report)["undefined"])
    for said in pooled(2, refused, model, data, report, Settings(bootstrap=0, scoring="accuracy, auroc")):
        assert said.startswith("auroc is not defined by this data: ")
    given["label"] = np.arange(8, dtype=np.int64) % 2
    data = write_data(prepared_data, tmp_path / "two", given)
    pooled(1, evaluated, model, data, report, Settings(bootstrap=0, scoring="f1(per_class=true)"))
    assert set(read(report)["undefined"]) <= {f"f1_class_{number}" for number in range(10)}
    (said,) = pooled(1, refused, model, data, report, Settings(bootstrap=0, scoring="auroc"))
    assert said.startswith(
        "auroc_macro is not defined by this data: there is no sample of class 2, 3, 4, 5, 6, 7, 8, 9. Leave auroc out"
    )


def test_an_earlier_report_is_replaced(pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 8))
    report = tmp_path / "report"
    pooled(1, evaluated, model, data, report, SETTINGS)
    assert (report / "predictions/part-00000.parquet").exists() and (report / "bootstrap.json").exists()
    (report / "predictions/part-00001.parquet").write_bytes(b"of larger data")
    pooled(1, evaluated, model, data, report, Settings(bootstrap=0))
    assert not list(report.glob("predictions/*")) and not (report / "bootstrap.json").exists()
    assert read(report)["bootstrap"] is None


def write_binary(prepared_data: ModuleType, folder: Path) -> Path:
    """A model of two classes in `folder / "model"`; returns the folder of its data."""
    torch.manual_seed(0)
    options = {**OPTIONS, "num_classes": 2}
    tensors = {name: 3 * tensor for name, tensor in load_recipe("digits_cnn", options).model().state_dict().items()}
    Framework.save_model(
        folder / "model", tensors, {"recipe": "digits_cnn", "recipe_options": options, "precision": "fp32"}
    )
    given = columns(prepared_data, 60)
    given["label"] = np.arange(60) // 4 % 2
    return write_data(prepared_data, folder / "data", given)


def test_a_binary_task(pooled: Any, prepared_data: ModuleType, tmp_path: Path) -> None:
    from sklearn import metrics

    data = write_binary(prepared_data, tmp_path)
    settings = Settings(batch_size=8, bootstrap=20, predictions=True, mode="exact")
    pooled(3, evaluated, tmp_path / "model", data, tmp_path / "report", settings)
    table = parquet.read_table(tmp_path / "report/predictions")
    assert table.column_names == ["row", "key", "target", "predicted", "score", "margin", "loss"]
    targets, scores = table["target"].to_numpy(), table["score"].to_numpy()
    found = {name: entry["value"] for name, entry in read(tmp_path / "report")["metrics"].items()}
    assert found["auroc"] == pytest.approx(metrics.roc_auc_score(targets, scores), rel=1e-12)
    assert found["average_precision"] == pytest.approx(metrics.average_precision_score(targets, scores), rel=1e-12)
    assert found["brier"] == pytest.approx(metrics.brier_score_loss(targets, scores), rel=1e-12)
    assert found["f1"] == pytest.approx(metrics.f1_score(targets, table["predicted"].to_numpy()), rel=1e-12)
    quality = json.loads((tmp_path / "report/model_quality.json").read_text())["binary_classification_metrics"]
    assert quality["auc"]["value"] == found["auroc"]
    assert quality["auc"]["standard_deviation"] > 0
    assert quality["confusion_matrix"].keys() == {"0", "1"}
    rates = quality["receiver_operating_characteristic_curve"]
    assert rates["false_positive_rates"][0] == 0 and rates["true_positive_rates"][-1] == 1
    assert {path.name for path in (tmp_path / "report/plots").iterdir()} == {
        *("calibration_error.svg", "confusion_matrix.svg", "pr_curve.svg", "roc_curve.svg", "threshold.svg")
    }


def test_a_setting_overrides_the_threshold_of_the_model(pooled: Any, prepared_data: ModuleType, tmp_path: Path) -> None:
    data = write_binary(prepared_data, tmp_path)
    settings = Settings(batch_size=8, bootstrap=0, predictions=True, false_negative_cost=3.0, worst=2)
    (numbers,) = pooled(1, evaluated, tmp_path / "model", data, tmp_path / "report", settings)
    worst = json.loads((tmp_path / "report/worst.json").read_text())
    table = parquet.read_table(tmp_path / "report/predictions")
    losses, rows = table["loss"].to_pylist(), table["row"].to_pylist()
    assert [one["row"] for one in worst["samples"]] == sorted(rows, key=lambda row: (-losses[row], row))[:2]
    assert all(one["image"].startswith("data:image/png;base64,") for one in worst["samples"])
    with_threshold(tmp_path / "model", tmp_path / "decided", numbers["threshold"])
    for threshold, taken in ((0.0, numbers["threshold"]), (0.25, 0.25)):
        report = tmp_path / f"report-{threshold}"
        given_settings = replace(settings, threshold=threshold, worst=0)
        pooled(1, evaluated, tmp_path / "decided", data, report, given_settings)
        table = parquet.read_table(report / "predictions")
        assert table["predicted"].to_pylist() == [int(score >= taken) for score in table["score"].to_pylist()]
        assert read(report)["task"]["threshold"] == taken and not (report / "worst.json").exists()
    with pytest.raises(InputError, match=r"threshold=1.5; allowed are numbers from 0 to 1"):
        with_threshold(tmp_path / "model", tmp_path / "none", 1.5)


def test_binary_only_settings_are_refused_for_other_models(
    pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path
) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 8))
    for settings, said in (
        (Settings(threshold=0.3), "threshold=0.3 is for binary models, and this one is multiclass"),
        (Settings(false_positive_cost=2.0), "are for the metric threshold of a binary model"),
    ):
        (message,) = pooled(1, refused, model, data, tmp_path / "report", settings)
        assert said in message


def test_a_language_model_on_raw_text(pooled: Any, tmp_path: Path) -> None:
    """No label, no key, no classes: rows are drawn, and a prediction is a loss."""
    from tests.fixtures import tiny_data

    torch.manual_seed(0)
    options = tiny_data.SMALL["decoder_lm"]
    description = {"recipe": "decoder_lm", "recipe_options": options, "precision": "fp32"}
    Framework.save_model(tmp_path / "model", load_recipe("decoder_lm", options).model().state_dict(), description)
    data = tiny_data.write("text", tmp_path / "data", rows=10)
    settings = Settings(batch_size=3, bootstrap=20, predictions=True)
    (alone,) = pooled(1, evaluated, tmp_path / "model", data, tmp_path / "1", settings)
    assert pooled(2, evaluated, tmp_path / "model", data, tmp_path / "2", settings) == [alone] * 2
    assert contents(tmp_path / "2") == contents(tmp_path / "1")
    found = read(tmp_path / "1")
    assert found["data"]["key"] is None and found["bootstrap"]["by"] == "row"
    table = parquet.read_table(tmp_path / "1/predictions")
    assert table["row"].to_pylist() == list(range(found["num_samples"]))
    assert table["loss"].to_numpy().mean() == pytest.approx(found["metrics"]["loss"]["value"], rel=1e-12)


def without_room(process: Process, *arguments: Any) -> str:
    """What a rank says that may write no more than 20 KB into any file."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # it shall be told, as of a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    return refused(process, *arguments)


@pytest.mark.slow
def test_a_full_disk_is_one_error(forked: Any, prepared_data: ModuleType, model: Path, tmp_path: Path) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 300))
    report = tmp_path / "report"
    for said in forked(2, without_room, model, data, report, SETTINGS):
        assert "cannot be written: File too large. Free some room there, or set TMPDIR." in said
    assert not (report / "evaluation.json").exists()
    (said,) = forked(1, without_room, model, data, report, Settings(bootstrap=200, slices="site"))
    assert f"{report} cannot be written: File too large" in said
    assert not list(report.rglob("*.partial")) and not (report / "evaluation.json").exists()


def test_a_file_in_the_place_of_the_report(pooled: Any, prepared_data: ModuleType, model: Path, tmp_path: Path) -> None:
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 8))
    (tmp_path / "report").write_text("")
    (said,) = pooled(1, refused, model, data, tmp_path / "report", SETTINGS)
    assert f"{tmp_path / 'report'} cannot be written: Not a directory" in said


def run_program(process: Process, *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["evaluate", *arguments])
        patch.setattr(evaluate, "join_group", lambda framework: nullcontext(process))
        patch.setattr(evaluate, "die_with_parent", lambda signal: None)
        patch.setattr(evaluate, "run_rank", lambda program: program())
        with pytest.raises(InputError) as caught:
            evaluate.main()
    return str(caught.value)


def test_an_invalid_metrics_location_is_refused_first(pooled: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place, why in ((tmp_path / "file" / "m.json", "File exists"), (tmp_path, "Is a directory")):
        # (There is no model: it was not looked for yet.)
        folders = ["--model", str(tmp_path / "no"), "--data", str(tmp_path / "no")]
        (said,) = pooled(1, run_program, *folders, "--metrics", str(place))
        assert f"{place} cannot be written: {why}" in said


OWN = """
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
from drivetrain.training.metric import Counts, Value

@dataclass(frozen=True)
class Sure:
    above: float
    size: ClassVar = 2

    def count(self, samples):
        return Counts((samples.scores.max(axis=1) >= self.above).astype(np.int64))

@dataclass(frozen=True)
class Metric:
    above: float = 0.9
    kinds: ClassVar = ("multiclass",)
    higher_is_better: ClassVar = True

    def tallies(self, task):
        return {"sure": Sure(self.above)}

    def compute(self, task, counted):
        not_sure, sure = counted["sure"].tolist()
        return {"": Value(sure / (sure + not_sure))}
"""


@pytest.mark.slow
def test_a_users_metric_is_measured(
    forked: Any, prepared_data: ModuleType, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sure_of_tests.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path / "own")
    data = write_data(prepared_data, tmp_path / "data", columns(prepared_data, 40))
    forked(1, evaluated, model, data, tmp_path / "first", SETTINGS)
    table = parquet.read_table(tmp_path / "first/predictions")
    highest = np.max([table[f"score_{number}"].to_numpy() for number in range(10)], axis=0)
    above = float(np.sort(highest)[10])
    settings = replace(SETTINGS, scoring=f"accuracy, sure_of_tests(above={above!r})")
    numbers, _ = forked(2, evaluated, model, data, tmp_path / "report", settings)
    assert numbers["sure_of_tests"] == (highest >= above).mean()
    found = read(tmp_path / "report")
    assert 0 < found["metrics"]["sure_of_tests"]["value"] < 1
    assert {name for one in found["slices"] for name in one["metrics"]} > {"sure_of_tests"}
