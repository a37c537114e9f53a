"""The style sheets of this folder."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def asset(name: str) -> str:
    """The text of a file beside this one."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
