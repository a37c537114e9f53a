"""Check that what a deployment names can be what the stack makes, and say what is left to its owner."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from drivetrain.base.errors import UserError
from drivetrain.infra.options import Options
from drivetrain.spec.pipeline import Pipeline, Upload
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.settings import settings_of


def check_given(names: Names, roles: Iterable[str], options: Options) -> None:
    """The stack makes queues and roles under the names of the deployment, so they must be of its place.

    Args:
        roles: ARNs of the roles that the stack makes.

    Raises:
        UserError: a queue, role, zone or key of another account or region, an event queue without order, or a
            dead-letter queue that rules and schedules cannot write to.
    """
    for field, arn, fifo in (
        ("event_queue", names.event_queue, True),
        ("dead_letter_queue", names.dead_letter_queue, False),
    ):
        start = names.arn("sqs", "")
        name = arn.removeprefix(start)
        if not arn.startswith(start) or not re.fullmatch(r"[A-Za-z0-9_-]{1,80}(\.fifo)?", name) or len(name) > 80:
            raise UserError(
                f"deployment.targets.sagemaker.{field} is {arn!r:.160}. Allowed: a queue that the stack makes, "
                f"{start}NAME."
            )
        if name.endswith(".fifo") != fifo:
            raise UserError(
                f"deployment.targets.sagemaker.{field} is {arn!r:.160}. "
                + (
                    "Events are handled in their order, so its name must end in .fifo."
                    if fifo
                    else "Rules and schedules take no FIFO queue for what they could not deliver; leave .fifo out."
                )
            )
    own = f"arn:{names.partition}:iam::{names.account}:role/"
    for role in roles:
        if not role.startswith(own):
            raise UserError(
                f"Role {role!r:.160} is of another account; the stack makes the roles of {names.account}. Give one of "
                f"it: {own}NAME."
            )
    zones = () if options.network is None or isinstance(options.network.zones, int) else options.network.zones
    for zone in zones:
        if zone[:-1] != names.region:
            raise UserError(f"network.zones: {zone!r} is not in {names.region}, where the pipeline lives.")
    if options.bucket_key is not None and (region := options.bucket_key.split(":")[3]) != names.region:
        raise UserError(
            f"bucket_key is of {region}; S3 takes a key of the bucket's own region alone, which is {names.region}."
        )


def left_to_the_owner(pipeline: Pipeline, names: Names, options: Options) -> Iterator[str]:
    """Settings that people make: after the first deployment, for outputs, and on a bucket that is there already."""
    if not options.termination_protection:
        yield (
            "the stack is not protected from deletion. Once a deployment has succeeded, set termination_protection: "
            "true in the options and deploy again."
        )
    if options.bucket == "make":
        if settings_of(pipeline.deployment).keys.output is None:
            yield (
                "what jobs write is encrypted with aws/s3, the account's own key, which no other account can be "
                f"given. Set deployment.targets.sagemaker.keys.output: {names.key_alias}, the key of the bucket."
            )
        return
    yield (
        f"bucket {names.bucket!r} is there already, so nothing deletes old checkpoints: expire "
        f"{names.root}/checkpoints/ after {options.checkpoint_days} days, and older versions after "
        f"{options.old_version_days}, by its own lifecycle rules."
    )
    for trigger in pipeline.triggers:
        if isinstance(trigger, Upload) and trigger.bucket == names.bucket:
            yield (
                f"trigger {trigger.name!r}: bucket {names.bucket!r} is there already, so switch its events to "
                "EventBridge on by hand; without that the trigger never fires."
            )
