"""The lines that run the shipped recipes, in docs/recipes.md, say what the configs say."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import shlex
from pathlib import Path

import pytest

from drivetrain.authoring.plain_yaml import read_yaml
from drivetrain.cli import main
from drivetrain.cli.local import submit
from drivetrain.cli.local.job import Job
from drivetrain.cli.local.submitted import one_step_pipeline
from drivetrain.training import plugins
from drivetrain.training.config import Config
from drivetrain.training.recipe import load_recipe

ROOT = Path(__file__).parents[2]
NAMES = plugins.recipes_alone("torch")
PREPARES = "drivetrain submit prepare-data .*--out build"
# As a setting, a flag, an argument in Python; not the outputs that a line itself writes.
READS = re.compile(r"\b(?:train|validation)[= ]\"?(build/(?:train|validation|test))\b")


def lines(page: str) -> dict[str, dict[str, str]]:
    """What the first line for each recipe sets."""
    found: dict[str, dict[str, str]] = {}
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        if line.startswith("drivetrain submit train "):
            words = shlex.split(line, comments=True)
            given = [word for before, word in itertools.pairwise(words) if before == "--set"]
            values = dict(word.split("=", 1) for word in given)
            found.setdefault(values["recipe"], values)
    return found


def preparing_line(page: str) -> list[str]:
    """The words of a page's first line that writes into `build`, or none."""
    found = re.search(rf"^{PREPARES}.*$", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    return shlex.split(found[0]) if found else []


@pytest.mark.slow_cases("digits_cnn-docs/recipes.md")
@pytest.mark.parametrize("page", ["docs/recipes.md"])
@pytest.mark.parametrize("name", NAMES)
def test_a_config_line_is_the_config(page: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    values = lines(page)[name]
    if values["train"].startswith("build/"):
        # Nobody has this folder: the page itself has to say what writes it.
        assert main.run(preparing_line(page)[1:]) == 0
        assert list((tmp_path / values["train"]).rglob("*.parquet"))
    else:
        (tmp_path / values["train"]).mkdir(parents=True)  # where the user unpacked what was downloaded
    job = Job(component="train", set_=[f"{key}={value}" for key, value in values.items()])
    pipeline, _ = one_step_pipeline(job)
    (step,) = pipeline.steps
    shipped = dataclasses.asdict(Config(**read_yaml(ROOT / f"docs/recipes/{name}.yaml")))
    said = {key: value for key, value in step.parameters.items() if key in shipped}  # type: ignore[union-attr]
    assert said == shipped
    load_recipe(name, json.loads(str(said["recipe_options"])))


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_pages_read_only_files_written_earlier(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    read = READS.search(text)
    if read is None:
        assert " build/train" not in text and "=build/train" not in text
        return
    written = re.search(PREPARES, text)
    assert written is not None and written.start() < read.start(), f"{page} reads {read[1]}, and nothing writes it"


def test_the_help_of_submit_too() -> None:
    text = re.sub(r" *\\\n *", " ", submit.submit.__doc__ or "")  # a line that goes on in the next
    read = READS.search(text)
    written = re.search(PREPARES, text)
    assert read is not None and written is not None and written.start() < read.start()


@pytest.mark.parametrize("name", NAMES)
def test_the_page_has_expected_results_of_every_recipe(name: str) -> None:
    text = (ROOT / "docs/recipes.md").read_text(encoding="utf-8")
    expected = text.partition("## What to expect")[2].partition("\n## ")[0]
    assert f"| `{name}` |" in expected
    assert f"recipes/{name}.yaml" in text
