"""Rules about what a training's health rules are told (docs/health.md): a wrong name costs minutes in the job."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from drivetrain.base.errors import UserError, did_you_mean, nearest
from drivetrain.catalog.json_options import parse_options
from drivetrain.catalog.strategies import health_rules_folder, options_of_recipe, strategy_names
from drivetrain.rules import RuleBook
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.trainings import trainings

rule = RuleBook()

ACTIONS = ("note", "warn", "fail", "stop")


@rule
def health_rules_are_told_what_they_take(graph: Graph) -> Iterator[str]:
    for training in trainings(graph.pipeline):
        text = training.text("health_rules")
        if not text:
            continue
        try:
            given = parse_options(text, "health_rules")
        except UserError as error:
            yield f"{training.where}: {error}"
            continue
        for name, options in given.items():
            if said := _problem(name, options):
                yield f"{training.where}: health_rules: {said}"


def _problem(name: str, options: Any) -> str:
    if options != "off" and not isinstance(options, Mapping):
        return (
            f'{name!r} is {json.dumps(options)}. Allowed: "off", or an object with its action and options: '
            '{"action": "stop"}.'
        )
    folder = health_rules_folder()
    shipped = strategy_names(folder)
    if name not in shipped:  # a module of the user's own, or a slip
        return "" if nearest(name, shipped) is None or _is_own(name) else _unknown("rule", name, shipped)
    if options == "off":
        return ""
    told = dict(cast("Mapping[str, Any]", options))
    action = told.pop("action", ACTIONS[0])
    if action not in ACTIONS:
        return f"{name!r} has no action {action!r}. {did_you_mean(str(action), ACTIONS)}"
    allowed = options_of_recipe(folder / f"{name}.py", kind="Rule")
    unknown = [option for option in told if allowed is not None and option not in allowed]
    return _unknown(f"option of {name!r}", unknown[0], ("action", *(allowed or ()))) if unknown else ""


def _unknown(what: str, name: str, allowed: tuple[str, ...] | list[str]) -> str:
    return f"no {what} {name!r}. {did_you_mean(name, allowed)}"


def _is_own(name: str) -> bool:
    """Return True if a module of that name lies beside the pipeline, or where Python finds it."""
    try:
        return Path(f"{name}.py").exists() or find_spec(name) is not None
    except (ImportError, ValueError):
        return False
