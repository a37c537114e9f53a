"""A script of the user's own in its process: it cannot tell that anybody stands between it and Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def run(folder: Path, script: str, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = folder / script
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))
    command = [sys.executable, "-m", "drivetrain.training.launch.processes.rank", "script", script, *arguments]
    environment = {**os.environ, "TORCHELASTIC_ERROR_FILE": str(folder / "error.json")}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


def plain(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, script, *arguments], cwd=folder, capture_output=True, text=True, timeout=60)


def test_it_finds_what_plain_python_gives(tmp_path: Path) -> None:
    text = """
    import sys
    names = sorted(set(globals()) - {"sys", "__annotations__"})
    print(sys.argv, sys.path[0], __name__, __file__, __spec__, __package__, __doc__, __loader__.path, names)
    import nested  # lies beside it
    """
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "nested.py").write_text("import __main__; print(__main__.names == __main__.names)")
    ours = run(tmp_path, "src/train.py", text, "--epochs", "3")
    assert ours.returncode == 0, ours.stderr
    assert ours.stdout == plain(tmp_path, "src/train.py", "--epochs", "3").stdout


def test_its_workers_find_its_functions(tmp_path: Path) -> None:
    """Spawned processes import the script again, as data loaders' do."""
    text = """
    import multiprocessing

    def double(number):
        return 2 * number

    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(double, [1, 2]))
    """
    done = run(tmp_path, "train.py", text)
    assert (done.stdout, done.returncode) == ("[2, 4]\n", 0), done.stderr


def test_annotations_of_a_script_keep_their_meaning(tmp_path: Path) -> None:
    """A `from __future__` of ours must not reach it."""
    assert (
        run(tmp_path, "train.py", "def f(x: int): ...\nprint(f.__annotations__)\n").stdout == "{'x': <class 'int'>}\n"
    )


@pytest.mark.parametrize(
    ("ending", "code", "errors"),
    [
        ("", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit('no such column')", 1, "no such column\n"),
    ],
)
def test_it_ends_as_it_would_and_what_waits_for_the_end_is_run(
    ending: str, code: int, errors: str, tmp_path: Path
) -> None:
    text = f"""
    import atexit, sys, threading, time
    atexit.register(print, "at exit")
    go = threading.Event()
    threading.Thread(target=lambda: (go.wait(), print("a thread"))).start()
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    go.set()
    {ending}
    """
    ours = run(tmp_path, "train.py", text)
    theirs = plain(tmp_path, "train.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (theirs.returncode, theirs.stdout, theirs.stderr)
    assert (ours.returncode, ours.stdout, ours.stderr) == (code, "a thread\nat exit\n", errors)
    assert (tmp_path / "error.json").exists() is (code != 0)


@pytest.mark.parametrize(
    ("text", "summary", "line"),
    [
        ("def f():\n    return {}['price']\n\nf()\n", "KeyError: 'price'", "return {}['price']"),
        ("x = (\n", "SyntaxError: '(' was never closed", "x = ("),
        ("import nosuch\n", "ModuleNotFoundError: No module named 'nosuch'", "import nosuch"),
    ],
)
def test_errors_show_only_frames_of_the_script(text: str, summary: str, line: str, tmp_path: Path) -> None:
    assert run(tmp_path, "train.py", text).returncode == 1
    record = json.loads((tmp_path / "error.json").read_text())["drivetrain"]
    assert record["summary"].startswith(summary)
    assert line in record["details"] and f'"{tmp_path}/train.py"' in record["details"]
    assert "drivetrain/training" not in record["details"]


def test_an_end_by_an_exit_code_is_reported_with_its_last_words(tmp_path: Path) -> None:
    text = """
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, required=True)
    parser.parse_args()
    """
    ours = run(tmp_path, "train.py", text, "--epoch", "many")
    assert (ours.returncode, ours.stderr) == (2, plain(tmp_path, "train.py", "--epoch", "many").stderr)
    record = json.loads((tmp_path / "error.json").read_text())["drivetrain"]
    wrong = "train.py: error: argument --epochs: invalid int value: 'many'"
    assert record["summary"] == f"it ended with exit code 2, and said: {wrong}"
    assert record["details"].splitlines()[:2] == ["usage: train.py [-h] --epochs EPOCHS", wrong]
