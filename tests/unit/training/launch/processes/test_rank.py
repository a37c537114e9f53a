"""A process under its wrapper is what it would be without, and its end reaches the launcher."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from drivetrain.training.launch.processes.failure import from_rank

SHOW = """
import json, multiprocessing, os, pickle, sys

class Mine:
    pass

if __name__ == "__main__":
    main = sys.modules["__main__"]
    print(json.dumps({
        "argv": sys.argv, "file": __file__, "path": sys.path[0], "main": main.__dict__ is globals(),
        "pickles": type(pickle.loads(pickle.dumps(Mine()))) is Mine, "module": Mine.__module__,
    }))
"""


def run(folder: Path, *words: str, ranks: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(folder), **variables}
    if ranks is not None:
        ranks.mkdir(exist_ok=True)
        environment["DRIVETRAIN_RANKS_FOLDER"] = str(ranks)
    return subprocess.run(
        [sys.executable, "-m", "drivetrain.training.launch.processes.rank", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


def record(folder: Path) -> Any:
    return json.loads((folder / "0.error.json").read_text())


@pytest.mark.parametrize("kind", ["script", "module"])
def test_the_program_is_what_python_makes_of_it(kind: str, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "show.py").write_text(SHOW)
    target = "inner/show.py" if kind == "script" else "inner.show"
    plain = [target] if kind == "script" else ["-m", target]
    arguments = ["--epochs", "3", "a b", "-x"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    direct = subprocess.run(
        [sys.executable, *plain, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    ended = run(tmp_path, kind, target, *arguments)
    assert (ended.returncode, ended.stderr) == (0, "")
    found = json.loads(ended.stdout)
    wanted = json.loads(direct.stdout)
    if kind == "script":
        assert os.path.samefile(found.pop("path"), wanted.pop("path"))
        assert os.path.samefile(tmp_path / found.pop("file"), tmp_path / wanted.pop("file"))
    else:
        assert found["argv"].pop(0) == wanted["argv"].pop(0)
    assert found == wanted


def test_an_exception_keeps_the_users_frames_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def step():\n    raise KeyError('loss')\n\nstep()\n")
    ended = run(tmp_path, "script", "train.py", ranks=tmp_path / "ranks")
    assert (ended.returncode, ended.stderr) == (1, "")  # the launcher says it
    failure = from_rank(0, 1, record(tmp_path / "ranks"))
    assert (failure.kind, failure.summary) == ("program", "KeyError: 'loss'")
    lines = failure.details.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert all("train.py" in line for line in lines if line.startswith("  File"))
    alone = run(tmp_path, "script", "train.py")
    assert alone.returncode == 1
    assert alone.stderr.splitlines()[-1] == "KeyError: 'loss'"


@pytest.mark.parametrize(
    ("code", "returned", "summary"),
    [("3", 3, "it ended with exit code 3"), ("'no data'", 1, "it ended itself: no data"), ("0", 0, ""), ("", 0, "")],
)
def test_an_exit_is_taken_at_its_word(code: str, returned: int, summary: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import atexit, sys\natexit.register(print, 'bye')\nsys.exit({code})\n")
    ended = run(tmp_path, "script", "train.py", ranks=tmp_path / "ranks")
    assert ended.returncode == returned
    assert ended.stdout == "bye\n"
    if returned:
        failure = from_rank(0, returned, record(tmp_path / "ranks"))
        assert failure.summary == summary
        assert "sys.exit(" in failure.details
    else:
        assert not (tmp_path / "ranks" / "0.error.json").exists()


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    ended = run(tmp_path, "module", "no_such_program", ranks=tmp_path / "ranks")
    assert ended.returncode == 2
    assert record(tmp_path / "ranks")["drivetrain"]["summary"].startswith("no module 'no_such_program'. Give a module")


@pytest.mark.parametrize(
    ("text", "returned", "kind"),
    [("exit 0", 0, ""), ("exit 7", 7, "program"), ("kill -KILL $$", 137, "signal"), ("kill -TERM $$", 143, "stopped")],
)
def test_a_command_ends_as_it_does(text: str, returned: int, kind: str, tmp_path: Path) -> None:
    program = tmp_path / "program.sh"
    program.write_text(f'#!/bin/sh\necho "$1" "$RANK"\n{text}\n')
    program.chmod(0o755)
    ended = run(tmp_path, "command", str(program), "a b", ranks=tmp_path / "ranks", RANK="4")
    assert (ended.returncode, ended.stdout, ended.stderr) == (returned, "a b 4\n", "")
    if kind:
        failure = from_rank(0, returned, record(tmp_path / "ranks"))
        assert (failure.kind, failure.rank) == (kind, 4)


def test_a_command_is_sent_the_signals(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(
        f"#!{sys.executable}\nimport signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
        "print('ready', flush=True)\nsignal.sigwait([signal.SIGTERM])\nprint('saved', flush=True)\n"
    )
    program.chmod(0o755)
    command = [sys.executable, "-m", "drivetrain.training.launch.processes.rank", "command", str(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "saved\n"
        assert process.wait(timeout=20) == 0


def test_under_mpirun_a_process_knows_its_rank(tmp_path: Path) -> None:
    (tmp_path / "place.py").write_text(
        "import os\nprint(*(os.environ[n] for n in ('RANK', 'WORLD_SIZE', 'LOCAL_RANK', 'LOCAL_WORLD_SIZE')))\n"
    )
    place = {"RANK": "5", "SIZE": "8", "LOCAL_RANK": "1", "LOCAL_SIZE": "4"}
    ended = run(tmp_path, "script", "place.py", **{f"OMPI_COMM_WORLD_{name}": value for name, value in place.items()})
    assert (ended.stdout, ended.stderr) == ("5 8 1 4\n", "")


def test_a_crash_in_native_code_leaves_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\n\ndef step():\n    os.abort()\n\nstep()\n")
    ended = run(tmp_path, "script", "train.py", ranks=tmp_path / "ranks")
    assert ended.returncode == -signal.SIGABRT
    assert "in step" in (tmp_path / "ranks" / "0.stack").read_text()
