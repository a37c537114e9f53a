"""The models of train_table are evaluated, compared, registered and served as any other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.batch_predict import batch_predict
from drivetrain.components.compare import compare
from drivetrain.components.evaluate import evaluate
from drivetrain.components.register_model import register_model
from drivetrain.registry.registry import open_registry
from drivetrain.training.serving.functions import ServedModel
from tests.contract.test_answers import check_equal, contents
from tests.contract.test_described_models import served
from tests.contract.test_train_table import DRAWN_BY, described, fit
from tests.fixtures.forked_python import forked_python
from tests.fixtures.tables import columns, write_tables


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, Path], Path, Path]]:
    """Tables, a model of one round and a better one."""
    folder = tmp_path_factory.mktemp("models")
    tables = write_tables(folder, num_rows=600)
    with forked_python():
        yield tables, fit(tables, folder / "first", rounds=1), fit(tables, folder / "better", rounds=12)


def report(model: Path, data: Path, folder: Path, **settings: Any) -> dict[str, Any]:
    evaluate(model, data, folder, None, **{"bootstrap": 20, "slices": "", **settings})
    return contents(folder)


@pytest.mark.slow_cases("3")
@pytest.mark.parametrize("processes", [2, 3])
def test_an_evaluation_has_the_bits_of_one_process(processes: int, models: Any, tmp_path: Path) -> None:
    tables, _, model = models
    found = [report(model, tables["test"], tmp_path / str(each), processes=each) for each in (1, processes)]
    for content in found:
        for name in ("processes", "collectives", "parts", "report_hash"):
            content["evaluation"].pop(name, None)
        content["evaluation"]["settings"].pop("processes")
    assert found[0] == found[1]
    assert found[0]["evaluation"]["metrics"]["auroc"]["value"] > 0.9


def test_the_table_of_its_answers_has_the_same_digits(models: Any, tmp_path: Path) -> None:
    tables, _, model = models
    asked = report(model, tables["test"], tmp_path / "asked")
    batch_predict(model, tables["test"], None, tmp_path / "answers")
    evaluate(None, tables["test"], tmp_path / "told", tmp_path / "answers", bootstrap=20)
    told = contents(tmp_path / "told")
    assert asked["evaluation"].pop("loss") == told["evaluation"]["loss"]
    check_equal(asked, told)


def test_a_better_model_is_registered_after_its_predecessor(models: Any, tmp_path: Path) -> None:
    tables, *versions = models
    registry = f"local:{tmp_path}/ledger.db"
    for number, model in enumerate(versions):
        measured = tmp_path / f"report-{number}"
        # A later version is compared with these answers, which know the classes by their names.
        report(model, tables["test"], measured, bootstrap=100, predictions=True)
        given = {"group": "churn", "registry": registry, "first": True, "metric": "loss", "seen_data": "report"}
        found = dict(compare(measured, model, tables["test"], tmp_path / "decision", **given))
        assert found["verdict"] == "register" and found["champion_version"] == number
        made = register_model(model, None, measured, tmp_path / "decision", None, group="churn", registry=registry)
        open_registry(registry).set_status("churn", made.version, "Approved")
    assert float(str(found["high"])) < 0  # (of a loss)


@pytest.mark.slow_cases(but=["xgboost"])
@pytest.mark.parametrize("which", ["xgboost", "lightgbm", "boosted", "forest"])
def test_the_folder_alone_answers_requests_with_missing_values(which: str, models: Any, tmp_path: Path) -> None:
    tables, _, model = models
    if which != "xgboost":
        estimator, options = DRAWN_BY[which]
        model = fit(tables, tmp_path / which, options, estimator=estimator, rounds=30)
    given = columns(300, 2)
    names = described(model)["columns"]
    rows = [{name: given[name][row] for name in names} for row in range(20)]
    rows = [{name: getattr(value, "item", lambda value=value: value)() for name, value in row.items()} for row in rows]
    assert any(None in row.values() for row in rows)
    requests = [
        ("application/json", "application/json", json.dumps(rows)),
        ("text/csv", "application/jsonlines", "plan,visits,weight,age\ngold,3,1.0,\n"),
        ("application/json", "application/json", json.dumps([{**rows[0], "plan": 7}])),
        ("application/json", "application/json", json.dumps([{"age": 1.0}])),
    ]
    (answers,) = served([(model, requests)], tmp_path)
    batch_predict(model, tables["test"], None, tmp_path / "answers")
    expected = parquet.read_table(tmp_path / "answers/part-00000.parquet").to_pydict()
    assert {*expected["predicted"]} == {"leaves", "stays"}, "a class by its name"
    said = json.loads(answers[0])["predictions"]
    assert [(each["score"], each["predicted"]) for each in said] == [
        *zip(expected["score"], expected["predicted"], strict=True)
    ][:20]
    assert 0 < json.loads(answers[1])["score"] < 1, "an unseen category and no age"
    assert "column 'plan' holds 7, and its categories are values such as 'free'" in answers[2]["error"][1]
    assert "the rows lack visits" in answers[3]["error"][1]


@pytest.mark.parametrize(
    ("name", "here"), [("xgboost-cpu", "3.2.0"), ("xgboost", "3.2.0"), ("lightgbm", "4.7.0"), ("skops", "0.16.0")]
)
def test_another_version_of_the_library_is_refused(
    name: str, here: str, models: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    tables, first, _ = models
    about = described(first)
    about["needs"] = {name: "3.1.9"}
    (tmp_path / "model").mkdir()
    for path in first.iterdir():
        if path.is_file():
            (tmp_path / "model" / path.name).write_bytes(path.read_bytes())
    (tmp_path / "model" / "model.json").write_text(json.dumps(about))
    with pytest.raises(SystemExit):
        report(tmp_path / "model", tables["test"], tmp_path / "report")
    assert f"was made with {name} 3.1.9, which is {here} here" in capfd.readouterr().err


def test_an_estimator_of_ones_own_answers_by_its_own_file(models: Any, tmp_path: Path) -> None:
    tables, _, _ = models
    model = fit(tables, tmp_path, estimator="tests.fixtures.dry_estimator")
    assert (model / "code/own/tests/fixtures/dry_estimator.py").is_file()
    found = report(model, tables["test"], tmp_path / "report")
    assert 0.5 < found["evaluation"]["metrics"]["auroc"]["value"] < 1


def test_a_model_whose_file_was_changed_or_is_gone_is_refused_before_its_library_reads_it(
    models: Any, tmp_path: Path
) -> None:
    _, _, model = models
    shutil.copytree(model, tmp_path / "model")
    file = tmp_path / "model" / "model.ubj"
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"model\.ubj is not what model\.json describes"):
        ServedModel.load(tmp_path / "model")
    file.unlink()
    with pytest.raises(InputError, match=r"no model\.ubj"):
        ServedModel.load(tmp_path / "model")
