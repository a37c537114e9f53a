"""The pipelines that come with the package."""

from __future__ import annotations

import ast

from drivetrain.authoring.loading import READY


def ready_pipelines() -> dict[str, str]:
    """Name -> one line about each pipeline that comes with the package, read without importing them."""
    found: dict[str, str] = {}
    for path in sorted({*READY.glob("*.py")} - {READY / "__init__.py"}):
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found[path.stem] = doc.partition("\n")[0]
    return found
