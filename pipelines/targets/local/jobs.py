"""What processing and training jobs have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from drivetrain.pipelines.definition.document import StepNode
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.local.channels import Channel, missing
from drivetrain.pipelines.targets.local.context import Plan, StepContext
from drivetrain.pipelines.targets.local.objects import parse

if TYPE_CHECKING:
    from drivetrain.pipelines.targets.local.container import Host

HOSTS = "hosts"


def problems(step: StepNode, read: Callable[[], Sequence[Channel]], plan: Plan) -> list[str]:
    """What is wrong with a job's inputs, before it runs: kinds that cannot be read, URIs that hold nothing."""
    try:
        channels = read()
    except UserError as error:
        return [f"step {step.name!r}: {error}"]
    found: list[str] = []
    for channel in channels:
        where = f"step {step.name!r}: input {channel.name!r}"
        if channel.uri is None:
            continue
        bad = uri_problems(where, channel.uri)
        found += bad
        if not bad and not plan.is_written(channel.uri) and not plan.store.exists(channel.uri):
            found.append(missing(where, channel.uri, plan.store))
    return found


def uri_problems(where: str, uri: Any) -> list[str]:
    """Why a URI, as far as it is known, is none."""
    if isinstance(uri, dict):
        return []  # an expression that has no value yet
    if not isinstance(uri, str):
        return [f"{where}: S3Uri is {uri!r}. Allowed: s3://bucket/key."]
    try:
        parse(uri)
    except UserError as error:
        return [f"{where}: {error}"]
    return []


def hosts(context: StepContext, count: int) -> tuple[Host, ...]:
    """The hosts of a job, each with a folder of its own in the attempt's."""
    from drivetrain.pipelines.targets.local import opt_ml
    from drivetrain.pipelines.targets.local.container import Host

    return tuple(Host(name, context.folder / HOSTS / name) for name in opt_ml.loopback_hosts(count))


def platform_environment(context: StepContext) -> dict[str, str]:
    """Variables that the service sets in every container."""
    return {"AWS_REGION": context.facts.region, "AWS_DEFAULT_REGION": context.facts.region}
