"""Each kind of edit of Studio, pulled and applied: then code, a setting or the account changes, and all goes on.

All kinds share four compilations; all but two are slow. "several" holds a step that is split, one that is
renamed and one that is deleted, a role, a new step and a new parameter.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from drivetrain.authoring.loading import Loaded, load
from drivetrain.base.json_text import parse, text_of
from drivetrain.studio import compile_edited
from drivetrain.studio import patch as patches
from drivetrain.studio.deployment_texts import texts_of
from drivetrain.studio.pulling import Sides
from drivetrain.targets.sagemaker.compile import compile as compiling
from drivetrain.targets.sagemaker.compile.compile import Compiled, compile_pipeline
from drivetrain.targets.sagemaker.document.difference.difference import differences
from drivetrain.targets.sagemaker.settings import settings_of
from tests.fixtures.studio_edits import EDITS, PIPELINE, steps_of

QUICK = ["several"]
DEV, PROD = "111111111111", "222222222222"
COMPILED: dict[bytes, Compiled] = {}
"""The content of all files of a pipeline -> the pipeline as it was compiled."""


def settings(account: str, **more: Any) -> str:
    place = {
        "bucket": f"models-{account}",
        "prefix": "pipelines" if account == DEV else "vision/flows",
        "role": f"arn:aws:iam::{account}:role/jobs-{account}",
        "roles": {"training": f"arn:aws:iam::{account}:role/train-{account}"},
        "region": "us-east-1" if account == DEV else "eu-central-1",
        "tags": {"account": account},
        "keys": {"output": "alias/dev"} if account == DEV else {},
    }
    return json.dumps({**more, "deployment": {"targets": {"sagemaker": place}}})


def hashes(definition: dict[str, Any]) -> set[str]:
    """Of code, data and configurations."""
    return set(re.findall(r"[0-9a-f]{64}", text_of(definition)))


class Studio:
    """A pipeline with its settings, what is deployed of it and what apply wrote last."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "flow.py"
        self.file.write_text(PIPELINE)
        (folder / "clean.py").write_text("print('clean')\n")
        (folder / "raw").mkdir()
        (folder / "raw" / "rows.csv").write_text("1\n")
        self.set(DEV)
        self.loadings: dict[bytes, Loaded] = {}
        self.applied: dict[str, Any] = {}
        self.deployed: dict[str, Any] = {}

    def set(self, account: str, **more: Any) -> None:
        (self.folder / "flow.yaml").write_text(settings(account, **more))

    def edit_code(self) -> None:
        self.file.write_text(self.file.read_text() + "# edited\n")
        (self.folder / "clean.py").write_text("print('cleaner')\n")

    def loaded(self) -> Loaded:
        """The pipeline, loaded once for each state of its files."""
        state = state_of(self.folder)
        if state not in self.loadings:
            self.loadings[state] = load(str(self.file))
        return self.loadings[state]

    def compile(self) -> dict[str, Any]:
        return dict(compile_edited(self.loaded()).definition)

    def alone(self) -> dict[str, Any]:
        loaded = self.loaded()
        return dict(compiling.compile_pipeline(loaded.pipeline, loaded.source, loaded.base).definition)

    def apply(self) -> dict[str, Any]:
        self.applied = self.deployed = read(text_of(self.compile()))
        return self.deployed

    def edit(self, kind: str) -> None:
        edited = read(text_of(self.applied))
        EDITS[kind](steps_of(edited))
        self.deployed = edited

    def pull(self) -> list[str]:
        """Merge and keep; what is in conflict, and what is new beside a file that is there already."""
        loaded = self.loaded()
        pipeline, file = loaded.pipeline, self.folder / "flow.studio.yaml"
        texts = texts_of(settings_of(pipeline.deployment))
        alone = self.alone()
        patch = patches.read(file, "flow") if file.exists() else None
        code = alone if patch is None else patch.apply(alone, texts=texts)
        sides = Sides("flow", file, alone, code, self.deployed, self.applied, patch, texts=texts)
        merged = sides.merged({})
        if merged.edits and not merged.conflicts:
            sides.keep(merged)
        edits = [edit.where for edit in merged.edits] if patch is not None else []
        return [*map(str, merged.conflicts), *edits]


def read(text: str) -> dict[str, Any]:
    found = parse(text, "definition")
    assert isinstance(found, dict)
    return found


def state_of(folder: Path) -> bytes:
    """The content of all files, but for the patch that Studio's edits became."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*.*")) if file.name != "flow.studio.yaml")


@pytest.fixture
def studio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Studio:
    """Compiled once for each state of its files: what is compiled is the same for every command, in every folder."""
    monkeypatch.chdir(tmp_path)

    def compiled(*given: Any, **options: Any) -> Compiled:
        state = state_of(tmp_path)
        if state not in COMPILED:
            COMPILED[state] = compile_pipeline(*given, **options)
        return COMPILED[state]

    monkeypatch.setattr("drivetrain.targets.sagemaker.compile.compile.compile_pipeline", compiled)
    return Studio(tmp_path)


@pytest.mark.slow_cases(but=QUICK)
@pytest.mark.parametrize("kind", EDITS)
def test_an_edit_follows_code_settings_and_account(studio: Studio, kind: str) -> None:
    studio.apply()
    studio.edit(kind)
    edited = studio.deployed
    assert studio.pull() == []
    assert differences(edited, studio.apply()) == ()
    assert studio.pull() == []

    studio.edit_code()
    assert hashes(studio.apply()) <= hashes(studio.alone())
    assert studio.pull() == []

    studio.set(DEV, epochs=5)
    assert hashes(studio.apply()) <= hashes(studio.alone())
    assert studio.pull() == []

    studio.set(PROD, epochs=5)
    text = text_of(studio.apply())
    assert DEV not in text and "alias/dev" not in text
    assert studio.pull() == []
