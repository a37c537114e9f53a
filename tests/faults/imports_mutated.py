"""Definitions with code, quotes, line breaks and keywords in texts and names: what `import --code` writes of them."""

from __future__ import annotations

import ast
import builtins
import json
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.document.document import from_json
from drivetrain.targets.sagemaker.written import write_code
from tests.faults.harness.families import Found, Trial
from tests.fixtures.public_forms import FORMS

FAULT = "definitions with code in their texts, imported as code: 0 executions, 0 foreign calls"
TRIALS, QUICK, AT_ONCE = 100, 3, 2
PRELOAD = ("drivetrain.targets.sagemaker.written", "tests.fixtures.public_forms")
PATIENCE_S = 120.0

_EACH = 100
_CHANGED = 0.08
_RUNS = "__import__('pathlib').Path('{file}').touch()"
_TEXTS = (
    '"); {run} #',
    "{{{run}}}",
    "'''\n{run}\n'''",
    '"""\n{run}\n"""',
    "\r{run}",
    "\u2028{run}",
    "\x0c{run}",
    "a\\",
    "class",
    "None",
    "\u202e{run}",
)


def trial(given: Trial, shared: object) -> Found:
    file = given.folder / "ran"
    texts = [text.format(run=_RUNS.format(file=file)) for text in _TEXTS]
    did, violations = Counter[str](), list[str]()
    for number in range(_EACH):
        form = given.draw.choice(sorted(FORMS))
        changed = _changed(json.loads(json.dumps(FORMS[form]())), given.draw, texts)
        try:
            written = write_code(from_json(changed), "nightly")
        except UserError:
            did["refused"] += 1
            continue
        did["written"] += 1
        did["equal"] += written.is_equal
        violations += [f"{form}, {number}: {said}" for said in _foreign(written.code)]
    if file.exists():
        violations.append("a text was run")
    return Found(violations, dict(did))


def _changed(value: Any, draw: Random, texts: list[str]) -> Any:
    if isinstance(value, dict):
        pairs: Any = value.items()
        named = ((draw.choice(texts) if draw.random() < _CHANGED / 4 else name, each) for name, each in pairs)
        return {name: _changed(each, draw, texts) for name, each in named}
    if isinstance(value, list):
        items: Any = value
        return [_changed(each, draw, texts) for each in items]
    if isinstance(value, str) and draw.random() < _CHANGED:
        return draw.choice(["", value]) + draw.choice(texts)
    return value


def _foreign(code: str) -> Iterator[str]:
    """Imports of other packages, and calls of Python's own functions."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import) or (
            isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] != "drivetrain"
        ):
            yield f"imports: {ast.unparse(node)}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and hasattr(builtins, node.func.id):
            yield f"calls {node.func.id}"
