"""compare over several nights: each is entered into its line, once, and the registry keeps what its rows said."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pytest

from drivetrain.registry import evidence
from drivetrain.registry.content_hash import content_hash
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import open_registry
from tests.fixtures.s3_server import make_bucket
from tests.fixtures.sagemaker_server import new_region, sagemaker_server, sagemaker_variables
from tests.unit.components.test_compare import Place, stand_in, write_model, write_report

WRONG_OF_CHAMPION = 200


def write_rows(report: Path, wrong: int) -> None:
    """Of 1,000 rows the first ones are wrong."""
    about: dict[str, Any] = {"format": 1, "rows": 1000, "columns": ["numbers"], "slices": [], "keyed": False}
    about |= {"metrics": {"accuracy": {"kind": "mean", "column": 0, "weight": None, "of": []}}, "left_out": []}
    right = (np.arange(1000) >= wrong).astype(np.uint8)
    with (report / "rows.npz").open("wb") as file:
        np.savez(file, about=np.frombuffer(json.dumps(about).encode(), np.uint8), column_0=right)


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    def evaluate(model: Path, data: Path, report: Path, **settings: Any) -> None:
        write_report(report, 1 - WRONG_OF_CHAMPION / 1000, content_hash(model))
        write_rows(report, WRONG_OF_CHAMPION)

    stand_in(monkeypatch, evaluate)
    place = Place(tmp_path)
    place.register(write_model(tmp_path / "champion", "old"), approved=True)
    return place


def night(place: Place, number: int, wrong: int, less: float = 0.0, **given: Any) -> dict[str, Any]:
    folder = place.folder / f"candidate {number}"
    model = folder if folder.exists() else write_model(folder, f"weights {number}")
    report = write_report(place.folder / f"report {number}", 1 - wrong / 1000 - less, content_hash(model))
    write_rows(report, wrong)
    return place.compare(model=model, evaluation=report, **given)


def test_a_small_gain_is_found_on_the_third_night(nights: Place) -> None:
    found = [night(nights, number, wrong=188) for number in (1, 2)]
    assert [(each["register"], each["night"]) for each in found] == [(0, 1), (0, 2)] and "comparison" not in found[0]
    assert night(nights, 1, wrong=188)["night"] == 1, "the same test again is the night that it was"
    last = night(nights, 3, wrong=188)
    assert (last["register"], last["better"], last["night"]) == (1, 1, 3)
    line = nights.decided["line"]
    assert (line["rows"], round(line["level"], 9), len(line["nights"]), line["is_better"]) == (
        "reused",
        0.0125,
        3,
        True,
    )
    assert "its 3 candidates gain on average +0.0120" in last["why"]
    assert nights.decided["rule"]["level"] == line["level"], "what decides"
    assert line["nights"][0]["candidate"][:12] in last["why"], "the nights that were pooled are named"
    assert (nights.folder / "home" / "evidence" / "digits.npz").is_file()
    assert "4 lines of candidates a year" in (nights.folder / "decision" / "decision.md").read_text()


def test_a_candidate_that_differs_by_rounding_is_no_worse(nights: Place) -> None:
    assert night(nights, 1, wrong=100)["register"] == 1
    assert night(nights, 2, wrong=WRONG_OF_CHAMPION, less=2e-16)["register"] == 1
    assert nights.decided["difference"]["value"] < 0 and nights.decided["line"]["gain"] == 0


def test_lines_beyond_the_limit_are_not_tested(nights: Place) -> None:
    assert night(nights, 1, wrong=100, lines=1)["register"] == 1
    found = night(nights, 2, wrong=100, lines=1, margin=0.01)
    assert (found["register"], found["verdict"]) == (0, "keep champion") and "lines=1" in found["why"]


def test_bonferroni_is_optional_and_the_fallback_without_rows(
    nights: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert night(nights, 1, wrong=188, nights="bonferroni")["comparison"] == 1
    assert "not pooled" not in capsys.readouterr().out
    assert night(nights, 2, wrong=188, rule="not_worse")["comparison"] == 2
    monkeypatch.setattr(evidence, "place_of", lambda *_: None)
    assert night(nights, 3, wrong=188)["comparison"] == 3
    assert "nights are not pooled: this registry cannot keep results of single rows" in capsys.readouterr().out
    assert not (nights.folder / "home" / "evidence").exists()


def test_a_deployment_to_sagemaker_pools_its_nights_in_its_own_bucket(
    nights: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = sagemaker_server()
    for name, value in sagemaker_variables(endpoint).items():
        monkeypatch.setenv(name, value)
    bucket = make_bucket(endpoint)
    champion = nights.folder / "champion"
    with tarfile.open(nights.folder / "model.tar.gz", "w:gz") as archive:
        archive.add(champion, arcname=".")
    uri = f"s3://{bucket}/champion/model.tar.gz"
    boto3.client("s3").upload_file(str(nights.folder / "model.tar.gz"), bucket, "champion/model.tar.gz")
    nights.registry = f"sagemaker:{new_region()}"
    registry = open_registry(nights.registry)
    version, _ = registry.register("digits", content_hash(champion), ModelRecord(artifact=uri))
    registry.set_status("digits", version, "Approved")
    monkeypatch.setenv("DRIVETRAIN_EVIDENCE", f"s3://{bucket}/pipelines/drivetrain-evidence")
    found = [night(nights, number, wrong=188) for number in (1, 2, 3)]
    assert [(each["register"], each["night"]) for each in found] == [(0, 1), (0, 2), (1, 3)]
    assert nights.decided["line"]["rows"] == "reused"
    assert boto3.client("s3").head_object(Bucket=bucket, Key="pipelines/drivetrain-evidence/digits.npz")
