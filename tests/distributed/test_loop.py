"""The loop on two ranks: what it writes, when it stops, which model it hands on, and that nothing of it is lost in a
restart."""

from __future__ import annotations

import errno
import json
import math
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
import torch
from safetensors.torch import load_file, save_file

from drivetrain.steps.trainings import EXECUTION
from drivetrain.training.loop.appended import AppendedFile
from drivetrain.training.process import Process
from drivetrain.training_scripts.train import Config, Folders, train
from tests.fixtures import tiny_data

# 50 rows in batches of 16: 4 steps an epoch.
CONFIG = Config(
    recipe="digits_cnn",
    recipe_options='{"channels": 4, "hidden": 16}',
    global_batch=16,
    epochs=4,
    learning_rate=1e-2,
    log_every=1,
    checkpoint_every="epoch",
)
# Everything that has a state of its own, and a model that draws random numbers.
RICH = replace(CONFIG, recipe="with_dropout", recipe_options="{}", ema_decay=0.9, keep_best=True, early_stopping=50)

DROPOUT = """
from dataclasses import dataclass
from torch import nn
from drivetrain.training_scripts.recipes import digits_cnn
@dataclass(frozen=True, kw_only=True)
class Recipe(digits_cnn.Recipe):
    channels: int = 4
    hidden: int = 16
    def model(self):
        *layers, last = super().model()
        return nn.Sequential(*layers, nn.Dropout(0.5), last)
"""


def fit(
    process: Process,
    config: Config,
    data: Path,
    target: Path,
    checkpoints: Path | None = None,
    weights: Path | None = None,
) -> None:
    folders = Folders(
        train=data,
        validation=data,
        weights=weights,
        model=target / "model",
        output=target / "output",
        checkpoints=checkpoints,
        tensorboard=target / "more",
    )
    with patch.dict(os.environ, {EXECUTION: "one"}):  # which may train for longer
        train(config, folders, process)


@pytest.fixture(autouse=True)
def recipe_with_dropout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "with_dropout.py").write_text(DROPOUT)
    monkeypatch.syspath_prepend(tmp_path)


def history(target: Path) -> list[dict[str, Any]]:
    return json.loads((target / "output/history.json").read_text())


def records(target: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (target / "output/metrics.jsonl").read_text().splitlines()]


def description(target: Path) -> dict[str, Any]:
    return json.loads((target / "model/model.json").read_text())


def files(target: Path) -> dict[str, bytes]:
    inside = [path for path in (target / "model").rglob("*") if path.is_file()]
    return {str(path.relative_to(target / "model")): path.read_bytes() for path in inside} | {
        "history": (target / "output/history.json").read_bytes()
    }


def test_the_first_rank_writes_one_record_per_step(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pooled(2, fit, replace(CONFIG, clip_norm=1.0), digits, tmp_path / "run")
    found = records(tmp_path / "run")
    assert [record["step"] for record in found] == list(range(1, 17))
    assert [record["epoch"] for record in found] == [1 + step // 4 for step in range(16)]
    for record in found:
        assert {"train_loss", "learning_rate", "gradient_norm", "samples_per_second", "time"} <= set(record)
        assert ("validation_loss" in record) == (record["step"] % 4 == 0)
    assert history(tmp_path / "run") == [
        {name: record[name] for name in ("epoch", "step", "train_loss", "validation_loss", "validation_accuracy")}
        for record in found[3::4]
    ]
    printed = capfd.readouterr().out
    assert "2 ranks: replicate 2\n" in printed
    assert len(re.findall(r"^epoch \d/4 step \d+ train_loss=", printed, re.MULTILINE)) == 16
    for folder in (tmp_path / "run/output/tensorboard", tmp_path / "run/more"):
        assert len(list(folder.iterdir())) == 1


@pytest.mark.slow
def test_metrics_that_cannot_be_written_end_no_training(
    forked: Any, digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = AppendedFile.append

    def filling_up(self: AppendedFile, record: bytes) -> None:
        if b'"step": 3' in record:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(self, record)

    monkeypatch.setattr(AppendedFile, "append", filling_up)
    forked(2, fit, CONFIG, digits, tmp_path / "run", tmp_path / "checkpoints")
    assert [record["step"] for record in records(tmp_path / "run")] == [1, 2, *range(4, 17)]
    assert len(history(tmp_path / "run")) == 4
    assert len(list((tmp_path / "checkpoints").glob("**/step-00000016/manifest.json"))) == 1
    (line,) = [line for line in capfd.readouterr().out.splitlines() if "cannot be written" in line]
    assert line.startswith(
        f"metrics cannot be written to {tmp_path / 'run/output'} (No space left on device): training"
    )


def test_validation_every_so_many_steps(pooled: Any, digits: Path, tmp_path: Path) -> None:
    """In the middle of epochs, and at the end."""
    pooled(2, fit, replace(CONFIG, validate_every=3, max_steps=11), digits, tmp_path / "run")
    assert [(entry["epoch"], entry["step"]) for entry in history(tmp_path / "run")] == [
        *((1, 3), (2, 6), (3, 9)),
        (3, 11),
    ]
    assert description(tmp_path / "run")["training"]["steps"] == 11


def test_all_ranks_stop_early_at_the_same_step(
    pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The learning rate is far too high for it to become better for long."""
    config = replace(CONFIG, learning_rate=0.3, schedule="constant", epochs=50, validate_every=2, early_stopping=3)
    for world_size in (1, 2):
        target = tmp_path / f"on-{world_size}"
        pooled(world_size, fit, config, digits, target, tmp_path / f"checkpoints-{world_size}")
        steps = description(target)["training"]["steps"]
        found = history(target)
        best = min(found, key=lambda entry: entry["validation_loss"])
        assert steps == best["step"] + 6 == found[-1]["step"] < 200
        assert description(target)["training"]["stopped_early"]
        assert description(target)["best"] == {
            "monitor": "validation_loss",
            "value": best["validation_loss"],
            "step": best["step"],
        }
        assert [entry["step"] for entry in found if entry.get("best")] == [best["step"]]
        assert description(target)["step"] == steps  # early stopping alone hands on the last model
        assert f"early stopping: validation_loss was best at step {best['step']} (" in capfd.readouterr().out

    # Started again it has nothing to do, and says the same.
    pooled(2, fit, config, digits, tmp_path / "again", tmp_path / "checkpoints-2")
    assert "train_loss=" not in capfd.readouterr().out
    assert files(tmp_path / "again") == files(tmp_path / "on-2")


@pytest.mark.slow
def test_the_best_model_is_handed_on(pooled: Any, digits: Path, tmp_path: Path) -> None:
    """It is the one that a training of so many steps would have ended with."""
    config = replace(
        CONFIG, learning_rate=0.1, schedule="constant", validate_every=1, keep_best=True, monitor="validation_accuracy"
    )
    pooled(2, fit, config, digits, tmp_path / "run", tmp_path / "checkpoints")
    best = max(history(tmp_path / "run"), key=lambda entry: entry["validation_accuracy"])
    assert 0 < best["step"] < 16
    told = description(tmp_path / "run")
    assert told["step"] == told["best"]["step"] == best["step"]
    assert told["metrics"]["validation_accuracy"] == best["validation_accuracy"]
    pooled(2, fit, replace(config, keep_best=False, max_steps=best["step"]), digits, tmp_path / "short")
    weights, expected = (load_file(tmp_path / name / "model/model.safetensors") for name in ("run", "short"))
    assert all(torch.equal(weights[name], tensor) for name, tensor in expected.items())


@pytest.mark.slow
def test_a_restart_loses_nothing(pooled: Any, digits: Path, tmp_path: Path) -> None:
    """With dropout, a moving average, the best model so far, and the patience of early stopping; to the bit."""
    config, kept = replace(RICH, validate_every=3), tmp_path / "checkpoints"
    pooled(2, fit, config, digits, tmp_path / "whole", kept)
    (folder,) = kept.iterdir()
    lines = records(tmp_path / "whole")

    # What a training killed in its third epoch leaves: checkpoints of two, and lines of steps that come again.
    for step in (12, 16):
        shutil.rmtree(folder / f"step-{step:08d}")
    shutil.copytree(tmp_path / "whole/output", tmp_path / "resumed/output")
    pooled(2, fit, config, digits, tmp_path / "resumed", kept)
    assert files(tmp_path / "resumed") == files(tmp_path / "whole")
    changing = ("time", "samples_per_second")
    plain = [{name: value for name, value in line.items() if name not in changing} for line in lines]
    again = [
        {name: value for name, value in line.items() if name not in changing} for line in records(tmp_path / "resumed")
    ]
    assert again == plain


@pytest.mark.slow_cases("2")
@pytest.mark.parametrize("world_size", [1, 2])
def test_a_restart_in_the_middle_of_an_epoch(world_size: int, pooled: Any, digits: Path, tmp_path: Path) -> None:
    """The samples, what dropout draws and the epoch's mean loss are those of a training that was never stopped."""
    config = replace(RICH, schedule="constant", validate_every=2)
    pooled(world_size, fit, replace(config, max_steps=10), digits, tmp_path / "whole", tmp_path / "one")
    pooled(world_size, fit, replace(config, max_steps=6), digits, tmp_path / "cut", tmp_path / "two")
    pooled(world_size, fit, replace(config, max_steps=10), digits, tmp_path / "cut", tmp_path / "two")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


@pytest.mark.slow
def test_a_longer_training_resumes_but_a_shorter_one_is_refused(
    pooled: Any, forked: Any, digits: Path, tmp_path: Path
) -> None:
    pooled(2, fit, replace(CONFIG, epochs=2), digits, tmp_path / "short", tmp_path / "checkpoints")
    pooled(2, fit, replace(CONFIG, epochs=3), digits, tmp_path / "longer", tmp_path / "checkpoints")
    assert [entry["step"] for entry in history(tmp_path / "longer")] == [4, 8, 12]
    pooled(2, fit, CONFIG, digits, tmp_path / "interrupted", tmp_path / "more")
    (folder,) = (tmp_path / "more").iterdir()
    shutil.rmtree(folder / "step-00000016")
    with pytest.raises(
        AssertionError, match="has taken 12 steps, and this one ends at step 8: epochs or max_steps are f"
    ):
        forked(2, fit, replace(CONFIG, epochs=2), digits, tmp_path / "shorter", tmp_path / "more")


@pytest.mark.slow
def test_a_profile_of_some_steps(forked: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    forked(2, fit, replace(CONFIG, profile=3, epochs=2), digits, tmp_path / "run")
    trace = json.loads((tmp_path / "run/output/profile/rank0-trace.json").read_text())
    names = [event.get("name", "") for event in trace["traceEvents"]]
    assert sum(name.startswith("Optimizer.step#") for name in names) == 3
    both = json.loads((tmp_path / "run/output/profile/all-ranks-trace.json").read_text())["traceEvents"]
    steps = [event["pid"] for event in both if event.get("name", "").startswith("Optimizer.step#")]
    of_rank = {event["pid"]: event["args"]["name"][:6] for event in both if event.get("name") == "process_name"}
    assert sorted(of_rank[pid] for pid in steps) == 3 * ["rank 0"] + 3 * ["rank 1"]
    assert sorted(path.name for path in (tmp_path / "run/output/profile").iterdir()) == [
        "all-ranks-trace.json",
        "operators.json",
        "rank0-operators.txt",
        "rank0-trace.json",
    ]
    assert "3 steps recorded in" in capfd.readouterr().out


@pytest.mark.slow_cases("weighted")
@pytest.mark.parametrize("sampling", ["balanced", "weighted"])
def test_other_orders_train_on_any_number_of_ranks(
    sampling: str, pooled: Any, prepared_data: ModuleType, tmp_path: Path
) -> None:
    columns = prepared_data.digit_columns(50)
    columns["weight"] = [1.0 + row % 3 for row in range(50)]
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    column = "weight" if sampling == "weighted" else ""
    config = replace(CONFIG, precision="fp64", sampling=sampling, weight_column=column, drop_last=True, epochs=2)
    for world_size in (1, 2):
        pooled(world_size, fit, config, data, tmp_path / f"on-{world_size}")
    one, two = (load_file(tmp_path / f"on-{size}" / "model/model.safetensors") for size in (1, 2))
    for name, tensor in one.items():
        torch.testing.assert_close(two[name], tensor, rtol=0, atol=1e-10)
    assert [entry["step"] for entry in history(tmp_path / "on-2")] == [3, 6]  # the 2 samples left over are dropped


def infinite_on_one(process: Process, data: Path, target: Path) -> None:
    from drivetrain.training_scripts.strategies import ddp

    right = ddp.Strategy.losses

    def losses(self: Any, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        found = right(self, outputs, targets)
        return found / 0 if process.rank == 1 else found

    ddp.Strategy.losses = losses  # in the forked rank only
    fit(process, CONFIG, data, target)


def test_a_nonfinite_first_loss_names_its_rank(forked: Any, digits: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the loss of step 1 is not a finite number on rank 1 of 2"):
        forked(2, infinite_on_one, digits, tmp_path / "run")


def not_a_number_from_step_3(process: Process, data: Path, target: Path) -> None:
    from drivetrain.training_scripts.strategies import ddp

    right, steps = ddp.Strategy.train_step, 0

    def train_step(self: Any, *given: Any, **named: Any) -> Any:
        nonlocal steps
        steps += 1
        taken = right(self, *given, **named)
        return taken._replace(loss=math.nan) if steps >= 3 else taken

    ddp.Strategy.train_step = train_step  # in the forked ranks only
    # Without the health rules, whose clock could stop it a moment earlier.
    config = replace(CONFIG, log_every=1000, validate_every=1000, health=False)
    fit(process, config, data, target, target / "checkpoints")


def test_a_nonfinite_loss_between_reports_is_found_before_a_checkpoint(
    forked: Any, digits: Path, tmp_path: Path
) -> None:
    with pytest.raises(AssertionError, match=r"train_loss is nan in epoch 1 \(step 4\): training diverged\. Lower"):
        forked(2, not_a_number_from_step_3, digits, tmp_path / "run")
    assert not list((tmp_path / "run/checkpoints").rglob("step-*"))


@pytest.mark.slow
def test_weights_to_start_from(pooled: Any, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pooled(1, fit, replace(CONFIG, epochs=1), digits, tmp_path / "first")
    file = tmp_path / "first/model/model.safetensors"
    config = replace(CONFIG, epochs=1, seed=5, learning_rate=1e-30)
    pooled(2, fit, config, digits, tmp_path / "second", tmp_path / "checkpoints", file)
    assert f"start from {file}: took 8 of 8 tensors" in capfd.readouterr().out
    weights = load_file(tmp_path / "second/model/model.safetensors")
    for name, tensor in load_file(file).items():
        torch.testing.assert_close(weights[name], tensor, rtol=0, atol=1e-6)
    # A restart has its own weights.
    pooled(2, fit, replace(config, epochs=2), digits, tmp_path / "third", tmp_path / "checkpoints", file)
    assert "start from" not in capfd.readouterr().out

    # Other weights under the same name are another training, which goes on from no checkpoint of this one.
    save_file({name: tensor + 1 for name, tensor in load_file(file).items()}, file)
    pooled(2, fit, config, digits, tmp_path / "other", tmp_path / "checkpoints", file)
    assert f"start from {file}: took 8 of 8 tensors" in capfd.readouterr().out
    others = load_file(tmp_path / "other/model/model.safetensors")
    for name, tensor in load_file(file).items():
        torch.testing.assert_close(others[name], tensor, rtol=0, atol=1e-6)


def evaluate_it(process: Process, model: Path, data: Path) -> dict[str, float]:
    from drivetrain.training_scripts.evaluate import run

    return run(model, data, process, batch_size=512)


@pytest.mark.slow
def test_a_model_is_evaluated_on_data_read_as_it_was_trained(pooled: Any, tmp_path: Path) -> None:
    """Reviews in the numbers of the words of the training reviews; with the reader's options of the training."""
    data = tiny_data.write("imdb", tmp_path / "reviews", rows=20)
    config = Config(
        recipe="imdb_sentiment",
        recipe_options=json.dumps(tiny_data.SMALL["imdb_sentiment"]),
        reader_options='{"length": 7}',
        global_batch=8,
        epochs=2,
    )
    pooled(2, fit, config, data, tmp_path / "run")
    (numbers,) = pooled(1, evaluate_it, tmp_path / "run/model", data)
    assert len(description(tmp_path / "run")["data"]["fitted"]["vocabulary"]) > 3
    assert numbers["loss"] == description(tmp_path / "run")["metrics"]["validation_loss"]


# pp and fsdp keep what the ranks hold apart: all of it comes together in a checkpoint, and goes back.
@pytest.mark.slow
@pytest.mark.parametrize("strategy", [pytest.param("fsdp", marks=pytest.mark.slow), "pp"])
def test_a_restart_loses_nothing_of_a_model_in_parts(
    strategy: str, pooled: Any, prepared_data: ModuleType, tmp_path: Path
) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(48))
    config = replace(RICH, strategy=strategy, schedule="constant", clip_norm=0.5, validate_every=2)
    pooled(2, fit, replace(config, max_steps=8), data, tmp_path / "whole", tmp_path / "one")
    pooled(2, fit, replace(config, max_steps=4), data, tmp_path / "cut", tmp_path / "two")
    pooled(2, fit, replace(config, max_steps=8), data, tmp_path / "cut", tmp_path / "two")
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def beats(process: Process, data: Path, target: Path) -> int:
    from drivetrain.training.launch.processes import heartbeat

    ranks = target / "ranks"
    heartbeat.register(ranks, local_rank=process.local_rank, rank=process.rank, attempt=0)
    fit(process, CONFIG, data, target)
    return next(one.beats for one in heartbeat.read_heartbeats(ranks) if one.rank == process.rank)


def test_every_step_and_every_batch_of_a_validation_is_a_sign_of_life(
    forked: Any, digits: Path, tmp_path: Path
) -> None:
    (tmp_path / "ranks").mkdir()
    assert forked(2, beats, digits, tmp_path) == [1 + 16 + 4, 1 + 16 + 4]  # one batch before the first step
