"""What every tracker is told: run for each file of drivetrain/trackers/backends, against the place that the file of the
same name in tests/contract/trackers offers for it:

    place(folder)        a context: the settings of an empty place
    away(folder)         settings of a place that cannot be reached
    WRONG                settings that are refused, and a part of what is said
    read(settings, told) what the vendor's own reader finds there (trackers/seen.py)
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.run_store.events import ExecutionFinished, ExecutionStarted
from drivetrain.run_store.home import Home
from drivetrain.run_store.told import Told, links_of
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.sagemaker.run.options import Options, Request
from drivetrain.trackers import told_to_trackers
from drivetrain.trackers.follow import follow
from drivetrain.trackers.tracker import checked, names
from tests.contract.trackers.seen import Seen

RUN = "0123456789ab"
STARTED = 1_764_000_000.0


@pytest.fixture(params=names())
def tracker(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def offers(tracker: str) -> ModuleType:
    return importlib.import_module(f"tests.contract.trackers.{tracker}")


@pytest.fixture
def settings(tracker: str, offers: ModuleType, tmp_path: Path) -> Iterator[dict[str, Any]]:
    with offers.place(tmp_path) as settings:
        yield checked({tracker: settings})[tracker]


class OneRun:
    """A run in a ledger, as its runner writes it; no process runs."""

    def __init__(self, home: Home, tracker: str, settings: dict[str, Any]) -> None:
        self.home = home
        home.create()
        options = Options(pipeline="shop", settings={"rate": 0.5}, trackers={tracker: settings})
        text = json.dumps({"Version": "2020-12-01", "Parameters": [], "Steps": []})
        Request(text, {"Epochs": 3}, options).save(home.run(RUN))
        with LedgerWriter(home) as ledger:
            ledger.begin(
                RUN,
                "shop",
                definition_hash="d",
                request_hash="r",
                parameters={"Epochs": 3},
                steps=[("fit", "Training", "fit")],
                values=[("tag", "team", "vision")],
            )
            with ledger.transaction() as db:
                db.execute("UPDATE executions SET started = ?", (STARTED,))
            ledger.start_step(RUN, "fit", arguments={})
        self.log(10, 20)

    def log(self, *steps: int) -> None:
        """The training logs a loss at each of these steps."""
        with LedgerWriter(self.home) as ledger:
            ledger.log_metrics(RUN, "fit", 1, [("loss", step / 10, 1 / step, step) for step in steps])

    def end(self, status: str = "Succeeded") -> None:
        """It has ended, its page is written, and it has left a model."""
        (self.home.run(RUN) / "report.html").write_text("<p>page</p>")
        folder = self.home.objects / "bucket" / "model"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.txt").write_text("weights")
        with LedgerWriter(self.home) as ledger, ledger.transaction() as db:
            db.execute("UPDATE executions SET status = ?, ended = ?", (status, STARTED + 9))
            db.execute("UPDATE steps SET status = ?, ended = ?", (status, STARTED + 9))
            row = (RUN, "fit", "output", "model", "s3://bucket/model", "abc", "", 1, 7, None, None)
            db.execute(f"INSERT OR REPLACE INTO artifacts VALUES ({', '.join('?' * len(row))})", row)

    def resume(self) -> None:
        """It goes on."""
        with LedgerWriter(self.home) as ledger, ledger.transaction() as db:
            db.execute("UPDATE executions SET status = 'Executing', ended = NULL")


def steps_of(seen: Seen) -> list[int]:
    return [position for position, _ in seen.metrics["fit/loss"]]


@pytest.mark.slow_cases("mlflow", "wandb")
def test_a_run_is_tracked_with_parameters_metrics_and_artifacts(
    tracker: str, offers: ModuleType, settings: dict[str, Any], tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    run = OneRun(home, tracker, settings)
    with home.lock(RUN):
        looks = iter([lambda: run.log(30), run.end])

        def wait(seconds: float) -> bool:
            act = next(looks)
            act()
            return act == run.end

        told = follow(home, RUN, tracker, settings, wait)
    assert told.problem == "" and told.ended and links_of(home, RUN) == {tracker: told.url}
    seen: Seen = offers.read(settings, told)
    assert seen.parameters["rate"] == "0.5" and seen.parameters["Epochs"] == "3"
    assert seen.metrics["fit/loss"] == [(step, pytest.approx(1 / step)) for step in (10, 20, 30)]
    assert {"report.html", "fit/model/model.txt"} <= seen.artifacts
    assert seen.run == RUN and seen.page == str(home.run(RUN) / "report.html") and seen.succeeded is True


@pytest.mark.slow_cases("mlflow", "wandb")
def test_a_resumed_run_continues_without_repeated_records(
    tracker: str, offers: ModuleType, settings: dict[str, Any], tmp_path: Path
) -> None:
    home = Home(tmp_path / "home")
    run = OneRun(home, tracker, settings)
    run.end("Failed")
    first = follow(home, RUN, tracker, settings, lambda seconds: True)
    assert offers.read(settings, first).succeeded is False
    run.resume()
    run.log(30)
    run.end()
    second = follow(home, RUN, tracker, settings, lambda seconds: True)
    assert second.id == first.id and second.problem == ""
    seen: Seen = offers.read(settings, second)
    assert steps_of(seen) == [10, 20, 30] and seen.succeeded is True


@pytest.mark.slow_cases("mlflow", "wandb")
def test_an_unavailable_tracker_is_reported_once_and_can_be_filled_later(
    tracker: str, offers: ModuleType, settings: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    away = checked({tracker: offers.away(tmp_path)})[tracker]
    run = OneRun(home, tracker, away)
    run.end()
    told = follow(home, RUN, tracker, away, lambda seconds: True)
    assert tracker in told.problem and RUN in told.problem and not told.ended
    assert "Traceback" not in "".join(capfd.readouterr())
    assert follow(home, RUN, tracker, settings, lambda seconds: True).problem == ""
    assert steps_of(offers.read(settings, Told.load(home, RUN, tracker))) == [10, 20]


def test_wrong_settings_are_refused_before_anything_starts(tracker: str, offers: ModuleType) -> None:
    wrong, said = offers.WRONG
    with pytest.raises(UserError) as error:
        checked({tracker: wrong})
    assert said in str(error.value) and f"local.trackers.{tracker}" in str(error.value)


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(UserError, match="Did you mean 'mlflow'"):
        checked({"mlflo": {}})


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'drivetrain\[wandb\]'"):
        checked({"wandb": {}})


def test_the_end_of_a_run_waits_for_a_tracker_that_hangs_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = Home(tmp_path / "home")
    OneRun(home, "tensorboard", checked({"tensorboard": {"folder": str(tmp_path)}})["tensorboard"])
    monkeypatch.setattr("drivetrain.trackers.PATIENCE_S", 0.05)
    begun: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def hangs(command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        begun.append(popen([sys.executable, "-c", "import time; time.sleep(600)"], **options))
        return begun[0]

    monkeypatch.setattr(subprocess, "Popen", hangs)
    seen: list[object] = []
    before = time.monotonic()
    with told_to_trackers(home, seen.append) as observer:
        observer(ExecutionStarted(RUN, "shop", ()))
        observer(ExecutionFinished(RUN, "Succeeded", 1.0))
    assert time.monotonic() - before < 30 and begun[0].poll() is not None and len(seen) == 2
    said = capsys.readouterr().err
    assert said.count("warning:") == 1 and f"drivetrain runs track {RUN}" in said


@pytest.mark.slow
def test_a_real_run_is_tracked_by_a_separate_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path / "home")
    settings = checked({"tensorboard": {"folder": str(tmp_path / "boards")}})["tensorboard"]
    run = OneRun(home, "tensorboard", settings)
    with told_to_trackers(home, lambda event: None) as observer:
        observer(ExecutionStarted(RUN, "shop", ()))
        run.end()
    told = Told.load(home, RUN, "tensorboard")
    log = (home.run(RUN) / ".trackers" / "tensorboard.log").read_text()
    assert told.ended and told.problem == "" and capsys.readouterr().err == "", log
    assert os.listdir(tmp_path / "boards") == [f"shop-{RUN}"]
