"""The model.tar.gz of a training job: equal folders give equal bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

# Weights are nearly random bits: a higher level takes several times as long to save a few per cent.
_LEVEL = 1


def write(files: Iterable[tuple[str, Path]], target: Path) -> None:
    """Pack (name, path) pairs, sorted by name, without times and owners."""
    import gzip
    import tarfile

    with (
        open(target, "wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=_LEVEL, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = path.stat().st_size
            member.mode = 0o755 if os.access(path, os.X_OK) else 0o644
            with open(path, "rb") as content:
                archive.addfile(member, content)
