from __future__ import annotations

import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.loop.watch import Watch


def of(monitor: str, patience: int, *, higher: bool = False) -> Watch:
    return Watch(monitor, patience, higher_is_better=higher)


def told(watch: Watch, *values: float) -> list[bool]:
    return [watch.improves(step, {watch.monitor: value}) for step, value in enumerate(values, start=1)]


def test_less_is_better_and_the_first_of_equals_counts() -> None:
    watch = of("validation_error_rate", 0)
    assert told(watch, 2.0, 1.0, 1.0, 3.0) == [True, True, False, False]
    assert (watch.best, watch.best_step) == (1.0, 2)


def test_more_is_better() -> None:
    watch = of("validation_no_loss", 0, higher=True)
    assert told(watch, 0.5, 0.4, 0.5, 0.6) == [True, False, False, True]
    assert (watch.best, watch.best_step) == (0.6, 4)


def test_patience_starts_again_with_each_better_one() -> None:
    watch = of("validation_loss", 2)
    given_up = []
    for step, value in enumerate((3.0, 4.0, 2.0, 2.5, 2.5), start=1):
        watch.improves(step, {"validation_loss": value})
        given_up.append(watch.gives_up)
    assert given_up == [False, False, False, False, True]
    assert watch.describe() == (
        "early stopping: validation_loss was best at step 3 (2), and the 2 validations since were no better"
    )


def test_without_patience_it_never_gives_up() -> None:
    watch = of("validation_loss", 0)
    told(watch, 1.0, *[2.0] * 100)
    assert not watch.gives_up


def test_the_state_resumes() -> None:
    first, second = of("validation_loss", 3), of("validation_loss", 3)
    told(first, 2.0, 1.0, 5.0, 5.0)
    second.load_state(first.state())
    assert (second.best, second.best_step, second.gives_up) == (1.0, 2, False)
    assert not second.improves(5, {"validation_loss": 1.5})
    assert second.gives_up


def test_a_typo_names_the_closest_match() -> None:
    names = {"validation_loss": 1.0, "validation_accuracy": 0.5}
    of("validation_accuracy", 0).check(names)
    with pytest.raises(InputError, match=r"no monitor 'validation_acuracy'\. Did you mean 'validation_accuracy'\?"):
        Watch("validation_acuracy", 0, higher_is_better=None).check(names)


def test_without_a_direction_nothing_is_the_best() -> None:
    with pytest.raises(InputError, match=r"whether more of 'error_rate' is better.*higher_is_better = \{'error_rate'"):
        Watch("validation_error_rate", 0, higher_is_better=None).check({"validation_error_rate": 0.5})
