"""Finds everything in a definition that cannot run on this machine, before anything starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean
from drivetrain.base.json_text import Json
from drivetrain.base.records import dataclass
from drivetrain.run_store.objects import ObjectStore
from drivetrain.targets.sagemaker.document import graph, path_text
from drivetrain.targets.sagemaker.document.document import FOR_EACH, Definition, StepNode
from drivetrain.targets.sagemaker.document.expressions import FUNCTIONS, Scope, UnresolvedReference
from drivetrain.targets.sagemaker.run import step_types
from drivetrain.targets.sagemaker.run.execution.context import RunPlan
from drivetrain.targets.sagemaker.run.execution.scope import (
    STUBBED_FILES,
    ExecutionScope,
    output_uri,
    own_arguments,
    resolve_known,
)
from drivetrain.targets.sagemaker.run.options import Options

_MOST_SHOWN = 20
# In JSON's spelling, and not after a backslash that is one itself.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def check(definition: Definition, scope: ExecutionScope, options: Options, store: ObjectStore) -> None:
    """Refuse a definition that cannot run here; the message lists every problem.

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
    steps = [step for step in definition.walk() if not options.selected or step.name in options.selected]
    inner, problems = _iterated(steps, scope, options)
    yield from problems
    nodes = {**definition.by_name, **{one.step.name: one.step for one in inner}}
    for step in [*steps, *(inner_step for outer in steps for inner_step in outer.body)]:
        if (problem := graph.name_problem(step)) is not None:
            yield problem
        for function in step.unknown_functions:
            yield (
                f"step {step.name!r}: function {function!r} is not known here, so what it gives cannot be worked out. "
                f"{did_you_mean(function, FUNCTIONS)}"
            )
    bodies = {body_step.name for step in definition.walk() for body_step in step.body}
    for name in options.stubs:
        if name not in nodes and name not in bodies and name.rpartition("-")[0] not in bodies:
            yield f"--stub {name}: there is no such step. {did_you_mean(name, [*definition.by_name, *bodies])}"
    asking = {step.name for step in definition.all_steps if step.type == "Callback"}
    for name in options.callbacks:
        if name not in asking and name.rpartition("-")[0] not in asking & bodies:
            yield f"--callback {name}: there is no such Callback step. {did_you_mean(name, asking)}"
    yield from _interruption_problems(definition, scope, options)
    checked = [*(_Checked(step, scope, options, step.name) for step in steps), *inner]
    known = {
        one.step.name: resolve_known(own_arguments(one.step), one.scope)
        for one in checked
        if one.step.type != "Condition"
    }
    for one in checked:
        yield from _lost_references(one.step, nodes, one.options, known, store)
    written = {one.step.name: _written(one.step, known.get(one.step.name, {}), one.options) for one in checked}
    may_write = {name: [*uris, *_listed("named", nodes[name], known.get(name, {}))] for name, uris in written.items()}
    # It is unknown yet whether a branch's steps run, so what their stubs lack may not matter.
    surely = {name: _brought(nodes[name], uris, known.get(name, {}), options) for name, uris in may_write.items()}
    told: set[str] = set()
    for one in checked:
        plan = RunPlan(
            arguments=known.get(one.step.name, {}),
            raw={key: resolve_known(value, one.scope) for key, value in one.step.raw.items() if key != "Arguments"},
            options=one.options,
            store=store,
            # What a step brings itself is not there when it begins.
            written=[
                uri
                for name, uris in (may_write if one.step.branch else surely).items()
                if name != one.step.name
                for uri in uris
            ],
            others=known,
        )
        # What is wrong with a step of a ForEach's body is told of its first iteration.
        if one.written_as not in told and (found := _problems(one.step, plan) or _wrong_types(one.step, plan)):
            told.add(one.written_as)
            yield from (_of_the_body(problem, one) for problem in found)


@dataclass(frozen=True)
class _Checked:
    """A step that is looked at: a step of a body once an iteration where the items are known by now, else once."""

    step: StepNode
    scope: Scope
    options: Options
    written_as: str


def _of_the_body(problem: str, one: _Checked) -> str:
    """Problems of the first iteration are reported for the step of the body itself."""
    if one.step.name == one.written_as:  # no step of an iteration
        return problem
    from drivetrain.targets.sagemaker.document.for_each import child_name

    if one.step.name != child_name(one.written_as, 0):
        return problem
    return problem.replace(repr(one.step.name), repr(one.written_as)).replace(
        f"--stub {one.step.name}", f"--stub {one.written_as}"
    )


def _iterated(steps: Sequence[StepNode], scope: ExecutionScope, options: Options) -> tuple[list[_Checked], list[str]]:
    """The steps of all iterations, as far as the items are known; and problems of the items."""
    found: list[_Checked] = []
    problems: list[str] = []
    loops = [step for step in steps if step.type == FOR_EACH and step.name not in options.stubs]
    if not loops:
        return found, problems
    from drivetrain.targets.sagemaker.document import for_each

    for step in loops:
        given = step.arguments["IterableItems"]
        try:
            items = for_each.items_of(scope.arguments(given), literal=isinstance(given, list))
        except UnresolvedReference:
            found += [_Checked(one, scope, options, one.name) for one in step.body]
            continue
        except UserError as error:
            problems.append(f"step {step.name!r}: {error}")
            continue
        if len(items) * len(step.body) > for_each.MAX_CHILDREN:
            problems.append(f"step {step.name!r}: {for_each.too_many(items, step)}")
            continue
        own = options.for_iterations(for_each.body_names(step, len(items)))
        for index, item in enumerate(items):
            for child, body_step in zip(for_each.children(step, index), step.body, strict=True):
                found.append(_Checked(child, scope.inside(item), own, body_step.name))
                problems += _lost_items(child, item)
    return found, problems


def _lost_items(step: StepNode, item: Json) -> Iterator[str]:
    """References to members that the item of an iteration lacks."""
    from drivetrain.targets.sagemaker.document.for_each import current_item

    for get in step.references:
        if get.root == FOR_EACH:
            try:
                current_item(item, get)
            except UnresolvedReference as error:
                yield f"step {step.name!r}: {error}"


def _interruption_problems(definition: Definition, scope: ExecutionScope, options: Options) -> list[str]:
    if not options.interruptions:
        return []
    from drivetrain.targets.sagemaker.run.interruption_simulation.interruptions import problems

    steps = [step for step in definition.walk() if not options.selected or step.name in options.selected]
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


def _wrong_types(step: StepNode, plan: RunPlan) -> list[str]:
    """Values whose type differs from the service's model, such as text where an object is needed."""
    from drivetrain.targets.sagemaker.document.service.shapes import check_types

    if step.name in plan.options.stubs:
        return []
    return [f"step {step.name!r}: {problem}" for problem in check_types(step.type, plan.arguments)]


def _lost_references(
    step: StepNode,
    nodes: Mapping[str, StepNode],
    options: Options,
    known: Mapping[str, Mapping[str, Any]],
    store: ObjectStore,
) -> Iterator[str]:
    """References to properties that no step of that type has."""
    from drivetrain.targets.sagemaker.document.service import UnknownPropertyError, property_type

    for get in step.references:
        source = None if get.step is None else nodes.get(get.step)
        if get.step is None or source is None:
            continue  # within a body with unknown iterations; graph.check has seen it
        if get.property_file is not None:
            stub = options.stubs.get(get.step)
            if stub is not None and not step.branch:
                from drivetrain.targets.sagemaker.run.stubs import gives_file

                if not gives_file(source, stub, get.property_file):
                    yield (
                        f"step {step.name!r}: Get {get.text!r}: --stub {get.step} gives no property file "
                        f"{get.property_file!r}. Give its content in the stub's file: "
                        f'{{"{STUBBED_FILES}": {{"{get.property_file}": {{...}}}}}}'
                    )
            continue
        if get.step in options.stubs:
            # Where a condition decides whether a step runs at all, its stub may be meant for the other branch.
            if not step.branch:
                from drivetrain.targets.sagemaker.run.stubs import FOLDERS, gives, lacking

                stub = options.stubs[get.step]
                if not gives(source, stub, get.path):
                    yield (
                        f"step {step.name!r}: Get {get.text!r}: --stub {get.step} gives no {get.path[0]!r}. Give it "
                        "in the stub's file."
                    )
                elif (
                    step.name not in options.stubs
                    and (not options.selected or get.step in options.selected)  # else an earlier run brings it
                    and (output := lacking(step, get, source, stub)) is not None
                ):
                    uri = output_uri(known.get(get.step, {}), output)
                    if uri is None or not store.exists(uri):  # perhaps an earlier run left it there
                        path = "model.tar.gz" if output == "model" else "FOLDER"
                        yield (
                            f"step {step.name!r} reads the output {output!r} of {get.step!r}, and --stub {get.step} "
                            f'brings none. Give it in the stub\'s file: {{"{FOLDERS}": {{"{output}": "{path}"}}}}'
                        )
            continue
        if (lost := _lost_member(source, get.path)) is not None:
            yield f"step {step.name!r}: Get {get.text!r}: {lost}"
            continue
        if get.path[0] in source.arguments:  # perhaps newer than our model, and given back by every describe call
            continue
        try:
            property_type(source.type, path_text(get.path))
        except UnknownPropertyError as error:
            yield f"step {step.name!r}: Get {get.text!r}: {error}"


def _lost_member(source: StepNode, path: Sequence[str | int]) -> str | None:
    """Why a step cannot have that output parameter or iteration, by its definition; None if it may have it."""
    if path[0] == "OutputParameters" and len(path) > 1 and source.type in ("Lambda", "Callback"):
        declared = [output.name for output in source.output_parameters]
        if path[1] not in declared:
            return f"{source.name!r} declares no output {path[1]!r}. {did_you_mean(str(path[1]), declared)}"
    if path[0] == "IterationOutputs" and len(path) > 1 and source.type == FOR_EACH:
        items: Json = source.arguments["IterableItems"]
        if isinstance(items, list) and isinstance(path[1], int) and not 0 <= path[1] < len(items):
            return f"{source.name!r} has {len(items)} items, so its iterations are 0 to {len(items) - 1}."
    return None


def _problems(step: StepNode, plan: RunPlan) -> list[str]:
    if step.name in plan.options.stubs:
        from drivetrain.targets.sagemaker.run.stubs import check as check_stub

        return check_stub(step, plan)
    module = step_types.find(step.type)
    if module is None:
        return [
            f"step {step.name!r} is of type {step.type}, which is not known here. "
            f"{did_you_mean(step.type, step_types.known().values())} Or give its results with --stub "
            f"{step.name}=outputs.json (--stub {step.name}, where no step needs any)."
        ]
    return module.check(step, plan)


def _brought(step: StepNode, uris: list[str], arguments: Mapping[str, Any], options: Options) -> list[str]:
    """Keep those of a step's URIs that its stub brings; all if the step is run."""
    stub: Any = options.stubs.get(step.name)
    if not isinstance(stub, dict):
        return uris
    from drivetrain.targets.sagemaker.run.stubs import uris_brought

    return uris_brought(step, cast("dict[str, Any]", stub), arguments, uris)


def _written(step: StepNode, arguments: Mapping[str, Any], options: Options) -> list[str]:
    """URIs that a step brings, as far as they are known."""
    if step.name in options.stubs:
        from drivetrain.targets.sagemaker.run.stubs import FOLDERS

        folders: Any = options.stubs[step.name].get(FOLDERS) or {}
        found = [name for name in folders if str(name).startswith("s3://")]
    else:
        found = list[str]()
    return [*found, *_listed("written", step, arguments)]


def _listed(what: str, step: StepNode, arguments: Mapping[str, Any]) -> list[str]:
    """The URIs that a step type's function `what` lists from the arguments; empty if the type has no such function."""
    lists = getattr(step_types.find(step.type), what, None)
    return [] if lists is None else lists(arguments)
