"""Names around a pipeline: legal, stable, and of one length however long the pipeline's is."""

import pytest

from drivetrain.authoring.loading import load
from drivetrain.base.errors import UserError
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.pipeline import Pipeline
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policy import covers

ROLE = "arn:aws-us-gov:iam::123456789012:role/team/retraining"


def names(pipeline: str) -> Names:
    return Names.of(
        Pipeline(name=pipeline, deployment=Deployment(targets={"sagemaker": {"role": ROLE, "region": "us-gov-west-1"}}))
    )


def test_the_role_says_where_the_pipeline_lives() -> None:
    known = names("nightly")
    assert (known.partition, known.account, known.region) == ("aws-us-gov", "123456789012", "us-gov-west-1")
    assert known.pipeline_arn == "arn:aws-us-gov:sagemaker:us-gov-west-1:123456789012:pipeline/nightly"
    assert known.role("scheduler") == "arn:aws-us-gov:iam::123456789012:role/drivetrain-nightly-scheduler"
    assert known.event_queue == "arn:aws-us-gov:sqs:us-gov-west-1:123456789012:drivetrain-nightly-events.fifo"


def test_explicit_names_of_the_deployment_are_used() -> None:
    queue, role = "arn:aws:sqs:us-east-1:123456789012:ours", "arn:aws:iam::123456789012:role/ours"
    given = Deployment(
        targets={
            "sagemaker": {
                "role": ROLE,
                "scheduler_role": role,
                "event_queue": queue,
                "dead_letter_queue": f"{queue}-dead",
            }
        }
    )
    known = Names.of(Pipeline(name="nightly", deployment=given))
    assert (known.role("scheduler"), known.event_queue, known.dead_letter_queue) == (role, queue, f"{queue}-dead")
    assert known.role("starter").endswith("drivetrain-nightly-starter")


def test_rules_and_schedules_have_the_names_that_their_policy_allows() -> None:
    from drivetrain.triggers.resource_names import resource_name

    for pipeline in ("nightly", "a-rather-long-name-of-a-pipeline"):
        known = names(pipeline)
        name = resource_name(pipeline, "at-two")
        assert covers(known.rules, known.arn("events", f"rule/{name}"))
        assert covers(known.schedules, known.arn("scheduler", f"schedule/default/{name}"))


def test_rules_and_schedules_of_a_pipeline_whose_name_begins_alike_are_not_allowed() -> None:
    from drivetrain.triggers.resource_names import resource_name

    long = "a-rather-long-name-of-a-pipeline"
    for pipeline, other in (("nightly", "nightly-too"), (long, f"{long}-too"), (long[:11], long)):
        known, name = names(pipeline), resource_name(other, "at-two")
        assert not covers(known.rules, known.arn("events", f"rule/{name}"))
        assert not covers(known.schedules, known.arn("scheduler", f"schedule/default/{name}"))


@pytest.mark.parametrize("role", ["me", "arn:aws:iam::1234:role/me", "arn:aws:iam::123456789012:user/me", ""])
def test_no_role_is_an_error(role: str) -> None:
    with pytest.raises(UserError, match=r"deployment\.targets\.sagemaker\.role is .*in which account"):
        Names.of(Pipeline(name="nightly", deployment=Deployment(targets={"sagemaker": {"role": role}})))


def test_long_names_are_cut_and_stay_apart() -> None:
    one, other = names("nightly-" + "x" * 200 + "-1"), names("nightly-" + "x" * 200 + "-2")
    for kind in ("scheduler", "starter", "ci", "destroyer", "dead-letters"):
        cut = one.named(kind)
        assert len(cut) <= 64 and cut.endswith(f"-{kind}") and cut.startswith("drivetrain-nightly-")
        assert cut != other.named(kind)
        assert cut == names("nightly-" + "x" * 200 + "-1").named(kind)


def test_names_in_both_spellings_where_they_differ() -> None:
    assert len(names("nightly").spellings("pipeline/nightly")) == 1
    assert [arn.rpartition("/")[2] for arn in names("x").spellings("model-package-group/My-Group")] == [
        "My-Group",
        "my-group",
    ]


@pytest.mark.parametrize("kinds", [(), ("training",), ("training", "processing", "registry")])
def test_each_job_is_given_the_role_of_its_kind(kinds: tuple[str, ...]) -> None:
    own = "arn:aws:iam::123456789012:role/"
    settings = [
        f"deployment.targets.sagemaker.role={own}pipeline",
        *(f"deployment.targets.sagemaker.roles.{kind}={own}{kind}" for kind in kinds),
    ]
    loaded = load("retraining", None, settings)
    definition = compile_pipeline(loaded.pipeline, loaded.source, loaded.base).definition
    roles = {step["Name"]: step["Arguments"].get("RoleArn", "").rpartition("/")[2] for step in definition["Steps"]}

    def expected(kind: str) -> str:
        return kind if kind in kinds else "pipeline"

    assert roles == {
        "prepare": expected("processing"),
        "train": expected("training"),
        "evaluate": expected("processing"),
        "compare": expected("registry"),
        "register": "",
    }
