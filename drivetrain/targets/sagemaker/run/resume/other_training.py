"""An interrupted training resumes as the same training, or not at all.

Whether a parameter may change is told by where its checkpoints lie: all that a training cannot go on with is part of
the prefix. Were the run to go on with another one, the training would silently begin anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drivetrain.base.errors import UserError, and_more
from drivetrain.base.json_text import object_in, text_in
from drivetrain.components.train import train
from drivetrain.run_store.model import StepRun
from drivetrain.run_store.objects import ObjectStore
from drivetrain.spec.steps import TRAIN
from drivetrain.steps import CODE_CHANNEL, gather
from drivetrain.targets.sagemaker.document.document import Definition
from drivetrain.targets.sagemaker.document.graph import dependencies, reached
from drivetrain.targets.sagemaker.run.execution.scope import ExecutionScope, resolve_known
from drivetrain.targets.sagemaker.run.jobs.job_data import input_uris, words_in

_DONE = ("Succeeded", "Cached")
_MOST_NAMED = 8
_SHOWN = 120  # characters of a value


def refuse_another_training(
    old: tuple[Definition, ExecutionScope],
    new: tuple[Definition, ExecutionScope],
    steps: Mapping[str, StepRun],
    store: ObjectStore,
    execution: str,
) -> None:
    """Let no training that has kept checkpoints begin anew because of what was changed.

    Args:
        old: the definition with which the execution was run so far.
        new: that with which it shall go on.
        steps: the execution's steps by name.

    Raises:
        UserError: it names the steps and what is different: old -> new.
    """
    before, after = _known(*old), _known(*new)
    needs = dependencies(new[0])
    for name, row in steps.items():
        uri = text_in(object_in(row.arguments, "CheckpointConfig"), "S3Uri")
        if row.type != "Training" or row.status in _DONE or uri is None or name not in after or name not in before:
            continue
        store.hold(uri)
        if not store.exists(uri.rstrip("/") + "/"):
            continue
        differences = list(_inputs(before[name], after[name]))
        for needed in sorted(reached([name], lambda step: needs.get(step, ()))):
            if needed in before:
                found = _data(before[needed], after[needed])
                differences += [f"{what} of step {needed!r}" for what in found]
        now = object_in(after[name], "CheckpointConfig").get("S3Uri")
        if now is None or (isinstance(now, str) and now.rstrip("/") != uri.rstrip("/")):
            # Only then: at the same place the program itself judges whether it can go on with other values.
            changed = list(_values(before[name], after[name]))
            differences = [*changed, *differences] or [f"CheckpointConfig.S3Uri {uri} -> {now or 'none'}"]
        if differences:
            raise UserError(_message(name, differences, after[name], uri, execution))


def _message(name: str, differences: list[str], arguments: Mapping[str, Any], uri: str, execution: str) -> str:
    resumable = ", ".join(_resumable_names(arguments)) or "what the component declares as resumable"
    return (
        f"step {name!r} has checkpoints ({uri}), and it cannot go on from them with another configuration: "
        f"{and_more(differences, _MOST_NAMED)}.\n"
        f"What may change: {resumable}, the machines, and whether they are spot machines.\n"
        f"Resume without it (drivetrain runs resume {execution}), or begin a new training with it (drivetrain run ...)."
    )


def _known(definition: Definition, scope: ExecutionScope) -> dict[str, Any]:
    """The arguments of each step, resolved as far as they can be now."""
    return {step.name: resolve_known(step.arguments, scope) for step in definition.walk() if step.type != "Condition"}


def _values(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Parameters of a training that changed but may not."""
    may_change = _resumable_names(new)
    given = [object_in(arguments, "HyperParameters") for arguments in (old, new)]
    yield from _differences(*({k: v for k, v in values.items() if k not in may_change} for values in given))


def _inputs(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Differences of a training's program and inputs."""
    yield from _differences({"program": _program(old)}, {"program": _program(new)})
    yield from _differences(_read(old), _read(new))


def _data(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Differences of a processing job that makes a training's data: in its command line and inputs, not in its
    machines. A model that another training makes may be a new one."""
    if "AppSpecification" not in old and "AppSpecification" not in new:
        return
    yield from _differences(_told(old), _told(new))
    yield from _differences(_read(old), _read(new))


def _read(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs of a job by name."""
    return {name: uri for name, uri in input_uris(arguments).items() if name != CODE_CHANNEL}


def _told(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The command line of a processing job by option; without the code's hash, since a mistake may be mended."""
    words = words_in(arguments, "ContainerArguments")
    if words[:1] != ["--code"]:
        return {"ContainerArguments": words}
    program, options = words[2], gather(words[3:])
    flags = options[::2]
    if len(options) % 2 or not all(isinstance(flag, str) and flag.startswith("--") for flag in flags):
        return {"program": program, "arguments": options}
    named = {flag[2:].replace("-", "_"): value for flag, value in zip(flags, options[1::2], strict=True)}
    return {"program": program, **named}


def _program(arguments: Mapping[str, Any]) -> Any:
    """The component's name, which is the last word; None for other people's programs."""
    words = words_in(arguments, "ContainerArguments")
    return words[-1] if words[:1] == ["--code"] else None


def _resumable_names(arguments: Mapping[str, Any]) -> tuple[str, ...]:
    if _program(arguments) != TRAIN:
        return ()

    return train.resumable


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield f"{name} {_shown(old.get(name))} -> {_shown(new.get(name))}"


def _shown(value: Any) -> str:
    said = "none" if value is None else str(value)
    return said if len(said) <= _SHOWN else said[: _SHOWN - 3] + "..."
