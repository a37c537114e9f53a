"""SIGTERM at any point of a training, to one rank or to all: the same step is saved by all, or nothing is lost, and the
next start ends with the same bytes as if nothing had happened."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.checkpointing import checkpointer as checkpointer_module
from drivetrain.training.checkpointing.attempts import read_attempts
from drivetrain.training.checkpointing.places import open_place
from drivetrain.training.checkpointing.places.folder import FolderPlace
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.checkpointing.tensors import writing as writing_module
from drivetrain.training.errors import StoppedError
from drivetrain.training.launch.processes.failure import is_lost_peer
from drivetrain.training.loop import saving as saving_module
from drivetrain.training.process import Process
from drivetrain.training.torch.framework import Framework as TorchFramework
from drivetrain.training.torch.strategy import Strategy
from drivetrain.training_scripts import train as train_module
from drivetrain.training_scripts.strategies import ddp
from drivetrain.training_scripts.train import Config, Folders, train

# 50 rows in batches of 16: 4 steps an epoch, 24 in all.
CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 4, "hidden": 16}',
    global_batch=16,
    epochs=6,
    learning_rate=1e-2,
    ema_decay=0.9,
    keep_best=True,
    log_every=1,
    checkpoint_every="1000steps",
)


def fit(process: Process, config: Config, data: Path, target: Path, checkpoints: Path | None) -> None:
    folders = Folders(
        train=data, validation=data, model=target / "model", output=target / "output", checkpoints=checkpoints
    )
    with patch.dict(os.environ, {EXECUTION: "one"}):  # which may train for longer
        train(config, folders, process)


def files(target: Path) -> dict[str, bytes]:
    inside = [path for path in (target / "model").rglob("*") if path.is_file()]
    return {str(path.relative_to(target / "model")): path.read_bytes() for path in inside} | {
        "history": (target / "output/history.json").read_bytes()
    }


def records(target: Path) -> list[dict[str, Any]]:
    """All lines, but for what differs from run to run."""
    lines = [json.loads(line) for line in (target / "output/metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in line.items() if name not in ("time", "samples_per_second")} for line in lines
    ]


def after(calls: int, function: Callable[..., Any], *, times: int = 1) -> Callable[..., Any]:
    """`function`, which in its call number `calls` is told to stop, while it is at work."""
    made = 0

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        if made == calls:
            for _ in range(times):
                os.kill(os.getpid(), signal.SIGTERM)
        return function(*given, **named)

    return counted


def told(process: Process, when: str, who: tuple[int, ...], *arguments: Any) -> str:
    """Train, and be told to stop at a point in it; what the end of it says."""
    if process.rank in who:  # patched in the forked rank only
        if when == "step":
            ddp.Strategy.train_step = after(9 + process.rank, ddp.Strategy.train_step, times=3)
        elif when == "validation":
            ddp.Strategy.forward = after(3, ddp.Strategy.forward)
        elif when == "save":
            kept = checkpointer_module.Checkpointer
            kept.save = after(1, kept.save)
        elif when == "writing":
            TorchFramework.copy_all = staticmethod(after(1, TorchFramework.copy_all))
        elif when == "last step":
            ddp.Strategy.train_step = after(24, ddp.Strategy.train_step)
        elif when == "begin":
            saving_module.process_age = after(1, saving_module.process_age)
        elif when == "model":
            train_module.save_result = after(1, train_module.save_result)
    try:
        fit(process, *arguments)
    except StoppedError as error:
        return str(error)
    return "done"


@pytest.mark.slow
def test_a_save_longer_than_the_notice_gives_one_warning(
    forked: Any, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert saving_module.stop_window({}) == 90
    assert saving_module.stop_window({"DRIVETRAIN_STOP_TIMEOUT": "60"}) == 60

    def warnings(steps: int) -> list[str]:
        config = replace(CONFIG, checkpoint_every="1steps", max_steps=steps)
        forked(2, fit, config, digits, tmp_path / "run", tmp_path / "kept")
        return [line for line in capfd.readouterr().out.splitlines() if line.startswith("a save took")]

    assert warnings(3) == []
    monkeypatch.setattr(saving_module, "stop_window", lambda environment: 0)
    (line,) = warnings(6)
    assert "a machine that is taken away leaves only 0 s for the last one: it will be incomplete" in line


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("whole")


@pytest.mark.slow_cases("writing-who5", "validation-who3", "last step-who6", "save-who4")
@pytest.mark.parametrize(
    ("when", "who"),
    [
        ("step", (1,)),
        pytest.param("step", (0,), marks=pytest.mark.nightly),
        pytest.param("step", (0, 1), marks=pytest.mark.slow),
        ("validation", (1,)),
        ("save", (0, 1)),
        ("writing", (0,)),
        ("last step", (1,)),
    ],
)
def test_one_step_is_saved_and_the_next_start_resumes(
    when: str, who: tuple[int, ...], forked: Any, pooled: Any, digits: Path, tmp_path: Path, whole: Path
) -> None:
    config = replace(CONFIG, checkpoint_every="5steps") if when in ("save", "writing") else CONFIG
    kept, target = tmp_path / "checkpoints", tmp_path / "cut"
    started = time.monotonic()
    first, second = forked(2, told, when, who, config, digits, target, kept)
    assert time.monotonic() - started < 20
    assert first == second
    (folder,) = kept.iterdir()
    step = Store(open_place(folder)).steps()[0]
    assert first == f"stopped by SIGTERM at step {step}, which is saved"
    (attempt,) = read_attempts(open_place(folder))
    assert (attempt.step, attempt.ended) == (step, "stopped")

    pooled(2, fit, config, digits, target, kept)
    if not whole.joinpath("model").exists():
        pooled(2, fit, CONFIG, digits, whole, tmp_path / "elsewhere")
    expected = files(whole)
    expected["model.json"] = expected["model.json"].replace(b"1000steps", config.checkpoint_every.encode())
    assert files(target) == expected
    assert records(target) == records(whole)


def told_on_a_slow_disk(process: Process, *arguments: Any) -> str:
    """Nothing is written before the training itself waits for it."""
    waits = threading.Event()
    write, beat = FolderPlace.write, checkpointer_module.beat

    def slow(self: FolderPlace, name: str, data: memoryview | bytes) -> int:
        assert waits.wait(30)
        return write(self, name, data)

    def patient() -> None:
        if threading.current_thread() is threading.main_thread():
            waits.set()
        beat()

    FolderPlace.write, checkpointer_module.beat, checkpointer_module.GRACE = slow, patient, 0.0
    return told(process, "step", (0, 1), *arguments)


def test_no_rank_exits_before_the_step_is_durable(forked: Any, digits: Path, tmp_path: Path) -> None:
    first, second = forked(2, told_on_a_slow_disk, CONFIG, digits, tmp_path / "cut", tmp_path / "checkpoints")
    (folder,) = (tmp_path / "checkpoints").iterdir()
    (step,) = Store(open_place(folder)).steps()
    assert first == second == f"stopped by SIGTERM at step {step}, which is saved"


@pytest.mark.slow
def test_before_the_first_step_there_is_nothing_to_save(forked: Any, pooled: Any, digits: Path, tmp_path: Path) -> None:
    kept = tmp_path / "checkpoints"
    ends = forked(2, told, "begin", (0,), CONFIG, digits, tmp_path / "cut", kept)
    assert ends == ["stopped by SIGTERM before the first step: there is nothing to save yet"] * 2
    (folder,) = kept.iterdir()
    assert Store(open_place(folder)).steps() == []
    # A later start that comes no further either has lost nothing.
    config = replace(CONFIG, max_steps=6)
    pooled(2, fit, config, digits, tmp_path / "cut", kept)
    ends = forked(2, told, "begin", (0,), replace(CONFIG, max_steps=8), digits, tmp_path / "cut", kept)
    assert ends == ["stopped by SIGTERM at step 6, which is saved"] * 2
    assert [attempt.ended for attempt in read_attempts(open_place(folder))] == ["stopped", "finished", "stopped"]


@pytest.mark.slow
def test_a_model_that_is_being_written_is_finished(forked: Any, digits: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, epochs=1)
    ends = forked(2, told, "model", (0,), config, digits, tmp_path / "cut", tmp_path / "checkpoints")
    assert ends == ["done", "done"]
    assert {"model.json", "model.safetensors", "code/inference.py", "history"} <= files(tmp_path / "cut").keys()


def test_without_checkpoints_the_signal_has_its_default_effect(forked: Any, digits: Path, tmp_path: Path) -> None:
    arguments = ("step", (0,), CONFIG, digits, tmp_path / "cut", None)
    assert forked(1, told, *arguments, may_die=(0,)) == [None]


def lost(process: Process, config: Config, data: Path, target: Path, checkpoints: Path) -> float:
    """Rank 1 is killed in a step while a checkpoint is being written; seconds until rank 0 has noticed."""
    step = ddp.Strategy.train_step
    killed = target / "killed"
    made = 0

    def train_step(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        if made == 10 and process.rank == 1:
            killed.write_text(str(time.monotonic()))
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, *given, **named)

    write = writing_module.Writer.write

    def slow(self: Any, job: Any) -> Any:
        if job.step == 9:
            time.sleep(0.5)
        return write(self, job)

    ddp.Strategy.train_step, writing_module.Writer.write = train_step, slow
    try:
        fit(process, config, data, target, checkpoints)
    except RuntimeError as error:
        assert is_lost_peer(error), error
        return time.monotonic() - float(killed.read_text())
    raise AssertionError("it went on")


@pytest.mark.slow
def test_a_rank_that_is_killed_while_a_checkpoint_is_written(
    forked: Any, pooled: Any, digits: Path, tmp_path: Path
) -> None:
    """The other leaves within 5 s, the torn checkpoint counts for nothing, and the next start ends with the same."""
    config, target = replace(CONFIG, checkpoint_every="3steps", keep_last=9), tmp_path / "cut"
    target.mkdir()
    kept = tmp_path / "checkpoints"
    seconds, _ = forked(2, lost, config, digits, target, kept, may_die=(1,))
    assert seconds < 5 + 10  # a machine that does other things takes longer
    (folder,) = kept.iterdir()
    assert Store(open_place(folder)).steps() == [6, 3]
    assert [attempt.ended for attempt in read_attempts(open_place(folder))] == [None]
    pooled(2, fit, config, digits, target, kept)
    pooled(2, fit, config, digits, tmp_path / "whole", tmp_path / "elsewhere")
    assert files(target) == files(tmp_path / "whole")
    assert records(target) == records(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "world_size"),
    [
        ("fsdp", 2),
        *(pytest.param("ddp", ranks, marks=pytest.mark.nightly) for ranks in (2, 3)),
    ],
)
def test_interruption_after_interruption(
    strategy: str, world_size: int, forked: Any, pooled: Any, digits: Path, tmp_path: Path
) -> None:
    """Several of them within one epoch: the same samples, losses and weights."""
    config = replace(CONFIG, strategy=strategy, epochs=8, validate_every=3)
    pooled(world_size, fit, config, digits, tmp_path / "whole", tmp_path / "elsewhere")
    kept, target = tmp_path / "checkpoints", tmp_path / "cut"
    ends: list[str] = []
    while "done" not in ends:
        number = len(ends) // world_size
        ends += forked(world_size, told_soon, number % world_size, 1 + number % 3, config, digits, target, kept)
    assert len(set(ends)) > 10
    assert files(target) == files(tmp_path / "whole")
    assert records(target) == records(tmp_path / "whole")


def told_soon(process: Process, who: int, calls: int, *arguments: Any) -> str:
    if process.rank == who:
        Strategy.train_step = after(calls, Strategy.train_step)
    try:
        fit(process, *arguments)
    except StoppedError as error:
        return str(error)
    return "done"


def rehearsed(process: Process, file: Path, *arguments: Any) -> str:
    os.environ |= {saving_module.STEP: "6", saving_module.FILE: str(file)}
    if process.is_main:  # as the local runner watches for it
        wait = saving_module.Rehearsal.wait

        def interrupted(self: Any, is_told: Callable[[], bool]) -> None:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()
            wait(self, is_told)

        saving_module.Rehearsal.wait = interrupted
    try:
        fit(process, *arguments)
    except StoppedError as error:
        return str(error)
    return "done"


@pytest.mark.slow
def test_an_interruption_at_an_exact_step(forked: Any, digits: Path, tmp_path: Path) -> None:
    arguments = (tmp_path / "reached", CONFIG, digits, tmp_path / "cut", tmp_path / "checkpoints")
    assert forked(2, rehearsed, *arguments) == ["stopped by SIGTERM at step 6, which is saved"] * 2
    assert (tmp_path / "reached").is_file()
