"""`drivetrain runs compare`: what differs between runs, for people, for scripts, and as a page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.base.formatting import signed
from tests.unit.cli.conftest import CommandLine

# Its evaluation has the form of evaluate's: 1,000 samples, of which `share` are right; the replicates of two runs are
# paired, so that their differences vary less than their values.
FILE = """
from drivetrain import Pipeline, Settings, step
from drivetrain.components import Output, component


class Compared(Settings):
    share: float = 0.9
    data: str = "a"


@component
def judge(report: Output, share: float = 0.9, data: str = "a") -> dict[str, float]:
    import json

    def metrics(value):
        return {"accuracy": {"value": value, "higher_is_better": True}, "loss": {"value": 1 - value}}

    import numpy

    from drivetrain.registry.report_hash import report_hash

    content = {
        "format": 2, "parts": {}, "num_samples": 1000, "metrics": metrics(share), "slices": [],
        "data": {"content_hash": data * 64, "rows": 1000, "key": "id"}, "model": {"content_hash": "m" * 64},
        "bootstrap": {"replicates": 200, "seed": 5, "confidence": 0.95, "by": "id", "file": "bootstrap.json"},
    }
    (report / "evaluation.json").write_text(json.dumps({**content, "report_hash": report_hash(content)}))
    (report / "bootstrap.json").write_text(json.dumps({"metrics": {"accuracy": [share] * 200}, "slices": []}))
    about = {
        "format": 1, "rows": 1000, "keyed": False, "slices": [], "columns": ["bits"], "left_out": [],
        "metrics": {"accuracy": {"kind": "share", "right": [[0, 1, False]], "of": [], "scale": ""}},
    }
    right = numpy.packbits(numpy.arange(1000) < round(1000 * share))
    said = numpy.frombuffer(json.dumps(about).encode(), numpy.uint8)
    numpy.savez(report / "rows.npz", about=said, column_0=right)
    return {"accuracy": share, "loss": 1 - share, "accuracy_class_0": 1.0}


def compared(settings: Compared) -> Pipeline:
    return Pipeline(name="compared", steps=[step(judge, share=settings.share, data=settings.data)])
"""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[dt.Run]]]:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "compared_runs.py").write_text(FILE)
    with chdir(folder):
        settings = ({}, {"share": 0.95}, {"share": 0.97, "data": "b"})
        made = [dt.run("compared_runs.py", quiet=True, **each) for each in settings]
        assert [run.status for run in made] == ["Succeeded"] * 3
        yield folder / ".drivetrain", made


def test_two_runs_side_by_side(drivetrain: CommandLine, runs: tuple[Path, list[dt.Run]]) -> None:
    home, (first, second, _) = runs
    text = drivetrain("runs", "compare", first.id, second.id, "--home", home)
    lines = [line.split() for line in text.splitlines()]
    assert ["share", "0.9", "0.95"] in lines and ["judge.share", "0.9", "0.95"] in lines
    (accuracy,) = [line for line in lines if line[:1] == ["accuracy"]]
    assert accuracy[1:4] == ["0.9000", "0.9500", "+0.05"] and accuracy[5] == "to"
    assert 0.035 < float(accuracy[4]) < 0.038 and 0.064 < float(accuracy[6]) < 0.067
    assert "accuracy_class_0" not in text  # the same in both
    assert "Cost: not known: they ran on this machine, which is not billed." in text
    assert "Data that differs" not in text and "Code" not in text


def test_for_scripts(drivetrain: CommandLine, runs: tuple[Path, list[dt.Run]]) -> None:
    home, (first, second, _) = runs
    found = json.loads(drivetrain("runs", "compare", "latest", first.id[:8], second.id, "--home", home, "--json"))
    assert [run["id"] for run in found["runs"]][1:] == [first.id, second.id]
    assert found["settings"]["judge.share"] == ["0.97", "0.9", "0.95"]
    assert found["metrics"]["accuracy"] == [0.97, 0.9, 0.95] and found["same_code"] is True
    assert all(run["cost"] is None and run["step_seconds"] > 0 for run in found["runs"])
    assert found["paired"] == []  # two different test sets are among them


def test_different_test_sets_are_reported(drivetrain: CommandLine, runs: tuple[Path, list[dt.Run]]) -> None:
    home, (first, _, third) = runs
    text = drivetrain("runs", "compare", first.id, third.id, "--home", home)
    assert "Differences have no intervals: " in text and "different test sets" in text
    assert first.compare(third).intervals == {}


def test_the_page(drivetrain: CommandLine, runs: tuple[Path, list[dt.Run]], tmp_path: Path) -> None:
    home, (first, second, _) = runs
    page = tmp_path / "compared.html"
    assert drivetrain("runs", "compare", first.id, second.id, "--home", home, "-o", page) == f"Wrote {page}.\n"
    text = page.read_text()
    assert first.id in text and "Settings that differ" in text and "judge.share" in text
    low, high = first.compare(second).intervals["accuracy"][0]  # type: ignore[misc]
    assert f"({signed(low)} to {signed(high)})" in text
    assert "All runs read the same data, with the same code." in text
    assert "<script" not in text
    printed = json.loads(drivetrain("runs", "compare", first.id, second.id, "--home", home, "--json", "-o", page))
    assert printed["page"] == str(page) and printed["metrics"]["accuracy"] == [0.9, 0.95]


def test_incomparable_runs_are_refused(drivetrain: CommandLine, runs: tuple[Path, list[dt.Run]]) -> None:
    home, (first, second, _) = runs
    assert "One run alone cannot be compared" in drivetrain.error("runs", "compare", first.id, "--home", home)
    twice = drivetrain.error("runs", "compare", first.id, second.id, first.id, "--home", home)
    assert f"Run {first.id} is given twice" in twice
    assert "No execution 'none'" in drivetrain.error("runs", "compare", first.id, "none", "--home", home)
    page = drivetrain.error("runs", "compare", first.id, second.id, "--home", home, "-o", "page.txt")
    assert "page.txt: a page is written as .html" in page
