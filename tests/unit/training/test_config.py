from __future__ import annotations

import os
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.steps import argument_help
from drivetrain.steps.signature import parameters_of
from drivetrain.training import config as config_module
from drivetrain.training.config import LOOKS_ON, RESUMABLE, Config, Folders, parser

CONFIG = Config(recipe="digits_cnn", recipe_options='{"channels": 2, "hidden": 4}', epochs=1, global_batch=4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epochs", 0),
        ("global_batch", 0),
        ("accumulation", 0),
        ("base_batch", -1),
        ("log_every", 0),
        ("max_steps", -1),
        ("validate_every", -1),
        ("early_stopping", -1),
        ("profile", -1),
        ("prefetch", -1),
        ("workers", -1),
        ("shuffle_window", -1),
        ("learning_rate", 0.0),
        ("learning_rate", float("nan")),
        ("collective_timeout", 0.0),
        ("cycle_epochs", 0.0),
        ("cycle_growth", 0.5),
        ("weight_decay", -1.0),
        ("clip_norm", -1.0),
        ("clip_norm", float("inf")),
        ("warmup_epochs", float("inf")),
        ("ema_decay", 1.0),
        ("ema_decay", -0.1),
        ("checkpoint_every", "'often'"),
        ("mtbf_hours", 0.0),
        ("keep_last", 0),
        ("keep_best_n", -1),
        ("keep_every_hours", -1.0),
    ],
)
def test_a_value_that_cannot_be(field: str, value: float | str) -> None:
    with pytest.raises(InputError, match=rf"^{field}={value}; allowed are"):
        replace(CONFIG, **{field: value.strip("'") if isinstance(value, str) else value})


@pytest.mark.parametrize(
    ("field", "typo", "meant"),
    [
        ("precision", "fp23", "fp32"),
        ("schedule", "cosin", "cosine"),
        ("lr_scaling", "squareroot", "sqrt"),
        ("sampling", "weigthed", "weighted"),
    ],
)
def test_a_typo(field: str, typo: str, meant: str) -> None:
    with pytest.raises(InputError, match=rf"no {field} '{typo}'\. Did you mean '{meant}'\?"):
        replace(CONFIG, **{field: typo})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sampling": "weighted"}, "'weighted' needs a weight_column"),
        ({"weight_column": "w"}, "no other sampling takes one"),
        ({"shuffle_window": 9, "sampling": "balanced"}, "shuffle_window=9 is for sampling 'uniform'"),
        ({"workers": 2, "prefetch": 0}, "workers=2 read ahead, and prefetch=0 says that nothing is"),
    ],
)
def test_fields_that_contradict_each_other(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(CONFIG, **given)


def test_learning_rates_for_larger_batches() -> None:
    given = replace(CONFIG, learning_rate=0.1, global_batch=128, base_batch=32)
    rates = [replace(given, lr_scaling=rule).highest_learning_rate for rule in ("none", "linear", "sqrt")]
    assert rates == [0.1, 0.4, 0.2]


# The fields of a training when `Since` came: whatever comes after them says what its absence meant.
FIRST_FIELDS = re.findall(
    r"\w+",
    """
    recipe recipe_options strategy strategy_options reader reader_options epochs max_steps global_batch accumulation
    drop_last sampling weight_column shuffle_window learning_rate lr_scaling base_batch weight_decay warmup_epochs
    schedule cycle_epochs cycle_growth precision clip_norm ema_decay activation_checkpointing compile fused
    sync_batchnorm seed validate_every early_stopping monitor keep_best log_every profile prefetch workers
    collective_timeout checkpoint_every mtbf_hours keep_last keep_best_n keep_every_hours async_checkpoints
    """,
)


def test_a_field_that_came_later_says_what_its_absence_meant() -> None:
    declared = parameters_of(Config)
    assert declared.keys() >= set(FIRST_FIELDS)
    assert [name for name in declared.keys() - set(FIRST_FIELDS) if declared[name].since is None] == []


def test_what_may_change_are_fields() -> None:
    assert {field.name for field in fields(Config)} > set(RESUMABLE) > set(LOOKS_ON)


def test_every_field_is_an_option_of_the_command_line() -> None:
    words = ["--train=t", "--model=m", "--recipe=digits_cnn"]
    plain = vars(parser(None).parse_args(words))
    folders = {field.name: plain.pop(field.name) for field in fields(Folders)}
    assert Config(**plain) == Config(recipe="digits_cnn")
    assert Folders(**folders) == Folders(train=Path("t"), model=Path("m"))

    given = vars(parser(None).parse_args([*words, "--compile=True", "--fused", "false", "--clip-norm=0.5"]))
    assert (given["compile"], given["fused"], given["clip_norm"]) == (True, False, 0.5)
    assert all(type(given[name]) is declared.type for name, declared in parameters_of(Config).items())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--compile=maybe"], "--compile: 'maybe' is neither True nor False. With --help: all options."),
        (["--epochs", "two"], "--epochs: 'two' is no whole number. With --help: all options."),
        (["--epochs=1.5"], "--epochs: '1.5' is no whole number. With --help: all options."),
        (["--clip-norm=much"], "--clip-norm: 'much' is no number. With --help: all options."),
        (["--learning_rate=1"], "no option '--learning_rate'. Did you mean '--learning-rate'? Allowed: "),
    ],
)
def test_words_that_are_no_values(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as caught:
        parser(None).parse_args(["--train=t", "--model=m", "--recipe=digits_cnn", *words])
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
    assert capsys.readouterr() == ("", "")


def test_checkpoints_may_lie_in_an_object_store() -> None:
    words = ["--train=t", "--model=m", "--recipe=digits_cnn", "--checkpoints"]
    assert parser(None).parse_args([*words, "s3://bucket/key"]).checkpoints == "s3://bucket/key"
    assert parser(None).parse_args([*words, "kept"]).checkpoints == Path("kept")
    Folders(train=Path("t"), model=Path("m"), checkpoints="s3://bucket/key").refuse_unwritable()


def test_words_that_are_missing() -> None:
    with pytest.raises(InputError, match=r"^the following arguments are required: --model, --recipe"):
        parser(None).parse_args(["--train=t"])


def test_the_help_has_a_line_for_each_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser(None).parse_args(["--help"])
    assert ended.value.code == 0
    text = " ".join(capsys.readouterr().out.split())
    for kind in (Folders, Config):
        said = argument_help(kind.__doc__ or "")
        assert list(said) == [field.name for field in fields(kind)]
        assert all(" ".join(line.split()) in text for line in said.values())
    assert "how often each sample is seen. [12]" in text


@pytest.mark.parametrize("name", ["model", "output", "checkpoints", "tensorboard"])
def test_a_file_in_a_folders_place(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folders = replace(Folders(train=tmp_path, model=tmp_path / "new"), **{name: tmp_path / "file" / "below"})
    with pytest.raises(InputError, match=rf"--{name} \S+/file/below cannot be a folder: \S+/file is a file"):
        folders.refuse_unwritable()
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a read-only file system is: there not even root may write."""
    asked: list[Path] = []

    def access(path: Path, mode: int) -> bool:
        asked.append(path)
        return mode & os.W_OK == 0

    folders = Folders(train=tmp_path, model=tmp_path / "not" / "there" / "yet")
    folders.refuse_unwritable()
    monkeypatch.setattr(config_module.os, "access", access)
    with pytest.raises(InputError, match=rf"--model \S+yet cannot be written: {tmp_path} is not writable"):
        folders.refuse_unwritable()
    assert asked == [tmp_path]
