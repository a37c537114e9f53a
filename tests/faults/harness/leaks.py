"""Canaries: texts that occur nowhere else, and the search for them, also where they were encoded or packed."""

from __future__ import annotations

import base64
import gzip
import random
import re
import zlib
from collections.abc import Iterable
from pathlib import Path

_FOUND = re.compile(rb"cnry[0-9a-f]{12}")
# What a secret may hold and what JSON, HTML, YAML and URLs write in another way.
_ENDS = ("", "", "&<\"'>", "/+==", "\\n$x", " ü€")


class Canaries:
    """Makes them; each is known by its place."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self._made: dict[str, str] = {}

    def new(self, place: str) -> str:
        return self.plain(place) + self._draw.choice(_ENDS)

    def plain(self, place: str) -> str:
        """One of 16 letters and digits."""
        core = f"cnry{self._draw.getrandbits(48):012x}"
        self._made[core] = place
        return core

    def places(self) -> list[str]:
        return sorted(self._made.values())

    def in_data(self, data: bytes) -> set[str]:
        """The places of those that the data holds: as they are, in base64, or compressed."""
        found = {core.decode() for core in _FOUND.findall(data)}
        if data[:2] == b"\x1f\x8b":
            try:
                data = gzip.decompress(data)
            except (OSError, EOFError, zlib.error):
                data = b""
            found |= {core.decode() for core in _FOUND.findall(data)}
        found |= {core for core in self._made if any(form in data for form in _base64(core))}
        return {self._made[core] for core in found if core in self._made}

    def in_files(self, folders: Iterable[Path]) -> dict[Path, set[str]]:
        """Of each file below the folders, the places of those that its path or its bytes hold."""
        files = (path for folder in folders for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
        return {path: self.in_data(str(path).encode()) | self.in_data(path.read_bytes()) for path in files}


def _base64(core: str) -> list[bytes]:
    """What any base64 of a text that holds it has in common with others, at each of the three offsets."""
    return [base64.b64encode(bytes(before) + core.encode())[4 * (before > 0) : -4] for before in range(3)]
