"""What starts when a job does, and on how many hosts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.targets.local.options import Options
from drivetrain.targets.local.storage.channels import entries
from drivetrain.targets.sagemaker.document.members import object_in

_MOST_HOSTS = 254


def entry_point(step: str, app: Mapping[str, Any], image: Any, options: Options) -> tuple[str, ...] | None:
    """The command of a job: its own entry point with its arguments, else what the user gives for its image.

    Args:
        app: AppSpecification or AlgorithmSpecification, resolved (or partly so).

    Returns None when nothing says what to start.

    Raises:
        UserError: an entry point that is no list of words.
    """
    words = app.get("ContainerEntrypoint")
    arguments = _words(step, "ContainerArguments", app.get("ContainerArguments") or [])
    if words:
        return (*_words(step, "ContainerEntrypoint", words), *arguments)
    given = image_command(image, options)
    return None if given is None else (*given, *arguments)


def image_command(image: Any, options: Options) -> tuple[str, ...] | None:
    """What the user gives for an image, by its URI, `name:tag` or `name`."""
    if not isinstance(image, str):
        return None
    last = image.rpartition("/")[2]
    for name in (image, last, last.partition(":")[0].partition("@")[0]):
        if name in options.image_commands:
            return options.image_commands[name]
    return None


def nothing_to_start(step: str, image: Any) -> str:
    """The message for a job whose command is unknown, with the ways to give one."""
    shown = image if isinstance(image, str) else "IMAGE"
    return (
        f"step {step!r} names no ContainerEntrypoint, and what its image starts is not known here. Give "
        f"--image-command '{shown}=COMMAND', or its results with --stub {step}=outputs.json."
    )


def environment(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The job's own variables; numbers and booleans of parameters become text."""
    given = object_in(arguments, "Environment")
    return {name: value if isinstance(value, str) else _spelled(value) for name, value in given.items()}


def host_count(step: str, resources: Mapping[str, Any]) -> int:
    """How many hosts a job asks for: InstanceCount, or the sum over its instance groups.

    Raises:
        UserError: no whole number from 1 to 254 (the addresses that a loopback network names by its last byte).
    """
    groups = _groups(resources)
    counts: list[Any] = [group.get("InstanceCount") for group in groups] or [resources.get("InstanceCount", 1)]
    total = 0
    for count in counts:
        try:
            total += int(count)
        except (TypeError, ValueError):
            raise UserError(f"step {step!r}: InstanceCount is {count!r}. Allowed: a whole number.") from None
    if not 1 <= total <= _MOST_HOSTS:
        raise UserError(f"step {step!r}: InstanceCount {total}. Allowed on this machine: 1 to {_MOST_HOSTS}.")
    return total


def instance_type(resources: Mapping[str, Any]) -> str:
    """The instance type that the definition asks for."""
    return str((_groups(resources) or [resources])[0].get("InstanceType", ""))


def time_limit_s(arguments: Mapping[str, Any]) -> float | None:
    """StoppingCondition.MaxRuntimeInSeconds."""
    limit = object_in(arguments, "StoppingCondition").get("MaxRuntimeInSeconds")
    return None if limit is None else float(limit)


def _groups(resources: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The instance groups, or the instances that are preferred; none where they are not known yet."""
    if isinstance(resources.get("InstancePreferences"), list) and (first := entries(resources, "InstancePreferences")):
        return [{"InstanceCount": resources.get("InstanceCount", 1), **first[0]}]
    return entries(resources, "InstanceGroups") if isinstance(resources.get("InstanceGroups"), list) else []


def _words(step: str, field: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise UserError(f"step {step!r}: {field} is {given!r:.80}. Allowed: a list of words.")
    # A word may still be a reference when this is asked before the run; it is resolved by the time it matters.
    return tuple(word if isinstance(word, str) else _spelled(word) for word in cast("list[Any]", given))


def _spelled(value: Any) -> str:
    import json

    return json.dumps(value)
