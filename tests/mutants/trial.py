"""Runs the tests of a mutation on a copy of the tree, in a process forked from one that has imported what is heavy.

What is forked has imported nothing of ours yet: it points the editable installation at the copy, and imports from
there. Processes that a test starts do the same, by a sitecustomize on their path.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import time
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.mutants.mutant import Mutant

LIMIT = 180.0
"""Seconds; on a quiet core a mutation takes one or two, and the slowest ten."""

_HEAVY = ("numpy", "torch", "pydantic", "yaml", "click", "hypothesis", "safetensors.torch", "packaging.version")
_SITE = """
import sys
for finder in sys.meta_path:
    module = sys.modules.get(getattr(finder, "__module__", None))
    mapping = getattr(module, "MAPPING", {})
    for name in mapping:
        if name == "drivetrain":
            mapping[name] = ROOT + "/" + name
"""


def preload() -> None:
    """Import what takes long, and nothing of ours."""
    for name in _HEAVY:
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.startswith("drivetrain")]


class Copy:
    """A copy of the tree, in which one file at a time is another than in the original."""

    def __init__(self, original: Path, files: list[str], folder: Path) -> None:
        self._original, self.root, self._site = original, folder / "tree", folder / "site"
        self.log = folder / "log.txt"
        self._result = folder / "result.json"
        for name in files:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(original / name, self.root / name)
        for link in (path for path in (original / "drivetrain").glob("*") if path.is_symlink()):
            (self.root / "drivetrain" / link.name).symlink_to(link.readlink())
        self._site.mkdir()
        (self._site / "sitecustomize.py").write_text(f"ROOT = {str(self.root)!r}{_SITE}")

    def start(self, mutant: Mutant, number: int) -> BaseProcess:
        """The process that runs the tests of a mutation; `number` is another one each time."""
        self._result.unlink(missing_ok=True)
        target = self.root / mutant.file
        if mutant.find:
            target.write_text(mutant.mutated((self._original / mutant.file).read_text()))
            # Compiled files are kept by size and whole seconds: no two mutations are to share one.
            os.utime(target, (number, number))
        process = get_context("fork").Process(target=self._run, args=(mutant,))
        process.start()
        return process

    def end(self, mutant: Mutant, process: BaseProcess) -> tuple[str, str]:
        """What came of it: killed (by which test), survived, timed out or broken (why); the file is as it was again."""
        timed_out = process.is_alive()
        assert process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)  # with whatever a test has left
        process.kill()  # had it no group of its own yet
        process.join()
        shutil.copy2(self._original / mutant.file, self.root / mutant.file)
        if timed_out:
            return "timed out", ""
        if not self._result.exists():
            return "killed", f"the process ended with {process.exitcode}"
        code, failed = json.loads(self._result.read_text())
        if code == pytest.ExitCode.OK:
            return "survived", ""
        if failed:
            return "killed", failed
        return "broken", f"pytest ended with {code}; its output is in {self.log}"

    def _run(self, mutant: Mutant) -> None:
        os.setsid()
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.chdir(self.root)
        here = str(self._original)
        sys.path[:] = [str(self.root), *(each for each in sys.path if each not in ("", here))]
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        os.environ |= {"PYTHONPATH": str(self._site), "OMP_NUM_THREADS": "1"}
        exec(compile((self._site / "sitecustomize.py").read_text(), "sitecustomize", "exec"), {})
        first = _FirstFailure()
        options = ["-x", "-m", "not nightly", "-p", "no:cacheprovider", "--hypothesis-profile=ci"]
        code = pytest.main([*options, f"--basetemp={self.root.parent / 'tmp'}", *mutant.tests], plugins=[first])
        self._result.write_text(json.dumps([int(code), first.name]))
        os._exit(0)  # threads that a test left do not matter


class _FirstFailure:
    """Its name; tests that search with Hypothesis come last, as others take a fraction of their time."""

    name = ""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: item.get_closest_marker("hypothesis") is not None)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.name = self.name or report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.name = self.name or f"{report.nodeid} (cannot be collected)"


def overdue(started: float) -> bool:
    return time.monotonic() - started > LIMIT
