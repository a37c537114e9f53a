"""The tables of docs/targets.md: every feature, and what each target's own check says of it.

python -m tests.target_features                   # print them
python -m tests.target_features docs/targets.md   # put them in their place there (`make targets`)
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.base.files import write_text
from drivetrain.targets.target import find_target, target_names
from tests.target_features.features import Feature, features

if TYPE_CHECKING:
    from drivetrain.targets.target import Target

BEGIN, END = "<!-- matrix: make targets -->", "<!-- end of matrix -->"


def tables(names: Sequence[str]) -> str:
    """The tables in Markdown, a group of features each.

    Args:
        names: of the targets, a column each.
    """
    targets = [find_target(name) for name in names]
    parts: list[str] = []
    for group, members in groupby(features(), key=lambda feature: feature.group):
        rows = [[feature.title, *(cell(target, feature) for target in targets)] for feature in members]
        lines = [[group, *(target.TITLE for target in targets)], ["---"] * (len(targets) + 1), *rows]
        parts.append("\n".join(f"| {' | '.join(map(escaped, line))} |" for line in lines))
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def cell(target: Target, feature: Feature) -> str:
    """`yes`, with what does not count there; or `no`, and why."""
    pipeline = feature.build()
    if problems := target.check(pipeline):
        return f"no: {problems[0].field}: {problems[0].reason}"
    return "; ".join(["yes", *(without_subject(note) for note in target.compile(pipeline).notes)])


def without_subject(note: str) -> str:
    """A note in a row that says already whose it is."""
    return re.sub(r"^Parameter '\w+': ", "", note)


def in_page(page: str, found: str) -> str:
    """The page with the tables between its marks.

    Raises:
        UserError: it has no such marks.
    """
    begin, end = page.find(BEGIN), page.find(END)
    if begin < 0 or end < begin:
        raise UserError(f"The page has no place for the tables. Give one with the lines {BEGIN} and {END}.")
    return f"{page[: begin + len(BEGIN)]}\n{found}{page[end:]}"


def main(arguments: Sequence[str]) -> Iterator[str]:
    """Write the tables into the page that is given; without one give them."""
    found = tables(target_names())
    if not arguments:
        yield found
        return
    path = Path(arguments[0])
    write_text(path, in_page(path.read_text(encoding="utf-8"), found))


if __name__ == "__main__":
    for text in main(sys.argv[1:]):
        sys.stdout.write(text)
