"""What the compiler reads and reckons without torch is what the training program has and does."""

from __future__ import annotations

import dataclasses
import importlib
import itertools

import pytest
import torch

from drivetrain.base.errors import InputError, UserError
from drivetrain.catalog import strategies
from drivetrain.catalog.degrees import World, data_size, fill
from drivetrain.catalog.strategies import all_strategies
from drivetrain.recommend import sizing
from drivetrain.training import layout, plugins
from drivetrain.training.process import Process
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
    assert strategies.DIMENSIONS == layout.DIMENSIONS
    assert strategies.DATA_DIMENSIONS == layout.DATA_DIMENSIONS
    assert set(sizing.PRECISIONS) == set(PRECISIONS)


def test_degrees_are_filled_in_and_refused_alike() -> None:
    cases = [(), ("replicate",), ("shard", "tensor"), ("stage", "replicate"), ("stage", "shard", "tensor")]
    for dimensions, hosts, processes in itertools.product(cases, (1, 2), (1, 2, 3, 4)):
        for given in itertools.product((0, 1, 2, 3), repeat=len(dimensions)):
            wanted = dict(zip(dimensions, given, strict=True))
            process = Process(0, hosts * processes, 0, processes, torch.device("cpu"))
            try:
                laid = layout.laid_out(process, "x", dimensions, wanted)
            except InputError as error:
                if "would leave the host" in str(error):
                    continue  # a rule of its own in the compiler
                with pytest.raises(UserError) as caught:
                    fill("x", dimensions, wanted, World(hosts, processes))
                assert str(caught.value).partition(", but")[0] == str(error).partition(", but")[0]
            else:
                filled = fill("x", dimensions, wanted, World(hosts, processes))
                assert filled == laid.degrees
                assert data_size(filled) == laid.data_size
