from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from drivetrain.training_scripts.config import Config, Folders, refuse_changes
from drivetrain.training_scripts.errors import InputError
from drivetrain.training_scripts.process import Process
from drivetrain.training_scripts.schedule import Schedule
from drivetrain.training_scripts.train import MeanLoss, report, seed_everything, train

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
CONFIG = Config(recipe="digits_cnn", recipe_options='{"channels": 2, "hidden": 4}', epochs=1, global_batch=4)


def test_the_learning_rate_rises_and_falls() -> None:
    schedule = Schedule(kind="cosine", warmup_steps=10, total_steps=110)
    factors = [schedule.factor(step) for step in range(110)]
    assert factors[:10] == [pytest.approx((step + 1) / 10) for step in range(10)]
    assert factors[10] == 1.0
    assert factors[60] == pytest.approx(0.5)
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert 0 < factors[-1] < 0.001
    assert Schedule(kind="cosine", warmup_steps=0, total_steps=1).factor(0) == 1.0
    only_warmup = Schedule(kind="cosine", warmup_steps=5, total_steps=5)
    assert all(only_warmup.factor(step) <= 1.0 for step in range(5))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("global_batch", 0),
        ("log_every", 0),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("weight_decay", -1.0),
        ("warmup_epochs", float("inf")),
    ],
)
def test_a_value_that_cannot_be(field: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"^{field}={value}; allowed are"):
        replace(CONFIG, **{field: value})


def test_a_typo_in_the_precision() -> None:
    with pytest.raises(InputError, match=r"no precision 'fp23'\. Did you mean 'fp32'\?"):
        replace(CONFIG, precision="fp23")


def test_a_checkpoint_of_another_training_is_refused_by_name() -> None:
    refuse_changes(asdict(CONFIG), replace(CONFIG, epochs=7, log_every=1), Path("kept"))
    with pytest.raises(InputError, match=r"kept are of another training \(global_batch 4 -> 8, seed 0 -> 1\)"):
        refuse_changes(asdict(CONFIG), replace(CONFIG, global_batch=8, seed=1), Path("kept"))


def test_seeds_are_a_function_of_their_key() -> None:
    def draw(*key: int) -> tuple[float, float]:
        seed_everything(*key)
        return float(torch.rand(())), float(np.random.rand())

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(1), draw(2), draw(1, 0), draw(1, 0, 0), draw(1, 0, 1)}) == 5


def test_the_mean_loss_divides_last() -> None:
    losses = MeanLoss(ALONE)
    losses.add(torch.tensor(3.0), 4)
    losses.add(torch.tensor(1.0), 1)
    assert losses.value() == 0.8


def test_divergence_is_one_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"train_loss is nan in epoch 1 \(step 9\): training diverged. Lower"):
        report(ALONE, 0, 3, 9, {"train_loss": float("nan")})
    assert capsys.readouterr().out == "epoch 1/3 step 9 train_loss=nan\n"


def test_a_label_outside_the_classes(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(6)
    columns["label"][4] = 10
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    with pytest.raises(InputError, match=r"part-00001\.parquet, row 2: label label=10 is outside the 10 classes"):
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
    with pytest.raises(InputError, match=r"no column 'p63'\. Did you mean 'p6"):
        train(CONFIG, Folders(train=data, model=tmp_path / "model"), ALONE)


def test_data_that_makes_it_diverge(prepared_data: ModuleType, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(6)
    columns["p7"] = columns["p7"].astype(np.float64)
    columns["p7"][3] = np.nan
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    with pytest.raises(InputError, match="the loss of step 1 is not a finite number on rank 0 of 1"):
        train(CONFIG, Folders(train=data, model=tmp_path / "model"), ALONE)
