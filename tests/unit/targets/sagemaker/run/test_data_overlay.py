"""A folder that stands for a bucket (--data), below which steps write, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drivetrain.run_store.events import StepFinished
from drivetrain.run_store.reader import Ledger
from tests.fixtures.local_runs import LocalRuns, output_of

WRITE = """
    from pathlib import Path

    out = Path("/opt/ml/processing/output/out")
    for path in Path("/opt/ml/processing/input/data").rglob("*.csv"):
        (out / path.name).write_text(path.read_text() + "+")
"""
COUNT = """
    from pathlib import Path

    data = Path("/opt/ml/processing/input/data")
    found = sorted(f"{path.relative_to(data)}={path.read_text()}" for path in data.rglob("*.csv"))
    Path("/opt/ml/processing/output/out/found.txt").write_text(" ".join(found))
"""
FAR = "s3://far"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What stands for the bucket."""
    (tmp_path / "mine" / "in").mkdir(parents=True)
    (tmp_path / "mine" / "in" / "a.csv").write_text("1")
    return tmp_path / "mine"


def steps(runs: LocalRuns, place: str, *, cache: bool | None = None) -> list[dict[str, Any]]:
    """One writes below the bucket at a fixed place, one reads all of it afterwards."""
    write = runs.processing("write", WRITE, inputs={"data": f"{FAR}/in/"}, outputs=["out"], cache=cache)
    write["Arguments"]["ProcessingOutputConfig"]["Outputs"][0]["S3Output"]["S3Uri"] = f"{FAR}/{place}"
    count = runs.processing("count", COUNT, inputs={"data": f"{FAR}/"}, outputs=["out"])
    count["DependsOn"] = ["write"]
    return [write, count, runs.processing("again", COUNT, inputs={"data": output_of("write", "out")}, outputs=["out"])]


def found(runs: LocalRuns, step: str) -> str:
    with Ledger(runs.home) as ledger:
        execution = ledger.execution("latest").id
    return (runs.home.objects / "bucket" / "runs" / execution / step / "out" / "found.txt").read_text()


def test_later_steps_read_the_folder_and_what_this_run_wrote(runs: LocalRuns, folder: Path) -> None:
    summary = runs.start(steps(runs, "out"), data={FAR: str(folder)})
    assert summary.status == "Succeeded", summary.reason
    assert (found(runs, "count"), found(runs, "again")) == ("in/a.csv=1 out/a.csv=1+", "a.csv=1+")
    (folder / "in" / "b.csv").write_text("2")
    runs.start(steps(runs, "other"), data={FAR: str(folder)})
    assert found(runs, "count") == "in/a.csv=1 in/b.csv=2 other/a.csv=1+ other/b.csv=2+", "nothing of the first run"
    assert sorted(path.name for path in folder.rglob("*")) == ["a.csv", "b.csv", "in"]


def test_a_write_lies_over_a_file_of_the_folder_and_its_line_says_so(runs: LocalRuns, folder: Path) -> None:
    summary = runs.start(steps(runs, "in"), data={FAR: str(folder)})
    assert summary.status == "Succeeded", summary.reason
    assert found(runs, "count") == "in/a.csv=1+"
    assert (folder / "in" / "a.csv").read_text() == "1"
    (line,) = [event.value for event in runs.events if isinstance(event, StepFinished) and event.step == "write"]
    assert line == f"{FAR}/in lies over 1 of the files given with --data, which stay as they are"


def test_outputs_of_cached_steps_belong_to_the_run_too(runs: LocalRuns, folder: Path) -> None:
    runs.start(steps(runs, "out", cache=True), data={FAR: str(folder)})
    runs.start(steps(runs, "out", cache=True), data={FAR: str(folder)})
    assert runs.statuses()["write"] == "Cached"
    assert found(runs, "count") == "in/a.csv=1 out/a.csv=1+"
