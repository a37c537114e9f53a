"""All checks together."""

from __future__ import annotations

import re
from pathlib import Path

from drivetrain.infra.kubeflow.readiness.checks import CHECKS

PAGE = Path(__file__).parents[5] / "docs" / "kubeflow_infrastructure.md"


def test_the_page_names_every_check() -> None:
    (section,) = re.findall(r"^## Check\n(.*?)^## ", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    rows = re.findall(r"^\| ([^|]+) \| ", section, re.MULTILINE)[1:]
    assert [name for row in rows for name in row.split(", ")] == list(CHECKS)
