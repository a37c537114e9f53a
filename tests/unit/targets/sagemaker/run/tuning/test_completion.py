"""When a training ends early, and when a tuning has had enough."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.run_store.statuses import Facts
from drivetrain.targets.sagemaker.run.step_types.tuning import response
from drivetrain.targets.sagemaker.run.tuning.completion import (
    MedianRule,
    SuccessiveHalving,
    best,
    enough,
    hopeless,
    not_improving,
    ranked,
    rule,
)
from drivetrain.targets.sagemaker.run.tuning.config import JobDefinition, Objective, TuningConfig
from drivetrain.targets.sagemaker.run.tuning.trials import Status, Trial


def config(*, maximize: bool = True, **fields: Any) -> TuningConfig:
    definition = JobDefinition(name=None, arguments={}, ranges=(), static={}, objective=Objective("accuracy", maximize))
    return TuningConfig(
        **{"strategy": "Random", "definitions": (definition,), "num_trainings": 10, "max_parallel": 1, **fields}
    )


def trials(*objectives: float | None, status: Status = "Completed") -> list[Trial]:
    return [
        Trial(number=place + 1, place=place, job=f"j{place}", definition=None, parameters={}, status=status,
              objective=value, reason="exit code 1" if status == "Failed" else None)
        for place, value in enumerate(objectives)
    ]  # fmt: skip


ENDED = ([0.1, 0.3, 0.8], [0.2, 0.4, 0.6], [0.5, 0.7])


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ([0.2], False),  # the median of 0.1, 0.2 and 0.5 is 0.2: not worse
        ([0.19], True),
        ([0.9, 0.29], True),  # running averages 0.2, 0.3, 0.6: by the latest value, not by its own average
        ([0.0, 0.31], False),
        ([0.9, 0.9, 0.39], True),  # two came so far: 0.4 and 0.4
        ([0.9, 0.9, 0.4], False),
        ([0.9, 0.9, 0.9, 0.0], False),  # nobody came so far
    ],
)
def test_the_median_of_the_running_averages_decides(values: list[float], ends: bool) -> None:
    assert (MedianRule(maximize=True).verdict(values, ENDED, ()) is not None) == ends
    # The same the other way round.
    flipped = [[-value for value in other] for other in ENDED]
    assert (MedianRule(maximize=False).verdict([-value for value in values], flipped, ()) is not None) == ends


def test_the_median_rule_looks_at_those_that_have_ended() -> None:
    assert MedianRule(maximize=True).verdict([0.0], (), ([0.9], [0.9])) is None
    told = str(MedianRule(maximize=True).verdict([0.1], ENDED, ()))
    assert told == "at epoch 1 0.1 was worse than 0.2, the median of the trainings before it"


def test_halving_keeps_the_best_third_at_its_rungs() -> None:
    halving = SuccessiveHalving(maximize=False, least=2, most=18)
    others = ([1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0], [5.0, 5.0])
    assert halving.verdict([9.0], others, ()) is None  # before MinResource nobody is stopped
    assert halving.verdict([9.0, 1.5], others, ()) is None  # the second of six
    assert halving.verdict([9.0, 2.5], others, ()) == "at epoch 2 2 of 5 trainings were better than 2.5"
    assert halving.verdict([9.0, 2.5], (), others) is not None  # those at work count, too
    assert halving.verdict([9.0, 2.5], others[:1], ()) is None  # too few to say
    assert halving.verdict([9.0, 9.0, 9.0], ([1.0] * 3,) * 5, ()) is None  # 3 is no rung; 6 is
    assert halving.verdict([9.0] * 6, ([1.0] * 6,) * 5, ()) is not None
    assert "MaxResource" in str(halving.verdict([0.0] * 18, (), ()))


def test_which_rule_a_tuning_has() -> None:
    assert rule(config()) is None
    assert rule(config(early_stopping=True, maximize=False)) == MedianRule(maximize=False)
    assert rule(config(strategy="Hyperband", resources=(1, 9))) == SuccessiveHalving(True, 1, 9)


def test_a_target_time_and_patience_end_a_tuning() -> None:
    assert enough(config(target=0.9), trials(0.5, 0.89), 5.0) is None
    assert enough(config(target=0.9), trials(0.5, 0.9), 5.0) == "the target 0.9 was reached"
    assert enough(config(target=0.1, maximize=False), trials(0.5, 0.09), 5.0) == "the target 0.1 was reached"
    assert enough(config(max_seconds=60), trials(0.5), 59.0) is None
    assert enough(config(max_seconds=60), trials(0.5), 60.0) == "MaxRuntimeInSeconds 60 is over"
    assert enough(config(patience=3), trials(0.5, 0.6, 0.1, None), 5.0) is None
    assert enough(config(patience=3), trials(0.5, 0.6, 0.1, None, 0.6), 5.0) is not None
    assert not_improving(Objective("accuracy", True), trials(None, 0.5, 0.4, 0.6)) == 0


@pytest.mark.parametrize(
    ("maximize", "values", "count"),
    [
        (True, (0.900, 0.901, 0.902, 0.903), 3),
        (True, (0.5, 0.504, 0.508), 2),  # compared with the best before it, not with the one that last counted
        (True, (10.0, 10.1), 0),  # exactly 1 %, which binary numbers do not quite reach
        (True, (10.0, 10.09), 1),
        (True, (-10.0, -9.95), 1),
        (True, (-10.0, -9.8), 0),
        (True, (0.0, 1e-9), 0),
        (False, (1.0, 0.995), 1),
        (False, (1.0, 0.99), 0),
        (False, (1.0, 1.5), 1),
    ],
)
def test_a_training_improves_by_one_percent_or_not_at_all(
    maximize: bool, values: tuple[float, ...], count: int
) -> None:
    assert not_improving(Objective("accuracy", maximize), trials(*values)) == count


def test_five_trainings_without_a_result_are_enough() -> None:
    assert hopeless(trials(*[None] * 4, status="Failed")) is None
    assert hopeless([*trials(*[None] * 5, status="Failed"), *trials(0.5)]) is None
    told = str(hopeless(trials(*[None] * 5, status="Failed")))
    assert told == "No training job succeeded after 5 attempts. The first to fail was 001: exit code 1"
    assert "No objective metrics found after running 5 training jobs" in str(hopeless(trials(*[None] * 5)))


def test_the_best_ran_to_its_end() -> None:
    found = [*trials(0.5, 0.7), *trials(0.9, status="Stopped")]
    assert [trial.objective for trial in ranked(config(), found)] == [0.9, 0.7, 0.5]
    assert best(config(), found) is found[1]
    assert best(config(), trials(0.9, status="Stopped")) is not None
    assert [trial.objective for trial in ranked(config(maximize=False), found)] == [0.5, 0.7, 0.9]
    assert best(config(), trials(None)) is None


def test_the_best_training_is_the_first_summary_also_where_one_that_was_stopped_had_a_better_value() -> None:
    stopped, whole = trials(0.9, status="Stopped"), trials(0.1, 0.8, 0.5, None)
    for place, trial in enumerate(whole, start=2):
        trial.number, trial.job = place, f"whole{place}"
    told = response(
        {},
        config(),
        [*stopped, *whole],
        name="t",
        facts=Facts("e", "p", "us-east-1", "000000000000", 0.0),
        seconds=1.0,
        over=None,
        seed=1,
    )
    jobs = [one["TrainingJobName"] for one in told["TrainingJobSummaries"]]
    assert jobs == ["whole3", "j0", "whole4", "whole2", "whole5"]
    assert told["TrainingJobSummaries"][0] == told["BestTrainingJob"]
