"""What the compiler reads and reckons without torch is what the training program has and does."""

from __future__ import annotations

import dataclasses
import importlib

import pytest

from drivetrain.base.errors import InputError
from drivetrain.catalog import strategies
from drivetrain.catalog.strategies import all_strategies
from drivetrain.recommend import sizing
from drivetrain.training import plugins
from drivetrain.training.strategy import load_strategy
from drivetrain.training.torch.parallel import pipeline
from drivetrain.training.torch.precision import PRECISIONS


@pytest.mark.parametrize("name", plugins.of_framework("strategies", "torch"))
def test_declarations_are_read_as_they_are(name: str) -> None:
    module = importlib.import_module(f"drivetrain.training_scripts.strategies.{name}")
    read = all_strategies()[name]
    assert (read.dimensions, read.min_torch, read.summary) == (module.DIMENSIONS, module.MIN_TORCH, module.SUMMARY)
    assert read.framework == module.FRAMEWORK
    fields = {field.name: field for field in dataclasses.fields(module.Options)}
    assert set(read.options) == set(fields)
    for option in read.options.values():
        field = fields[option.name]
        assert option.required == (field.default is field.default_factory is dataclasses.MISSING)
        if field.default is not dataclasses.MISSING:
            assert option.default == field.default
        assert option.annotation == (field.type if isinstance(field.type, str) else field.type.__name__)


@pytest.mark.parametrize("name", plugins.of_framework("strategies", "torch"))
def test_what_is_refused_when_compiled_is_refused_when_run(name: str) -> None:
    """Values just outside those that the file lists; schedules are looked up when the layout is known."""
    for option in all_strategies()[name].options.values():
        if option.choices and option.name == "schedule":
            assert option.choices == tuple(pipeline.SCHEDULES)
        elif option.choices:
            for value in option.choices:
                load_strategy(name, {option.name: value})
            with pytest.raises(InputError, match=f"{option.name}='fp8'; allowed are {', '.join(option.choices)}"):
                load_strategy(name, {option.name: "fp8"})
        sides = ((option.bounds.least, -1), (option.bounds.most, 1))
        outside = [bound + step for bound, step in sides if bound is not None]
        for value in outside:
            assert option.refuses(value)
            with pytest.raises(InputError, match=rf"{option.name}=|options .*{option.name}"):
                made = load_strategy(name, {option.name: value})[1]
                pipeline.plan_of(made, 2, name)


def test_schedules_with_one_stage_a_rank_are_the_same() -> None:
    assert strategies.SINGLE_STAGE == pipeline.SINGLE_STAGE


def test_auto_is_for_the_compiler() -> None:
    with pytest.raises(InputError, match=r"'auto' is settled when a pipeline is compiled .*drivetrain recommend"):
        load_strategy("auto", {})


def test_names_are_the_same() -> None:
    assert set(sizing.PRECISIONS) == set(PRECISIONS)
