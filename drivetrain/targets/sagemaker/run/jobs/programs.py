"""The programs of jobs on this machine: what starts, what it logs, and how it ends.

Here is what processing and training jobs have in common: on how many hosts, with what inputs and variables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from drivetrain.base.errors import WARNING, UserError
from drivetrain.base.json_text import object_in
from drivetrain.run_store.durable import LONGEST_NAME, is_too_long, parse
from drivetrain.run_store.objects import missing
from drivetrain.run_store.schema import ArtifactEntry
from drivetrain.spec.resources import SOURCE_VERSION
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext
from drivetrain.targets.sagemaker.run.jobs.job_data import Channel, entries, place, words_in
from drivetrain.targets.sagemaker.run.options import Options

if TYPE_CHECKING:
    from drivetrain.processes.container import Host


_MOST_HOSTS = 254
# So many warnings are told beside a step; the log has all of them, and all of each.
_MOST_WARNINGS = 5
_MOST_CHARACTERS = 400
_MOST_COUNTED = 10_000
_LONGEST_LINE = 1 << 16


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
    """The command that the user gives for an image, by its URI, `name:tag` or `name`; None without one."""
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


def environment_of(arguments: Mapping[str, Any]) -> dict[str, str]:
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


HOSTS = "hosts"
# The registry of the platform that a definition is compiled for; here it is this machine's.
_REGISTRY, _REGISTRY_OF_PLATFORM = "DRIVETRAIN_REGISTRY", "sagemaker"


def problems(step: StepNode, read: Callable[[], Sequence[Channel]], plan: RunPlan) -> list[str]:
    """List the problems of a job's inputs, before it runs: kinds that cannot be read, URIs that hold nothing."""
    try:
        channels = read()
    except UserError as error:
        return [f"step {step.name!r}: {error}"]
    found: list[str] = []
    for channel in channels:
        where = f"step {step.name!r}: input {channel.name!r}"
        if channel.uri is None:
            continue
        bad = input_problems(where, channel.uri, plan)
        if not bad and channel.manifest and plan.store.exists(channel.uri):
            bad = _manifest_problems(where, channel.uri, plan)
        found += bad
    return found


def _manifest_problems(where: str, uri: str, plan: RunPlan) -> list[str]:
    """List the problems of a manifest that exists: it is malformed, or an object is missing (the first stands for
    all)."""
    from drivetrain.targets.sagemaker.run.jobs import manifests

    try:
        for whole in manifests.uris(uri, plan.store).values():
            if not plan.is_written(whole) and not plan.store.path(whole).is_file():
                return [missing(f"{where}: manifest {uri}", whole, plan.store)]
    except UserError as error:
        return [] if plan.is_written(uri) else [f"{where}: {error}"]
    return []


def shape_problems(step: StepNode, arguments: Mapping[str, Any], resources: Mapping[str, Any]) -> list[str]:
    """List the problems of the rest of a job's arguments, as far as they are known by now."""
    where = f"step {step.name!r}"
    found: list[str] = []
    for field in ("Environment", "HyperParameters"):
        given = arguments.get(field)
        if given is None:
            continue
        if not isinstance(given, dict):
            found.append(f"{where}: {field} is {given!r:.60}. Allowed: an object of names and values.")
            continue
        for name in cast("dict[str, Any]", given):
            if field == "Environment" and (not name or "=" in name):
                found.append(f"{where}: {name!r} in Environment. Allowed: a name without '='.")
    if not _is_expression(resources.get("InstanceCount")):
        try:
            host_count(step.name, resources)
        except UserError as error:
            found.append(str(error))
    limit = object_in(arguments, "StoppingCondition").get("MaxRuntimeInSeconds")
    if limit is not None and not _is_expression(limit) and (not isinstance(limit, int) or limit < 1):
        found.append(f"{where}: MaxRuntimeInSeconds is {limit!r:.40}. Allowed: a whole number of seconds from 1.")
    return found


def path_problem(where: str, path: Any, folder: str) -> str | None:
    """Why a LocalPath, as far as it is known, cannot be."""
    if _is_expression(path):
        return None
    parts = path.split("/") if isinstance(path, str) else []
    if not isinstance(path, str) or not path.startswith(folder + "/") or ".." in parts:
        return f"{where}: LocalPath is {path!r:.80}. Allowed: a path below {folder}/."
    if any(map(is_too_long, parts)):
        return f"{where}: LocalPath {path[:60]!r}... has a part longer than {LONGEST_NAME} bytes, which no folder has."
    return None


def _is_expression(value: Any) -> bool:
    """Return True if a value is only known later."""
    return isinstance(value, dict)


def uri_problems(where: str, uri: Any) -> list[str]:
    """The reasons that a URI, as far as it is known, is invalid."""
    if _is_expression(uri):
        return []
    if not isinstance(uri, str):
        return [f"{where}: S3Uri is {uri!r}. Allowed: s3://bucket/key."]
    try:
        parse(uri)
    except UserError as error:
        hint = (
            " Fill in what stands for a name ($NAME), or let the step be stubbed (--stub STEP)." if "$" in uri else ""
        )
        return [f"{where}: {error}{hint}"]
    return []


def input_problems(where: str, uri: Any, plan: RunPlan) -> list[str]:
    """Why what a step reads at a URI, as far as that is known, will not be there."""
    problems = uri_problems(where, uri)
    if not problems and isinstance(uri, str) and not plan.is_written(uri) and not plan.store.exists(uri):
        problems = [missing(where, uri, plan.store)]
    return problems


def hosts(context: StepContext, count: int) -> tuple[Host, ...]:
    """The hosts of a job, each with a folder of its own in the attempt's."""
    from drivetrain.processes import container
    from drivetrain.processes.container import Host

    return tuple(Host(name, context.folder / HOSTS / name) for name in container.loopback_hosts(count))


def bring_inputs(context: StepContext, channels: Sequence[Channel], hosts: Sequence[Host]) -> tuple[ArtifactEntry, ...]:
    """Copy what the job reads to its hosts, and say what it was."""
    from drivetrain.processes.mounts import host_path

    return place(
        channels,
        context.store,
        lambda channel: [host_path(channel.local_path or "", host.root) for host in hosts],
        context.ledger,
    )


def platform_environment(context: StepContext) -> dict[str, str]:
    """Variables that the service sets everywhere."""
    return {"AWS_REGION": context.facts.region, "AWS_DEFAULT_REGION": context.facts.region}


def job_environment(context: StepContext, named: Mapping[str, str] | None = None) -> dict[str, str]:
    """A job's variables: those of the platform, those `named` for the kind of job, its own (which may name another
    folder for decoded data, or none); and, if it asks the registry, where on this machine that and the objects of S3
    are. No other job is told: it could change what another step wrote."""
    environment = {
        **platform_environment(context),
        "DRIVETRAIN_DECODED_CACHE": str(context.home.decoded),
        **(named or {}),
        **environment_of(context.arguments),
    }
    if _asks_registry(context.arguments, environment):
        environment["DRIVETRAIN_OBJECT_STORE"] = str(context.home.objects)
        if environment.get(_REGISTRY, _REGISTRY_OF_PLATFORM) == _REGISTRY_OF_PLATFORM:
            environment[_REGISTRY] = f"local:{context.home.ledger}"
    if SOURCE_VERSION in words_in(context.arguments, "ContainerArguments"):
        # It looks at the inputs of other steps, which lie here, some as data of this machine.
        environment["DRIVETRAIN_OBJECT_STORE"] = str(context.home.objects)
        if elsewhere := {key: str(path) for key, path in context.store.elsewhere.items()}:
            environment["DRIVETRAIN_LOCAL_DATA"] = _spelled(elsewhere)
    return environment


def _asks_registry(arguments: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Return True if a job names a registry: in a variable, which compile writes for `registry: str = "auto"`, or in an
    argument."""
    words = words_in(arguments, "ContainerArguments")
    return _REGISTRY in environment or any(str(word).partition("=")[0] == "--registry" for word in words)


def logged_warnings(logs: Path) -> str | None:
    """The different lines that begin with `warning: ` in the logs of all hosts, as one text; None without any."""
    told: list[str] = []
    found: set[int] = set()
    for line in chain.from_iterable(map(_beginnings, sorted(logs.glob("*.log")))):
        if line.startswith(WARNING.encode()) and len(found) <= _MOST_COUNTED:
            text = line.decode("utf-8", "replace").strip().removeprefix(WARNING)
            if (number := hash(text)) not in found and len(told) < _MOST_WARNINGS:
                told.append(text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}...")
            found.add(number)
    if not told:
        return None
    left = min(len(found), _MOST_COUNTED) - len(told)
    more = [f"{'more than ' if len(found) > _MOST_COUNTED else ''}{left} more in the log"] if left else []
    return WARNING + "; ".join([*told, *more])


def _beginnings(log: Path) -> Iterator[bytes]:
    """The lines of a log, of a long one the first 64 KiB: a program may print for ever without a newline."""
    with log.open("rb") as file:
        is_new = True
        while piece := file.readline(_LONGEST_LINE):
            if is_new:
                yield piece
            is_new = piece.endswith(b"\n")
