"""Docstrings of modules, classes and functions begin with what these are or do."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("drivetrain", "components", "pipelines", "training_scripts", "infra")
# A module's docstring, or one after the line that ends the head of a class or function.
QUESTION = re.compile(r'(?:\A|:\n)\s*"""\s*((?:What|Whether|Where|Which|Who|Whom|Whose|Of)\b.*)')


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
        'class A:\n    """Whatever comes."""\n    x: int\n    """What x is."""\n'
    )
    assert len(QUESTION.findall(text)) == 2
