"""The pipelines on pages compile for SageMaker as they stand there, at the place that docs/deploying.md gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drivetrain.authoring.loading import load
from drivetrain.infra.options import read_options
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.deploy.desired import check_place
from drivetrain.targets.sagemaker.permissions.names import Names
from drivetrain.targets.sagemaker.permissions.policies import derive
from drivetrain.targets.sagemaker.settings import settings_of
from drivetrain.triggers.replay import read_events
from drivetrain.triggers.resources import TriggerSite, resources

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


EXAMPLES = {
    f"{page.stem.lower()}_example_{number}": (page, block)
    for page in PAGES
    for number, block in enumerate(blocks(page, "python"))
    if "-> Pipeline:" in block
}


def test_examples_are_found() -> None:
    assert {"README.md", "own_script.md", "triggers.md"} <= {page.name for page, _ in EXAMPLES.values()}


def test_example_files_match_the_pages() -> None:
    [place] = blocks(ROOT / "docs" / "deploying.md", "yaml")
    assert (ROOT / "docs/examples/production.yaml").read_text(encoding="utf-8") == place
    [event] = read_events((ROOT / "docs/examples/approved.json").read_bytes(), "approved.json")
    assert (
        event["detail"]["ModelApprovalStatus"] == "Approved"
        and event["id"] in blocks(ROOT / "docs" / "triggers.md", "text")[-1]
    )


def test_the_first_hour_page_is_complete(tmp_path: Path) -> None:
    """Its settings deploy the ready pipeline, with roles whose policies are whole, and its options are options."""
    settings, *options, image = blocks(ROOT / "docs" / "sagemaker_first_hour.md", "yaml")
    (tmp_path / "infra.yaml").write_text("".join(options), encoding="utf-8")
    assert read_options(tmp_path / "infra.yaml").termination_protection
    config = tmp_path / "production.yaml"
    config.write_text(settings + image, encoding="utf-8")
    loaded = load("retraining", config)
    check_place(settings_of(loaded.pipeline.deployment))
    compiled = compile_pipeline(loaded.pipeline, loaded.source, loaded.base)
    key = "arn:aws:kms:eu-west-1:123456789012:key/0a1b"
    assert compiled.notes == derive(compiled.definition, Names.of(loaded.pipeline, key)).notes == ()
    assert "drivetrain-serving:1" in compiled.text and "alias/drivetrain-retraining-key" in compiled.text


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_can_be_deployed(name: str, tmp_path: Path) -> None:
    page, text = EXAMPLES[name]
    (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "train.py").write_text(blocks(page, "python")[0], encoding="utf-8")
    config = tmp_path / "production.yaml"
    [place] = blocks(ROOT / "docs" / "deploying.md", "yaml")
    config.write_text(place, encoding="utf-8")
    loaded = load(str(tmp_path / f"{name}.py"), config)
    given = settings_of(loaded.pipeline.deployment)
    check_place(given)
    assert not compile_pipeline(loaded.pipeline, loaded.source, loaded.base).notes
    site = TriggerSite(
        region=given.region,
        account="123456789012",
        pipeline_arn=f"arn:aws:sagemaker:{given.region}:123456789012:pipeline/{loaded.pipeline.name}",
        scheduler_role=given.scheduler_role,
        event_queue=given.event_queue,
        dead_letter_queue=given.dead_letter_queue,
    )
    assert len(resources(loaded.pipeline, site)) == len(loaded.pipeline.triggers)
