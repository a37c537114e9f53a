"""One test a rule about triggers: the smallest pipeline that breaks it, and the message that says what to do."""

from __future__ import annotations

import inspect
import sys
from typing import Any

import pytest
from pydantic import ValidationError

from drivetrain import (
    Alarm,
    Checkpoint,
    DataDrift,
    Deployment,
    Limit,
    Parameter,
    Pipeline,
    PipelineFinished,
    QualityDrop,
    RegistryEvent,
    Schedule,
    SpecError,
    Upload,
    execution,
    join,
    step,
)
from drivetrain.components.register_model import register_model
from drivetrain.native import model_version
from drivetrain.rules import trigger_rules
from drivetrain.spec.resources import CHECK_SERVED, Program
from drivetrain.spec.steps import NativeStep, ProcessingStep, TrainingStep

NIGHTLY = Schedule(name="nightly", cron="0 2 * * ? *")


def pipeline(*triggers: Any, parameters: Any = (), **fields: Any) -> Pipeline:
    return Pipeline(name="mine", triggers=triggers, parameters=parameters, **fields)


def refusal(*triggers: Any, parameters: Any = (), **fields: Any) -> str:
    with pytest.raises(SpecError) as caught:
        pipeline(*triggers, parameters=parameters, **fields)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_every_rule_has_a_test_here() -> None:
    tests = {name.removeprefix("test_rule_") for name, _ in inspect.getmembers(sys.modules[__name__])}
    assert {rule.__name__ for rule in trigger_rules.rule} <= tests


def test_rule_registry_triggers_watch_a_model_once() -> None:
    def triggers(second: str, **more: Any) -> list[RegistryEvent]:
        return [RegistryEvent(name="one", group="digits"), RegistryEvent(name="two", group=second, **more)]

    said = refusal(*triggers("digits-0a1b2c"))
    assert "one model would start the pipeline twice" in said and "'digits-0a1b2c' and 'digits'" in said
    assert "twice" in refusal(*triggers("digits-0a1b2c", status=None, stage="Production"))
    pipeline(*triggers("digits-europe"))
    pipeline(*triggers("digits-0a1b2c", status="Rejected"))


def test_a_version_copied_by_mlflow_does_not_start_its_own_pipeline() -> None:
    made = registering(registry="mlflow:http://server:5000")
    watching = RegistryEvent(name="synced", group="digits-0a1b2c")
    said = refusal(watching, steps=[made])
    assert "whose sync registers them again in group 'digits-0a1b2c'" in said and "loop_guard=False" in said
    pipeline(watching.model_copy(update={"loop_guard": False}), steps=[made])
    pipeline(RegistryEvent(name="synced", group="letters-0a1b2c"), steps=[made])


def test_rule_registry_triggers_wait_for_fields_that_there_are() -> None:
    said = refusal(RegistryEvent(name="r", group="g", changed=("ModelAprovalStatus",)))
    assert "trigger 'r' waits for a change of 'ModelAprovalStatus'. Did you mean 'ModelApprovalStatus'?" in said
    pipeline(RegistryEvent(name="r", group="g", changed=("ModelApprovalStatus", "CustomerMetadataProperties")))


def test_the_fields_of_a_package_are_those_of_the_service() -> None:
    import botocore.session

    service = botocore.session.get_session().get_service_model("sagemaker")
    update, described = (service.operation_model(f"{verb}ModelPackage") for verb in ("Update", "Describe"))
    fields = {*update.input_shape.members, *described.output_shape.members} - {"ClientToken"}
    assert fields == trigger_rules.PACKAGE_FIELDS


def test_good_triggers_break_no_rule() -> None:
    made = pipeline(
        NIGHTLY,
        Schedule(
            name="often",
            rate="6 hours",
            start="2026-01-01",
            end="2026-06-01T00:00:00Z",
            timezone="Europe/Berlin",
            flexible_minutes=15,
            parameters={"Mode": "full", "Share": 1},
        ),
        Schedule(name="once", at="2026-03-01T02:00:00"),
        RegistryEvent(
            name="approved",
            group="digits",
            parameters={"Mode": "$.detail.ModelApprovalStatus"},
            limit=Limit(starts=2, every="1 day"),
            once_per="10 minutes",
        ),
        Upload(name="data", bucket="arrivals", prefix="rows/", suffix=".csv"),
        PipelineFinished(name="features", pipeline="features"),
        Alarm(name="drift", alarm="digits drift"),
        parameters=[Parameter.string("Mode", "quick"), Parameter.number("Share", 0.5)],
    )
    assert Pipeline.model_validate_json(made.model_dump_json()) == made


def test_the_longest_allowed_value_is_accepted() -> None:
    longest = Schedule(name="s", rate="1 day", parameters={"Text": "x" * 1024})
    assert pipeline(longest, parameters=[Parameter.string("Text", "")]).triggers == (longest,)


def test_rule_trigger_names_are_unique() -> None:
    assert "2 triggers are called 'nightly'" in refusal(NIGHTLY, NIGHTLY)


@pytest.mark.parametrize(
    ("trigger", "says"),
    [
        (Schedule(name="s", rate="1 day", parameters={"Modle": "a"}), "Did you mean 'Mode'?"),
        (Schedule(name="s", rate="1 day", parameters={"Mode": 3}), "3 is Integer; the parameter is String"),
        (Schedule(name="s", rate="1 day", parameters={"Rows": 1.5}), "1.5 is Float; the parameter is Integer"),
        (Schedule(name="s", rate="1 day", parameters={"Rows": True}), "True is Boolean"),
        (Schedule(name="s", rate="1 day", parameters={"Mode": "slow"}), "Allowed: full, quick"),
        (Schedule(name="s", rate="1 day", parameters={"Text": "x" * 1025}), "at most 1,024"),
        (Schedule(name="s", rate="1 day", parameters={"Text": ""}), "the empty text cannot be sent"),
        (Schedule(name="s", rate="1 day", parameters={"Text": "$.time"}), "a schedule has none"),
        (Alarm(name="s", alarm="a", parameters={"Text": "$.detial.x"}), "Did you mean 'detail'?"),
        (Alarm(name="s", alarm="a", parameters={"Text": "$detail.x"}), "from the event is written '$.detail.x'"),
        (Alarm(name="s", alarm="a", parameters={"Text": "$.detail..x"}), "cannot be read from '..x' on"),
        (Alarm(name="s", alarm="a", parameters={"Text": "$.detail[*]"}), "cannot be read from '[*]' on"),
    ],
)
def test_rule_triggers_give_declared_parameters(trigger: Any, says: str) -> None:
    declared = [
        Parameter.string("Mode", "full", choices=("full", "quick")),
        Parameter.integer("Rows", 1),
        Parameter.string("Text", "t"),
    ]
    assert says in refusal(trigger, parameters=declared)


def test_parameters_of_events_may_have_underscores_and_be_empty() -> None:
    given = {"Model_Arn": "$.detail.ModelPackageArn", "Note": ""}
    assert (
        pipeline(
            RegistryEvent(name="r", group="g", parameters=given),
            parameters=[Parameter.string("Model_Arn"), Parameter.string("Note", "n")],
        )
        .triggers[0]
        .parameters
        == given
    )


def test_rule_triggers_give_what_a_start_needs() -> None:
    message = refusal(NIGHTLY, parameters=[Parameter.string("Model"), Parameter.string("Mode", "full")])
    assert "'nightly' gives no value for parameter 'Model', which has no default" in message


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "'s' has no clock; give one of cron="),
        ({"cron": "0 2 * * ? *", "rate": "1 day"}, "has cron and rate; give one"),
        ({"cron": "0 2 * * *"}, "has 5 fields"),
        ({"rate": "1 week"}, "give a count and a unit"),
        ({"at": "tomorrow"}, "write it as 2026-03-01T02:00:00"),
        ({"rate": "1 day", "timezone": "Europe/Berlim"}, "Did you mean 'Europe/Berlin'"),
        ({"rate": "1 day", "start": "soon"}, "'soon' is no time"),
        ({"at": "2026-03-01T02:00:00", "start": "2026-04-01"}, "has start beside at, which EventBridge Scheduler"),
        ({"at": "2026-03-01T02:00:00", "end": "2026-02-01"}, "has end beside at"),
        ({"at": "2026-03-01T02:00:00", "start": "2026-02-01", "end": "2026-04-01"}, "has start and end beside at"),
        ({"rate": "1 day", "start": "2026-03-02", "end": "2026-03-01"}, "not after its start at 2026-03-02"),
        ({"rate": "1 day", "start": "2026-03-02", "end": "2026-03-02"}, "not after its start at 2026-03-02"),
        (
            {"rate": "1 day", "start": "2026-03-01T01:00:00", "end": "2026-03-01T00:00:00Z", "timezone": "Asia/Tokyo"},
            None,
        ),
    ],
)
def test_rule_schedules_can_be_read(fields: dict[str, Any], says: str | None) -> None:
    trigger = Schedule(name="s", **fields)
    if says is None:  # one in Tokyo is eight hours before midnight in Greenwich
        assert pipeline(trigger).triggers == (trigger,)
    else:
        assert says in refusal(trigger)


def test_rule_limits_of_triggers_can_be_read() -> None:
    assert "limit.every: Rate 'day'" in refusal(Alarm(name="a", alarm="x", limit=Limit(every="day")))
    assert "once_per: Rate '1 hours'" in refusal(Alarm(name="a", alarm="x", once_per="1 hours"))
    pipeline(Alarm(name="a", alarm="x", limit=Limit(every="30 days")))
    assert "31 days is longer than 30 days" in refusal(Alarm(name="a", alarm="x", limit=Limit(every="31 days")))
    with pytest.raises(SpecError, match="greater than or equal to 1"):
        Limit(starts=0)


@pytest.mark.parametrize(
    ("prefix", "loops"),
    [
        ("", True),
        ("pipe", True),
        ("pipelines/", True),
        ("pipelines/mine/data/", True),
        ("pipelines2/", False),
        ("in", False),
    ],
)
@pytest.mark.parametrize("target", ["sagemaker", "kubeflow"])
def test_uploads_to_outputs_of_the_pipeline_are_refused(prefix: str, loops: bool, target: str) -> None:
    block = {"root": "s3://models/pipelines"} if target == "kubeflow" else {"bucket": "models", "prefix": "pipelines"}
    place = Deployment(target=target, targets={target: block})
    trigger = Upload(name="u", bucket="models", prefix=prefix)
    if loops:
        said = "itself writes (s3://models/pipelines/): each run would start the next. Give another prefix"
        assert said in refusal(trigger, deployment=place)
    else:
        assert pipeline(trigger, deployment=place).triggers == (trigger,)
    pipeline(trigger.model_copy(update={"bucket": "other"}), deployment=place)
    pipeline(trigger.model_copy(update={"loop_guard": False}), deployment=place)


def writing(type: str, arguments: Any) -> NativeStep:
    return NativeStep(name="score", type=type, fields={"Arguments": arguments})


def joined(*values: Any) -> Any:
    return {"Std:Join": {"On": "/", "Values": list(values)}}


THIS_ID = {"Get": "Execution.PipelineExecutionId"}
PLACES = (
    Parameter.string("Out", "s3://arrivals/rows/out"),
    Parameter.string("Elsewhere", "s3://scores/out", choices=("s3://scores/out", "s3://arrivals/rows/")),
)


@pytest.mark.parametrize(
    "made",
    [
        writing("Transform", {"TransformOutput": {"S3OutputPath": "s3://arrivals/rows/out/"}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": "s3://arrivals/rows"}}),
        writing("Transform", {"DataCaptureConfig": {"DestinationS3Uri": "s3://arrivals/"}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": {"Get": "Parameters.Out"}}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": joined("s3://arrivals/rows", THIS_ID)}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": joined({"Get": "Parameters.Out"}, THIS_ID, "x")}}),
        writing(
            "Processing", {"ProcessingOutputConfig": {"Outputs": [{"S3Output": {"S3Uri": "s3://arrivals/rows/"}}]}}
        ),
        writing("Training", {"CheckpointConfig": {"S3Uri": "s3://arrivals/rows/checkpoints/"}}),
        writing("ForEach", {"ForEachBody": [{"Arguments": {"OutputDataConfig": {"S3OutputPath": "s3://arrivals"}}}]}),
    ],
)
def test_rule_uploads_are_not_those_of_the_steps(made: NativeStep) -> None:
    trigger = Upload(name="u", bucket="arrivals", prefix="rows/")
    says = refusal(trigger, steps=(made,), parameters=PLACES)
    assert "where step 'score' writes (s3://arrivals" in says and "each run would start the next" in says
    pipeline(trigger.model_copy(update={"loop_guard": False}), steps=(made,), parameters=PLACES)
    pipeline(trigger.model_copy(update={"bucket": "other"}), steps=(made,), parameters=PLACES)


@pytest.mark.parametrize(
    "made",
    [
        writing("Transform", {"TransformInput": {"DataSource": {"S3DataSource": {"S3Uri": "s3://arrivals/rows/"}}}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": "s3://arrivals/rows-scored/"}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": "s3://arrivals/scored/"}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": {"Get": "Parameters.Elsewhere"}}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": joined("s3://arrivals", THIS_ID)}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": joined("s3:/", THIS_ID, "rows")}}),
        writing("Transform", {"TransformOutput": {"S3OutputPath": {"Std:Join": "odd"}}}),
    ],
)
def test_reading_the_prefix_or_writing_elsewhere_is_no_loop(made: NativeStep) -> None:
    assert pipeline(Upload(name="u", bucket="arrivals", prefix="rows/"), steps=(made,), parameters=PLACES).triggers


def test_a_location_given_by_a_trigger_is_checked() -> None:
    made = writing("Transform", {"TransformOutput": {"S3OutputPath": {"Get": "Parameters.Elsewhere"}}})
    trigger = Upload(name="u", bucket="arrivals", prefix="rows/", parameters={"Elsewhere": "s3://arrivals/rows/"})
    assert "where step 'score' writes (s3://arrivals/rows/)" in refusal(trigger, steps=(made,), parameters=PLACES)


def test_checkpoints_under_a_watched_prefix_are_refused() -> None:
    trigger = Upload(name="u", bucket="arrivals", prefix="rows/")
    kept = Checkpoint(uri=join("s3://arrivals/rows/", execution("PipelineExecutionId"), "/"))
    made = TrainingStep(name="score", program=Program(kind="script", target="train.py"), checkpoint=kept)
    assert "where step 'score' writes (s3://arrivals/rows/...)" in refusal(trigger, steps=(made,))


def test_rule_triggers_do_not_loop() -> None:
    own = PipelineFinished(name="again", pipeline="Mine", outcome="Failed")
    assert "without end" in refusal(own)
    assert pipeline(own.model_copy(update={"loop_guard": False})).triggers


@pytest.mark.parametrize("kind", [DataDrift, QualityDrop])
def test_rule_findings_are_not_those_of_the_pipeline_itself(kind: type[DataDrift | QualityDrop]) -> None:
    def looking(group: Any) -> ProcessingStep:
        program = Program(kind="component", target=CHECK_SERVED)
        return ProcessingStep(name="look", program=program, parameters={"group": group})

    trigger = kind(name="found", group="digits")
    said = refusal(trigger, steps=[looking("digits")])
    assert "step 'look' looks at the served data of 'digits', and trigger 'found' waits for what it finds" in said
    group = Parameter.string("Group", "other")
    assert "say loop_guard=False and give a limit" in refusal(trigger, steps=[looking(group.ref())], parameters=[group])
    pipeline(trigger, steps=[looking("letters")])
    pipeline(RegistryEvent(name="approved", group="digits"), steps=[looking("digits")])
    pipeline(trigger.model_copy(update={"loop_guard": False}), steps=[looking("digits")])


APPROVED = RegistryEvent(name="approved", group="digits")
GROUP = (
    Parameter.string("Group", "other"),
    Parameter.string("Chosen", "other", choices=("other", "digits")),
    Parameter.string("Elsewhere", "other", choices=("other", "more")),
)
THIS_RUN, EXECUTION = {"Get": "Execution.PipelineExecutionArn"}, execution("PipelineExecutionArn")


def registering(**given: Any) -> Any:
    return step(register_model, model="s3://b/m", artifact="s3://b/m", **{"group": "digits", **given})


def native(group: str = "digits", **arguments: Any) -> NativeStep:
    fields = {"Arguments": {"ModelPackageGroupName": group, **arguments}}
    return NativeStep(name="add", type="RegisterModel", fields=fields)


@pytest.mark.parametrize(
    "made",
    [
        registering(),
        registering(approval="Approved"),
        registering(registry="sagemaker:eu-west-1"),
        registering(execution=execution("PipelineExecutionId")),
        registering(group=GROUP[0].ref()),
        registering(group=GROUP[1].ref()),
        native(),
        native("arn:aws:sagemaker:eu-west-1:123456789012:model-package-group/digits"),
        native(MetadataProperties={"GeneratedBy": "me"}),
    ],
)
def test_rule_the_loop_guard_knows_who_registered(made: Any) -> None:
    says = refusal(APPROVED, steps=(made,), parameters=GROUP)
    assert "each run could start the next" in says and "PipelineExecutionArn" in says
    meant = APPROVED.model_copy(update={"loop_guard": False})
    assert pipeline(meant, steps=(made,), parameters=GROUP).triggers


@pytest.mark.parametrize(
    "made",
    [
        registering(execution=execution("PipelineExecutionArn")),
        registering(group="other"),
        registering(group=GROUP[2].ref()),
        registering(registry="mlflow:http://mlflow:5000"),
        native("other"),
        native("arn:aws:sagemaker:eu-west-1:123456789012:model-package-group/other"),
        native(MetadataProperties={"GeneratedBy": THIS_RUN}),
        model_version("add", group="digits", other={"MetadataProperties": {"GeneratedBy": EXECUTION}}),
    ],
)
def test_a_registration_that_names_its_execution_or_another_group_is_no_loop(made: Any) -> None:
    assert pipeline(APPROVED, steps=(made,), parameters=GROUP).triggers


def test_rule_registry_triggers_say_what_changed() -> None:
    assert "would fire for every edit" in refusal(RegistryEvent(name="r", group="g", status=None, changed=()))
    late = RegistryEvent(name="r", group="g", status=None, stage="Production", changed=("ModelApprovalStatus",))
    assert "Add 'ModelLifeCycle'" in refusal(late)
    assert RegistryEvent(name="r", group="g").changes() == ("ModelApprovalStatus",)
    assert RegistryEvent(name="r", group="g", stage="Production").changes() == ("ModelApprovalStatus", "ModelLifeCycle")
    assert RegistryEvent(name="r", group="g", status=None, stage="Production").changes() == ("ModelLifeCycle",)
    assert RegistryEvent(name="r", group="g", changed=()).changes() == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "registry", "group": "a b"},
        {"kind": "upload", "bucket": "A"},
        {"kind": "pipeline", "pipeline": "a_b"},
        {"kind": "alarm", "alarm": ""},
        {"kind": "schedule", "rate": "1 day", "flexible_minutes": 0},
        {"kind": "sensor"},
        {"kind": "alarm", "alarm": "a", "retries": 1},
    ],
)
def test_unknown_trigger_fields_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Pipeline.model_validate({"name": "p", "triggers": [{"name": "t", **fields}]})
