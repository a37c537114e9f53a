"""Callback: asks, and waits for the answer: `drivetrain runs callback TOKEN --output name=value`.

The message is the same that the service sends to the queue (a token and the arguments); it lies in the run's folder
(callbacks.py). The option `callbacks` names a handler that answers at once in a person's place: it is called as a
Lambda with the message, and returns the output parameters.
"""

from __future__ import annotations

import shlex
from typing import Any

from drivetrain.catalog.quotas import MAX_CALLBACK_OUTPUTS
from drivetrain.run_store.events import StepNoted
from drivetrain.run_store.home import Home
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.run import callbacks
from drivetrain.targets.sagemaker.run.execution import StepFailedError, StepStoppedError
from drivetrain.targets.sagemaker.run.execution.context import RunPlan, StepContext, StepResult
from drivetrain.targets.sagemaker.run.jobs import handlers

_LOOK_EVERY_S = 0.2
_HANDLER_S = 7 * 86_400.0


def check(step: StepNode, plan: RunPlan) -> list[str]:
    queue = plan.raw.get("SqsQueueUrl")
    if not isinstance(queue, str | dict) or not queue:
        return [f"step {step.name!r}: SqsQueueUrl is {queue!r:.60}. Allowed: the URL of a queue."]
    if len(step.output_parameters) > MAX_CALLBACK_OUTPUTS:
        return [f"step {step.name!r} has {len(step.output_parameters)} outputs. Allowed: {MAX_CALLBACK_OUTPUTS}."]
    target = plan.options.callbacks.get(step.name)
    problems = [] if target is None else handlers.problems(step, target)
    return problems or handlers.output_problems(step)


def run(context: StepContext) -> StepResult:
    queue, step = str(context.fields.get("SqsQueueUrl")), context.step
    question = callbacks.ask(
        context.home,
        execution=context.facts.id,
        step=step.name,
        queue=queue,
        arguments=context.arguments,
        outputs={output.name: output.type for output in step.output_parameters},
        anew=_is_settled(context),
    )
    target = context.options.callbacks.get(step.name)
    if target is not None:
        given = handlers.call(context, target, question.body, name=step.name, arn=queue, timeout_s=_HANDLER_S)
        outputs = handlers.outputs(step, given)
        callbacks.settle(context.home, question, outputs)
    else:
        outputs = _answered(context, question)
    response = {
        **context.arguments,
        "CallbackToken": question.token,
        "SqsQueueUrl": queue,
        "OutputParameters": outputs,
    }
    return StepResult(response=response, value=handlers.shown(outputs))


def _is_settled(context: StepContext) -> bool:
    """Return True if the ledger knows the result of the attempt before this one, so that its answer was used; one that
    was killed or stopped asks the same again."""
    attempts = context.ledger.attempts(context.facts.id, context.step.name)
    earlier = [one for one in attempts if one.number < context.attempt]
    return bool(earlier) and earlier[-1].status in ("Failed", "Succeeded")


def _answered(context: StepContext, question: callbacks.Question) -> dict[str, Any]:
    """
    Raises:
        StepFailedError: the answer is a failure.
        StepStoppedError: the user stopped the run; the question stays, and its token.
    """
    answer = callbacks.answer_to(context.home, question)
    if answer is None:  # in a run that goes on it may be there
        answer = _waited_for(context, question)
    if answer.failure is not None:
        raise StepFailedError(answer.failure)
    return dict(answer.outputs)


def _waited_for(context: StepContext, question: callbacks.Question) -> callbacks.Answer:
    home = "" if context.home.root == Home().root else f" --home {shlex.quote(str(context.home.root))}"
    wanted = "".join(f" --output {name}={kind.upper()}" for name, kind in question.outputs.items())
    note = f"waits for: drivetrain runs callback {question.token}{wanted}{home}"
    context.ledger.note_step(context.facts.id, context.step.name, note)
    context.post(StepNoted(context.step.name, context.attempt, note, asks=True))
    while (answer := callbacks.answer_to(context.home, question)) is None:
        if context.control.stopping.wait(_LOOK_EVERY_S):
            raise StepStoppedError
    return answer
