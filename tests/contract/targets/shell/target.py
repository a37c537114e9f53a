"""Shell commands as a target: a pipeline of components as a script that anyone can read, and run by hand.

OBJECTS=.drivetrain/s3 WORK=build sh pipeline.sh
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from drivetrain.assets.assets import Asset, data_asset
from drivetrain.spec.pipeline import Graph, Pipeline
from drivetrain.spec.steps import JobStep, ProcessingStep, Step
from drivetrain.spec.values import Join, OutputRef, ParameterRef, Reference, Value
from drivetrain.targets.target import Problem, flag, refuse

TITLE, SUFFIX = "Shell commands", ".sh"
KNOWN = (OutputRef, ParameterRef, Join)


@dataclass(frozen=True)
class Compiled:
    """A pipeline as the lines of a script."""

    pipeline: Pipeline
    lines: tuple[str, ...]
    assets: tuple[Asset, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def check(pipeline: Pipeline) -> list[Problem]:
    """What is no command of a component: all that decides, repeats, trains or starts."""
    graph = Graph(pipeline)
    found = [Problem("", f"trigger {each.name!r}", "a script does not wait. Use cron.") for each in pipeline.triggers]
    for step in graph.steps:
        if not isinstance(step, ProcessingStep) or step.program.kind != "component":
            found.append(Problem(step.name, step.kind, "a script has commands of components alone. Leave it out."))
        if isinstance(step, JobStep) and step.retry:
            found.append(Problem(step.name, "retry", "a script does not try again. Leave it out."))
        for reference in graph.references[step.name]:
            if not isinstance(reference, KNOWN):
                found.append(Problem(step.name, reference.described(), "is known on no command line. Give a value."))
    return found


def compile(
    pipeline: Pipeline, source: Path | None = None, base: Path | None = None, *, here: bool = False
) -> Compiled:
    """A command a step, each after those that it needs."""
    refuse(check(pipeline), TITLE)
    assets: dict[str, Asset] = {}
    lines = ["set -eu"]
    if source is not None:
        lines.append('export PYTHONPATH="${SOURCE}"')
    lines += [
        f"{variable(parameter.name)}=${{{variable(parameter.name)}:-{shlex.quote(str(parameter.default))}}}"
        for parameter in pipeline.parameters
    ]
    for step in in_order(pipeline):
        assert isinstance(step, ProcessingStep)
        words = ["python3", "-m", "drivetrain.steps.call", step.program.target]
        for name, value in step.inputs.items():
            words += [flag(name), place(value, pipeline, base or Path.cwd(), assets)]
        for name in step.output_names():
            words += [flag(name), f'"${{WORK}}/{step.name}/{name}"']
        for name, value in step.parameters.items():
            words += [flag(name), word(value)]
        given = [f"{name}={word(value)}" for name, value in step.environment.items()]
        lines.append(" ".join([*given, *words]))
    return Compiled(pipeline, tuple(lines), tuple(assets[uri] for uri in sorted(assets)))


def in_order(pipeline: Pipeline) -> Iterator[Step]:
    graph = Graph(pipeline)
    left = list(graph.steps)
    while left:
        names = {step.name for step in left}
        ready = [step for step in left if not graph.needs[step.name] & names]
        left = [step for step in left if step not in ready]
        yield from ready


def place(value: Value, pipeline: Pipeline, base: Path, assets: dict[str, Asset]) -> str:
    """The folder of an input; S3 is the folder $OBJECTS."""
    if isinstance(value, str) and not value.startswith("s3://"):
        uri, found = data_asset(f"s3://shell/{pipeline.name}", value, base)
        assets |= {asset.uri: asset for asset in found}
        value = uri
    if isinstance(value, str):
        return f'"${{OBJECTS}}"/{shlex.quote(value.removeprefix("s3://"))}'
    if isinstance(value, OutputRef):
        return word(value)
    return f'"$(echo {word(value)} | sed "s|^s3:/|${{OBJECTS}}|")"'


def word(value: Value) -> str:
    """A value as a word of the shell."""
    if isinstance(value, Join):
        return shlex.quote(value.on).join(word(part) for part in value.values)
    if isinstance(value, OutputRef):
        return f'"${{WORK}}/{value.step}/{value.output}"'
    if isinstance(value, ParameterRef):
        return f'"${{{variable(value.name)}}}"'
    assert not isinstance(value, Reference), "check() lets none pass"
    return shlex.quote(str(value).lower() if isinstance(value, bool) else str(value))


def variable(name: str) -> str:
    return re.sub(r"\W", "_", name).upper()
