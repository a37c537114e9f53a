"""Slices and replicates, against evaluations of just those samples."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import drivetrain.training.metrics as metrics_folder
from drivetrain.base.errors import InputError
from drivetrain.training.metric import Metric, Samples, Value, load_metrics
from drivetrain.training.metric_states.accumulator import Accumulator
from drivetrain.training.metric_states.coverage import CoverageError
from drivetrain.training.metric_states.own_values import own_metrics
from drivetrain.training.metric_states.result import Bootstrap
from drivetrain.training.metric_states.uncertainty import bootstrap
from drivetrain.training.process import Process
from drivetrain.training.task import Kind, Task
from tests.fixtures.evaluated_samples import KINDS, SITES, Given, accumulator, evaluated, samples, taken
from tests.unit.training.metrics import sampling

ALONE = Process(0, 1, 0, 1, torch.device("cpu"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_slice_is_an_evaluation_of_its_samples(kind: Kind) -> None:
    given = Given(kind, 60, sliced=True)
    result = evaluated(ALONE, given)
    found, columns = samples(given)
    assert [(one.column, one.value) for one in result.slices] == [
        ("site", "north"),
        ("site", "south"),
        ("site", "nowhere"),
        ("year", 1999),
        ("year", 2001),
    ]
    for one in result.slices:
        rows = np.flatnonzero(columns[one.column] == one.value)
        alone = Accumulator(ALONE, given.task, given.metrics, num_rows=len(rows))
        alone.update(np.arange(len(rows)), taken(found, columns, rows)[0])
        expected = alone.finish().whole
        assert one.num_samples == len(rows)
        assert one.undefined.keys() == expected.undefined.keys() - {"roc_curve", "pr_curve", "confusion_matrix"}
        assert one.metrics.keys() == expected.metrics.keys()
        for name, measured in one.metrics.items():  # curves are coarser
            assert measured.value == pytest.approx(
                expected.metrics[name].value, abs=measured.bound + expected.metrics[name].bound, rel=1e-15
            )
    assert set(result.slices[2].undefined.values()) == {"there is no sample"}


@pytest.mark.slow_cases(
    "-binary", "-multiclass", "-multilabel", "id-binary", "id-multiclass", "id-multilabel", "id-regression"
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["", "id"])
def test_a_replicate_is_an_evaluation_of_the_samples_drawn(kind: Kind, key: str) -> None:
    given = Given(kind, 40, sliced=True, replicates=5, seed=4)
    counting = accumulator(ALONE, given, key=key)
    found, columns = samples(given)
    for start in range(0, 40, 9):
        rows = np.arange(start, min(start + 9, 40))
        counting.update(rows, *taken(found, columns, rows))
    result = counting.finish()
    keys = bootstrap.keys_of(key, columns[key] if key else np.arange(40))
    drawn = bootstrap.weights(keys, 5, seed=4)
    for replicate, weights in enumerate(drawn):
        for group, inside in [(result.whole, np.ones(40, bool))] + [
            (one, columns[one.column] == one.value) for one in result.slices
        ]:
            rows = np.repeat(np.arange(40), weights * inside)
            alone = Accumulator(ALONE, given.task, given.metrics, num_rows=len(rows))
            alone.update(np.arange(len(rows)), taken(found, columns, rows)[0])
            expected = alone.finish().whole.metrics
            for name, values in group.replicates.items():
                assert len(values) == 5
                value = values[replicate]
                assert (value is None) == (name not in expected)
                if value is not None:
                    bound = 0.02 if "auroc" in name or "precision" in name else 0.0
                    assert value == pytest.approx(expected[name].value, abs=bound, rel=1e-15)


@pytest.mark.parametrize(
    "path", sorted(Path(metrics_folder.__file__).parent.glob("[a-z]*.py")), ids=lambda path: path.stem
)
def test_each_metric_counts_small_batches_as_it_counts_all_samples(path: Path) -> None:
    made = sampling.metric(path.stem)
    for kind in made.kinds:
        task, found = (
            Task(kind, 2 if kind == "binary" else 3),
            sampling.samples_of(kind, 7, 40, 2 if kind == "binary" else 3),
        )
        counting = Accumulator(ALONE, task, {path.stem: made}, num_rows=40)
        for start in range(0, 40, 7):
            rows = np.arange(start, min(start + 7, 40))
            counting.update(rows, sampling.take(found, rows))
        result = counting.finish()
        expected = {
            "_".join(filter(None, [path.stem, suffix])): value
            for suffix, value in sampling.values(made, task, found).items()
        }
        assert {name: measured.value for name, measured in result.whole.metrics.items()} == expected
        assert expected or result.curves


def test_means_are_correctly_rounded_whatever_the_order() -> None:
    given = Given("binary", 500)
    found, _ = samples(given)
    assert found.losses is not None and found.targets is not None
    metrics = evaluated(ALONE, given).whole.metrics
    assert metrics["loss"].value == float(sum(map(Fraction, found.losses)) / 500)
    assert metrics["loss"].higher_is_better is False
    assert metrics["hit"].value == found.values["hit"].mean()
    for number in (0, 1):
        inside = found.targets == number
        margins = found.values["margin"][inside]
        assert metrics[f"margin_class_{number}"].value == float(sum(map(Fraction, margins)) / len(margins))
        assert metrics[f"hit_class_{number}"].value == found.values["hit"][inside].mean()


def test_intervals_hold_the_value_and_narrow() -> None:
    widths = []
    for num_rows in (200, 5000):  # which share patients
        hit = evaluated(ALONE, Given("values", num_rows, replicates=100)).whole.metrics["hit"]
        assert hit.low is not None and hit.high is not None
        assert hit.low < hit.value < hit.high
        widths.append(hit.high - hit.low)
    assert 3 < widths[0] / widths[1] < 10  # about the root of 25


@pytest.mark.slow_cases(but=["0.0001-False"])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("width", [1e-6, 1e-4, 1.0])
def test_an_interval_of_bins_holds_that_of_exact_replicates(width: float, exact: bool) -> None:
    """Scores may lie so close together that bins say next to nothing: then so does the interval, and says why."""
    random = np.random.default_rng(3)
    task, n, drawn = Task("binary", 2), 200, Bootstrap(replicates=80, confidence=0.9)
    metrics = load_metrics("auroc, average_precision", task)
    targets = random.integers(0, 2, n)
    scores = 0.3 + 0.1 * width * (targets + random.normal(size=n))
    found = Samples(
        losses=np.zeros(n), targets=targets, scores=scores.clip(0, 1), predicted=(scores >= 0.5).astype(int)
    )
    counting = Accumulator(ALONE, task, metrics, num_rows=n, bootstrap=drawn, exact=exact, slices=[SITES])
    north = {"site": np.array(["north"] * n, dtype=object)}
    counting.update(np.arange(n), found, north)
    result = counting.finish()
    weights = bootstrap.weights(bootstrap.keys_of("", np.arange(n)), 80, seed=0)
    expected = {name: [] for name in metrics}
    for one in [np.ones(n, int), *weights]:
        rows = np.repeat(np.arange(n), one)
        alone = Accumulator(ALONE, task, metrics, num_rows=len(rows), exact=True)
        alone.update(np.arange(len(rows)), taken(found, {}, rows)[0])
        for name, measured in alone.finish().whole.metrics.items():
            expected[name].append(measured.value)
    for group in (result.whole, result.slices[0]):
        for name, (value, *replicates) in expected.items():
            one = group.metrics[name]
            low, high = np.quantile(replicates, [0.05, 0.95])
            assert one.low is not None and one.high is not None
            assert one.low <= low < value < high <= one.high
            assert np.abs(np.array(group.replicates[name]) - replicates).max() <= group.bounds.get(name, 0.0) + 1e-15
            assert one.interval_bound == group.bounds.get(name, 0.0)
            assert ("of its interval's width is the bins" in one.advice) == (width < 1e-3)
    assert result.whole.bounds["auroc"] < 0.01 or width < 1e-3
    told = result.slices[0].metrics["auroc"].advice
    assert ("the bins in which slices are counted, in every mode" in told) == (width < 1e-3)
    assert "mode=exact" not in told
    assert ("mode=exact" in result.whole.metrics["auroc"].advice) == (width < 1e-3 and not exact)


@pytest.mark.parametrize("kind", ["one score", "three scores"])
def test_where_scores_are_few_an_exact_mode_has_exact_replicates_and_slices(kind: str) -> None:
    """A classifier that says the same of every sample: bins alone would leave open everything between 0 and 1."""
    random = np.random.default_rng(5)
    task, n, drawn = Task("binary", 2), 300, Bootstrap(replicates=40)
    metrics = load_metrics("auroc, average_precision", task)
    targets = random.integers(0, 2, n)
    scores = np.full(n, 0.3) if kind == "one score" else np.array([0.2, 0.31, 0.8])[targets + random.integers(0, 2, n)]
    found = Samples(losses=np.ones(n), targets=targets, scores=scores, predicted=(scores >= 0.5).astype(int))
    sites = np.where(random.random(n) < 0.5, "north", "south").astype(object)
    counting = Accumulator(ALONE, task, metrics, num_rows=n, bootstrap=drawn, exact=True, slices=[SITES])
    counting.update(np.arange(n), found, {"site": sites})
    result = counting.finish()
    weights = bootstrap.weights(bootstrap.keys_of("", np.arange(n)), 40, seed=0)

    def exactly(rows: np.ndarray) -> dict[str, float]:
        alone = Accumulator(ALONE, task, metrics, num_rows=len(rows), exact=True)
        alone.update(np.arange(len(rows)), taken(found, {}, rows)[0])
        return {name: one.value for name, one in alone.finish().whole.metrics.items()}

    for group, inside in ((result.whole, np.ones(n, bool)), (result.slices[0], sites == result.slices[0].value)):
        assert group.bounds == {}
        assert {name: one.value for name, one in group.metrics.items()} == pytest.approx(
            exactly(np.flatnonzero(inside))
        )
        for replicate, each in enumerate(weights[:5]):
            expected = exactly(np.repeat(np.arange(n), each * inside))
            assert {name: values[replicate] for name, values in group.replicates.items()} == pytest.approx(expected)
    for one in result.whole.metrics.values():
        assert one.low is not None and one.high is not None and one.high - one.low < 0.2 and not one.advice


def test_replicates_that_do_not_define_a_metric_keep_their_place() -> None:
    """Few samples of one class: some replicates have none of it, at the beginning, in the middle and at the end."""
    task, n = Task("binary", 2), 12
    targets = (np.arange(n) == 0).astype(int)
    drawn = Bootstrap(replicates=30, seed=1)
    counting = Accumulator(ALONE, task, load_metrics("auroc, f1", task), num_rows=n, bootstrap=drawn)
    scores = np.linspace(0.9, 0.1, n)
    counting.update(
        np.arange(n), Samples(losses=np.ones(n), targets=targets, scores=scores, predicted=(scores > 0.5).astype(int))
    )
    replicates = counting.finish().whole.replicates["auroc"]
    first = bootstrap.weights(bootstrap.keys_of("", np.arange(n)), 30, seed=1)[:, 0]
    assert [value is not None for value in replicates] == (first > 0).tolist()
    assert not first[0] and not first[-1] and (np.diff(np.flatnonzero(first)) > 1).any()


def test_an_interval_has_the_confidence_that_was_asked_for() -> None:
    given = Given("values", 300)
    found, columns = samples(given)
    measured = {}
    for confidence in (0.5, 0.95):
        drawn = Bootstrap(replicates=100, confidence=confidence)
        counting = Accumulator(ALONE, given.task, given.metrics, num_rows=300, bootstrap=drawn)
        counting.update(np.arange(300), found, columns)
        whole = counting.finish().whole
        hit = whole.metrics["hit"]
        expected = np.quantile(np.array(whole.replicates["hit"]), [(1 - confidence) / 2, (1 + confidence) / 2])
        assert hit.low is not None and hit.high is not None
        assert hit.low <= expected[0] and expected[1] <= hit.high < 1.1 * expected[1]
        measured[confidence] = hit.high - hit.low  # type: ignore[operator]
    assert 0 < measured[0.5] < 0.6 * measured[0.95]


@pytest.mark.parametrize("kind", KINDS)
def test_no_samples(kind: Kind) -> None:
    result = evaluated(ALONE, Given(kind, 0, sliced=True, replicates=3))
    assert result.num_samples == 0
    assert result.whole.metrics == result.whole.replicates == result.curves == {}
    assert result.whole.undefined["loss"] == "there is no sample"
    assert result.means == {}


def test_batches_of_other_sizes_count_the_same() -> None:
    given = Given("multiclass", 50, sliced=True, replicates=4)
    expected = evaluated(ALONE, given)
    assert all(evaluated(ALONE, replace(given, batch_size=size)) == expected for size in (1, 3, 50))


@pytest.mark.slow
def test_memory_grows_with_the_samples_by_their_rows_alone() -> None:
    """By no more than rows.npz holds of each."""
    given = Given("binary", 900, sliced=True)
    found, columns = samples(given)
    peaks, kept = [], []
    for num_batches in (40, 100):
        counting = Accumulator(
            ALONE,
            given.task,
            given.metrics,
            num_rows=900 * num_batches,
            slices=[SITES],
            bootstrap=Bootstrap(replicates=3, key="id"),
        )
        tracemalloc.start()
        for batch in range(num_batches):
            counting.update(np.arange(900 * batch, 900 * (batch + 1)), found, columns)
        counted = counting.finish()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert counted.num_samples == 900 * num_batches and counted.rows is not None
        kept.append(sum(array.nbytes for array in counted.rows.arrays.values()))
    assert peaks[1] - kept[1] < 1.1 * (peaks[0] - kept[0])


def test_results_of_the_recipe_come_first() -> None:
    """Of two results of one name; the others of a metric stay."""
    task = Task("multiclass", 3)
    own = own_metrics(task, {"f1_macro": "bool"})
    given = Given("multiclass", 20)
    found, _ = samples(given)
    drawn = Bootstrap(replicates=4)
    counting = Accumulator(ALONE, task, {**own, "f1": given.metrics["f1"]}, num_rows=20, bootstrap=drawn)
    counting.update(np.arange(20), replace(found, values={"f1_macro": np.ones(20, bool)}))
    whole = counting.finish().whole
    metrics = whole.metrics
    assert metrics["f1_macro"].value == 1.0 and whole.replicates["f1_macro"] == (1.0,) * 4
    assert 0 < metrics["f1_micro"].value < 1


def test_the_direction_of_a_recipe_metric() -> None:
    """Only as it was said, whatever the name sounds like."""
    own = own_metrics(
        Task("regression", 1),
        {"mae": "float", "r2": "float", "gap": "float", "side_loss": "float"},
        {"mae": False, "r2": True, "gap": None},
    )
    assert {name: metric.higher_is_better for name, metric in own.items()} == {
        "loss": False,
        "mae": False,
        "r2": True,
        "gap": None,
        "side_loss": None,
    }


def refused(given: Given, spoil: dict[str, np.ndarray], *, key: str = "id") -> str:
    counting = accumulator(ALONE, given, key=key)
    found, columns = samples(given)
    rows = np.arange(given.num_rows) + 100
    values = {name: value for name, value in spoil.items() if name not in columns}
    counting.update(rows, replace(found, **values), columns | {n: v for n, v in spoil.items() if n in columns})
    counting.update(rows, found, columns)  # after an error nothing counts
    with pytest.raises(InputError) as raised:
        counting.finish()
    return str(raised.value)


def test_bad_samples_are_named() -> None:
    given = Given("binary", 4, sliced=True, replicates=2)
    scores = np.array([0.5, np.nan, 0.5, 0.5])
    assert refused(given, {"scores": scores}).startswith("rows 100 to 103, counted from 0: a score is nan")
    targets = np.array([0, 1, 2, 1])
    assert "rows 100 to 103, counted from 0: a target is 2" in refused(given, {"targets": targets})
    losses = np.array([0, 1, np.inf, 1])
    assert "rows 100 to 103, counted from 0: value inf of sample 2" in refused(given, {"losses": losses})
    assert "row 103, counted from 0: column 'site'" in refused(
        given, {"site": np.array(["north"] * 3 + ["east"], dtype=object)}
    )
    assert "key column 'id' has values of type float64" in refused(given, {"id": np.zeros(4)})


def test_the_first_error_is_reported() -> None:
    counting = accumulator(ALONE, Given("values", 4))
    counting.fail("the cause")
    counting.fail("what came of it")
    with pytest.raises(InputError, match="the cause"):
        counting.finish()


def test_a_recipe_that_changes_its_mind() -> None:
    counting = Accumulator(ALONE, Task("values"), own_metrics(Task("values"), {"hit": "bool"}), num_rows=1)
    counting.update(np.arange(1), Samples(losses=np.ones(1), values={"hit": np.ones(1)}))
    with pytest.raises(InputError, match="metric 'hit' of the recipe has numbers for one batch, and not for another"):
        counting.finish()


def test_coverage_is_proven() -> None:
    given = Given("values", 10)
    counting = accumulator(ALONE, given)
    found, columns = samples(given)
    rows = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 8])
    counting.update(rows, *taken(found, columns, rows))
    with pytest.raises(CoverageError, match="but some of them twice, and as many are missing"):
        counting.finish()


@pytest.mark.parametrize(
    "wrong", [{"replicates": 1}, {"replicates": 2, "seed": -1}, {"replicates": 2, "confidence": 1}]
)
def test_a_bootstrap_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"allowed are replicates from 2, seeds from 0 to 2\*\*63 - 1, and a confid"):
        Bootstrap(**wrong)


def test_a_value_that_is_no_number_is_undefined() -> None:
    class Broken:
        kinds = ("values",)
        higher_is_better = True

        def tallies(self, task: Task) -> dict[str, object]:
            return {}

        def compute(self, task: Task, counted: object) -> dict[str, object]:
            return {"a": Value(math.nan, advice="nothing is like it"), "b": Value(math.inf), "c": Value(1.0)}

    metrics: dict[str, Metric] = {"odd": Broken()}  # type: ignore[dict-item]
    counting = Accumulator(
        ALONE, Task("values"), metrics, num_rows=1, bootstrap=Bootstrap(replicates=2), slices=[SITES]
    )
    counting.update(np.arange(1), Samples(losses=np.ones(1)), {"site": np.array(["north"])})
    whole = counting.finish().whole
    assert whole.undefined == {"odd_a": "nothing is like it", "odd_b": "it is inf"}
    assert list(whole.metrics) == ["odd_c"]


def test_metrics_are_undefined_independently() -> None:
    class Named:
        kinds = ("values",)
        higher_is_better = True

        def __init__(self, suffix: str, value: float) -> None:
            self.found = {suffix: Value(value)}

        def tallies(self, task: Task) -> dict[str, object]:
            return {}

        def compute(self, task: Task, counted: object) -> dict[str, Value]:
            return self.found

    metrics: dict[str, Metric] = {"of": Named("a", math.nan), "of_a": Named("", 1.0)}  # type: ignore[dict-item]
    counting = Accumulator(ALONE, Task("values"), metrics, num_rows=1)
    counting.update(np.arange(1), Samples(losses=np.ones(1)))
    whole = counting.finish().whole
    assert whole.metrics["of_a"].value == 1.0 and whole.undefined == {}
