"""A value as the text of a column."""

from __future__ import annotations

import json
import re
from typing import Any


def dump(value: Any) -> str:
    """The JSON of a value, as short as it can be."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # Half a surrogate pair (from the JSON that a program wrote) cannot be encoded; as an escape it survives.
    return text if text.isascii() else re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half.group()):04x}", text)
