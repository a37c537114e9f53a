"""Reading what a strategy declares, without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.catalog.strategies import all_strategies, read_strategy, strategy_names

FILE = '''"""Doc."""
import torch_that_is_not_there

DIMENSIONS = ("stage", "shard")
MIN_TORCH = "2.9"
SUMMARY = "a line"


class Options:
    """Of it."""

    stage: int = 2
    """How many."""
    names: tuple[str, ...] = field(default_factory=tuple)
    must: str


class Strategy: ...
'''


def test_literals_and_options(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "_hidden.py").write_text("")
    found = all_strategies(tmp_path)["mine"]
    assert strategy_names(tmp_path) == ["mine"]
    assert (found.dimensions, found.min_torch, found.summary) == (("stage", "shard"), "2.9", "a line")
    stage, names, must = found.options.values()
    assert (stage.name, stage.annotation, stage.default, stage.help) == ("stage", "int", 2, "How many.")
    assert names.default is None and not names.required
    assert must.required


def test_options_of_a_base_in_another_file_come_first(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(FILE)
    (tmp_path / "more.py").write_text(
        "DIMENSIONS = ()\nMIN_TORCH = '2.6'\nSUMMARY = ''\nclass Options(mine.Options):\n    b: int = 1\n"
    )
    assert list(read_strategy("more", tmp_path).options) == ["stage", "names", "must", "b"]


def test_allowed_values_stand_beside_the_options_and_are_inherited(tmp_path: Path) -> None:
    allowed = 'CHOICES = {"must": ("a", "b")}\nBOUNDS = {"stage": (1, 4)}\n'
    (tmp_path / "mine.py").write_text(FILE.replace("class Options", f"{allowed}\nclass Options", 1))
    (tmp_path / "more.py").write_text(
        "DIMENSIONS = ()\nMIN_TORCH = '2.6'\nSUMMARY = ''\nclass Options(mine.Options):\n    stage: int = 1\n"
    )
    for name in ("mine", "more"):
        options = read_strategy(name, tmp_path).options
        assert [options["must"].refuses(each) for each in ("a", "c")] == [None, "a, b"]
        assert [options["stage"].refuses(each) for each in (0, 1, 4, 5)] == [
            "numbers from 1 to 4", None, None, "numbers from 1 to 4"
        ]  # fmt: skip
        assert options["names"].refuses(["x"]) is None


def test_a_file_that_declares_too_little_is_named(tmp_path: Path) -> None:
    (tmp_path / "bare.py").write_text("DIMENSIONS = ()\n")
    with pytest.raises(ValueError, match=r"bare.py is no strategy: it declares no MIN_TORCH, SUMMARY, class Options"):
        read_strategy("bare", tmp_path)


def test_the_shipped_ones_are_read() -> None:
    found = all_strategies()
    assert {"single", "ddp"} <= set(found)
    assert found["ddp"].dimensions == ("replicate",)
    assert all(each.summary and each.min_torch[0].isdigit() for each in found.values())
