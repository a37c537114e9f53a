"""The script that runs when a space of Studio starts: never in the way of the start, and one wheel alone."""

import hashlib
import importlib.util
import os
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

import drivetrain.infra

SCRIPT = Path(drivetrain.infra.__path__[0]) / "studio" / "start.sh"


WHEEL = "drivetrain-1.2-py3-none-any.whl"
PINNED = {"DRIVETRAIN_SOURCE": f"https://acme.example/{WHEEL}", "DRIVETRAIN_SHA256": "0a" * 32}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A home, and a python3 that notes what it is asked; `there` is the hash of the wheel that is installed."""
    programs = tmp_path / "bin"
    programs.mkdir()
    python = programs / "python3"
    python.write_text(
        "#!/bin/bash\n"
        f'if [ "$1" = -c ]; then [ "$3" = "$(cat {tmp_path}/there 2>/dev/null)" ]; exit; fi\n'
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
    assert "ready: drivetrain 1.2" in start(space, **PINNED)
    url = f"https://acme.example/{WHEEL}#sha256={'0a' * 32}"
    first, second = (space / "asked").read_text().splitlines()
    assert first == f"-m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall drivetrain @ {url}"
    assert second == f"-m pip install --quiet --disable-pip-version-check drivetrain[torch,s3] @ {url}"


@pytest.mark.parametrize("lacking", PINNED)
def test_without_a_pinned_wheel_it_installs_nothing(space: Path, lacking: str) -> None:
    """An index may have somebody else's package under the name."""
    said = start(space, **{name: value for name, value in PINNED.items() if name != lacking})
    assert "nothing to install: DRIVETRAIN_SOURCE and DRIVETRAIN_SHA256 name no wheel" in said
    assert not (space / "asked").exists()


def test_it_installs_nothing_twice(space: Path) -> None:
    (space / "there").write_text("0a" * 32)
    assert "already there" in start(space, **PINNED)
    assert not (space / "asked").exists()


def test_another_wheel_of_the_same_version_is_installed(space: Path) -> None:
    (space / "there").write_text("0b" * 32)
    assert "ready" in start(space, **PINNED)


def test_a_failure_is_reported_and_does_not_stop_the_space(space: Path) -> None:
    (space / "status").write_text("1")
    assert "failed; the space works without drivetrain" in start(space, **PINNED)


def test_an_unreadable_wheel_is_reported(space: Path) -> None:
    aws = space / "bin" / "aws"
    aws.write_text("#!/bin/bash\necho denied >&2\nexit 1\n")
    aws.chmod(0o755)
    said = start(space, **PINNED | {"DRIVETRAIN_SOURCE": f"s3://acme/{WHEEL}"})
    assert "denied\n" in said and f"failed: s3://acme/{WHEEL} cannot be read" in said
    assert not (space / "asked").exists()


def test_the_space_starts_while_it_still_installs(space: Path) -> None:
    """A start has five minutes, and torch takes long on a slow day."""
    gate = space / "gate"
    os.mkfifo(gate)
    python = space / "bin" / "python3"
    waits = f'case "$*" in *--no-deps*) read -r _ < {gate};; esac\nexit $(cat'
    python.write_text(python.read_text().replace("exit $(cat", waits))
    environment = {"PATH": f"{space}/bin:{os.environ['PATH']}", "HOME": str(space), **PINNED}
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


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["s3", "file"])
def test_pip_installs_only_that_wheel(tmp_path: Path, scheme: str) -> None:
    """The index has a drivetrain, too, and a newer one: it is somebody else's."""
    index, own = tmp_path / "index", tmp_path / "own"
    for folder in (index, own):
        folder.mkdir()
    write_wheel(index, "drivetrain", "9.9")
    write_wheel(index, "torch-of-tests", "2.0")
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    # Nothing of the tests' own environment but pip.
    tools = tmp_path / "tools"
    tools.mkdir()
    found = importlib.util.find_spec("pip")
    assert found is not None and found.submodule_search_locations is not None
    (tools / "pip").symlink_to(found.submodule_search_locations[0])
    aws = environment / "bin" / "aws"
    aws.write_text(
        "#!/bin/bash\n"
        '[ "$1 $2 $3" = "s3 cp --only-show-errors" ] || exit 2\n'
        f'cp "{own}/${{4#s3://acme/}}" "$5"; echo "$5" > {tmp_path}/copied\n'
    )
    aws.chmod(0o755)
    variables = {
        "PATH": f"{environment}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(tools),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
        "PIP_CONFIG_FILE": os.devnull,
    }

    def said(version: str, digest: str) -> str:
        log = tmp_path / ".drivetrain-setup.log"
        before = log.read_text() if log.exists() else ""
        name = f"drivetrain-{version}-py3-none-any.whl"
        source = f"s3://acme/{name}" if scheme == "s3" else f"file://{own}/{name}"
        pinned = {"DRIVETRAIN_SOURCE": source, "DRIVETRAIN_SHA256": digest}
        return start(tmp_path, **variables, **pinned).removeprefix(before)

    def digest(version: str, text: str = "") -> str:
        write_wheel(own, "drivetrain", version, requires=("torch-of-tests; extra == 'torch'",), text=text)
        return hashlib.sha256((own / f"drivetrain-{version}-py3-none-any.whl").read_bytes()).hexdigest()

    first = digest("1.1")
    assert "failed; the space works without drivetrain" in said("1.1", "0a" * 32)
    assert list(environment.glob("lib/python*/site-packages/drivetrain*")) == []
    assert "ready: drivetrain 1.1" in said("1.1", first)
    assert len(list(environment.glob("lib/python*/site-packages/torch_of_tests-2.0.dist-info"))) == 1
    again = said("1.1", first)
    assert again.endswith(" already there\n") and again.count("\n") == 1
    assert "ready: drivetrain 1.1, mended" in said("1.1", digest("1.1", text=", mended"))
    assert "ready: drivetrain 1.2" in said("1.2", digest("1.2"))
    if scheme == "s3":
        assert not Path((tmp_path / "copied").read_text().strip()).parent.exists()


def write_wheel(folder: Path, name: str, version: str, requires: tuple[str, ...] = (), text: str = "") -> None:
    """A package of one module, and a command that says its version."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    extras = "Provides-Extra: torch\nProvides-Extra: s3\n" if requires else ""
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{module}.py": f"def main():\n    print('{name} {version}{text}')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extras}{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {module}:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{module}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
