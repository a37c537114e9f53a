"""A tuning's arguments: what is understood, what is refused and how."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.catalog.quotas import DEFAULT_TUNED_JOBS
from drivetrain.targets.sagemaker.run.tuning.config import Objective, read_config

RANGES = {"ContinuousParameterRanges": [{"Name": "x", "MinValue": "0", "MaxValue": "1"}]}
GRID = {"CategoricalParameterRanges": [{"Name": "a", "Values": ["1", "2"]}, {"Name": "b", "Values": ["3", "4", "5"]}]}
OBJECTIVE = {"Type": "Maximize", "MetricName": "accuracy"}
LIMITS = {"MaxNumberOfTrainingJobs": 9, "MaxParallelTrainingJobs": 3}


def arguments(more: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    told = {
        "Strategy": "Random",
        "ResourceLimits": LIMITS,
        "HyperParameterTuningJobObjective": OBJECTIVE,
        "ParameterRanges": RANGES,
        **config,
    }
    return {
        "HyperParameterTuningJobConfig": {key: value for key, value in told.items() if value is not None},
        "TrainingJobDefinition": {"StaticHyperParameters": {"epochs": "27"}},
        **(more or {}),
    }


def definitions(*names: str | None, kinds: tuple[str, ...] = ("Maximize", "Maximize")) -> dict[str, Any]:
    return {
        "TrainingJobDefinition": None,
        "TrainingJobDefinitions": [
            {
                "DefinitionName": name,
                "TuningObjective": {"Type": kind, "MetricName": f"metric-{name}"},
                "HyperParameterRanges": RANGES,
            }
            for name, kind in zip(names, kinds, strict=False)
        ],
    }


def test_all_that_can_be_said() -> None:
    found = read_config(
        arguments(
            RandomSeed=7,
            TrainingJobEarlyStoppingType="Auto",
            ResourceLimits={**LIMITS, "MaxRuntimeInSeconds": 600},
            TuningJobCompletionCriteria={
                "TargetObjectiveMetricValue": 0.9,
                "BestObjectiveNotImproving": {"MaxNumberOfTrainingJobsNotImproving": 5},
                "ConvergenceDetected": {"CompleteOnConvergence": "Enabled"},
            },
        )
    )
    assert (found.strategy, found.num_trainings, found.max_parallel) == ("Random", 9, 3)
    assert (found.seed, found.early_stopping, found.max_seconds) == (7, True, 600)
    assert (found.target, found.patience) == (0.9, 5)
    assert found.objective == Objective("accuracy", maximize=True)
    assert found.definitions[0].static == {"epochs": "27"}
    assert "CompleteOnConvergence" in found.notes[0]


def test_a_grid_has_as_many_trainings_as_combinations() -> None:
    without = {"MaxParallelTrainingJobs": 1}
    assert read_config(arguments(Strategy="Grid", ParameterRanges=GRID, ResourceLimits=without)).num_trainings == 6
    with pytest.raises(UserError, match="makes 6 trainings, and MaxNumberOfTrainingJobs is 9"):
        read_config(arguments(Strategy="Grid", ParameterRanges=GRID))
    wide = {"CategoricalParameterRanges": [{"Name": name, "Values": [str(n) for n in range(28)]} for name in "ab"]}
    with pytest.raises(UserError, match=r"the grid has 784 combinations\. Allowed: 750"):
        read_config(arguments(Strategy="Grid", ParameterRanges=wide, ResourceLimits=without))
    with pytest.raises(UserError, match="'x' has another range"):
        read_config(arguments(Strategy="Grid"))


def test_without_a_number_of_trainings_the_quota_is_the_limit() -> None:
    limits = {"MaxParallelTrainingJobs": 1, "MaxRuntimeInSeconds": 600}
    assert read_config(arguments(ResourceLimits=limits)).num_trainings == DEFAULT_TUNED_JOBS
    criteria = {"TargetObjectiveMetricValue": 0.9}
    found = read_config(arguments(ResourceLimits={}, TuningJobCompletionCriteria=criteria))
    assert found.num_trainings == DEFAULT_TUNED_JOBS


def test_hyperband_takes_its_epochs_from_the_static_hyperparameters() -> None:
    assert read_config(arguments(Strategy="Hyperband")).resources == (1, 27)
    given = {"HyperbandStrategyConfig": {"MinResource": 2, "MaxResource": 9}}
    assert read_config(arguments(Strategy="Hyperband", StrategyConfig=given)).resources == (2, 9)


def test_several_definitions_each_have_their_own() -> None:
    found = read_config(arguments(definitions("a", "b"), HyperParameterTuningJobObjective=None, ParameterRanges=None))
    assert [(one.name, one.objective.metric) for one in found.definitions] == [("a", "metric-a"), ("b", "metric-b")]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (arguments(Strategy="Baysian"), "Strategy is 'Baysian'. Did you mean 'Bayesian'"),
        (arguments(HyperParameterTuningJobObjective=None), "no objective is given"),
        (arguments(HyperParameterTuningJobObjective={**OBJECTIVE, "Type": "Best"}), "Type is 'Best'. Allowed: Max"),
        (arguments(ParameterRanges={}), "nothing is searched"),
        (arguments({"TrainingJobDefinition": {"StaticHyperParameters": {"x": "1"}}}), "'x' has a range and is in"),
        (arguments({"TrainingJobDefinition": None}), "either TrainingJobDefinition or TrainingJobDefinitions"),
        (arguments({"WarmStartConfig": {"WarmStartType": "TransferLearning"}}), "WarmStartConfig goes on from"),
        (arguments({"Autotune": {"Mode": "Enabled"}}), "Autotune lets the service choose"),
        (arguments(TrainingJobEarlyStoppingType="On"), "TrainingJobEarlyStoppingType is 'On'"),
        (arguments(ResourceLimits={**LIMITS, "MaxParallelTrainingJobs": 0}), "MaxParallelTrainingJobs is 0. Allowed"),
        (arguments(ResourceLimits={"MaxParallelTrainingJobs": 1}), "nothing else ends the tuning. Give it, MaxRuntime"),
        (arguments(ResourceLimits={"MaxNumberOfTrainingJobs": 751}), "MaxNumberOfTrainingJobs is 751. Allowed: at mo"),
        (
            arguments(TuningJobCompletionCriteria={"TargetObjectiveMetricValue": 10**400}),
            "TargetObjectiveMetricValue is a huge number. Allowed: a number below",
        ),
        (arguments(RandomSeed="7"), "RandomSeed is '7'. Allowed: a whole number from 0"),
        (arguments(Strategy="Hyperband", TrainingJobEarlyStoppingType="Auto"), "Set TrainingJobEarlyStoppingType to"),
        (arguments(definitions("a", "a")), "two TrainingJobDefinitions have one DefinitionName"),
        (arguments(definitions(None)), "needs a DefinitionName"),
        (arguments(definitions("a", "b", kinds=("Maximize", "Minimize"))), "nothing is best"),
        (arguments({"TrainingJobDefinition": {}}, Strategy="Hyperband"), "HyperbandStrategyConfig.MaxResource"),
        ({"TrainingJobDefinition": {}}, "no HyperParameterTuningJobConfig"),
    ],
)
def test_what_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_config(given)
