"""The script that runs when a space of Studio starts: never in the way of the start, and once a version."""

import importlib.util
import os
import subprocess
import venv
import zipfile
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


def test_the_space_starts_while_it_still_installs(space: Path) -> None:
    """A start has five minutes, and torch takes long on a slow day."""
    gate = space / "gate"
    os.mkfifo(gate)
    python = space / "bin" / "python3"
    python.write_text(python.read_text().replace("exit $(cat", f"read -r _ < {gate}\nexit $(cat"))
    environment = {"PATH": f"{space}/bin:{os.environ['PATH']}", "HOME": str(space)}
    read, write = os.pipe()
    try:
        subprocess.run(["bash", str(SCRIPT)], env=environment, timeout=60, check=True, pass_fds=(write,))
    finally:
        os.close(write)
    log = space / ".drivetrain-setup.log"
    assert not log.exists() or "ready" not in log.read_text()
    gate.write_text("go\n")  # waits until somebody reads
    with os.fdopen(read) as ended:
        assert ended.read() == ""
    assert "ready: drivetrain 1.2" in log.read_text()


def test_it_installs_with_pip_what_the_index_has(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    for version in ("1.1", "1.2"):
        write_wheel(wheels, "drivetrain", version, requires=("torch-of-tests; extra == 'torch'",))
    write_wheel(wheels, "torch-of-tests", "2.0")
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    # Nothing of the tests' own environment but pip.
    tools = tmp_path / "tools"
    tools.mkdir()
    found = importlib.util.find_spec("pip")
    assert found is not None and found.submodule_search_locations is not None
    (tools / "pip").symlink_to(found.submodule_search_locations[0])
    variables = {
        "PATH": f"{environment}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(tools),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_CONFIG_FILE": os.devnull,
    }

    def said(version: str) -> str:
        log = tmp_path / ".drivetrain-setup.log"
        before = log.read_text() if log.exists() else ""
        return start(tmp_path, DRIVETRAIN_VERSION=version, **variables).removeprefix(before)

    assert "ready: drivetrain 1.1" in said("1.1")
    assert len(list(environment.glob("lib/python*/site-packages/torch_of_tests-2.0.dist-info"))) == 1
    for version in ("1.1", ""):
        again = said(version)
        assert again.endswith(" already there\n") and again.count("\n") == 1
    assert "ready: drivetrain 1.2" in said("1.2")
    failed = said("9.9")
    assert "No matching distribution found for drivetrain" in failed
    assert "failed; in a terminal: python3 -m pip install 'drivetrain[torch,s3]==9.9'" in failed
    assert said("1.2").endswith(" already there\n")


def write_wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = ()) -> None:
    """A package of one module, and a command that says its version."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    extras = "Provides-Extra: torch\nProvides-Extra: s3\n" if requires else ""
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{module}.py": f"def main():\n    print('{name} {version}')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extras}{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)
