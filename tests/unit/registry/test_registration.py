import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.register_model import Registered, register_model
from drivetrain.registry import model_package, registration
from drivetrain.registry.card_sections import as_markdown, sections
from drivetrain.registry.content_hash import content_hash, files_in
from drivetrain.registry.package_mapping import request_of
from drivetrain.registry.record import decision_in
from drivetrain.registry.registration import Evidence
from drivetrain.registry.registry import ModelVersion, open_registry
from drivetrain.targets.sagemaker.document.service.shapes import check_arguments
from tests.fixtures.reports import hashed

DESCRIPTION = {
    "format": 1,
    "recipe": "digits_cnn",
    "recipe_options": {"width": 8},
    "precision": "fp32",
    "data": {"content_hash": "d" * 64, "rows": 1437},
    "training": {"epochs": 3, "learning_rate": 0.1},
    "step": 12,
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "code").mkdir(parents=True)
    (folder / "model.json").write_text(json.dumps(DESCRIPTION))
    (folder / "model.safetensors").write_bytes(b"\0\1\2")
    (folder / "code" / "inference.py").write_text("def model_fn(folder): ...\n")
    return folder


def evaluation(of: str) -> dict[str, Any]:
    return {
        "num_samples": 360,
        "model": {"content_hash": of},
        "data": {"content_hash": "e" * 64, "rows": 360},
        "metrics": {
            "accuracy": {"value": 0.98, "low": 0.96, "high": 0.99, "bound": 0.0},
            "auroc": {"value": 0.5, "bound": 1e-5},
        },
    }


def decision(of: str) -> dict[str, Any]:
    return {
        "format": 1,
        "verdict": "register",
        "why": ["It is better than the champion."],
        "candidate": {"content_hash": of, "metrics": {"accuracy": 0.98}},
        "champion": {"version": 3, "content_hash": "c" * 64, "metrics": {}},
        "metric": "accuracy",
        "difference": {"value": 0.001, "low": 0.0005, "high": 0.008},
    }


@pytest.fixture
def report(tmp_path: Path, model: Path) -> Path:
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / "evaluation.json").write_text(json.dumps(hashed(evaluation(content_hash(model)))))
    return folder


@pytest.fixture
def decided(tmp_path: Path, model: Path) -> Path:
    folder = tmp_path / "decision"
    folder.mkdir()
    (folder / "decision.json").write_text(json.dumps({**decision(content_hash(model)), "champion": None}))
    return folder


def test_all_that_is_known_is_registered(model: Path, report: Path, decided: Path, tmp_path: Path) -> None:
    registry = f"local:{tmp_path}/ledger.db"
    made = register_model(
        model,
        None,
        report,
        decided,
        tmp_path / "card",
        group="digits",
        registry=registry,
        execution="run-1",
        artifact="s3://models/model.tar.gz",
        image="image:1",
        instance_types="ml.m5.large, ml.c5.xlarge",
        quality="s3://models/model_quality.json",
    )
    version = open_registry(registry).version("digits")
    assert made == Registered(1, 1)
    assert version.metrics == {"accuracy": 0.98, "auroc": 0.5, "num_samples": 360}
    assert version.artifact == "s3://models/model.tar.gz" and version.content_hash == content_hash(model)
    assert set(version.lineage) == {"data", "test-data", "report", "config", "code", "execution"}
    assert (version.lineage["data"], version.lineage["test-data"]) == ("d" * 64, "e" * 64)
    assert version.lineage["execution"] == "run-1"
    assert version.decision == {**decision(content_hash(model)), "champion": None}
    assert version.card is not None and model_package.metrics(request_of(version.record)) == version.metrics
    assert json.loads((tmp_path / "card" / "card.json").read_text()) == version.card
    page = (tmp_path / "card" / "card.md").read_text()
    assert page.startswith("# digits version 1\n") and "| accuracy | 0.98 | confidence interval 0.96 to 0.99 |" in page
    container = request_of(version.record)["InferenceSpecification"]["Containers"][0]
    assert container["Image"] == "image:1" and container["Environment"]["SAGEMAKER_PROGRAM"] == "inference.py"


def test_the_service_accepts_the_package(model: Path) -> None:
    files = files_in(model)
    known = content_hash(model)
    record = registration.model_record(
        files,
        Evidence(DESCRIPTION, evaluation(known), decision(known)),
        {"accuracy": 0.98},
        artifact="s3://models/model.tar.gz",
        image="123456789012.dkr.ecr.eu-west-1.amazonaws.com/pytorch-inference:2.6",
        instance_types=["ml.m5.large"],
        quality="s3://models/model_quality.json",
    )
    assert record.lineage.keys() == {"data", "test-data", "report", "config", "code"} and record.serving is not None
    assert check_arguments("RegisterModel", {"ModelPackageGroupName": "digits", **request_of(record)}, {}) == []
    keras = Evidence({**DESCRIPTION, "framework": "tensorflow"})
    served = registration.model_record(files, keras, {}, artifact="s3://models/model.tar.gz", image="image:1")
    assert served.serving is not None and served.serving.environment == model_package.SERVING_OF_TENSORFLOW
    here = request_of(registration.model_record(files, Evidence(), {}, artifact=model.as_uri()))
    assert (
        check_arguments("RegisterModel", {"ModelPackageGroupName": "digits", **here}, {}) == []
        and here["SourceUri"] == model.as_uri()
    )


def test_lineage_follows_the_settings(model: Path) -> None:
    files = files_in(model)
    first = registration.lineage_of(files, Evidence(DESCRIPTION))
    again = registration.lineage_of(files, Evidence(dict(reversed(DESCRIPTION.items()))))
    other = registration.lineage_of(files, Evidence({**DESCRIPTION, "training": {"epochs": 4, "learning_rate": 0.1}}))
    assert first == again and first["config"] != other["config"] and first["code"] == other["code"]
    (model / "code" / "inference.py").write_text("changed\n")
    assert registration.lineage_of(files_in(model), Evidence(DESCRIPTION))["code"] != first["code"]
    assert registration.lineage_of({"weights": "0" * 64}, Evidence()) == {}


OF_FUNCTIONS = {
    "format": 1,
    "framework": "functions",
    "answers": "answer",
    "task": {"kind": "binary", "num_classes": 2, "class_names": ["no", "yes"], "threshold": 0.5},
    "data": {"content_hash": "d" * 64, "rows": 1437, "reader": "prepared"},
    "needs": {"scikit-learn": "1.9.1"},
}
OF_A_TABLE = {
    **OF_FUNCTIONS,
    "answers": "drivetrain.training_scripts.estimators.xgboost",
    "table": {
        "features": [{"name": "age"}, {"name": "plan", "levels": ["a", "b"]}],
        "options": {"max_depth": 6},
        "importance": {"age": 0.9, "plan": 0.1},
        "explained": {"moves": {"plan": 0.25, "age": 1.2}, "ways": {"age": -1}, "rows": 256, "held_out": True},
    },
    "training": {"rounds": 500},
}


def registered_as(model: Path, description: dict[str, Any]) -> ModelVersion:
    record = registration.model_record(
        files_in(model), Evidence(description), {}, artifact="s3://models/model.tar.gz", image="image:1"
    )
    known: dict[str, Any] = {"arn": "", "status": "Approved", "reason": None, "content_hash": content_hash(model)}
    known |= {"metrics": {}, "execution": None, "created_at": 0.0, "modified_at": 0.0}
    return ModelVersion(group="churn", version=1, record=record, **known)


def test_a_described_model_is_registered_with_its_module_and_task(model: Path) -> None:
    version = registered_as(model, OF_FUNCTIONS)
    assert version.lineage.keys() == {"data", "config", "code"} and version.record.description == ""
    assert version.record.serving is not None
    assert version.record.serving.environment["SAGEMAKER_PROGRAM"] == "inference.py"
    page = as_markdown(version)
    assert "Trained by a script of its own. Loading this model runs code, its module 'answer'.\n" in page
    assert "| task | binary |" in page and "| libraries | scikit-learn 1.9.1 |" in page
    assert "Loading this model runs code that it brings along. Load it only if you trust who made it." in page
    assert "drivetrain models predict churn --version 1" in page and "health rule" not in page


def test_the_model_of_a_table_is_registered_with_its_estimator(model: Path) -> None:
    version = registered_as(model, OF_A_TABLE)
    assert version.record.description == "xgboost, trained by drivetrain"
    page = as_markdown(version)
    assert "Table model trained by drivetrain: xgboost, 1437 rows." in page and "| max_depth | 6 |" in page
    assert "runs code" not in page and "No health rule failed the training." in page
    rows = ["| age | 1.2, higher values lower it |", "| plan | 0.25 |"]
    assert "## Columns" in page and "\n".join(rows) in page
    assert [each.bars for each in sections(version) if each.bars] == [(("age", 1.2), ("plan", 0.25))]
    other = registered_as(model, {**OF_A_TABLE, "table": {"options": {"max_depth": 7}}})
    assert version.lineage["config"] != other.lineage["config"] != registered_as(model, OF_FUNCTIONS).lineage["config"]


def pack(model: Path, target: Path) -> Path:
    with tarfile.open(target, "w:gz") as archive:
        for path in sorted(model.rglob("*")):
            archive.add(path, arcname=f"./{path.relative_to(model)}")
    return target


def test_an_archive_and_its_folder_have_equal_descriptions(model: Path, tmp_path: Path) -> None:
    archive = pack(model, tmp_path / "model.tar.gz")
    assert registration.describe(archive) == registration.describe(model) == DESCRIPTION
    (tmp_path / "handed").mkdir()
    archive.rename(tmp_path / "handed" / "model.tar.gz")
    assert registration.describe(tmp_path / "handed") == DESCRIPTION


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("by_script", [False, True])
def test_the_parent_of_a_continued_training_is_registered(
    by_script: bool, packed: bool, model: Path, tmp_path: Path
) -> None:
    """In model.json, or beside a script's model in a file of its own."""
    about = {"group": "digits", "version": "7", "content_hash": "a" * 64}
    if by_script:
        (model / "model.json").unlink()
        (model / "continues.json").write_text(json.dumps(about))
    else:
        about["step"] = "450"
        (model / "model.json").write_text(json.dumps({**DESCRIPTION, "continues": about}))
    place = model
    if packed:
        place = tmp_path / "model.tar.gz"
        with tarfile.open(place, "w:gz") as archive:
            archive.add(model, ".")
    evidence = Evidence(registration.describe(place))
    record = registration.model_record(files_in(place), evidence, {}, artifact="s3://models/model.tar.gz")
    assert record.lineage["continues"] == "a" * 64
    said = "Continues digits version 7 (content aaaaaaaaaaaa)" + ("." if by_script else " from step 450.")
    assert said in json.dumps(record.card)


def test_a_foreign_model_has_no_description(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"x")
    assert registration.describe(tmp_path) is None
    with tarfile.open(tmp_path / "other.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo("weights.bin")
        entry.size = 1
        archive.addfile(entry, io.BytesIO(b"x"))
    assert registration.describe(tmp_path / "other.tar.gz") is None


@pytest.mark.parametrize("which", ["report", "decision"])
def test_evidence_of_another_model_is_refused_and_nothing_is_registered(
    model: Path, report: Path, decided: Path, tmp_path: Path, which: str
) -> None:
    (model / "model.safetensors").write_bytes(b"another")
    registry = f"local:{tmp_path}/ledger.db"
    given = {"report": report} if which == "report" else {"decision": decided}
    with pytest.raises(InputError, match="belongs to another model"):
        register_model(model, group="digits", registry=registry, **given)
    assert open_registry(registry).groups() == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "holds no evaluation of format 1 to 2"),
        ('{"format": 3, "metrics": {}}', "holds no evaluation of format 1 to 2"),
        ("[1]", "is not a JSON object"),
        ("{", "is not a JSON file"),
        ('{"format": 2, "metrics": {}}', "its report_hash is missing"),
        ('{"format": 2, "metrics": {"accuracy": {"value": NaN}}}', "NaN is no finite number"),
        (None, "has no evaluation.json. Give the output `report` of evaluate."),
    ],
)
def test_an_invalid_report_is_refused(model: Path, report: Path, tmp_path: Path, text: str | None, said: str) -> None:
    if text is None:
        (report / "evaluation.json").unlink()
    else:
        (report / "evaluation.json").write_text(text)
    with pytest.raises(InputError) as caught:
        register_model(model, None, report, group="digits", registry=f"local:{tmp_path}/ledger.db")
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_record_too_long_for_a_card_is_kept_without_its_metrics(model: Path) -> None:
    record = decision(content_hash(model))
    record["candidate"]["metrics"] = {f"accuracy_class_{n}": n / 7 for n in range(4000)}
    card = registration.card_of("s3://m/model.tar.gz", Evidence(decision=record), {"accuracy": 0.5})
    kept = decision_in(card)
    assert kept is not None and kept["candidate"] == {"content_hash": content_hash(model)}
    assert kept["difference"] == record["difference"]
    custom = card["additional_information"]["custom_details"]
    assert all(len(text) <= 1024 for text in custom.values())


def test_rows_of_more_slices_than_a_card_holds_are_left_out(model: Path) -> None:
    slices = [{"name": f"site=north{n}", "samples": n} for n in range(4000)]
    record = {**decision(content_hash(model)), "data": {"rows": 360, "slices": slices}}
    kept = decision_in(registration.card_of("s3://m/model.tar.gz", Evidence(decision=record), {"accuracy": 0.5}))
    assert kept is not None and kept["data"] == {"rows": 360} and kept["why"] == record["why"]


@pytest.mark.slow
def test_a_decision_on_many_slices_and_classes_fits_into_a_card(model: Path) -> None:
    record = decision(content_hash(model))
    metrics = [f"metric{n}" for n in range(40)]
    number = {"value": 1 / 7, "bound": 1e-7, "low": 1 / 9, "high": 1 / 3}
    rows = [{"metric": name, "slice": f"site=north{n}", **number} for n in range(40) for name in metrics]
    record |= {"differences": rows, "regressions": rows[:100], "floors": rows[:50], "why": ["better"] * 2000}
    classes = {f"recall_class_{n}": n / 7 for n in range(1000)}
    record["candidate"]["metrics"] = record["champion"]["metrics"] = dict.fromkeys(classes, number)
    card = registration.card_of("s3://m/model.tar.gz", Evidence(decision=record), {"accuracy": 0.5, **classes})
    kept = decision_in(card)
    assert kept is not None and "differences" not in kept and len(kept["floors"]) == 50
    assert kept["difference"] == record["difference"] and kept["champion"]["version"] == 3
    record["floors"] = rows
    card = registration.card_of("s3://m/model.tar.gz", Evidence(decision=record), {"accuracy": 0.5, **classes})
    kept = decision_in(card)
    assert kept is not None and "floors" not in kept and kept["why"] == record["why"]
    record["why"] = ["x" * 1000] * 2000
    card = registration.card_of("s3://m/model.tar.gz", Evidence(decision=record), {"accuracy": 0.5, **classes})
    kept = decision_in(card)
    assert kept is not None and len(kept["why"]) == 20 and kept["verdict"] == record["verdict"]
    assert len(json.dumps(card)) <= 100_000


def test_numbers_of_single_classes_are_left_out_of_a_card_that_would_be_too_long() -> None:
    numbers = {f"accuracy_class_{n}": n / 7 for n in range(4000)} | {"accuracy": 0.5}
    record = registration.model_record({}, Evidence(), numbers, artifact="")
    assert model_package.metrics(request_of(record)) == {"accuracy": 0.5}
    few = dict(list(numbers.items())[:500])
    record = registration.model_record({}, Evidence(), few, artifact="")
    assert model_package.metrics(request_of(record)) == few


def test_a_card_that_is_too_long_is_refused() -> None:
    numbers = {f"accuracy{n}": n / 7 for n in range(4000)}
    with pytest.raises(InputError, match="The service takes at most 100,000"):
        registration.model_record({}, Evidence(), numbers, artifact="")
