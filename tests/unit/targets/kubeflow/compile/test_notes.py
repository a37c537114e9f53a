"""The estimate of a run's Workflow, held against recorded ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drivetrain import current_item, for_each, step
from drivetrain.targets.kubeflow.compile.notes import workflow_bytes
from tests.fixtures.kubeflow_examples import compiled, score

# The bytes of Workflows that Pipelines 2.17.0 and Argo 4.0.5 made, and the IR that they were made of.
RECORDED = json.loads((Path(__file__).parents[4] / "fixtures" / "kubeflow_workflows.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDED)
def test_the_size_matches_the_recorded_one(name: str) -> None:
    recorded = RECORDED[name]
    assert workflow_bytes(recorded["ir"], recorded["platform"]) == pytest.approx(recorded["bytes"], rel=0.05)


def swept(count: int) -> Any:
    once = step(score, data="s3://own/raw/", weight=current_item("Float"))
    return compiled(for_each([float(each) for each in range(count)], [once], name="sweep"))


def test_iterations_count_each() -> None:
    few, many = (workflow_bytes(built.ir, built.platform) for built in (swept(3), swept(100)))
    assert 45_000 < (many - few) / 97 < 60_000, "49 KB were measured"


def test_a_run_whose_steps_would_not_all_be_shown_is_noted() -> None:
    assert swept(3).notes == ()
    (note,) = swept(100).notes
    assert note.startswith("A run takes about 5.") and "the pages of Kubeflow Pipelines stand still" in note
