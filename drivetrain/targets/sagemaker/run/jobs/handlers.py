"""Functions of the user's that stand for what the account has: called in a process of their own, with typed answers."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError
from drivetrain.base.masking import mask
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run.execution import StepFailedError
from drivetrain.targets.sagemaker.run.execution.context import StepContext
from drivetrain.targets.sagemaker.run.jobs import programs as jobs

# As Lambda's: https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html
LARGEST_BYTES = 6 * 1024 * 1024
TYPES: Mapping[str, tuple[type, ...]] = {
    "String": (str,),
    "Integer": (int,),
    "Float": (int, float),
    "Boolean": (bool,),
}
_PROGRAM = Path(__file__).with_name("lambda_program.py")


def problems(step: StepNode, target: str) -> list[str]:
    """Why there can be no such handler."""
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name.isidentifier():
        return [f"step {step.name!r}: handler {target!r}. Allowed: module:function or file.py:function."]
    if place.endswith(".py") and not Path(place).is_file():
        return [f"step {step.name!r}: handler {target!r}: there is no file {Path(place).absolute()}."]
    return []


def output_problems(step: StepNode) -> list[str]:
    """Output parameters of a type that there is not."""
    return [
        f"step {step.name!r}: output {output.name!r} has type {output.type!r}. Allowed: {', '.join(TYPES)}."
        for output in step.output_parameters
        if output.type not in TYPES
    ]


def call(context: StepContext, target: str, event: Mapping[str, Any], *, name: str, arn: str, timeout_s: float) -> Any:
    """Call `target` (module:function or file.py:function) with an event, as a Lambda handler, and return its answer.

    Raises:
        StepFailedError: it raised, ended the program, took too long, or gave too much.
        StepStoppedError: the user stopped the run.
        UserError: the event is too large.
    """
    from drivetrain.processes.container import Host, Job

    place, _, handler = target.rpartition(":")
    if place.endswith(".py"):
        target = f"{Path(place).absolute()}:{handler}"
    root = context.folder / jobs.HOSTS / "127.0.0.1"
    root.mkdir(parents=True)
    text = json.dumps(event).encode()
    if len(text) > LARGEST_BYTES:
        raise UserError(f"the payload has {len(text):,} bytes; Lambda takes at most {LARGEST_BYTES:,}.")
    (root / "event.json").write_bytes(text)
    about = {"name": name, "arn": arn, "timeout_s": timeout_s}
    (root / "about.json").write_text(json.dumps(about), encoding="utf-8")
    result = root / "result.json"
    job = Job(
        command=(
            # -P: the modules beside the program are ours, not the handler's.
            *(sys.executable, "-P", str(_PROGRAM), target),
            *("/opt/ml/event.json", "/opt/ml/result.json", "/opt/ml/about.json"),
        ),
        # A module is looked for where the user started the run, as `python -m` would.
        environment={
            **jobs.platform_environment(context),
            "AWS_LAMBDA_FUNCTION_NAME": name,
            "PYTHONPATH": os.getcwd(),
        },
        hosts=(Host("127.0.0.1", root),),
        log_folder=context.logs,
        time_limit_s=timeout_s,
        grace_s=2.0,
        mode=context.options.mode,
    )
    context.run_job(job)
    if not result.exists():
        raise StepFailedError("the handler ended the program (sys.exit) before it gave an answer.")
    if result.stat().st_size > LARGEST_BYTES:
        raise StepFailedError(f"the handler gave {result.stat().st_size:,} bytes; at most {LARGEST_BYTES:,}.")
    return json.loads(result.read_text(encoding="utf-8"))


def outputs(step: StepNode, answer: Any) -> dict[str, Any]:
    """The declared output parameters in a handler's answer.

    Raises:
        StepFailedError: one is missing or of another type than declared.
    """
    found: dict[str, Any] = {}
    given = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    for output in step.output_parameters:
        if output.name not in given:
            raise StepFailedError(f"the handler gave no {output.name!r} (given: {mask(answer)!r:.80}).")
        value = given[output.name]
        if not _is_of(output.type, value):
            given_one = mask({output.name: value})[output.name]
            raise StepFailedError(f"the handler gave {output.name}={given_one!r:.80}. Allowed: {output.type}.")
        found[output.name] = value
    return found


def _is_of(kind: str, value: Any) -> bool:
    """Return True if a value is of a type as JSON has it: a number is never nan, infinite or a bool."""
    if isinstance(value, bool):
        return kind == "Boolean"
    return isinstance(value, TYPES[kind]) and not (isinstance(value, float) and not math.isfinite(value))


def shown(values: Mapping[str, Any]) -> str | None:
    """Outputs in a word for people, without what looks like a secret by its name."""
    return ", ".join(f"{key}={value}" for key, value in mask(values).items()) or None
