"""The disk that a process loses: what was made durable is there, and of the rest any part."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.faults.harness import power_loss

PROGRAM = """
import os, sys
root = sys.argv[1]
def write(name, text, durable):
    with open(f"{root}/{name}", "w") as file:
        file.write(text)
        file.flush()
        durable and os.fsync(file.fileno())
def sync(folder):
    opened = os.open(folder, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)
os.mkdir(root)
write("kept", "old", True)
write("torn", "old", True)
write("gone.part", "new", True)
write("replaced", "before", True)
os.mkdir(f"{root}/folder")
write("folder/lost", "text", True)
sync(root)
os.rename(f"{root}/gone.part", f"{root}/gone")
write("replaced.part", "after", True)
os.replace(f"{root}/replaced.part", f"{root}/replaced")
write("torn", "new and longer", False)
os.unlink(f"{root}/kept")
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    if lacks := power_loss.missing():
        pytest.skip(lacks)
    command = [sys.executable, "-S", "-c", PROGRAM, str(tmp_path / "root")]
    done = power_loss.recorded(command, power_loss.built(tmp_path), tmp_path / "root", tmp_path / "shadow")
    assert done.returncode == 0, done.stderr
    return tmp_path / "root"


def left(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


def test_only_durable_writes_survive(recorded: Path) -> None:
    torn: set[str] = set()
    for seed in range(20):
        (recorded / "torn").write_text("new and longer")
        power_loss.lose_power(recorded, recorded.with_name("shadow"), random.Random(seed), 0.0)
        found = left(recorded)
        torn.add(found.pop("torn"))
        assert found == {"kept": "old", "gone.part": "new", "replaced": "before"}
    assert {"old", "new and longer"} < torn, "and what lies between"
    assert (recorded / "folder").is_dir(), "its name is durable, and no name in it"


def test_writes_that_reached_the_disk_survive(recorded: Path) -> None:
    before = left(recorded)
    power_loss.lose_power(recorded, recorded.with_name("shadow"), random.Random(1), 1.0)
    assert left(recorded) == before
    assert before == {"gone": "new", "replaced": "after", "torn": "new and longer", "folder/lost": "text"}


def test_a_process_is_killed_at_the_chosen_call(recorded: Path, tmp_path: Path) -> None:
    count = power_loss.instants(tmp_path / "shadow")
    assert count > 20
    command = [sys.executable, "-S", "-c", PROGRAM, str(tmp_path / "again")]
    library = tmp_path / "durable.so"
    done = power_loss.recorded(command, library, tmp_path / "again", tmp_path / "shadow-2", 4)
    assert done.returncode == -9 and set(left(tmp_path / "again")) <= {"kept", "torn"}
