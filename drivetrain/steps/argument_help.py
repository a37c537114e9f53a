"""What a docstring says of the parameters of its function, or of the fields of its class."""

from __future__ import annotations

import re


def argument_help(doc: str) -> dict[str, str]:
    """`name: text` entries of the docstring's section Args or Attributes, folded to one line each."""
    if "Args:" not in doc and "Attributes:" not in doc:
        return {}
    section = re.search(
        r"^\s*(?:Args|Attributes):\s*\n(.*?)(?:^\s*(?:Returns|Raises|Yields):|\Z)", doc, re.MULTILINE | re.DOTALL
    )
    if section is None:
        return {}
    found: dict[str, str] = {}
    name, indent = "", None
    for line in section.group(1).splitlines():
        entry = re.match(r"^(\s+)(\w+):\s+(.*)$", line)
        if entry and (indent is None or len(entry.group(1)) <= indent):
            indent, name = len(entry.group(1)), entry.group(2)
            found[name] = entry.group(3).strip()
        elif name and line.strip():
            found[name] += " " + line.strip()
    return found
