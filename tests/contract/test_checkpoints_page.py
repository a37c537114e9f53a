"""docs/checkpoints.md: its example keeps what it promises, its commands exist."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from drivetrain.cli import main
from drivetrain.training_scripts import checkpoints

PAGE = (Path(__file__).parents[2] / "docs" / "checkpoints.md").read_text(encoding="utf-8")


def test_a_users_script_resumes_from_the_newest_valid_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    script = tmp_path / "own.py"
    script.write_text(example, encoding="utf-8")
    folder = tmp_path / "checkpoints"

    def run() -> str:
        return subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert run() == ""
    assert sorted(path.name for path in folder.glob("step-*")) == ["step-00000002", "step-00000003"]
    # A killed save, and damage to the newest: it goes on from step 2, and comes to the same numbers.
    (folder / "step-00000004").mkdir()
    (folder / "step-00000004" / "weights.json").write_text("[9")
    (folder / "step-00000003" / "weights.json").write_text("[9.5]")
    assert run() == "set aside: quarantine/step-00000003.1\n"
    assert json.loads((folder / "step-00000005" / "weights.json").read_text()) == [2.5]
    assert checkpoints.run(["verify", str(folder), "--all", "--json"]) == 0
    assert [verdict["step"] for verdict in json.loads(capsys.readouterr().out)] == [5, 4]
    assert checkpoints.run(["list", str(folder)]) == 0
    assert "quarantined" in capsys.readouterr().out


def test_recovery_from_quarantine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The three commands of the page, after the damaged file was replaced."""
    test_own = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0]
    (tmp_path / "own.py").write_text(test_own, encoding="utf-8")
    command = [sys.executable, "own.py"]
    subprocess.run(command, cwd=tmp_path, check=True)
    folder = tmp_path / "checkpoints"
    weights = folder / "step-00000003" / "weights.json"
    good = weights.read_bytes()
    weights.write_bytes(good.replace(b"1", b"2"))
    assert checkpoints.run(["verify", str(folder), "3", "--quarantine"]) == 1
    (folder / "quarantine/step-00000003.1/weights.json").write_bytes(good)

    (commands,) = re.findall(r"^```\n(mv quarantine.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(folder)
    for line in commands.replace("00000100", "00000003").replace(" 100", " 3").splitlines():
        words = shlex.split(line)
        if words[0] == "drivetrain":
            assert main.run(words[1:]) == 0
        else:
            subprocess.run(words, check=True)


def test_every_command_of_the_page_can_be_given() -> None:
    given = re.findall(r"^drivetrain (checkpoints \w+ ?.*)$", PAGE, re.MULTILINE)
    assert len(given) >= 7
    for line in given:
        words = shlex.split(line, comments=True)
        assert main.run([*words[:2], "--help"]) == 0
        program = [words[1], words[2] if len(words) > 2 else "latest", *words[3:]]
        checkpoints.parser().parse_args(program)
