"""Docstrings begin with what a thing is or does, and product Python avoids words that make riddles of sentences."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[3]
FOLDERS = ("drivetrain", "components", "pipelines", "training_scripts", "infra")
_WORDS = "What|Whether|Where|Which|Who|Whom|Whose|Of"
_AHEAD = "After|As|At|By|For|From|In|On|Over|To|Under|With"
# The documentation of a module, class or function, or of the field or constant above it: "By which it ..." as well.
QUESTION = re.compile(rf'^ *"""\s*((?:{_WORDS}|(?:{_AHEAD}) (?:what|which|whom|whose))\b.*)', re.MULTILINE)
# "of which", "whoever" and "to whom" put the subject last; also across lines of a comment or of a text in pieces.
RIDDLE = re.compile(r"""\b(?:of[\s#"f]+which|whoever|(?:of|in|to)[\s#"f]+whom)\b""", re.IGNORECASE)


@cache
def product() -> dict[str, str]:
    """The text of each Python file of the product, by its path."""
    files = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}


def test_docstrings_begin_with_what_a_thing_is_or_does() -> None:
    assert [f"{path}: {line.strip()}" for path, text in product().items() for line in QUESTION.findall(text)] == []


def test_a_docstring_that_begins_with_a_question_word_is_found() -> None:
    text = (
        '"""Whether it is."""\ndef f() -> None:\n    """What it does."""\n'
        'class A:\n    """Whatever comes."""\n    x: int\n    """By which x is known."""\n    y = f(""" What """)\n'
    )
    assert len(QUESTION.findall(text)) == 3


def test_product_python_says_who_acts_instead_of_whoever() -> None:
    found = [
        f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for path, text in product().items()
        for match in RIDDLE.finditer(text)
    ]
    assert found == []


def test_a_riddle_is_found_in_docstrings_comments_and_messages() -> None:
    text = (
        '"""Files of which one is new."""\n# Whoever reads it, of\n# which there are few\n'
        'raise ValueError(f"the user to whom it belongs, of "\n    "whom nobody knows")\n'
        "# Plain: the files that are read, which are few.\n"
    )
    assert len(RIDDLE.findall(text)) == 5
