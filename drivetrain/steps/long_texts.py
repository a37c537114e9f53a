"""A text that one command-line argument cannot hold, passed in several: `--plan A --plan.2 B` is `--plan AB`.

SageMaker takes so many characters an argument, and no line break. A text with line breaks is passed as a JSON text,
which `--plan.json` at its beginning says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_LINE_BREAK = re.compile("[\n\r\x85\u2028\u2029]")
_JSON = ".json"


def spread(flag: str, text: str, most: int) -> list[str]:
    """The arguments that pass a text: the flag and the text, where it fits into `most` characters of one line."""
    first = flag
    if _LINE_BREAK.search(text):
        import json  # which a step that has no such text does not wait for

        first, text = flag + _JSON, json.dumps(text)
    pieces = [text[start : start + most] for start in range(0, len(text), most)] or [text]
    words = [first, pieces[0]]
    for number, piece in enumerate(pieces[1:], start=2):
        words += [f"{flag}.{number}", piece]
    return words


def gather(words: Sequence[Any]) -> list[Any]:
    """The arguments with every text that `spread` made in one piece again; all others as they are."""
    found: list[Any] = []
    index = 0
    while index < len(words):
        flag, index = words[index], index + 1
        if not isinstance(flag, str) or not flag.startswith("--") or "=" in flag or index == len(words):
            found.append(flag)
            continue
        text, index = words[index], index + 1
        name, count = flag.removesuffix(_JSON), 2
        while index + 1 < len(words) and words[index] == f"{name}.{count}":
            text, count, index = text + words[index + 1], count + 1, index + 2
        found += [flag, text] if name == flag else [name, _decoded(text)]
    return found


def _decoded(text: str) -> str:
    import json

    try:
        found = json.loads(text)
    except ValueError:  # typed by hand
        return text
    return found if isinstance(found, str) else text
