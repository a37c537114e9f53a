"""The tutorials do what they say: their files are saved, and their commands run in their order in an empty folder."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.fixtures import preloaded

FOLDER = Path(__file__).parents[2] / "docs" / "tutorials"
# What the commands together must have said.
SAID = {
    "first_pipeline": ("customers version 1 is approved", "# customers version 1", "min_accuracy"),
    "own_training_script": ("epoch 5: loss=0.2000", "own version 2"),
    "kubeflow": ("customers succeeded in", "customers version 1"),
    "schedule_and_approval": ("0 2 * * ? *", "nightly version 1 is approved", "nothing new since", "nightly version 2"),
    "studio_round_trip": ("too many wrong guesses", "customers version 1"),
    "spot": ("interrupted 1 time", "it pays from", "good"),
}


def test_every_tutorial_is_run() -> None:
    assert {page.stem for page in FOLDER.glob("*.md")} == set(SAID)


@pytest.mark.slow
@pytest.mark.nightly_cases("spot")
@pytest.mark.parametrize("name", SAID)
def test_its_commands_work_in_their_order(name: str, tmp_path: Path) -> None:
    text = (FOLDER / f"{name}.md").read_text(encoding="utf-8")
    for file, code in re.findall(r"`(\w+\.py)`[^`]*\n\n```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        (tmp_path / file).write_text(code)
    folder, said = tmp_path, ""
    for line in "".join(re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)).splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "cd":
            folder /= words[1]
        elif words[0] == "drivetrain":
            done = preloaded.drivetrain(*words[1:], cwd=folder)
            assert done.returncode == int(line.endswith("# fails")), f"{line}\n{done.stdout}{done.stderr}"
            said += done.stdout
        else:
            subprocess.run(words, cwd=folder, check=True)
    for each in SAID[name]:
        assert each in said, said
