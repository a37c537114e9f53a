"""The loop of an evaluation: which rows a forward pass sees, dummy rounds, and errors where ranks meet in forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.evaluation.run import Bootstrap, Evaluation, SliceColumn, evaluate, probe, task_of
from drivetrain.training.group.gloo import GlooGroup
from drivetrain.training.layout import Layout
from drivetrain.training.loop.validation import validate
from drivetrain.training.metric import load_metrics
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch
from drivetrain.training.torch.framework import Framework

CLASSES = 3
SITES = SliceColumn("site", (10, 20))


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Three classes; a row's features are hashes of its number."""

    num_classes: int = CLASSES
    columns: tuple[str, ...] = ()

    def model(self) -> nn.Module:
        return nn.Linear(4, CLASSES)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets, reduction="none")

    def metrics(self, outputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        return {"accuracy": outputs.argmax(dim=1) == targets, "margin": outputs.amax(dim=1)}


@dataclass
class Rows:
    """A dataset in memory. `bad` rows cannot be read; those in `labels` have that label; `read_rows` is kept."""

    num_rows: int
    bad: Callable[[int], bool] = lambda row: False
    labels: Mapping[int, int] = field(default_factory=dict)
    recipe: Recipe = field(default_factory=Recipe)

    def __len__(self) -> int:
        return self.num_rows

    @property
    def reader(self) -> Any:
        return self

    def locate(self, row: int) -> str:
        return f"memory, row {row + 1}"

    def batch(self, indices: Any) -> Batch:
        wrong = [row for row in indices.tolist() if self.bad(row)]
        if wrong:
            raise InputError(f"row {wrong[0]} is torn")
        inputs = np.sin(np.outer(indices + 1, [1.0, 2.5, 7.1, 11.3]))
        targets = [self.labels.get(row, row * 7 % 5 % CLASSES) for row in indices.tolist()]
        return Batch(torch.from_numpy(inputs).float(), torch.tensor(targets))

    def read(self, indices: Any, names: Any) -> dict[str, Any]:
        columns = {"site": np.where(indices % 2, 10, 20), "id": indices // 3}
        return {name: columns[name] for name in names}


def run(process: Process, data: Rows, degrees: Mapping[str, int], **given: Any) -> tuple[Evaluation | str, list[Any]]:
    """The evaluation or its error, and the number of rows of each forward pass of this rank, in which all ranks of its
    layout meet; one of a tensor or pipeline group has no outputs unless it speaks for them."""
    torch.manual_seed(0)
    model, layout, passes = data.recipe.model().eval(), Layout(process, degrees), []
    task: Any = task_of(data.recipe)
    if given.pop("probed", True):
        given["values"] = probe(Framework(), data.recipe, model, Rows(1), task)  # type: ignore[arg-type]

    def forward(inputs: Tensor) -> Tensor | None:
        passes.append(len(inputs))
        if process.world_size > 1:  # as a sharded model does, whose parts must have one shape
            met = torch.tensor([1.0, len(inputs)])
            dist.all_reduce(met)
            assert met[0] == process.world_size
            if layout.data_size == 1:
                assert met[1] == process.world_size * len(inputs)
        return model(inputs) if layout.counts else None

    try:
        found = evaluate(
            forward,
            data,  # type: ignore[arg-type]
            layout,
            framework=Framework(),
            precision=torch.float32,
            batch_size=4,
            task=task,
            metrics=load_metrics("f1(per_class=true), auroc", task),
            **given,
        )
    except InputError as error:
        return str(error), passes
    return found, passes


FULL: dict[str, Any] = {"slices": [SITES], "bootstrap": Bootstrap(replicates=4, key="id"), "memory": 6 << 20}
LAYOUTS = [
    (2, {"replicate": 2}),
    (3, {"shard": 3}),
    (2, {"tensor": 2}),
    (2, {"stage": 2}),
    (4, {"shard": 2, "tensor": 2}),
]
SIZES = (0, 1, 14, 21)


def run_sizes(process: Process, degrees: dict[str, int]) -> Any:
    """Of each size, with the recipe's metrics known before; one where nobody told them; and exact curves."""
    runs = [run(process, Rows(num_rows), degrees, **FULL) for num_rows in SIZES]
    return runs, run(process, Rows(9), degrees, probed=False), run(process, Rows(14), degrees, exact=True, **FULL)


@pytest.mark.slow_cases(but=["2-{'tensor': 2}"])
@pytest.mark.parametrize(("world_size", "degrees"), LAYOUTS, ids=str)
def test_every_layout_equals_one_process(pooled: Any, world_size: int, degrees: dict[str, int]) -> None:
    ((alone, (untold, _), (exact, _)),) = pooled(1, run_sizes, {})
    replicas = world_size // degrees.get("tensor", 1) // degrees.get("stage", 1)
    for rank, (runs, (learnt, _), (ranked, _)) in enumerate(pooled(world_size, run_sizes, degrees)):
        for num_rows, (expected, _), (found, passes) in zip(SIZES, alone, runs, strict=True):
            assert isinstance(found, Evaluation), found
            assert found.num_samples == num_rows
            assert (found.whole, found.slices, found.curves) == (expected.whole, expected.slices, expected.curves)
            assert found.collectives == 2  # the bootstrap's is the second
            rounds = math.ceil(math.ceil(num_rows / 4) / replicas)
            mine = range(rank * replicas // world_size, rounds * replicas, replicas)
            assert passes == [max(1, min(4, num_rows - 4 * batch)) for batch in mine]  # dummy rounds have one row
        # Names travel once.
        assert learnt.whole == untold.whole
        assert learnt.values == untold.values == {"accuracy": "bool", "margin": "float"}
        assert learnt.collectives == 2
        assert (ranked.whole, ranked.curves) == (exact.whole, exact.curves)
        assert ranked.whole.metrics["auroc_macro"].bound == 0.0


def test_nothing_to_evaluate(pooled: Any) -> None:
    ((runs, _, _),) = pooled(1, run_sizes, {})
    found, passes = runs[0]
    assert passes == []
    assert found.whole.metrics == {}
    assert found.whole.undefined["f1"] == "there is no sample"


TORN = {
    "some": "is torn",
    "first": "is torn",
    "label": "the target of memory, row 15 is 3; allowed are classes 0 to 2. Correct",
    "all labels": "the target of memory, row 1 is 3 (4 such in the batch); allowed are classes 0 to 2",
}


def run_torn(process: Process, degrees: dict[str, int], probed: bool) -> Any:
    """With data that only the second rank cannot read, or that is wrong everywhere."""
    wrong: dict[str, Rows] = {
        "some": Rows(30, bad=lambda row: process.rank == 1 and row in (5, 9)),
        "first": Rows(30, bad=lambda row: process.rank == 1 and row < 8),
        "label": Rows(30, labels={14: 3}),
        "all labels": Rows(30, labels=dict.fromkeys(range(30), 3)),
    }
    return [run(process, wrong[torn], degrees, probed=probed, **FULL) for torn in TORN]


@pytest.mark.slow_cases(
    "True-3-{'shard': 3}",
    "False-4-{'shard': 2, 'tensor': 2}",
    "False-3-{'shard': 3}",
    "True-2-{'tensor': 2}",
    "True-4-{'shard': 2, 'tensor': 2}",
)
@pytest.mark.parametrize(("world_size", "degrees"), LAYOUTS, ids=str)
@pytest.mark.parametrize("probed", [True, False])
def test_a_bad_row_stops_all_ranks_alike(pooled: Any, world_size: int, degrees: dict[str, int], probed: bool) -> None:
    """And none waits in a forward pass for one that has left."""
    ranks = pooled(world_size, run_torn, degrees, probed)
    for expected, *answers in zip(TORN.values(), *ranks, strict=True):
        first, passes = answers[0]
        assert isinstance(first, str)
        assert expected in first
        assert all(message == first and len(more) == len(passes) for message, more in answers)


def run_all_torn(process: Process) -> Any:
    return run(process, Rows(30, bad=lambda row: True), {"shard": 2})


def test_no_row_can_be_read(pooled: Any) -> None:
    """Then there is nothing to keep peers company with."""
    assert {message for message, _ in pooled(2, run_all_torn)} == {"row 0 is torn", "row 4 is torn"}


def run_first_rows(process: Process) -> Any:
    seen: list[tuple[list[int], int]] = []
    given = {"num_rows": 10, "on_batch": lambda rows, samples: seen.append((rows.tolist(), len(samples.targets)))}
    found, _ = run(process, Rows(30), {"shard": 2}, **given)
    return found, seen


def test_batches_are_passed_on_by_the_counting_rank(pooled: Any) -> None:
    """Each row once, of the first ones alone."""
    (first, (found, second)) = pooled(2, run_first_rows)
    assert first[1] == [([0, 1, 2, 3], 4), ([8, 9], 2)]
    assert second == [([4, 5, 6, 7], 4)]
    assert found.num_samples == 10


def run_with_a_listener_that_fails(process: Process, degrees: dict[str, int]) -> Any:
    def fails(rows: Any, samples: Any) -> None:
        if process.rank == 1:
            raise InputError(f"no place for rows {rows[0]} to {rows[-1]}")

    return run(process, Rows(30), degrees, on_batch=fails)


@pytest.mark.parametrize("degrees", [{"replicate": 2}, {"shard": 2}], ids=str)
def test_an_error_of_a_batch_consumer_stops_all_ranks(pooled: Any, degrees: dict[str, int]) -> None:
    """Where ranks meet in every forward pass, one that left would keep the others waiting."""
    (first, passes), (second, more) = pooled(2, run_with_a_listener_that_fails, degrees)
    assert isinstance(first, str)
    assert "no place for rows 4 to 7" in first
    assert (first, len(passes)) == (second, len(more))


def run_validations(process: Process) -> Any:
    """As a training does: one after the other, the last one broken off; what they find, and their collectives."""
    calls: list[str] = []
    for owner, name in ((dist, "all_reduce"), (GlooGroup, "broadcast")):
        real = getattr(owner, name)
        setattr(
            owner, name, lambda *given, name=name, real=real, **named: (calls.append(name), real(*given, **named))[1]
        )
    data = Rows(30)
    torch.manual_seed(0)
    model = data.recipe.model()
    strategy: Any = SimpleNamespace(
        model=model,
        forward=model,
        in_evaluation=nullcontext,
        set_training=model.train,
        framework=Framework(),
        layout=Layout(process, {"replicate": process.world_size}),
        precision=SimpleNamespace(parameters=torch.float32),
    )
    values: dict[str, Any] = {}
    found = [validate(strategy, data, values=values) for _ in range(2)]  # type: ignore[arg-type]
    found.append(validate(strategy, data, values=values, breaks_off=lambda: True))  # type: ignore[arg-type]
    assert model.training
    return found, list(calls)


def test_a_training_asks_for_names_once(forked: Any) -> None:
    (((alone, *_), none),) = forked(1, run_validations)
    assert set(alone) == {"validation_loss", "validation_accuracy", "validation_margin"}
    assert none == []
    for (first, second, broken_off), calls in forked(3, run_validations):
        assert first == second == alone
        assert broken_off == {}
        assert calls == ["broadcast", "all_reduce", "all_reduce"]
