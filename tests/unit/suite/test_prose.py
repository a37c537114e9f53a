"""Docstrings, and the documentation of fields and constants, begin with what these are or do."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("drivetrain", "components", "pipelines", "training_scripts", "infra")
_WORDS = "What|Whether|Where|Which|Who|Whom|Whose|Of"
_AHEAD = "After|As|At|By|For|From|In|On|Over|To|Under|With"
# The documentation of a module, class or function, or of the field or constant above it: "By which it ..." as well.
QUESTION = re.compile(rf'^ *"""\s*((?:{_WORDS}|(?:{_AHEAD}) (?:what|which|whom|whose))\b.*)', re.MULTILINE)


def test_docstrings_begin_with_what_a_thing_is_or_does() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in QUESTION.findall(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_docstring_that_begins_with_a_question_word_is_found() -> None:
    text = (
        '"""Whether it is."""\ndef f() -> None:\n    """What it does."""\n'
        'class A:\n    """Whatever comes."""\n    x: int\n    """By which x is known."""\n    y = f(""" What """)\n'
    )
    assert len(QUESTION.findall(text)) == 3
