"""Rules about SageMaker Debugger: which health rules it has, of what, and where."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import did_you_mean
from drivetrain.base.json_options import parse_options
from drivetrain.catalog.debugger_rules import OURS_ALONE, SERVICE_RULES, rules_image
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import TrainingStep, is_our_training
from drivetrain.targets.sagemaker.settings import settings_of

rule = RuleBook("sagemaker")


def rules_of(step: TrainingStep) -> tuple[str, ...]:
    """The health rules that the service is to look at as well, as far as it has them."""
    if step.options.debugger is None:
        return ()
    if step.options.debugger.rules:
        return step.options.debugger.rules
    given = step.parameters.get("health_rules", "")
    options = parse_options(given, "health_rules") if isinstance(given, str) else {}
    return tuple(
        name
        for name, service in SERVICE_RULES.items()
        if options.get(name) != "off" and (service.of_machines or not is_our_training(step))
    )


@rule.each(TrainingStep)
def debugger_has_the_rules(step: TrainingStep, graph: Graph) -> Iterator[str]:
    if step.options.debugger is None:
        return
    where = f"step {step.name!r}: options.debugger"
    region = settings_of(graph.pipeline.deployment).region
    if rules_image(region) is None:
        yield (
            f"{where}: no image of Debugger's rules is documented for region {region!r}. Leave it out; the health "
            "rules run in the training itself."
        )
    names = step.options.debugger.rules
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        yield f"{where}.rules has {doubled[0]!r} twice. Keep one."
    for name in names:
        if name in OURS_ALONE:
            yield (
                f"{where}.rules: the service has no rule that means {name!r}. Leave it out; the health rule runs "
                "in the training itself."
            )
        elif name not in SERVICE_RULES:
            yield f"{where}.rules: there is no health rule {name!r}. {did_you_mean(name, SERVICE_RULES)}"
        elif is_our_training(step) and not SERVICE_RULES[name].of_machines:
            yield (
                f"{where}.rules: {name!r} needs a hook of smdebug in the script, which `train` has not: its health "
                "rules see the same tensors. Leave it out, or bring a script by `train_script`."
            )
