"""Lambda: a Python handler of the user's, called in a process of its own.

Which one: the option `functions`, by ARN, function name or step name. The service waits at most ten minutes and takes
and gives at most 6 MB (https://docs.aws.amazon.com/lambda/latest/dg/gettingstarted-limits.html).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from drivetrain.pipelines.definition.document import StepNode
from drivetrain.pipelines.errors import UserError
from drivetrain.pipelines.targets.local import jobs
from drivetrain.pipelines.targets.local.context import Plan, StepContext
from drivetrain.pipelines.targets.local.outcomes import StepFailedError, StepResult

_TIMEOUT_S = 600.0
_LARGEST_BYTES = 6 * 1024 * 1024
_TYPES: Mapping[str, tuple[type, ...]] = {
    "String": (str,),
    "Integer": (int,),
    "Float": (int, float),
    "Boolean": (bool,),
}
_PROGRAM = Path(__file__).parent.parent / "lambda_program.py"


def check(step: StepNode, plan: Plan) -> list[str]:
    arn = plan.raw.get("FunctionArn")
    target = _target(step.name, arn, plan.options.functions)
    shown = arn if isinstance(arn, str) else "ARN"
    if target is None:
        return [
            f"step {step.name!r} calls {shown}, and no handler is given for it here. Give one with "
            f"--lambda {shown}=file.py:handler (or module:handler), or its results with --stub "
            f"{step.name}=outputs.json."
        ]
    place, colon, name = target.rpartition(":")
    if not colon or not place or not name.isidentifier():
        return [f"step {step.name!r}: handler {target!r}. Allowed: module:function or file.py:function."]
    if place.endswith(".py") and not Path(place).is_file():
        return [f"step {step.name!r}: handler {target!r}: there is no file {Path(place).absolute()}."]
    return [
        f"step {step.name!r}: output {output.name!r} has type {output.type!r}. Allowed: {', '.join(_TYPES)}."
        for output in step.output_parameters
        if output.type not in _TYPES
    ]


def run(context: StepContext) -> StepResult:
    from drivetrain.pipelines.targets.local.containers.container import Host, Job

    arn = str(context.fields.get("FunctionArn"))
    target = _target(context.step.name, arn, context.options.functions)
    assert target is not None, "checked before the run"
    place, _, handler = target.rpartition(":")
    if place.endswith(".py"):
        target = f"{Path(place).absolute()}:{handler}"
    root = context.folder / jobs.HOSTS / "127.0.0.1"
    root.mkdir(parents=True)
    event = json.dumps(dict(context.arguments)).encode()
    if len(event) > _LARGEST_BYTES:
        raise UserError(f"the payload has {len(event):,} bytes; Lambda takes at most {_LARGEST_BYTES:,}.")
    (root / "event.json").write_bytes(event)
    name = _function_name(arn)
    about = {"name": name, "arn": arn, "timeout_s": _TIMEOUT_S}
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
        time_limit_s=_TIMEOUT_S,
        grace_s=2.0,
        mode=context.options.mode,
    )
    context.run_job(job)
    if not result.exists():
        raise StepFailedError("the handler ended the program (sys.exit) before it gave an answer.")
    if result.stat().st_size > _LARGEST_BYTES:
        raise StepFailedError(f"the handler gave {result.stat().st_size:,} bytes; at most {_LARGEST_BYTES:,}.")
    answer: Any = json.loads(result.read_text(encoding="utf-8"))
    outputs = _outputs(context.step, answer)
    shown = ", ".join(f"{key}={value}" for key, value in outputs.items()) or None
    response = {**context.arguments, "FunctionArn": arn, "OutputParameters": outputs}
    return StepResult(response=response, value=shown)


def _outputs(step: StepNode, answer: Any) -> dict[str, Any]:
    """The declared output parameters in a handler's answer.

    Raises:
        StepFailedError: one is missing or of another type than declared.
    """
    found: dict[str, Any] = {}
    given = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    for output in step.output_parameters:
        if output.name not in given:
            raise StepFailedError(f"the handler gave no {output.name!r} (given: {answer!r:.80}).")
        value = given[output.name]
        right = isinstance(value, _TYPES[output.type])
        if not right or (isinstance(value, bool) and output.type != "Boolean"):
            raise StepFailedError(f"the handler gave {output.name}={value!r:.80}. Allowed: {output.type}.")
        found[output.name] = value
    return found


def _target(step: str, arn: Any, functions: Mapping[str, str]) -> str | None:
    names = [arn, _function_name(arn), step] if isinstance(arn, str) else [step]
    return next((functions[name] for name in names if name in functions), None)


def _function_name(arn: str) -> str:
    """`arn:aws:lambda:region:account:function:name[:version]` -> name."""
    parts = arn.split(":")
    return parts[6] if len(parts) > 6 and parts[5] == "function" else arn
