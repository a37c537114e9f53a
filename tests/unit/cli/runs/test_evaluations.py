from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.run_store.home import Home
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.run_store.writer import LedgerWriter


def test_of_a_folder(drivetrain, findings: Callable[..., Path]) -> None:
    build = findings(drivetrain.folder / "build")
    for what in (build, "build"):
        shown = drivetrain("evaluations", "show", what)
        assert shown.startswith("Register\n  accuracy is 0.9000 against") and "\naccuracy     0.9000" in shown
    alone = drivetrain("evaluations", "show", build / "report" / "evaluation.json")
    assert alone.startswith("360 samples") and "Register" not in alone
    decided = json.loads(drivetrain("evaluations", "show", build / "decision", "--json"))
    assert decided["evaluations"] == [] and decided["decisions"][0]["champion_version"] == "2"


def test_the_page(drivetrain, findings: Callable[..., Path]) -> None:
    build, page = findings(drivetrain.folder / "build"), drivetrain.folder / "found.html"
    assert drivetrain("evaluations", "show", build, "--html", page) == f"Wrote {page}.\n"
    text = page.read_text()
    assert text.startswith("<!doctype html>") and "Evaluation of build" in text and "confusion matrix" in text
    assert "is written as .html" in drivetrain.error("evaluations", "show", build, "--html", "found.pdf")


def test_of_a_run(drivetrain, findings: Callable[..., Path]) -> None:
    home = Home(drivetrain.home)
    home.create()
    findings(home.objects / "bucket")
    writer = LedgerWriter(home)
    steps = [("evaluate", "Processing", ""), ("compare", "Processing", "")]
    writer.begin("e-1", "nightly", definition_hash="d", request_hash="r", parameters={}, steps=steps)
    assert "has no evaluation" in drivetrain.error("evaluations", "show", "--home", drivetrain.home)
    for step, output in (("evaluate", "report"), ("compare", "decision")):
        number = writer.start_step("e-1", step, arguments={})
        entry = ArtifactEntry(
            flow="output", name=output, uri=f"s3://bucket/{output}", digest="d", stamp="s", files=1, bytes=1
        )
        writer.publish("e-1", step, number, response={}, value=None, moves=[], artifacts=[entry], objects=[])
        writer.finish_step("e-1", step, "Succeeded", number=number)
    writer.finish("e-1", "Succeeded", None)
    shown = drivetrain("evaluations", "show", "e-1", "--home", drivetrain.home)
    assert shown.startswith("compare: Register\n  accuracy") and "site=south" in shown
    ended = drivetrain("runs", "show", "--home", drivetrain.home)
    assert "\nevaluate: accuracy 0.9000 (0.8900 to 0.9100)" in ended and "\ncompare: Register\n  accuracy" in ended
    page = Path(drivetrain("runs", "report", "--home", drivetrain.home).strip())
    assert "ROC curve" in page.read_text()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "has no evaluation.json nor decision.json of ours"),
        ('{"regression_metrics": {}}', "has no evaluation.json nor decision.json of ours"),
        ("{", "evaluation.json is no JSON"),
    ],
)
def test_bad_input(drivetrain, content: str | None, said: str) -> None:
    folder = drivetrain.folder / "build"
    folder.mkdir()
    if content is not None:
        (folder / "evaluation.json").write_text(content)
    assert said in drivetrain.error("evaluations", "show", folder)


def test_bad_places(drivetrain) -> None:
    assert "nowhere/report has no evaluation.json" in drivetrain.error("evaluations", "show", "nowhere/report")
    assert "Nothing has been run" in drivetrain.error("evaluations", "show", "--home", drivetrain.home)
