"""What fits into the memory of a rank."""

from __future__ import annotations

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.metric import load_metrics
from drivetrain.training.metric_states.own_values import own_metrics
from drivetrain.training.metric_states.room import MEMORY, Room, make_room
from drivetrain.training.task import Task

BINARY = Task("binary", 2)


def room(metrics: str = "accuracy, auroc, roc_curve", task: Task = BINARY, **given: object) -> Room:
    return make_room(task, load_metrics(metrics, task), **given)  # type: ignore[arg-type]


def test_equal_tallies_are_counted_once() -> None:
    together = room("f1, precision, recall, auroc, average_precision, roc_curve")
    assert together.size == room("f1, auroc").size
    assert [type(tally).__name__ for tally in together.tallies] == ["NumSamples", "Outcomes", "ScoreHistogram"]


def test_the_whole_is_as_fine_as_it_is_asked_for() -> None:
    found = room(num_values=[30, 4], replicates=200, memory=8 << 20)
    assert found.whole.size == room().whole.size
    assert 8 * found.size <= 8 << 20


@pytest.mark.parametrize("memory", [256 << 20, 64 << 20, 16 << 20, 5 << 20])
def test_curves_of_groups_are_as_coarse_as_they_have_to_be(memory: int) -> None:
    found = room(num_values=[10], replicates=200, memory=memory)
    assert memory / 8 < 8 * found.size <= memory
    whole, *parts = [tallies.size for _, tallies in found.parts]
    assert all(size < whole for size in parts)
    assert [groups for groups, _ in found.parts] == [1, 10, 200, 2000]


def test_curves_for_drawing_use_all_samples() -> None:
    found = room("roc_curve, confusion_matrix, accuracy", num_values=[3], replicates=5)
    assert list(found.whole.metrics) == ["roc_curve", "confusion_matrix", "accuracy"]
    assert list(found.sliced.metrics) == list(found.drawn.metrics) == ["accuracy"]


def test_exactly_ranked_metrics_are_not_binned() -> None:
    assert list(room(exact=True).whole.metrics) == ["accuracy", "roc_curve"]
    assert list(room("accuracy, auroc", exact=True, replicates=2).whole.metrics) == ["accuracy"]
    assert list(room("accuracy, auroc", exact=True, replicates=2).drawn.metrics) == ["accuracy", "auroc"]


def test_classes_of_a_recipes_own_values_are_spared_where_they_are_many() -> None:
    """3,000 classes: 1.6 MB for each replicate."""
    for num_classes, kept in [(10, True), (3000, False)]:
        task = Task("multiclass", num_classes)
        found = make_room(task, own_metrics(task, {"margin": "float"}), num_values=[5], replicates=200)
        by_class = [tallies.metrics["margin"].by_class for _, tallies in found.parts]  # type: ignore[attr-defined]
        assert by_class == [True, kept, kept, kept]


def test_too_many_groups_are_one_clear_error() -> None:
    with pytest.raises(InputError) as raised:
        room("f1, auroc", num_values=[250, 40], replicates=1000, memory=16 << 20)
    message = str(raised.value)
    assert "MiB on each rank, and the limit is 16 MiB: 1 x " in message
    assert " (all samples) + 290 x " in message
    assert " (replicates of slices) = " in message
    terms = message.split("MiB: ")[1].split(" numbers of 8 bytes")[0]
    left, right = (part.replace(",", "") for part in terms.split(" = "))
    products = [term.split(" (")[0].split(" x ") for term in left.split(" + ")]
    assert sum(int(groups) * int(size) for groups, size in products) == int(right)
    assert message.endswith(
        "instead of 1000, or columns of at most 43 values in all to slice by instead of 250 and 40, or fewer metrics "
        "(the largest is auroc, with 39 of 43)."
    )


def test_the_advised_number_fits_and_one_more_does_not() -> None:
    given: dict[str, int] = {"memory": 16 << 20}
    with pytest.raises(InputError) as raised:
        room("f1, auroc", num_values=[290], replicates=1000, **given)
    message = str(raised.value)
    replicates = int(message.split("at most ")[1].split(" bootstrap")[0])
    values = int(message.split("of at most ")[1].split(" values")[0])
    for num_values, num_replicates in ((290, replicates), (values, 1000)):
        room("f1, auroc", num_values=[num_values], replicates=num_replicates, **given)
    for num_values, num_replicates in ((290, replicates + 1), (values + 1, 1000)):
        with pytest.raises(InputError):
            room("f1, auroc", num_values=[num_values], replicates=num_replicates, **given)


@pytest.mark.parametrize("task", [BINARY, Task("multiclass", 3), Task("multilabel", 3), Task("regression", 1)], ids=str)
def test_a_column_of_250_values_is_measured_by_default(task: Task) -> None:
    metrics = {**own_metrics(task, {"margin": "float"}), **load_metrics("", task)}
    found = make_room(task, metrics, num_values=[250], replicates=200)
    assert 8 * found.size <= MEMORY
    exact = make_room(task, metrics, num_values=[2], replicates=200).drawn_sliced
    assert "calibration_error" not in metrics or exact.metrics["calibration_error"] == metrics["calibration_error"]


def test_the_largest_is_that_of_what_is_too_much() -> None:
    """Of all samples auroc is; but its bins could be spared, and those 1,000 of the other cannot."""
    with pytest.raises(InputError, match=r"\(the largest is calibration_error, with 3,001 of 3,039"):
        room("auroc, calibration_error(bins=1000)", num_values=[250], replicates=1000)


def test_a_metric_that_is_too_large_by_itself() -> None:
    task = Task("multiclass", 4000)
    with pytest.raises(InputError, match=r"the limit is 0 MiB: .* Give fewer metrics \(the largest is f1, with "):
        room("f1", task, memory=1 << 16)
