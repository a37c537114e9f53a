"""Where torch compiles a script's extensions, and what a process that is killed meanwhile leaves."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from drivetrain.training.launch.processes.parent import announce_parent
from drivetrain.training.torch import extensions

# The first call hangs, as a compiler does for minutes; later ones give a library that is there already.
COMPILER = """#!/bin/sh
case "$*" in *--version*|*-v*|*-dumpversion*) exec {compiler} "$@" ;; esac
if mkdir first 2>/dev/null; then echo $$ > {started}; exec tail -f /dev/null; fi
while [ "$1" != -o ]; do shift; done
cp {library} "$2"
"""
SCRIPT = """
import sys
from drivetrain.training.torch.extensions import own_locks
own_locks()
from torch.utils import cpp_extension
cpp_extension.load("planted", ["planted.cpp"], is_python_module=False)
print("loaded")
"""


def test_one_folder_by_versions_compiler_and_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    usual = extensions.folder(home)
    assert extensions.folder(home) == usual and Path(usual).is_relative_to(tmp_path)
    assert extensions.folder({**home, "TORCH_EXTENSIONS_DIR": "given"}) == "given"
    others = {usual}
    for name in ("_version", "_compiler", "_processor"):
        with monkeypatch.context() as patched:
            patched.setattr(extensions, name, lambda *asked: "another")
            others.add(extensions.folder(home))
    assert len(others) == 4


@pytest.mark.slow
def test_a_killed_compilation_is_named_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    real = shutil.which("c++")
    if real is None:
        pytest.skip("no compiler here")
    library, started = tmp_path / "ready.so", tmp_path / "started"
    subprocess.run([real, "-shared", "-x", "c++", "-", "-o", library], input="", text=True, check=True)
    os.mkfifo(started)
    compiler = tmp_path / "compiler"
    compiler.write_text(COMPILER.format(compiler=real, started=started, library=library))
    compiler.chmod(0o755)
    (tmp_path / "planted.cpp").touch()
    environment = announce_parent(
        {**os.environ, "CXX": str(compiler), "TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}
    )
    command = [sys.executable, "-c", SCRIPT]
    # By a shell, as another job: processes of one job say nothing of one another.
    with subprocess.Popen(["/bin/sh", "-c", '"$@"; :', "sh", *command], cwd=tmp_path, env=environment):
        hanging = int(started.read_text())
        try:
            owner = int((tmp_path / "extensions/planted/lock.held").read_text().split()[1])
            with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as second:
                assert second.stderr is not None
                said = next(line for line in second.stderr if line.startswith("torch extension:"))
                os.kill(owner, signal.SIGKILL)
                rest = second.stderr.read()
            assert f"waiting for process {owner} of job " in said and "which compiles planted" in said
            assert "compiling planted in" in rest
            assert second.returncode == 0, rest
        finally:
            with suppress(ProcessLookupError):
                os.kill(hanging, signal.SIGKILL)
