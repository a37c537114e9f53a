"""Everything that could not run on this machine, found before anything starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from drivetrain.pipelines.definition import graph
from drivetrain.pipelines.definition.document import Definition, StepNode
from drivetrain.pipelines.definition.paths import path_text
from drivetrain.pipelines.errors import UserError, did_you_mean
from drivetrain.pipelines.targets.local import step_types, stubs
from drivetrain.pipelines.targets.local.context import Plan
from drivetrain.pipelines.targets.local.options import Options
from drivetrain.pipelines.targets.local.scope import ExecutionScope, resolve_known
from drivetrain.pipelines.targets.local.storage.objects import ObjectStore

# A step's name becomes the name of a folder.
_STEP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,255}")
_MOST_SHOWN = 20
# In JSON's spelling, and not after a backslash that is one itself.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def check(definition: Definition, scope: ExecutionScope, options: Options, store: ObjectStore) -> None:
    """Refuse a definition that cannot run here, with all its problems.

    Raises:
        UserError: one line a problem.
    """
    graph.check(definition)
    _check_text(definition, scope)
    # Not all of them: a definition with a thousand mistakes is refused as quickly as one with twenty.
    problems = list(islice(_all_problems(definition, scope, options, store), _MOST_SHOWN + 1))
    if problems:
        more = "\n(and more)" if len(problems) > _MOST_SHOWN else ""
        raise UserError("\n".join(problems[:_MOST_SHOWN]) + more)


def _all_problems(definition: Definition, scope: ExecutionScope, options: Options, store: ObjectStore) -> Iterator[str]:
    steps = definition.walk()
    for step in steps:
        if not _STEP_NAME.fullmatch(step.name):
            yield (
                f"step {step.name!r}: the name is not allowed. Allowed: letters, digits, '-' and '_', a letter or "
                "digit first."
            )
    for name in options.stubs:
        if name not in definition.by_name:
            yield f"--stub {name}: there is no such step. {did_you_mean(name, definition.by_name)}"
    yield from _interruption_problems(definition, scope, options)
    for step in steps:
        yield from _lost_references(step, definition, options)
    known = {step.name: resolve_known(step.arguments, scope) for step in steps if step.type != "Condition"}
    written = [uri for step in steps for uri in _written(step, known.get(step.name, {}), options)]
    for uri in written:
        if uri.startswith("s3://") and store.is_local_data(uri):
            yield f"{uri} is given as local data, which is read only, and a step writes there."
    for step in steps:
        plan = Plan(
            arguments=known.get(step.name, {}),
            raw={key: resolve_known(value, scope) for key, value in step.raw.items() if key != "Arguments"},
            options=options,
            store=store,
            written=written,
            others=known,
        )
        yield from _problems(step, plan) or _wrong_types(step, plan)


def _interruption_problems(definition: Definition, scope: ExecutionScope, options: Options) -> list[str]:
    if not options.interruptions:
        return []
    from drivetrain.pipelines.targets.local.rehearsal.interruptions import problems

    steps = definition.walk()
    no_checkpoints = {
        step.name: "keeps no checkpoints (CheckpointConfig): it would begin at its first step each time. Give the step "
        "checkpoint=Checkpoint(), and keep them there."
        for step in steps
        if step.type == "Training" and not resolve_known(step.arguments, scope).get("CheckpointConfig")
    }
    return problems(options.interruptions, {step.name: step.type for step in steps}, no_checkpoints, options.stubs)


def _check_text(definition: Definition, scope: ExecutionScope) -> None:
    """Refuse text that no file, argument or variable can hold.

    Raises:
        UserError: half of a surrogate pair, or a NUL.
    """
    for what, value in [
        *((f"step {step.name!r}", step.own_fields) for step in definition.walk()),
        ("a parameter's value", scope.parameters),
    ]:
        text = json.dumps(value, ensure_ascii=False)
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise UserError(f"{what} holds {text[error.start]!r}, half of a character. Remove it.") from None
        if _NUL.search(text):
            raise UserError(f"{what} holds a NUL character, which no argument or file name can hold. Remove it.")


def _wrong_types(step: StepNode, plan: Plan) -> list[str]:
    """Values of another kind than the service's model has in their place: a text where an object must be."""
    from drivetrain.pipelines.targets.sagemaker.shapes import check_types

    if step.name in plan.options.stubs:
        return []
    return [f"step {step.name!r}: {problem}" for problem in check_types(step.type, plan.arguments)]


def _lost_references(step: StepNode, definition: Definition, options: Options) -> Iterator[str]:
    """References to what no step of that type gives."""
    from drivetrain.pipelines.targets.sagemaker.properties import UnknownPropertyError, property_type

    for get in step.references:
        if get.step is None or get.property_file is not None or get.step in options.stubs:
            continue
        source = definition.step(get.step)
        if get.path[0] in source.arguments:  # perhaps newer than our model, and given back by every describe call
            continue
        try:
            property_type(source.type, path_text(get.path))
        except UnknownPropertyError as error:
            yield f"step {step.name!r}: Get {get.text!r}: {error}"


def _problems(step: StepNode, plan: Plan) -> list[str]:
    if step.name in plan.options.stubs:
        return stubs.check(step, plan)
    module = step_types.find(step.type)
    if module is None:
        return [
            f"step {step.name!r} is of type {step.type}, which is not known here. Known: "
            f"{', '.join(step_types.known().values())}. Give its results with --stub {step.name}=outputs.json (or "
            f"--stub {step.name}, where no step needs any)."
        ]
    return module.check(step, plan)


def _written(step: StepNode, arguments: Mapping[str, Any], options: Options) -> list[str]:
    """URIs that a step brings, as far as they are known."""
    if step.name in options.stubs:
        folders: Any = options.stubs[step.name].get(stubs.FOLDERS) or {}
        found = [name for name in folders if str(name).startswith("s3://")]
    else:
        found = list[str]()
    module = step_types.find(step.type)
    lists = getattr(module, "written", None)
    return [*found, *(lists(arguments) if lists is not None else [])]
