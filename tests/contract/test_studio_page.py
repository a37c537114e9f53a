"""docs/studio.md does what it says: its commands, its file and its words."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from drivetrain.base import json_text
from drivetrain.cli import main
from drivetrain.studio import patch as patches
from drivetrain.targets.sagemaker.document import document
from drivetrain.targets.sagemaker.document.difference.difference import describe_all, differences

PAGE = Path(__file__).parents[2] / "docs" / "studio.md"
TEXT = PAGE.read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_its_commands_work_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    [block] = blocks("sh")
    compiles, *others = block.splitlines()
    assert main.run(shlex.split(compiles)[1:]) == 0
    exported = json.loads(Path("retraining.json").read_text())
    exported["Steps"][1]["Arguments"]["HyperParameters"]["epochs"] = "30"
    Path("exported.json").write_text(json.dumps(exported))
    for line in others:
        assert main.run(shlex.split(line, comments=True)[1:]) == int(line.endswith("# differs")), line
    assert capsys.readouterr().out.splitlines()[-2:] == ["train: epochs 20 -> 30", "train: epochs 30 -> 20"]


def test_the_file_of_the_page_is_valid_and_round_trips(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    block, following = blocks("yaml")
    assert patches.parse(f"pipeline: retraining\nedits:\n{following}").text().endswith(following)
    patch = patches.parse(block)
    assert patch.text().endswith(block)
    assert main.run(["compile", "retraining"]) == 0
    before = json.loads(capsys.readouterr().out)
    patch.write(tmp_path / "retraining.studio.yaml")
    assert main.run(["compile", "retraining"]) == 0
    after = json.loads(capsys.readouterr().out)
    said = [line.removeprefix("# ") for line in block.splitlines() if line.startswith("# ")]
    assert sorted(describe_all(differences(before, after))) == sorted(said)


def test_its_limits_are_those_of_the_reader() -> None:
    assert f"more than\n{document.MAX_BYTES // 2**20} MiB long" in TEXT
    assert f"more than {json_text.MAX_LEVELS} levels deep" in TEXT
    assert f"more than {document.MAX_STEPS:,} steps" in TEXT
