from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from drivetrain.pipelines.cli.pull import _as_json
from drivetrain.pipelines.studio.merge import merge
from tests.fixtures.changed_definitions import RETRAINING, altered


def test_what_pull_gives_as_json_has_no_secret() -> None:
    def edited(steps: dict[str, Any]) -> None:
        steps["prepare"]["Arguments"]["Environment"]["API_TOKEN"] = "canary-1"
        steps[""]["Parameters"].append({"Name": "DbPassword", "Type": "String", "DefaultValue": "canary-2"})

    merged = merge(RETRAINING, RETRAINING, altered(edited))
    said = json.dumps(_as_json(merged, Path("retraining.studio.yaml"), written=False))
    assert len(merged.edits) == 2 and said.count("***") == 2
    assert "canary" not in said
