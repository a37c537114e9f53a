"""What every metric keeps: run for each file of drivetrain/training/metrics, for each kind of task that it names."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import json
import math
import textwrap
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, get_args

import numpy as np
import pytest
import torch

from drivetrain.training import plugins
from drivetrain.training.metric import (
    DEFAULTS,
    HasCarry,
    HasCurves,
    HasExact,
    HasExactCurves,
    HasRange,
    HasResolution,
    Metric,
    Ranked,
    Ranking,
    Samples,
    UndefinedError,
    Value,
    load_metrics,
)
from drivetrain.training.metric_states.ranking.ranking import rank_exactly
from drivetrain.training.metric_states.uncertainty.intervals import interval
from drivetrain.training.process import Process
from drivetrain.training.task import Kind, Task
from tests.unit.training.metrics.sampling import counted, samples_of, take

KINDS: tuple[Kind, ...] = get_args(Kind)
NAMES = plugins.names("metrics")
MOST_POINTS = 1000
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
LARGEST_AMOUNT = 2**32


def loaded(name: str) -> Any:
    return importlib.import_module(f"drivetrain.training.metrics.{name}").Metric


def cases(protocol: type) -> list[tuple[str, Kind]]:
    return [(name, kind) for name in NAMES if isinstance(loaded(name)(), protocol) for kind in loaded(name).kinds]


CASES = cases(Metric)


def task_of(kind: Kind) -> Task:
    return Task(kind, {"binary": 2, "values": 0}.get(kind, 5))


def batches(kind: Kind) -> dict[str, Samples]:
    """Samples as they come, and as they had better not."""
    size = task_of(kind).num_classes
    plain = samples_of(kind, 1, 60, size)
    found = {
        "plain": plain,
        "with ties": samples_of(kind, 2, 60, size, step=4),
        "of one class": samples_of(kind, 3, 20, size, occur=1),
        "of two classes": samples_of(kind, 4, 20, size, occur=2),
        "one": samples_of(kind, 5, 1, size),
        "none": samples_of(kind, 6, 0, size),
    }
    if plain.scores is not None:
        found["constant"] = dataclasses.replace(plain, scores=np.full_like(plain.scores, 1 / size))
        found["saturated"] = dataclasses.replace(plain, scores=np.round(plain.scores))
        found["narrow"] = dataclasses.replace(plain, scores=plain.scores.astype(np.float32))
    return found


def outcome(metric: Metric, task: Task, samples: Samples) -> Mapping[str, Value] | str:
    """The values, or why there are none."""
    try:
        return metric.compute(task, counted(metric, task, samples))
    except UndefinedError as error:
        return str(error)


def num_samples(samples: Samples) -> int:
    assert samples.losses is not None
    return len(samples.losses)


@pytest.mark.parametrize("name", NAMES)
def test_a_metric_declares_its_tasks_and_direction(name: str) -> None:
    kind = loaded(name)
    assert kind.kinds and set(kind.kinds) <= set(KINDS) and len(set(kind.kinds)) == len(kind.kinds)
    assert kind.higher_is_better in (True, False, None)
    assert isinstance(kind(), Metric)


@pytest.mark.parametrize("name", NAMES)
def test_its_options_are_frozen_and_explained(name: str) -> None:
    kind = loaded(name)
    assert dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen
    assert inspect.getdoc(kind) and importlib.import_module(kind.__module__).__doc__
    explained: set[str] = set()
    for base in (each for each in kind.__mro__ if dataclasses.is_dataclass(each)):
        (parsed,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(parsed, ast.ClassDef)
        for one, following in zip(parsed.body, parsed.body[1:], strict=False):
            if isinstance(one, ast.AnnAssign) and isinstance(following, ast.Expr):
                assert isinstance(one.target, ast.Name) and isinstance(following.value, ast.Constant)
                explained.add(one.target.id)
    for field in dataclasses.fields(kind):
        assert field.name in explained, f"{field.name} has no docstring"
        assert field.default is not dataclasses.MISSING, f"{field.name} has no default"


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_equal_options_have_equal_tallies(name: str, kind: Kind) -> None:
    one, other = (loaded(name)().tallies(task_of(kind)) for _ in range(2))
    assert one and one == other
    for tally in one.values():
        assert dataclasses.is_dataclass(tally) and {tally: 1}[tally] == 1
        assert isinstance(tally.size, int) and tally.size > 0


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_metric_counts_into_its_cells(name: str, kind: Kind) -> None:
    task = task_of(kind)
    for samples in batches(kind).values():
        for tally in loaded(name)().tallies(task).values():
            cells, amounts = tally.count(samples)
            assert cells.dtype == np.int64 and cells.ndim in (1, 2) and len(cells) == num_samples(samples)
            assert ((cells >= 0) & (cells < tally.size)).all()
            if amounts is not None:
                assert amounts.dtype == np.int64 and amounts.shape == cells.shape
                assert (np.abs(amounts) <= LARGEST_AMOUNT).all()


@pytest.mark.slow_cases(
    "auroc-multiclass",
    "auroc-multilabel",
    "average_precision-multiclass",
    "average_precision-multilabel",
    "pr_curve-multilabel",
    "roc_curve-multiclass",
    "roc_curve-multilabel",
)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_parts_in_any_order_add_up_to_the_whole(name: str, kind: Kind) -> None:
    task, metric, random = task_of(kind), loaded(name)(), np.random.default_rng(7)
    for label, samples in batches(kind).items():
        whole = counted(metric, task, samples)
        for _ in range(2):
            order = random.permutation(num_samples(samples))
            edges = np.sort(random.integers(0, num_samples(samples) + 1, random.integers(1, 6)))
            parts = [counted(metric, task, take(samples, rows)) for rows in np.split(order, edges)]
            for tally, sums in whole.items():
                assert np.array_equal(np.sum([part[tally] for part in parts], axis=0), sums), label


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_carrying_does_not_change_values(name: str, kind: Kind) -> None:
    task, metric = task_of(kind), loaded(name)()
    samples = batches(kind)["plain"]
    sums = counted(metric, task, samples)
    before, twice = metric.compute(task, sums), {key: 2**28 * cells for key, cells in sums.items()}
    whole = metric.compute(task, twice)
    for key, tally in metric.tallies(task).items():
        if isinstance(tally, HasCarry):
            table = np.stack([sums[key], twice[key]])
            tally.settle(table)
            assert (np.abs(table) < 2**62).all()
            sums[key], twice[key] = table
    assert metric.compute(task, sums) == before
    assert metric.compute(task, twice) == whole


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_values_are_finite_and_bounded(name: str, kind: Kind) -> None:
    for samples in batches(kind).values():
        found = outcome(loaded(name)(), task_of(kind), samples)
        if isinstance(found, str):
            assert found and found == found.strip().rstrip(".")  # a clause
            continue
        assert not found or not all(math.isnan(value.value) for value in found.values())
        for suffix, value in found.items():
            assert isinstance(suffix, str) and type(value.value) is float
            if math.isnan(value.value):
                assert value.advice, f"{suffix}: it has to say why"
                continue
            assert math.isfinite(value.value), suffix
            assert math.isfinite(value.bound) and value.bound >= 0 and isinstance(value.advice, str)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_values_and_their_intervals_lie_in_its_range(name: str, kind: Kind) -> None:
    metric, random = loaded(name)(), np.random.default_rng(3)
    assert isinstance(metric, HasRange)
    for label, samples in batches(kind).items():
        found = outcome(metric, task_of(kind), samples)
        for suffix, value in {} if isinstance(found, str) else found.items():
            if math.isnan(value.value):
                continue
            least, most = value.value_range or metric.value_range
            assert least <= value.value <= most, (label, suffix)
            # Replicates that are far off, and bounds that are wide.
            far = (value.value + random.normal(0, 200, 100)).tolist()
            with np.errstate(invalid="ignore"):  # some have no logarithm
                limits = interval(value, far, 0.95, num_samples=600, bound=1.0, value_range=(least, most)).limits
            assert limits is not None, (label, suffix)
            assert least <= limits[0] <= value.value <= limits[1] <= most, (label, suffix)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_plain_samples_have_a_value_and_no_samples_have_none(name: str, kind: Kind) -> None:
    task, metric = task_of(kind), loaded(name)()
    assert not isinstance(outcome(metric, task, batches(kind)["plain"]), str)
    assert isinstance(outcome(metric, task, batches(kind)["none"]), str)


@pytest.mark.parametrize(("name", "kind"), cases(HasCurves))
def test_curves_are_plain_json_and_short(name: str, kind: Kind) -> None:
    metric, task = loaded(name)(), task_of(kind)
    seen = 0
    for samples in batches(kind).values():
        try:
            curves = metric.curves(task, counted(metric, task, samples))
        except UndefinedError:
            continue
        for curve in curves.values():
            assert json.loads(json.dumps(curve, allow_nan=False)) == curve
            assert isinstance(curve["kind"], str)
            if curve["kind"] == "matrix":
                assert len(curve["rows"]) == len(curve["cells"]) <= MOST_POINTS
                assert all(len(row) == len(curve["columns"]) <= MOST_POINTS for row in curve["cells"])
            else:
                assert curve["x_label"] and curve["y_label"]
                assert len(curve["x"]) == len(curve["y"]) <= MOST_POINTS
            seen += 1
    assert seen


@pytest.mark.slow_cases("auroc-multiclass", "auroc-multilabel", "average_precision-multiclass")
@pytest.mark.parametrize(("name", "kind"), cases(HasResolution))
def test_coarser_counts_keep_their_cells_and_bounds(name: str, kind: Kind) -> None:
    metric, task = loaded(name)(), task_of(kind)

    def cells(of: Metric) -> int:
        return sum(tally.size for tally in of.tallies(task).values())

    least = cells(metric.coarser(task, 0))
    for most in (10**9, cells(metric), cells(metric) - 1, 4096, 1000, 100, 10, 1, 0):
        coarse = metric.coarser(task, most)
        assert isinstance(coarse, type(metric))
        assert cells(coarse) <= max(most, least)
        for samples in batches(kind).values():
            fine_values, found = outcome(metric, task, samples), outcome(coarse, task, samples)
            assert isinstance(found, str) == isinstance(fine_values, str)
            if isinstance(found, str) or isinstance(fine_values, str):
                continue
            for suffix, value in found.items():
                fine = fine_values[suffix]
                if math.isnan(fine.value):
                    assert math.isnan(value.value)
                    continue
                assert abs(value.value - fine.value) <= (value.bound + fine.bound) * (1 + 1e-9), (most, suffix)


def ranked(ranking: Ranking) -> Ranked:
    """All pairs, one by one."""
    scores, positive = ranking
    ones, zeros = scores[positive].tolist(), scores[~positive].tolist()
    precisions = [Fraction(sum(other >= one for other in ones), int((scores >= one).sum())) for one in ones]
    return Ranked(
        num_positives=len(ones),
        num_negatives=len(zeros),
        twice_wins=sum(2 * (one > zero) + (one == zero) for one in ones for zero in zeros),
        precision_sum=float(sum(precisions, Fraction(0))),
    )


@pytest.mark.parametrize(("name", "kind"), cases(HasExact))
def test_the_exact_value_lies_within_the_bound(name: str, kind: Kind) -> None:
    metric, task = loaded(name)(), task_of(kind)
    names = {tuple(metric.rankings(task, samples)) for samples in batches(kind).values()}
    assert len(names) == 1  # ranks meet for each of them
    for samples in batches(kind).values():
        found = outcome(metric, task, samples)
        rankings = metric.rankings(task, samples)
        try:
            exact = metric.compute_exact(task, {key: ranked(each) for key, each in rankings.items()})
        except UndefinedError as error:
            assert found == str(error)
            continue
        assert not isinstance(found, str) and set(found) == set(exact)
        for suffix, value in exact.items():
            if math.isnan(value.value):
                assert math.isnan(found[suffix].value)
                continue
            # (Ranked has a sum that is rounded already.)
            slack = 2 * math.ulp(value.value)
            assert abs(found[suffix].value - value.value) <= found[suffix].bound + value.bound + slack, suffix


@pytest.mark.parametrize(("name", "kind"), cases(HasExactCurves))
def test_exact_curves_are_those_of_the_same_classes_with_the_points_of_all_scores(name: str, kind: Kind) -> None:
    metric, task = loaded(name)(), task_of(kind)
    seen = 0
    for samples in batches(kind).values():
        ranked, _ = rank_exactly(
            ALONE, {key: [one] for key, one in metric.rankings(task, samples).items()}, curves=True
        )
        try:
            plain = metric.curves(task, counted(metric, task, samples))
        except UndefinedError as error:
            with pytest.raises(UndefinedError, match=str(error)):
                metric.curves_exact(task, ranked)
            continue
        exact = metric.curves_exact(task, ranked)
        assert list(exact) == list(plain)
        for suffix, curve in exact.items():
            assert json.loads(json.dumps(curve, allow_nan=False)) == curve
            assert len(curve["x"]) == len(curve["y"]) <= MOST_POINTS
            points = set(zip(plain[suffix]["x"], plain[suffix]["y"], strict=True))
            assert points <= set(zip(curve["x"], curve["y"], strict=True))
            seen += 1
    assert seen


@pytest.mark.parametrize("kind", KINDS)
def test_the_default_metrics_of_each_task(kind: Kind) -> None:
    found = load_metrics("", task_of(kind))
    assert tuple(found) == DEFAULTS[kind]
    samples = batches(kind)["plain"]
    for name, metric in found.items():
        assert not isinstance(outcome(metric, task_of(kind), samples), str), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_is_found_by_its_name(kind: Kind) -> None:
    wanted = [name for name, of in CASES if of == kind]
    assert list(load_metrics(", ".join(wanted), task_of(kind))) == wanted
