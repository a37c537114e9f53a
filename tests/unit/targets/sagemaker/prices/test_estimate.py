from __future__ import annotations

import datetime
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.prices.estimate import MONTH, Estimate, estimate, lines_of
from drivetrain.targets.sagemaker.prices.table import PriceTable, Sheet

DAY = datetime.date(2026, 9, 24)
HOURLY = {"ml.m5.xlarge": 0.25, "ml.m5.large": 0.125, "ml.g5.xlarge": 1.5}
PRICES = PriceTable(
    (
        Sheet("us-east-1", DAY, "tests", {"Training": HOURLY, "Processing": HOURLY}, {"Training": 0.146}),
        Sheet("us-east-1", datetime.date(2026, 8, 1), "tests", {"Transform": {"ml.m5.xlarge": 0.5}}, {}),
    )
)
Json = dict[str, Any]


def resources(instance_type: Any = "ml.m5.xlarge", count: Any = 1, **more: Any) -> Json:
    return {"InstanceType": instance_type, "InstanceCount": count, "VolumeSizeInGB": 0, **more}


def training(name: str, given: Json | None = None, seconds: Any = 3600, **more: Any) -> Json:
    arguments = {"ResourceConfig": given or resources(), "StoppingCondition": {"MaxRuntimeInSeconds": seconds}, **more}
    return {"Name": name, "Type": "Training", "Arguments": arguments}


def processing(name: str, given: Json | None = None, **more: Any) -> Json:
    arguments = {"ProcessingResources": {"ClusterConfig": given or resources()}, **more}
    return {"Name": name, "Type": "Processing", "Arguments": arguments}


def condition(name: str, then: list[Json], otherwise: list[Json]) -> Json:
    return {"Name": name, "Type": "Condition", "Arguments": {"Conditions": [], "IfSteps": then, "ElseSteps": otherwise}}


def of(*steps: Json, parameters: list[Json] | None = None, **more: Any) -> Estimate:
    definition = {"Version": "2020-12-01", "Parameters": parameters or [], "Steps": list(steps)}
    return estimate(definition, **{"region": "us-east-1", "prices": PRICES, **more})


def test_a_step_counts_for_the_longest_that_it_may_run_on_all_its_hosts() -> None:
    (step,) = of(training("train", resources("ml.g5.xlarge", 4), 7200)).steps
    assert (step.instance_type, step.count, step.seconds, step.measured) == ("ml.g5.xlarge", 4, 7200, False)
    assert step.on_demand == pytest.approx(1.5 * 4 * 2)
    assert step.spot is None


def test_a_measured_time_counts_where_it_is_known() -> None:
    found = of(training("train"), processing("prepare"), seconds={"train": 360.0})
    train, prepare = found.steps
    assert (train.seconds, train.measured, train.on_demand) == (360.0, True, pytest.approx(0.025))
    assert (prepare.seconds, prepare.measured) == (86_400, False), "a day where nothing is said"
    assert found.total == pytest.approx(0.025 + 0.25 * 24)


def test_volumes_are_counted_by_the_month_but_not_for_machines_with_disks_of_their_own() -> None:
    step, other = of(
        training("train", resources("ml.m5.xlarge", 2, VolumeSizeInGB=100), MONTH // 10),
        training("on_own_disk", resources("ml.g5.xlarge", 2, VolumeSizeInGB=100), MONTH // 10),
    ).steps
    assert step.storage == pytest.approx(0.146 * 100 * 2 / 10)
    assert other.storage == 0


def test_a_volume_without_a_price_is_said_and_not_counted() -> None:
    found = of(processing("prepare", resources(VolumeSizeInGB=30)))
    assert found.steps[0].storage == 0
    assert found.complete
    assert found.notes == (
        "prepare: no price of the volumes of a processing job in us-east-1 is known; they are not counted.",
    )


def test_spot_is_the_documented_range() -> None:
    found = of(training("train", seconds=36_000, EnableManagedSpotTraining=True))
    (step,) = found.steps
    assert step.on_demand == pytest.approx(2.5)
    assert step.spot == pytest.approx((0.25, 2.5)), "up to 90% off, and never more than on demand"
    assert (found.least, found.total) == pytest.approx((0.25, 2.5))


def test_values_of_parameters_and_their_defaults() -> None:
    step = training(
        "train",
        resources({"Get": "Parameters.Machine"}, {"Get": "Parameters.Hosts"}),
        {"Get": "Parameters.Seconds"},
        EnableManagedSpotTraining={"Get": "Parameters.Spot"},
    )
    declared = [
        {"Name": "Machine", "Type": "String", "DefaultValue": "ml.m5.large"},
        {"Name": "Hosts", "Type": "Integer", "DefaultValue": 1},
        {"Name": "Seconds", "Type": "Integer", "DefaultValue": 3600},
        {"Name": "Spot", "Type": "Boolean", "DefaultValue": False},
    ]
    assert of(step, parameters=declared).total == pytest.approx(0.125)
    given = {"Machine": "ml.g5.xlarge", "Hosts": "2", "Spot": "true"}
    definition = {"Parameters": declared, "Steps": [step]}
    found = estimate(definition, region="us-east-1", parameters=given, prices=PRICES)
    assert found.total == pytest.approx(3.0)
    assert found.steps[0].spot is not None


def test_a_parameter_that_does_not_exist_or_does_not_fit_is_refused() -> None:
    definition = {"Parameters": [{"Name": "Hosts", "Type": "Integer"}], "Steps": []}
    with pytest.raises(UserError, match="Did you mean 'Hosts'"):
        estimate(definition, region="us-east-1", parameters={"Host": 1}, prices=PRICES)
    with pytest.raises(UserError, match="whole number"):
        estimate(definition, region="us-east-1", parameters={"Hosts": "many"}, prices=PRICES)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (training("train", resources({"Get": "Parameters.Machine"})), "on which machines"),
        (training("train", resources(count={"Get": "Steps.a.OutputParameters['n']"})), "on how many machines"),
        (training("train", seconds={"Get": "Steps.a.OutputParameters['n']"}), "nothing bounds how long it runs"),
        (training("train", resources("ml.x99.huge")), "no price of ml.x99.huge for a training job in us-east-1"),
    ],
)
def test_unknown_costs_are_reported_and_never_guessed(step: Json, why: str) -> None:
    found = of(step, processing("prepare"), parameters=[{"Name": "Machine", "Type": "String"}])
    assert found.steps[0].on_demand is None
    assert why in found.notes[0]
    assert not found.complete
    assert found.total == pytest.approx(6.0), "of the other step"
    assert "without 1 of 2 entries" in "\n".join(lines_of(found))


def test_a_region_without_prices_is_said_once() -> None:
    found = of(training("train"), processing("prepare"), region="us-east-2")
    assert [step.on_demand for step in found.steps] == [None, None]
    assert found.notes == (
        "no prices of region us-east-2 are known. Did you mean 'us-east-1'? Allowed: us-east-1. Fetch them: drivetrain "
        "prices update --region us-east-2",
    )
    assert found.priced_on is None
    assert "total: unknown" in lines_of(found)


def test_the_more_expensive_branch_of_a_condition_counts() -> None:
    inner = condition("again", [training("large", resources(count=8))], [training("small")])
    found = of(training("first"), condition("gate", [inner], [training("other", resources(count=2))]), training("last"))
    assert len(found.steps) == 5
    assert found.total == pytest.approx(0.25 * (1 + 8 + 1))
    assert found.steps[1].branch == (("gate", True), ("again", True))


def test_a_heterogeneous_cluster_is_the_sum_of_its_groups() -> None:
    groups = [
        {"InstanceGroupName": "gpus", "InstanceType": "ml.g5.xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "readers", "InstanceType": "ml.m5.large", "InstanceCount": 4},
    ]
    found = of(training("train", {"InstanceGroups": groups, "VolumeSizeInGB": 0}))
    assert [(step.step, step.count, step.on_demand) for step in found.steps] == [("train", 2, 3.0), ("train", 4, 0.5)]
    assert found.total == pytest.approx(3.5)


def test_the_most_expensive_preferred_machine_counts() -> None:
    preferred = [{"InstanceType": "ml.m5.large", "InstanceCount": 2}, {"InstanceType": "ml.g5.xlarge"}]
    (step,) = of(training("train", {"InstancePreferences": preferred, "InstanceCount": 1})).steps
    assert (step.instance_type, step.count, step.on_demand) == ("ml.m5.large or ml.g5.xlarge", 1, 1.5)
    (unknown,) = of(training("train", {"InstancePreferences": [*preferred, {"InstanceType": "ml.x"}]})).steps
    assert unknown.on_demand is None, "the service may pick the one without a price"


def test_a_warm_pool_is_an_entry_of_its_own() -> None:
    job, pool = of(training("train", resources(KeepAlivePeriodInSeconds=1800)), seconds={"train": 60.0}).steps
    assert (job.what, job.seconds, job.measured) == ("job", 60.0, True)
    assert (pool.what, pool.seconds, pool.measured, pool.on_demand) == ("warm pool", 1800, False, 0.125)


def test_tuning_counts_all_its_jobs() -> None:
    definition = {
        "StoppingCondition": {"MaxRuntimeInSeconds": 3600},
        "ResourceConfig": resources(),
        "EnableManagedSpotTraining": True,
    }
    config = {"ResourceLimits": {"MaxNumberOfTrainingJobs": 20, "MaxParallelTrainingJobs": 2}}
    arguments = {"HyperParameterTuningJobConfig": config, "TrainingJobDefinition": definition}
    (step,) = of({"Name": "tune", "Type": "Tuning", "Arguments": arguments}).steps
    assert (step.jobs, step.seconds, step.on_demand, step.spot) == (20, 72_000, 5.0, (0.5, 5.0))
    (measured,) = of({"Name": "tune", "Type": "Tuning", "Arguments": arguments}, seconds={"tune": 7200.0}).steps
    assert measured.on_demand == pytest.approx(0.5), "the time of all jobs together"


def test_several_definitions_of_a_tuning_count_as_the_dearest() -> None:
    definitions = [{"ResourceConfig": resources()}, {"ResourceConfig": resources("ml.g5.xlarge", 2)}]
    config = {"ResourceLimits": {"MaxNumberOfTrainingJobs": 3}}
    arguments = {"HyperParameterTuningJobConfig": config, "TrainingJobDefinitions": definitions}
    found = of({"Name": "tune", "Type": "Tuning", "Arguments": arguments})
    assert found.total == pytest.approx(3 * 24 * 3.0)
    assert "use 2 definitions" in found.notes[0]


def test_the_machines_of_a_tuning_that_may_choose() -> None:
    flexible = {"InstanceConfigs": [resources("ml.m5.large", 2), resources("ml.g5.xlarge", 1, VolumeSizeInGB=50)]}
    arguments = {
        "HyperParameterTuningJobConfig": {"ResourceLimits": {"MaxNumberOfTrainingJobs": 1}},
        "TrainingJobDefinition": {"HyperParameterTuningResourceConfig": flexible},
    }
    (step,) = of({"Name": "tune", "Type": "Tuning", "Arguments": arguments}).steps
    assert (step.instance_type, step.on_demand) == ("ml.m5.large or ml.g5.xlarge", 36.0)


def test_a_for_each_counts_its_body_for_every_item() -> None:
    body = [training("fit"), training("score", resources("ml.m5.large"))]
    step = {"Name": "each", "Type": "ForEach", "Arguments": {"IterableItems": [1, 2, 3], "ForEachBody": body}}
    found = of(step, seconds={"fit": 720.0})
    fit, score = found.steps
    assert (fit.step, fit.jobs, fit.on_demand) == ("fit", 3, pytest.approx(0.05))
    assert (score.step, score.jobs, score.on_demand) == ("score", 3, pytest.approx(0.375))
    step["Arguments"]["IterableItems"] = {"Get": "Steps.a.OutputParameters['items']"}
    found = of(step)
    assert "how many items" in found.notes[0]
    assert (found.total, found.complete) == (0.0, False), "no bound is told where there is none"
    assert of(step, seconds={"fit": 720.0, "score": 720.0}).complete
    step["Arguments"]["IterableItems"] = {"Get": "Parameters.Items"}
    items = {"Name": "Items", "Type": "String", "DefaultValue": '["a", "b", "c", "d"]'}
    assert [one.jobs for one in of(step, parameters=[items]).steps] == [4, 4]
    broken = {**items, "DefaultValue": "[1,"}
    assert not of(step, parameters=[broken]).complete


def grid(**limits: Any) -> Json:
    ranges = {"CategoricalParameterRanges": [{"Name": "a", "Values": ["1", "2"]}, {"Name": "b", "Values": list("345")}]}
    config = {"Strategy": "Grid", "ResourceLimits": limits, "ParameterRanges": ranges}
    definition = {"ResourceConfig": resources(), "StoppingCondition": {"MaxRuntimeInSeconds": 3600}}
    arguments = {"HyperParameterTuningJobConfig": config, "TrainingJobDefinition": definition}
    return {"Name": "tune", "Type": "Tuning", "Arguments": arguments}


def test_a_grid_counts_its_combinations() -> None:
    found = of(grid(MaxParallelTrainingJobs=2))
    assert (found.steps[0].jobs, found.total, found.complete) == (6, pytest.approx(1.5), True)
    other = grid()
    other["Arguments"]["HyperParameterTuningJobConfig"]["Strategy"] = "Random"
    found = of(other)
    assert not found.complete and "how many training jobs it runs is only known when it runs" in found.notes[0]
    assert of(other, seconds={"tune": 3600.0}).total == pytest.approx(0.25)


def test_retries_are_noted_as_uncounted() -> None:
    policies = [{"ExceptionType": ["SageMaker.JOB_INTERNAL_ERROR"], "MaxAttempts": 3}]
    found = of({**training("train"), "RetryPolicies": policies}, training("other"))
    assert found.notes == ("train: what its RetryPolicies run again after a failure of the service's is not counted.",)
    found = of(training("train", RetryStrategy={"MaximumRetryAttempts": 2}))
    assert "RetryStrategy" in found.notes[0]


def test_a_transform_needs_an_earlier_execution_to_tell_its_time() -> None:
    step = {"Name": "score", "Type": "Transform", "Arguments": {"TransformResources": resources()}}
    assert of(step).steps[0].on_demand is None
    found = of(step, processing("prepare"), seconds={"score": 3600.0})
    assert found.steps[0].on_demand == pytest.approx(0.5)
    assert found.priced_on == datetime.date(2026, 8, 1), "of the oldest price that was used"


@pytest.mark.parametrize("kind", ["QualityCheck", "ClarifyCheck"])
def test_checks_are_processing_jobs(kind: str) -> None:
    assert of({**processing("check"), "Type": kind}).total == pytest.approx(6.0)


def test_steps_without_machines_cost_nothing_and_unknown_ones_say_so() -> None:
    free = [{"Name": kind, "Type": kind, "Arguments": {}} for kind in ("Model", "RegisterModel", "Lambda", "Fail")]
    found = of(*free)
    assert (found.steps, found.notes, found.total, found.complete) == ((), (), 0, True)
    assert lines_of(found) == ["total: nothing, no step has machines"]
    found = of({"Name": "spark", "Type": "EMR", "Arguments": {}})
    assert found.notes == ("spark: the cost of a step of type EMR is not estimated.",)
    assert not found.complete


def test_serverless_and_reserved_capacity_have_no_price_by_the_hour() -> None:
    serverless = {"Name": "tune", "Type": "Training", "Arguments": {"ServerlessJobConfig": {}}}
    reserved = training("train", resources(TrainingPlanArn="arn:aws:sagemaker:us-east-1:1:training-plan/p"))
    assert of(serverless, reserved).notes == (
        "tune: a serverless job has no price by the hour.",
        "train: it runs on a training plan, whose capacity is paid for beforehand.",
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"ResourceConfig": []},
        {"ResourceConfig": resources(count=-1), "StoppingCondition": 7},
        {"ResourceConfig": resources(count="x", instance_type=4), "StoppingCondition": {"MaxRuntimeInSeconds": []}},
        {"ResourceConfig": resources(count=10**400)},
        {"ResourceConfig": {"InstanceGroups": [1, None]}},
        {"ResourceConfig": {"InstancePreferences": [1, None]}},
        {"ResourceConfig": {"Std:Join": 1}},
        {"ResourceConfig": {"Get": "nonsense"}},
    ],
)
def test_nonsensical_definitions_have_an_unknown_cost(arguments: Json) -> None:
    found = of({"Name": "train", "Type": "Training", "Arguments": arguments})
    assert found.total == 0
    assert found.notes


def test_the_lines_say_times_amounts_age_and_notes() -> None:
    found = of(
        training("train", resources("ml.g5.xlarge", 2), 36_000, EnableManagedSpotTraining=True),
        condition("gate", [processing("check", resources("ml.m5.large"))], []),
        seconds={"check": 0.36},
    )
    assert lines_of(found, datetime.date(2026, 11, 21)) == [
        "train                    2 x ml.g5.xlarge  at most 10 h 00 min  $3.00 to $30.00 on spot machines",
        "check (if gate is true)  1 x ml.m5.large   as before 0.36 s     under $0.01",
        "total at most $30.00, with spot machines at their cheapest $3.00",
        "prices of 2026-09-24, 58 days old; refresh with drivetrain prices update",
    ]


def test_it_can_be_written_as_json() -> None:
    found = of(training("train", EnableManagedSpotTraining=True))
    said = json.loads(json.dumps(found.to_json()))
    assert (said["total"], said["priced_on"], said["complete"]) == (0.25, "2026-09-24", True)
    assert said["steps"][0]["spot"] == [0.025, 0.25]


def test_a_definition_that_is_none_is_refused() -> None:
    with pytest.raises(UserError, match="no Steps"):
        estimate({}, region="us-east-1", prices=PRICES)


FIELDS = st.sampled_from(
    [
        *("InstanceType", "InstanceCount", "VolumeSizeInGB", "InstanceGroups", "InstancePreferences"),
        *("Get", "Std:Join", "MaxRuntimeInSeconds", "Name", "Type", "Arguments"),
    ]
)
SCALARS = st.sampled_from(
    [
        *(None, True, False, 0, -1, 3, 2**70, 0.5, -1e300, math.nan, math.inf, "", "3", "\0é", "Parameters.x"),
        *HOURLY,
    ]
)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return SCALARS | st.lists(inner, max_size=2) | st.dictionaries(FIELDS, inner, max_size=3)


# Three levels, each drawn once. `st.recursive` throws away what grew beyond its leaves and draws again, which on a busy
# machine took ten seconds for a single example.
JSON = around(around(around(SCALARS)))


@given(
    kind=st.sampled_from(["Training", "Processing", "Transform", "Tuning", "ForEach", "QualityCheck", "Nonsense"]),
    fields=st.dictionaries(
        st.sampled_from(
            [
                *("ResourceConfig", "ProcessingResources", "TransformResources", "StoppingCondition"),
                *("TrainingJobDefinition", "TrainingJobDefinitions", "HyperParameterTuningJobConfig"),
                *("IterableItems", "ForEachBody", "EnableManagedSpotTraining"),
            ]
        ),
        JSON,
        max_size=4,
    ),
)
def test_any_step_gives_an_amount_or_one_message(kind: str, fields: Json) -> None:
    try:
        found = of({"Name": "step", "Type": kind, "Arguments": fields})
    except UserError:
        return
    assert math.isfinite(found.total) and found.total >= found.least >= 0
    assert all((step.on_demand is not None) or found.notes for step in found.steps)
    assert lines_of(found) and json.dumps(found.to_json())
