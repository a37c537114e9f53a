"""Show for a message how bytes that are not UTF-8 read in common encodings."""

from __future__ import annotations

import re

# What Python and iconv call them alike.
_ONE_BYTE = ("cp1252", "cp1251", "koi8-r")
_SEVERAL_BYTES = ("cp932", "euc-jp", "gb18030", "big5", "euc-kr")
_SIGNS = "€£°§´·–—‘’“”„…«»"
# Half-width katakana, and Latin beside Cyrillic letters.
_UNLIKELY = re.compile("[\uff61-\uff9f]|[A-Za-z][\u0400-\u04ff]|[\u0400-\u04ff][A-Za-z]")
_MOST_CHARACTERS = 12


def advice(data: bytes, file: str) -> str:
    """How a text reads in the encodings that it may be of, and how to save the file as UTF-8 from the right one."""
    runs = re.findall(rb"[\x80-\xff]+", data)
    alone = sum(len(run) == 1 for run in runs)
    likely = (*_ONE_BYTE, *_SEVERAL_BYTES) if 2 * alone > len(runs) else (*_SEVERAL_BYTES, *_ONE_BYTE)
    readings: dict[str, str] = {}
    for name in likely:
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            continue
        odd = any(
            not (each.isascii() and each.isprintable()) and not each.isalpha() and each not in _SIGNS for each in text
        )
        if not (odd or _UNLIKELY.search(text) or text in readings.values()):
            readings[name] = text
    shown = ", ".join(f"{text[:_MOST_CHARACTERS]!r} in {name}" for name, text in readings.items())
    which = f"It reads {shown}. Save" if shown else "Save"
    name = next(iter(readings)) if len(readings) == 1 else "ENCODING"
    return (
        f"{which} the file as UTF-8 from the encoding that it has: iconv -f {name} -t utf-8 {file.removesuffix('.gz')}"
    )
