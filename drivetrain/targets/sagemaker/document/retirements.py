"""Find the uses in a definition of what AWS is taking out of service, with the dates.

Read in the release notes of SageMaker and in its developer guide, November 2026.
"""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.json_text import object_in
from drivetrain.targets.sagemaker.document.document import Definition, StepNode

CHECKS = {"QualityCheck": "Model Monitor", "ClarifyCheck": "Clarify"}


def endings(definition: Definition) -> tuple[str, ...]:
    """A sentence for each such use.

    Raises:
        UserError: the body of a ForEach is no list of steps.
    """
    return tuple(said for step in definition.all_steps for said in _of_step(step))


def _of_step(step: StepNode) -> Iterator[str]:
    if step.type in CHECKS:
        yield (
            f"{step.name}: {step.type} runs in {CHECKS[step.type]}, which AWS has closed to new customers. An account "
            "that used it before may go on; for a new one check by a step of your own."
        )
    if step.type != "Training":
        return
    if step.arguments.get("DebugHookConfig") or step.arguments.get("DebugRuleConfigurations"):
        yield f"{step.name}: Debugger is closed to new customers since 2026-07-30; a new account has none."
    profiler = object_in(step.arguments, "ProfilerConfig")
    if (profiler and profiler.get("DisableProfiler") is not True) or step.arguments.get("ProfilerRuleConfigurations"):
        yield f"{step.name}: SageMaker Profiler ends on 2027-06-30. Take ProfilerConfig out before."
