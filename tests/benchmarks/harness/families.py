"""Families of rows: each Python file beside `__main__.py` is one, imported only when it is run."""

from __future__ import annotations

import ast
import difflib
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record

FOLDER = Path(__file__).resolve().parents[1]


class UnknownFamilyError(ValueError):
    """A name given with --only that no file has."""


def available(folder: Path = FOLDER) -> dict[str, str]:
    """Family -> the first line of its docstring."""
    files = sorted(path for path in folder.glob("*.py") if not path.name.startswith("_"))
    return {path.stem: _headline(path) for path in files}


def chosen(names: list[str], folder: Path = FOLDER) -> list[str]:
    """The named families, or all of them.

    Raises:
        UnknownFamilyError: for a name that no file has.
    """
    known = available(folder)
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]!r}? " if close else ""
            raise UnknownFamilyError(f"no family of benchmarks {name!r}. {hint}Available: {', '.join(known)}.")
    return names or list(known)


def load(name: str) -> Callable[[Bench], Iterator[Record]]:
    """The family's generator of rows."""
    return importlib.import_module(f"tests.benchmarks.{name}").records


def _headline(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]
