"""Python code for what definitions hold: how it is laid out, how its variables are named, and how it is run."""

from __future__ import annotations

from typing import Any

FUNCTION = "pipeline"


def built(code: str, file: str) -> Any:
    """The pipeline that written code returns. It is made of literals and this package's words alone."""
    names: dict[str, Any] = {"__name__": FUNCTION}
    exec(compile(code, file, "exec"), names)
    return names[FUNCTION]()
