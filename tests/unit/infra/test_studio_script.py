"""The script that runs when a space of Studio starts: never in the way of the start, and once a version."""

import os
import subprocess
from pathlib import Path

import pytest

import drivetrain.infra

SCRIPT = Path(drivetrain.infra.__path__[0]) / "studio" / "start.sh"


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A home, and a python3 that notes what it is asked; `there` is the version that is installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python3"
    python.write_text(
        "#!/bin/bash\n"
        f'if [ "$1" = -c ]; then there=$(cat {tmp_path}/there 2>/dev/null) || exit 1\n'
        '  [ -z "$3" ] || [ "$3" = "$there" ]; exit; fi\n'
        f'echo "$@" >> {tmp_path}/asked\n'
        f"exit $(cat {tmp_path}/status 2>/dev/null || echo 0)\n"
    )
    (programs / "drivetrain").write_text("#!/bin/bash\necho drivetrain 1.2\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    return tmp_path


def start(space: Path, **variables: str) -> str:
    """The log, once the work in the background has ended: until then it holds a pipe open."""
    environment = {"PATH": f"{space}/bin:{os.environ['PATH']}", "HOME": str(space), **variables}
    read, write = os.pipe()
    try:
        done = subprocess.run(
            ["bash", str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=60, pass_fds=(write,)
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    with os.fdopen(read) as ended:
        assert ended.read() == ""
    return (space / ".drivetrain-setup.log").read_text()


def test_it_installs_in_the_background(space: Path) -> None:
    assert "ready: drivetrain 1.2" in start(space)
    assert (space / "asked").read_text() == "-m pip install --quiet --disable-pip-version-check drivetrain[torch,s3]\n"


def test_it_installs_the_version_that_is_wanted(space: Path) -> None:
    (space / "there").write_text("1.1")
    assert "ready" in start(space, DRIVETRAIN_VERSION="1.2")
    assert "drivetrain[torch,s3]==1.2" in (space / "asked").read_text()


@pytest.mark.parametrize("wanted", ["", "1.1"])
def test_it_installs_nothing_twice(space: Path, wanted: str) -> None:
    (space / "there").write_text("1.1")
    assert "already there" in start(space, DRIVETRAIN_VERSION=wanted)
    assert not (space / "asked").exists()


def test_a_failure_is_told_and_does_not_stop_the_space(space: Path) -> None:
    (space / "status").write_text("1")
    assert "failed; in a terminal: python3 -m pip install 'drivetrain[torch,s3]'" in start(space)
