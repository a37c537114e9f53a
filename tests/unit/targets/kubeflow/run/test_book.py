"""What is entered of the tasks' reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain import Pipeline, step
from drivetrain.assets.assets import Code
from drivetrain.components.evaluate import evaluate
from drivetrain.run_store.events import Event, StepFinished
from drivetrain.run_store.home import Home
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.targets.kubeflow.run.book import LOG_NAME, Book


@pytest.mark.parametrize("ended", [True, False])
def test_a_log_has_no_secret_of_the_shell_once_its_step_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    """The task is not given the secrets, so it cannot mask them itself."""
    monkeypatch.setenv("MY_PASSWORD", "correct-horse")
    monkeypatch.setenv("DRIVETRAIN_MASK", "battery\nstaple")
    home = Home(tmp_path)
    home.create()
    log = home.logs("run", "one", 1) / LOG_NAME
    log.parent.mkdir(parents=True)
    log.write_bytes(b"12 %\r99 % correct-horse\nbattery staple\n")
    seen: list[str] = []

    def observe(event: Event) -> None:
        if isinstance(event, StepFinished):
            seen.append(log.read_bytes().decode())

    pipeline = Pipeline(name="p", steps=[step(evaluate, name="one", model="s3://b/model", data="s3://b/data")])
    about = {"step": "one", "iteration": None, "pid": 1}
    with LedgerWriter(home) as ledger:
        ledger.begin(
            "run", "p", definition_hash="1", request_hash="2", parameters={}, steps=[("one", "Processing", "")]
        )
        book = Book(pipeline, "run", {}, ledger, observe, {"one": Code("s3://b/code", "0" * 64, "0" * 64, ())})
        book.told({"event": "started", "arguments": [], **about})
        if ended:
            book.told({"event": "ended", "code": 1, "reason": "it broke", **about})
        book.end("Failed")
    assert seen == ["12 %\r99 % ***\n*** ***\n"]
