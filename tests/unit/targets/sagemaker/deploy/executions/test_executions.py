from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import UserError
from drivetrain.steps import fresh_token
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.sagemaker.deploy.deployer import SageMaker
from drivetrain.targets.sagemaker.deploy.executions import executions
from drivetrain.targets.sagemaker.deploy.executions.execution_jobs import JobStep
from drivetrain.targets.sagemaker.refusals import AbsentError
from tests.fixtures.sagemaker_service.playing import Playing
from tests.unit.targets.sagemaker.deploy.conftest import NAME, Place, definition


@pytest.fixture
def started(place: Place) -> tuple[Place, Playing]:
    place.apply(place.wanted())
    return place, Playing(place.outside.backend(), executions.start(place.account, NAME, StartRequest()))


def test_a_start_passes_its_options(place: Place) -> None:
    place.apply(place.wanted())
    arn = executions.start(
        place.account, NAME, StartRequest(parameters={"MinAccuracy": "0.5"}, parallel=2, name="by-hand")
    )
    client = place.outside.client("sagemaker")
    said = client.describe_pipeline_execution(PipelineExecutionArn=arn)
    parameters = client.list_pipeline_parameters_for_execution(PipelineExecutionArn=arn)["PipelineParameters"]
    assert said["PipelineExecutionDisplayName"] == "by-hand"
    assert said["ParallelismConfiguration"] == {"MaxParallelExecutionSteps": 2}
    assert said["PipelineVersionId"] == 1
    assert parameters == [{"Name": "MinAccuracy", "Value": "0.5"}]


def test_a_fresh_start_has_a_value_of_its_own_or_is_refused(place: Place) -> None:
    place.apply(place.wanted())
    with pytest.raises(UserError, match=r"--fresh: .* has no parameter Fresh. Deploy it again \(drivetrain apply\)"):
        executions.start(place.account, NAME, StartRequest(fresh=True))
    more = {**definition(), "Parameters": [{"Name": "Fresh", "Type": "String", "DefaultValue": "no"}]}
    place.apply(place.wanted(definition=more))
    client, values = place.outside.client("sagemaker"), set[str]()
    for _ in range(2):
        arn = executions.start(place.account, NAME, StartRequest(fresh=True))
        [given] = client.list_pipeline_parameters_for_execution(PipelineExecutionArn=arn)["PipelineParameters"]
        assert given["Name"] == "Fresh" and fresh_token({"DRIVETRAIN_FRESH": given["Value"]})
        values.add(given["Value"])
    assert len(values) == 2


@pytest.mark.slow
def test_a_version_or_alias_is_started_and_its_parameters_count(place: Place) -> None:
    place.apply(place.wanted())
    client = place.outside.client("sagemaker")
    client.update_pipeline_version(
        PipelineArn=place.wanted().arn, PipelineVersionId=1, PipelineVersionAliasOperations={"Add": ["stable"]}
    )
    more = {**definition(), "Parameters": [{"Name": "Rows", "Type": "Integer", "DefaultValue": 3}]}
    place.apply(place.wanted(definition=more))
    older: tuple[dict[str, Any], ...] = ({"version": 1}, {"alias": "stable"})
    for which in older:
        arn = executions.start(place.account, NAME, StartRequest(parameters={"MinAccuracy": "0.1"}, **which))
        assert executions.describe(place.account, arn).version == 1
    assert executions.describe(place.account, executions.start(place.account, NAME, StartRequest())).version == 2
    with pytest.raises(UserError, match="no parameter 'MinAccuracy'"):
        executions.start(place.account, NAME, StartRequest(parameters={"MinAccuracy": "0.1"}))
    with pytest.raises(UserError, match="Give one of them"):
        executions.start(place.account, NAME, StartRequest(version=1, alias="stable"))
    with pytest.raises(AbsentError, match="alias 'other' does not exist"):
        executions.start(place.account, NAME, StartRequest(alias="other"))
    assert [(number, aliases) for number, _, aliases in executions.versions(place.account, NAME)] == [
        (2, ()),
        (1, ("stable",)),
    ]


@pytest.mark.slow_cases(but=["given0-Did you mean 'MinAccuracy'"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"parameters": {"MinAcuracy": "1"}}, "Did you mean 'MinAccuracy'"),
        ({"parameters": {"MinAccuracy": "high"}}, "a finite number"),
        ({"select": ["trian"]}, "--select trian: there is no such step. Did you mean 'train'"),
        ({"select": ["prepare", "stop"]}, "train lies between steps that are selected"),
        ({"select": ["train"]}, "no execution of 'nightly' has succeeded or failed yet"),
        ({"name": "by hand"}, "--name 'by hand': no execution can be called so"),
        ({"name": "x" * 83}, "Allowed: 1 to 82 letters and digits"),
        ({"version": 99}, "There is no version 99 of pipeline 'nightly' in region us-east-1"),
        ({"alias": "prod"}, "There is no version with alias 'prod' of pipeline 'nightly'"),
    ],
)
def test_starts_refused_by_the_service_are_refused_early(place: Place, given: dict[str, Any], message: str) -> None:
    place.apply(place.wanted())
    with pytest.raises(UserError, match=message):
        executions.start(place.account, NAME, StartRequest(**given))
    assert executions.executions(place.account, NAME) == []


def test_a_text_that_no_argument_takes_is_refused_before(place: Place) -> None:
    """The service takes 1,024 characters at the start, and fails the step that passes them as an argument."""
    prepare = definition()["Steps"][0]
    prepare["Arguments"]["AppSpecification"]["ContainerArguments"] = ["--note", {"Get": "Parameters.Note"}]
    parameters = [{"Name": "Note", "Type": "String", "DefaultValue": "short"}]
    place.apply(place.wanted(definition={**definition(), "Parameters": parameters, "Steps": [prepare]}))
    message = "step 'prepare': Arguments.AppSpecification.ContainerArguments.1. gets 257 characters by 'Note'"
    with pytest.raises(UserError, match=message):
        executions.start(place.account, NAME, StartRequest(parameters={"Note": "x" * 257}))
    assert executions.executions(place.account, NAME) == []
    executions.start(place.account, NAME, StartRequest(parameters={"Note": "x" * 256}))


def test_selected_steps_take_what_they_need_of_the_latest_that_has_ended(started: tuple[Place, Playing]) -> None:
    place, first = started
    first.conclude("Failed", "no luck")
    Playing(place.outside.backend(), executions.start(place.account, NAME, StartRequest())).conclude(
        "Stopped"
    )  # gives nothing
    executions.start(place.account, NAME, StartRequest())  # goes on
    arn = executions.start(place.account, NAME, StartRequest(select=["train"]))
    said = place.outside.client("sagemaker").describe_pipeline_execution(PipelineExecutionArn=arn)
    assert said["SelectiveExecutionConfig"] == {
        "SourcePipelineExecutionArn": first.arn,
        "SelectedSteps": [{"StepName": "train"}],
    }
    arn = executions.start(place.account, NAME, StartRequest(select=["prepare"]))
    said = place.outside.client("sagemaker").describe_pipeline_execution(PipelineExecutionArn=arn)
    assert said["SelectiveExecutionConfig"] == {"SelectedSteps": [{"StepName": "prepare"}]}


def test_executions_are_listed_the_newest_first_and_one_is_named_by_its_arn(place: Place) -> None:
    place.apply(place.wanted())
    arns = [executions.start(place.account, NAME, StartRequest(name=f"run-{n}")) for n in range(3)]
    listed = executions.executions(place.account, NAME, 2)
    assert [(each.arn, each.name) for each in listed] == [(arns[2], "run-2"), (arns[1], "run-1")]
    deployer = SageMaker("us-east-1", None)
    assert deployer.find(NAME, arns[1]).address == arns[1]
    with pytest.raises(UserError, match="arn:nonsense is no ARN of an execution"):
        deployer.find(NAME, "arn:nonsense")
    with pytest.raises(UserError, match="is an execution of 'weekly', not of 'nightly'"):
        deployer.find(NAME, arns[0].replace(f"pipeline/{NAME}/", "pipeline/weekly/"))
    with pytest.raises(AbsentError, match=r"no pipeline 'other' in region us-east-1\. .* drivetrain list --deployed"):
        executions.executions(place.account, "other")
    for impossible in ("no such", "nightly.pi", "", "-x", "a" * 257):
        with pytest.raises(
            UserError, match=r"is no name of a pipeline\. Allowed: letters .* drivetrain list --deployed"
        ):
            executions.executions(place.account, impossible)
        with pytest.raises(UserError, match="is no name of a pipeline"):
            executions.start(place.account, impossible, StartRequest())


def test_steps_are_described(started: tuple[Place, Playing]) -> None:
    place, playing = started
    name = playing.begin("prepare", "Processing")
    playing.end("prepare", seconds=61)
    playing.begin("train")
    playing.end("train", CacheHitResult={"SourcePipelineExecutionArn": playing.arn})
    playing.begin("stop")
    playing.end("stop", "Failed", FailureReason="because", Metadata={"Fail": {"ErrorMessage": "because"}})
    playing.conclude("Failed", "Step stop failed.")
    found = executions.describe(place.account, playing.arn)
    prepare, train, stop = found.steps
    assert isinstance(prepare, JobStep)
    assert (found.status, found.reason, found.is_going) == ("Failed", "Step stop failed.", False)
    assert found.pipeline == NAME and found.ended is not None
    assert (prepare.name, prepare.type, prepare.seconds, prepare.job_name) == ("prepare", "ProcessingJob", 61, name)
    assert (train.status, train.cache_of) == ("Cached", found.id)
    assert (stop.status, stop.reason) == ("Failed", "because")
    assert executions.definition_of(place.account, playing.arn).raw == json.loads(place.wanted().text)


def test_an_execution_is_stopped_once(started: tuple[Place, Playing]) -> None:
    place, playing = started
    executions.stop(place.account, playing.arn)
    assert executions.describe(place.account, playing.arn).status == "Stopping"
    playing.conclude("Stopped")
    with pytest.raises(UserError, match="has ended: Stopped"):
        executions.stop(place.account, playing.arn)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ({"StepStatus": "Succeeded"}, ("Succeeded", None)),
        ({"StepStatus": "Succeeded", "CacheHitResult": {"SourcePipelineExecutionArn": "a/e1"}}, ("Cached", None)),
        ({"StepStatus": "Failed", "CacheHitResult": {"SourcePipelineExecutionArn": "a/e1"}}, ("Failed", None)),
        ({"StepStatus": "Succeeded", "Metadata": {"Condition": {"Outcome": "True"}}}, ("Succeeded", "yes")),
        ({"StepStatus": "Succeeded", "Metadata": {"Condition": {"Outcome": "False"}}}, ("Succeeded", "no")),
        ({"StepStatus": "Executing", "Metadata": {"Condition": {}}}, ("Executing", None)),
        (
            {"StepStatus": "Succeeded", "Metadata": {"RegisterModel": {"Arn": "arn:...:model-package/m/7"}}},
            ("Succeeded", "version 7"),
        ),
        (
            {"StepStatus": "Succeeded", "Metadata": {"TrainingJob": {"Arn": "arn:...:training-job/x"}}},
            ("Succeeded", None),
        ),
    ],
)
def test_a_step_is_shown_as_in_a_local_run(said: dict[str, Any], shown: tuple[str, str | None]) -> None:
    step = executions.step_of({"StepName": "step", **said})
    assert (step.shown_status, step.value) == shown
