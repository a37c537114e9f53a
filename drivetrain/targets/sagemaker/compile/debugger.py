"""A training job's fields for SageMaker Debugger and Profiler: the hook, and the service's own rules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drivetrain.catalog.debugger_rules import OURS_ALONE, SERVICE_RULES, rules_image
from drivetrain.spec.steps import BaseStep, TrainingStep
from drivetrain.targets.sagemaker.compile import Generated
from drivetrain.targets.sagemaker.debugger_rules import rules_of

Json = dict[str, Any]

_SYSTEM_INTERVAL = 500  # ms, the service's own default


def debugger_fields(step: TrainingStep, folder: str, region: str) -> Json:
    """DebugHookConfig and the rules of tensors, ProfilerConfig and the rules of machines; nothing unless asked for.

    Args:
        folder: the URI below which the step writes. It names no execution, for the hook's place is part of the key by
            which the service finds earlier results; the service adds the job's name to it.
    """
    debugger = step.options.debugger
    if debugger is None:
        return {}
    place = Generated(f"{folder}/debugger")
    names = rules_of(step)
    of_tensors = [name for name in names if not SERVICE_RULES[name].of_machines]
    of_machines = [name for name in names if SERVICE_RULES[name].of_machines]
    found: Json = {}
    if of_tensors or debugger.collections:
        needed = {key: pattern for name in of_tensors for key, pattern in SERVICE_RULES[name].collections.items()}
        every = {"save_interval": str(debugger.save_every)}
        parameters = {key: every | ({"include_regex": regex} if regex else {}) for key, regex in needed.items()}
        parameters |= {key: parameters.get(key, every) | own for key, own in debugger.collections.items()}
        found["DebugHookConfig"] = {
            "S3OutputPath": place,
            "HookParameters": every,
            "CollectionConfigurations": [
                {"CollectionName": key, "CollectionParameters": parameters[key]} for key in sorted(parameters)
            ],
        }
    if of_tensors:
        found["DebugRuleConfigurations"] = [_rule(name, region) for name in of_tensors]
    if of_machines:
        found["ProfilerConfig"] = {"S3OutputPath": place, "ProfilingIntervalInMilliseconds": _SYSTEM_INTERVAL}
        found["ProfilerRuleConfigurations"] = [_rule(name, region) for name in of_machines]
    return found


def debugger_notes(steps: Iterable[BaseStep]) -> list[str]:
    """For each step with it, how long the service goes on, and which health rules it does not have."""
    return [_note(step) for step in steps if isinstance(step, TrainingStep) and step.options.debugger is not None]


def _note(step: TrainingStep) -> str:
    lacking = sorted({*SERVICE_RULES, *OURS_ALONE} - {*rules_of(step)})
    without = f" Health rules that it does not get here: {', '.join(lacking)}." if lacking else ""
    return (
        f"Step {step.name!r}: SageMaker Debugger is closed since 2026-07-30 to accounts that had not used it, and "
        f"Profiler ends on 2027-06-30; our health rules run in every training by `train`, on every target.{without}"
    )


def _rule(name: str, region: str) -> Json:
    service = SERVICE_RULES[name]
    return {
        "RuleConfigurationName": name,
        "RuleEvaluatorImage": Generated(rules_image(region)),
        "RuleParameters": {"rule_to_invoke": service.name, **service.parameters},
    }
