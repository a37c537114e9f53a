"""Files of weights that were cut off: told by what the formats themselves say of their length.

Of our models model.json has the hash of the weights; this is for everybody's: safetensors, and the zip files that
PyTorch, Keras and NumPy write (.pt, .keras, .npz).
"""

from __future__ import annotations

import json
from typing import Any, cast

_ZIPPED = (".pt", ".pth", ".keras", ".npz", ".zip")
_ZIP, _END_OF_ZIP, _MOST_AFTER_END = b"PK\x03\x04", b"PK\x05\x06", 22 + 65_535
_LENGTH = 8  # bytes of the header's length, of a safetensors file


def torn(name: str, head: bytes, tail: bytes, size: int) -> str:
    """Describe what is missing of a file; "" for a whole one, and for a format that does not say its length.

    Args:
        head: its beginning; a header of safetensors that is longer is not looked into.
        tail: its end.
        size: its bytes.
    """
    if name.endswith(".safetensors"):
        return _torn_safetensors(head, size) if head[_LENGTH : _LENGTH + 1] == b"{" else "" if size else "it is empty"
    if name.endswith(_ZIPPED) and head.startswith(_ZIP) and _END_OF_ZIP not in tail[-_MOST_AFTER_END:]:
        return "its end, where the list of its parts stands, is missing"
    return ""


def _torn_safetensors(head: bytes, size: int) -> str:
    """https://github.com/huggingface/safetensors#format"""
    start = _LENGTH + int.from_bytes(head[:_LENGTH], "little")
    if start > size:
        return f"it has {size:,} bytes, and its header alone {start:,}"
    if start > len(head):
        return ""
    try:
        header: Any = json.loads(head[_LENGTH:start])
        entries = cast("dict[str, Any]", header).items()
        ends = [int(entry["data_offsets"][1]) for name, entry in entries if name != "__metadata__"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return "its header is no list of tensors"
    expected = start + max(ends, default=0)
    return "" if size == expected else f"it has {size:,} bytes, and its header says {expected:,}"
