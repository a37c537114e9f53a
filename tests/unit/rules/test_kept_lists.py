"""Lists that are written down twice, where one side may not import the other."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import get_args

import drivetrain
from drivetrain.authoring import settings
from drivetrain.authoring.settings import RESERVED_ENVIRONMENT
from drivetrain.components.compare import compare
from drivetrain.decision.policy import Policy
from drivetrain.rules.for_each_rules import NATIVE_CONTROL
from drivetrain.rules.training_rules import ACTIONS
from drivetrain.targets.sagemaker.document.step_types import STEP_TYPES
from drivetrain.training.health.rule import Action

PACKAGE = Path(drivetrain.__file__).parent


def test_own_variables_are_not_reported_as_misspelt() -> None:
    rooms = (PACKAGE, PACKAGE / "components", PACKAGE / "training_scripts")  # of which some are links
    texts = [file.read_text(encoding="utf-8") for room in rooms for file in room.rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'"DRIVETRAIN_([A-Z0-9_]+)"', text)}
    assert len(named) > 40
    reserved = {name.removeprefix("DRIVETRAIN_") for name in RESERVED_ENVIRONMENT}
    ours = {name.upper() for name in settings._OURS}  # pyright: ignore[reportPrivateUsage]
    assert named - reserved - ours == set()


def test_the_conditions_of_compare_are_those_of_its_policy() -> None:
    assert {each.name for each in fields(Policy)} <= set(compare.parameters)


def test_the_actions_of_health_rules_are_those_of_the_training() -> None:
    assert get_args(Action) == ACTIONS


def test_step_types_forbidden_in_loops_have_our_names() -> None:
    assert {name for name, each in STEP_TYPES.items() if each.of_the_pipeline} == NATIVE_CONTROL
