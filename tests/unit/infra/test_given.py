"""What a deployment names itself: of its own account and region, of the right kind; and what stays its owner's."""

from __future__ import annotations

from typing import Any

import pytest

from drivetrain import Deployment, Pipeline, Upload
from drivetrain.base.errors import UserError
from drivetrain.infra.given import check_given, left_to_the_owner
from drivetrain.infra.options import Options, PrivateNetwork
from drivetrain.targets.sagemaker.permissions.names import Names

SQS = "arn:aws:sqs:eu-west-1:123456789012:"
ROLE = "arn:aws:iam::123456789012:role/"


def names(**given: str) -> Names:
    return Names(
        partition="aws",
        region="eu-west-1",
        account="123456789012",
        pipeline="nightly",
        bucket="acme",
        prefix="pipelines",
        pipeline_role=f"{ROLE}pipeline",
        given=given,
    )


def test_resources_that_the_stack_can_create_are_accepted() -> None:
    check_given(names(), [], Options())
    given = names(event_queue=f"{SQS}mine.fifo", dead_letter_queue=f"{SQS}dead_letters")
    check_given(given, [f"{ROLE}a/b"], Options(network=PrivateNetwork(zones=("eu-west-1c",))))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"event_queue": f"{SQS}events"}, "must end in .fifo"),
        ({"event_queue": "arn:aws:sqs:eu-west-1:210987654321:events.fifo"}, f"Allowed: .*{SQS}NAME"),
        ({"event_queue": "arn:aws:sqs:us-east-1:123456789012:events.fifo"}, "deployment.targets.sagemaker.event_queue"),
        ({"event_queue": f"{SQS}a:b.fifo"}, "deployment.targets.sagemaker.event_queue"),
        ({"event_queue": f"{SQS}{'x' * 80}.fifo"}, "deployment.targets.sagemaker.event_queue"),
        ({"dead_letter_queue": f"{SQS}dead.fifo"}, "leave .fifo out"),
        (
            {"dead_letter_queue": "arn:aws:sqs:eu-west-1:210987654321:dead"},
            "deployment.targets.sagemaker.dead_letter_queue",
        ),
    ],
)
def test_another_queue_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        check_given(names(**given), [], Options())


def test_a_role_of_another_account_is_refused() -> None:
    with pytest.raises(UserError, match="another account"):
        check_given(names(), [f"{ROLE}pipeline", "arn:aws:iam::210987654321:role/training"], Options())


def test_a_zone_of_another_region_is_refused() -> None:
    with pytest.raises(UserError, match=r"network\.zones: 'us-east-1a' is not in eu-west-1"):
        check_given(names(), [], Options(network=PrivateNetwork(zones=("eu-west-1a", "us-east-1a"))))


def test_a_key_of_another_region_is_refused() -> None:
    key = "arn:aws:kms:{}:210987654321:key/1234abcd-12ab"
    check_given(names(), [], Options(bucket="existing", bucket_key=key.format("eu-west-1")))
    with pytest.raises(UserError, match=r"bucket_key is of us-east-1; S3 .* own region alone, which is eu-west-1"):
        check_given(names(), [], Options(bucket="existing", bucket_key=key.format("us-east-1")))


def test_requirements_of_an_existing_bucket_are_reported() -> None:
    triggers = (Upload(name="here", bucket="acme", prefix="in/"), Upload(name="there", bucket="other"))
    pipeline = Pipeline(name="nightly", triggers=triggers)
    options = Options(bucket="existing", checkpoint_days=5, termination_protection=True)
    rules, events = left_to_the_owner(pipeline, names(), options)
    assert "pipelines/nightly/checkpoints/ after 5 days" in rules
    assert "trigger 'here'" in events and "never fires" in events


def test_settings_for_after_the_first_deployment_are_reported() -> None:
    pipeline = Pipeline(name="nightly")
    protection, outputs = left_to_the_owner(pipeline, names(), Options())
    assert "termination_protection: true" in protection
    assert "keys.output: alias/drivetrain-nightly-key" in outputs
    keyed = Deployment(targets={"sagemaker": {"keys": {"output": "alias/drivetrain-nightly-key"}}})
    done = left_to_the_owner(Pipeline(name="nightly", deployment=keyed), names(), Options(termination_protection=True))
    assert list(done) == []
