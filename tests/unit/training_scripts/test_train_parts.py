"""The parts that the loop is made of, and what it refuses before and during a training; one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from drivetrain.base.errors import InputError
from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.cursor import Order, StreamOrder, WeightedOrder
from drivetrain.training.loop import setup
from drivetrain.training.loop.divergence import refuse_divergence, refuse_infinite_loss
from drivetrain.training.process import Process
from drivetrain.training.recipe import Recipe, load_recipe
from drivetrain.training.torch.generators import StepSeeds, seed_everything
from drivetrain.training_scripts.train import train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
CONFIG = Config(recipe="digits_cnn", recipe_options='{"channels": 2, "hidden": 4}', epochs=1, global_batch=4)


def test_seeds_are_a_function_of_their_key() -> None:
    def draw(*key: int) -> tuple[float, float]:
        seed_everything(*key)
        return float(torch.rand(())), float(np.random.rand())

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1), draw(2), draw(1, 0), draw(1, 0, 0), draw(1, 0, 1)}) == 5


def test_the_seeds_of_a_step() -> None:
    def draw(seed: int, rank: int, step: int) -> float:
        StepSeeds(ALONE.device, seed, rank).start(step)
        return float(torch.rand(()))

    assert draw(1, 2, 3) == draw(1, 2, 3)
    drawn = [draw(seed, rank, step) for seed in range(2) for rank in range(2) for step in range(100)]
    assert len(set(drawn)) == 400
    assert abs(sum(drawn) / 400 - 0.5) < 0.06  # four standard deviations: neighbouring seeds are not alike


def test_divergence_is_one_clear_error() -> None:
    refuse_divergence({"train_loss": 1.0}, 0, 9)
    with pytest.raises(InputError, match=r"train_loss is nan in epoch 1 \(step 9\): training diverged. Lower"):
        refuse_divergence({"train_loss": float("nan")}, 0, 9)


def test_a_first_loss_that_is_no_number() -> None:
    refuse_infinite_loss(1e30, ALONE)
    with pytest.raises(InputError, match="the loss of step 1 is not a finite number on rank 0 of 1"):
        refuse_infinite_loss(float("inf"), ALONE)


@pytest.mark.parametrize("num_rows", [50, 48, 3])
@pytest.mark.parametrize("drop_last", [False, True])
def test_samples_until_a_step(num_rows: int, drop_last: bool) -> None:
    if drop_last and num_rows < 16:
        return
    order = Order(num_rows, 16, 0, drop_last=drop_last)
    consumed = 0
    for step in range(3 * order.steps_per_epoch):
        assert setup.samples_until(step, order) == consumed
        consumed += len(order.batch(consumed))


def test_the_order_that_is_asked_for(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(12)
    columns["w"] = np.array([1.0] + [0.0] * 11)
    folder = prepared_data.write_prepared(tmp_path / "data", columns)
    folders = Folders(train=folder, model=tmp_path / "model")

    def order(**given: Any) -> Order:
        config = replace(CONFIG, **given)
        dataset, validation = setup.open_data(config, folders, load_recipe("digits_cnn", {}), ALONE)
        assert validation is None
        return setup.build_order(config, dataset)

    assert type(order()) is Order
    assert order(global_batch=5, drop_last=True).num_samples == 10
    weighted = order(sampling="weighted", weight_column="w")
    assert isinstance(weighted, WeightedOrder)
    assert set(weighted.batch(0)) == {0}
    assert isinstance(order(sampling="balanced"), WeightedOrder)
    assert isinstance(order(shuffle_window=4), StreamOrder)


def test_weights_and_classes_that_are_none(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(6)
    columns["w"] = np.array([f"w{row}" for row in range(6)])
    data = prepared_data.write_prepared(tmp_path / "text", columns)
    folders = Folders(train=data, model=tmp_path / "model")
    with pytest.raises(InputError, match="weight_column='w' holds no numbers but"):
        train(replace(CONFIG, sampling="weighted", weight_column="w"), folders, ALONE)

    columns["label"] = np.linspace(0.0, 1.0, 6)
    folders = Folders(train=prepared_data.write_prepared(tmp_path / "floats", columns), model=tmp_path / "model")
    config, regression = replace(CONFIG, sampling="balanced"), SimpleNamespace(columns=("p0",), num_classes=None)
    dataset, _ = setup.open_data(config, folders, cast(Recipe, regression), ALONE)
    with pytest.raises(InputError, match="sampling='balanced' needs a class a row; label 'label' is float64"):
        setup.build_order(config, dataset)


def test_the_schedule_in_steps() -> None:
    config = replace(CONFIG, epochs=3, warmup_epochs=0.5, cycle_epochs=2.0)
    schedule = setup.build_schedule(config, 10)
    assert (schedule.warmup_steps, schedule.total_steps, schedule.cycle_steps) == (5, 30, 20)
    assert setup.build_schedule(replace(config, max_steps=7), 10).total_steps == 7
    assert setup.build_schedule(replace(config, max_steps=70), 10).total_steps == 30


@pytest.mark.parametrize("given", [{"early_stopping": 3}, {"keep_best": True}])
def test_nothing_to_watch(given: dict[str, Any], tmp_path: Path) -> None:
    """Found before any data is read."""
    (name,) = given
    with pytest.raises(InputError, match=rf"{name}=\w+ watches validation_loss, but there is no validation data"):
        train(replace(CONFIG, **given), Folders(train=tmp_path / "none", model=tmp_path / "model"), ALONE)


def test_a_monitor_that_is_not_there(
    prepared_data: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found before the first step."""
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(6))
    config = replace(CONFIG, keep_best=True, monitor="validation_acuracy", log_every=1)
    with pytest.raises(InputError, match=r"no monitor 'validation_acuracy'\. Did you mean 'validation_accuracy'\?"):
        train(config, Folders(train=data, validation=data, model=tmp_path / "model"), ALONE)
    assert "step" not in capsys.readouterr().out


def test_an_output_that_cannot_be(prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(6))
    (tmp_path / "file").write_text("")
    folders = Folders(train=data, model=tmp_path / "model", output=tmp_path / "file")
    with pytest.raises(InputError, match=r"--output \S+file cannot be a folder: \S+file is a file"):
        train(CONFIG, folders, ALONE)


def test_a_profile_without_an_output(prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(6))
    with pytest.raises(InputError, match="profile=2 has nowhere to write to"):
        train(replace(CONFIG, profile=2), Folders(train=data, model=tmp_path / "model"), ALONE)


def test_no_batch_is_left(prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(6))
    config = replace(CONFIG, global_batch=8, drop_last=True)
    with pytest.raises(InputError, match="drop_last leaves nothing of 6 samples in batches of 8"):
        train(config, Folders(train=data, model=tmp_path / "model"), ALONE)


def test_no_rows_to_validate_on(prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(6))
    empty = prepared_data.write_prepared(tmp_path / "empty", prepared_data.digit_columns(0))
    with pytest.raises(InputError, match="empty holds no rows"):
        train(CONFIG, Folders(train=data, validation=empty, model=tmp_path / "model"), ALONE)


def test_a_label_outside_the_classes(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(6)
    columns["label"][4] = 10
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    with pytest.raises(
        InputError, match=r"part-00001\.parquet, row 2 \(id=.*\): label label=10 is outside the 10 classes"
    ):
        train(CONFIG, Folders(train=data, model=tmp_path / "model"), ALONE)
    assert not (tmp_path / "model").exists()


def test_data_without_a_label(prepared_data: ModuleType, tmp_path: Path) -> None:
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(6), label=None)
    with pytest.raises(InputError, match="has no label column"):
        train(CONFIG, Folders(train=data, model=tmp_path / "model"), ALONE)


def test_a_missing_column(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(6)
    del columns["p63"]
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    with pytest.raises(InputError, match=r"no column 'p63'\. Did you mean 'p36'"):
        train(CONFIG, Folders(train=data, model=tmp_path / "model"), ALONE)


def test_data_that_makes_it_diverge(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(6)
    columns["p7"] = columns["p7"].astype(np.float64)
    columns["p7"][3] = np.nan
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    with pytest.raises(InputError, match="the loss of step 1 is not a finite number on rank 0 of 1"):
        train(replace(CONFIG, global_batch=6), Folders(train=data, model=tmp_path / "model"), ALONE)


@pytest.mark.parametrize("health", [True, False])
def test_a_nan_row_that_is_met_late_is_not_blamed_on_the_validation_data(
    health: bool, prepared_data: ModuleType, tmp_path: Path
) -> None:
    columns = prepared_data.digit_columns(6)
    held_out = prepared_data.write_prepared(tmp_path / "held out", columns)
    columns["p7"] = columns["p7"].astype(np.float64)
    columns["p7"][Order(6, 2, CONFIG.seed).batch(4)[0]] = np.nan
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    config = replace(CONFIG, global_batch=2, health=health, health_rules='{"nan_or_inf": "off"}')
    why = r" \(on rank 0 in step 3 the inputs of the batch are not finite\)" if health else ""
    with pytest.raises(InputError, match=rf"^train_loss is nan in epoch 1 \(step 3\): training diverged{why}\. Lower"):
        train(config, Folders(train=data, validation=held_out, model=tmp_path / "model"), ALONE)


def test_a_gradient_that_is_no_number_is_not_blamed_on_the_validation_data(
    prepared_data: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def losses(self: Any, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return (0.0 * outputs).square().sum(dim=1).sqrt()  # whose slope at 0 is 0 times infinity

    monkeypatch.setattr("drivetrain.training_scripts.recipes.digits_cnn.Recipe.losses", losses)
    data = prepared_data.write_prepared(tmp_path / "data", prepared_data.digit_columns(6))
    config = replace(CONFIG, global_batch=6, health=False)
    with pytest.raises(InputError, match=r"^gradient_norm is nan in epoch 1 \(step 1\): training diverged\. Lower"):
        train(config, Folders(train=data, validation=data, model=tmp_path / "model"), ALONE)
