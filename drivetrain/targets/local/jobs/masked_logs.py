"""Mask secrets in the logs of an attempt.

What a job prints is masked as it is written (containers/scribe.py). This is for what others write to a log, and for a
secret of a name that only the end of a step made known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from drivetrain.base.masking import Masking

_PIECE = 1 << 20
_LONGEST_KEY = 64 * 1024


def mask_logs(folder: Path, masking: Masking) -> None:
    """Rewrite every log below the folder that holds a secret."""
    for log in sorted(folder.rglob("*.log")):
        if not any(masking.message(piece) != piece for piece in _pieces(log)):
            continue
        beside = log.with_name(f"{log.name}.part")
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.writelines(map(masking.message, _pieces(log)))
        beside.replace(log)


def _pieces(log: Path) -> Iterator[str]:
    """Whole lines, about 1 MiB at a time; a private key, which has many lines, is not divided."""
    piece: list[str] = []
    size, key = 0, 0
    with open(log, encoding="utf-8", errors="surrogateescape", newline="") as file:
        for line in file:
            piece.append(line)
            size += len(line)
            key = size if "-----BEGIN " in line else 0 if "-----END " in line else key
            if size > _PIECE and (not key or size - key > _LONGEST_KEY):
                yield "".join(piece)
                piece, size, key = [], 0, 0
    yield "".join(piece)
