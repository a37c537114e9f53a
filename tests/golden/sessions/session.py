"""A session at the command line, written down as a person reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from drivetrain.cli import main

APPLY = ("apply", "nightly.py", "--yes")
PLAN = ("plan", "nightly.py")
VISION, SOUND = (("--set", f"deployment.project={name}") for name in ("vision", "sound"))
LONG = ("cost", "permissions")
# What differs from one run, or one edit of a program, to the next.
CHANGING = (
    (r"\b[0-9a-f]{64}\b", "SHA256"),
    (r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "ID"),
    (r"(?<=\bversion [0-9]-)[0-9a-f]{12}\b|\b(?=[0-9a-f]*[a-f])[0-9a-f]{12}\b", "SHA"),
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:\d\d| UTC)?", "TIME"),
    (r'"(started|modified|ended)": \d+\.\d+', r'"\1": SECONDS'),
    (r'"bytes": \d+', '"bytes": SIZE'),
    (r"\(\d[\d,]* bytes\)", "(SIZE)"),
    (r"(objects in \S+), [\d.,]+ \w+", r"\1, SIZE"),
    (r"(objects in the bucket), [\d.,]+ \w+", r"\1, SIZE"),
    (r"/code/[0-9a-f]+(\.\.\.|…)", r"/code/SHA\1"),
    (r"\d+ days old", "DAYS old"),
    (r"prices of \S+,", "prices of DATE,"),
)


class Session:
    """Commands and what they answered. `names`: text that differs each time -> what stands for it."""

    def __init__(self, said: Callable[[], tuple[str, str]], names: dict[str, str]) -> None:
        self._said = said
        self._names = names
        self.is_whole = False
        """Plans are shown with cost and permissions."""
        self.lines: list[str] = []

    def __call__(self, *words: str) -> None:
        """Run a command, and write down what it answered."""
        code = main.run(list(words))
        out, err = self._said()
        if words[0] == "plan" and "--json" in words and not self.is_whole:
            said = json.loads(out)
            out = json.dumps({key: said[key] for key in said if key not in LONG}, indent=2)
        self.lines += [f"$ drivetrain {' '.join(words)}", *out.splitlines(), *err.splitlines(), f"[{code}]", ""]

    def stands_for(self, text: str, name: str) -> None:
        """Write a name instead of that text."""
        self._names[text] = name

    def did(self, what: str) -> None:
        """Write down what somebody else did."""
        self.lines += [f"# {what}", ""]

    def __str__(self) -> str:
        text = "\n".join(self.lines)
        for name in sorted(self._names, key=len, reverse=True):
            text = text.replace(name, self._names[name])
        for changing, instead in CHANGING:
            text = re.sub(changing, instead, text)
        return text
