"""How a tool is asked for the things of the first hour: peers/<name>/commands.py says it for each."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.environments import PEERS, Environment
from tests.benchmarks.harness.timing import Ran, run


@dataclass(frozen=True, kw_only=True)
class Tool:
    """Commands, in which {python} is the environment's interpreter and {work} the project's folder."""

    run: Sequence[str]
    again: Sequence[str] | None = None
    """The same run when nothing changed; None: the same command."""
    changed: Sequence[str]
    """With evaluate's `max_digits` lowered from 4 to 3."""
    runs_list: Sequence[str] | None = None
    runs_show: Sequence[str] | None = None
    """None where the tool keeps no runs."""
    variables: Mapping[str, str] = field(default_factory=dict)
    runs_until_cached: int = 1
    """How many runs it takes until one finds all of its steps cached."""
    folders: Sequence[str] = ()
    """To be made in {work} before the first run."""
    note: str = ""
    """What makes its figures unlike the others'."""


@dataclass(frozen=True)
class Project:
    """A fresh folder with one tool's digits.py in it, as a newcomer has it."""

    tool: Tool
    environment: Environment
    work: Path
    variables: Mapping[str, str]

    def call(self, command: Sequence[str], *, limit: float = 300.0) -> Ran:
        words = [self.filled(word) for word in command]
        return run(words, cwd=self.work, environment=self.variables, limit=limit)

    def filled(self, text: str) -> str:
        return text.replace("{python}", str(self.environment.python)).replace("{work}", str(self.work))


def load(name: str) -> Tool:
    """The tool described in peers/<name>/commands.py."""
    path = PEERS / name / "commands.py"
    spec = importlib.util.spec_from_file_location(f"commands_of_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.TOOL


def project(bench: Bench, name: str, environment: Environment) -> Project:
    """A fresh project of the tool, with a home folder of its own."""
    tool = load(name)
    work = bench.folder(name)
    for folder in ("home", *tool.folders):
        (work / folder).mkdir()
    shutil.copy2(source(name), work / "digits.py")
    variables = {key: value.replace("{work}", str(work)) for key, value in tool.variables.items()}
    return Project(tool, environment, work, bench.variables(environment, work / "home", **variables))


def source(name: str) -> Path:
    """The tool's version of the four steps: what a user writes."""
    return PEERS / name / "digits.py"


def lines_of_code(text: str) -> int:
    """Lines that a user has to write: neither blank, nor a comment, nor part of the opening docstring."""
    lines = [line.strip() for line in text.splitlines()]
    if lines and lines[0].startswith('"""'):
        end = next(n for n, line in enumerate(lines) if line.endswith('"""') and (n > 0 or len(line) > 3))
        lines = lines[end + 1 :]
    return sum(1 for line in lines if line and not line.startswith("#"))
