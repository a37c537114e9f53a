"""`drivetrain runs track`: a tracker is told of a run that has ended."""

from __future__ import annotations

import json
from pathlib import Path

from tests.unit.cli.conftest import CommandLine


def test_an_ended_run_is_tracked_and_its_page_links_there(drivetrain: CommandLine) -> None:
    id = drivetrain.run("--quiet").strip()
    place = ["--home", drivetrain.home]
    folder = drivetrain.folder / "boards"
    said = drivetrain("runs", "track", id, f"tensorboard.folder={folder}", *place)
    (board,) = folder.iterdir()
    assert said.strip() == f"tensorboard: {board}" and any(board.iterdir())
    told = json.loads(drivetrain("runs", "track", id, f"tensorboard.folder={folder}", *place, "--json"))
    assert told == {"tensorboard": {"url": str(board), "problem": None}}
    page = Path(drivetrain("runs", "report", id, *place).split()[-1])
    assert str(board) in (drivetrain.folder / page).read_text()


def test_typing_errors_are_explained(drivetrain: CommandLine) -> None:
    drivetrain.run("--quiet")
    place = ["--home", drivetrain.home]
    assert "names no tracker" in drivetrain.error("runs", "track", "latest", *place)
    assert "give TRACKER.FIELD=VALUE" in drivetrain.error("runs", "track", "latest", "mlflow", *place)
    assert "Did you mean 'mlflow'" in drivetrain.error("runs", "track", "latest", "mlflw.uri=x", *place)
    assert "local.trackers.wandb.mode" in drivetrain.error("runs", "track", "latest", "wandb.mode=never", *place)
    message = drivetrain.error("run", "retraining", "--set", "local.trackers.mlflw.uri=x", *place)
    assert "Did you mean 'mlflow'" in message
