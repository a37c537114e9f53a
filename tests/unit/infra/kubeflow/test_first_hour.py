"""docs/kubeflow_first_hour.md says what the command writes and prints for the settings that it shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from drivetrain.infra.kubeflow import launcher, notes
from drivetrain.infra.kubeflow.needs import Needs, needs_of
from drivetrain.infra.kubeflow.readiness.checks import CHECKS
from tests.fixtures.kubeflow_infra import one_node

PAGE = (Path(__file__).parents[4] / "docs" / "kubeflow_first_hour.md").read_text(encoding="utf-8")
BLOCKS: list[Any] = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)]


def settings() -> list[Needs]:
    """Of one user, and of a team."""
    blocks = [block["deployment"]["targets"]["kubeflow"] for block in BLOCKS if isinstance(block, dict)]
    return [needs_of(one_node("retraining", **block)) for block in blocks]


def test_its_settings_are_good() -> None:
    one_user, team = settings()
    assert one_user.settings.namespace == one_user.settings.infrastructure.platform_namespace == "kubeflow"
    assert team.settings.infrastructure.namespace == "existing"


def test_the_patch_on_the_page_is_the_generated_one() -> None:
    one_user, _ = settings()
    (shown,) = [block for block in BLOCKS if isinstance(block, list)]
    assert shown == yaml.safe_load(launcher.patch(one_user) or "")
    assert launcher.patch_command(one_user, f"build/infra/{launcher.PATCH_FILE}") in PAGE


def test_the_controller_commands_match_the_notes() -> None:
    one_user, _ = settings()
    for line in (notes.no_template_defaults(one_user), notes.keep_pods(one_user)):
        assert line in PAGE.replace("\\\n  ", "")


def test_its_table_has_the_names_of_checks() -> None:
    rows = re.findall(r"^    (?:ok|would fail|not asked) +(\S.*?)  ", PAGE, re.MULTILINE)
    assert len(rows) == 23 and set(rows) < set(CHECKS)
