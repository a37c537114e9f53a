"""Places of checkpoints: a folder or an object store. Each kind is one file, found by its name and imported when
used."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from drivetrain.training.errors import unknown_name


class Place(Protocol):
    """Files under relative POSIX names (`step-00000120/manifest.json`); folders are there when a file in them is.

    Every method raises ValueError for an invalid name (manifest.check_name), OSError if the disk or the network fails,
    FileNotFoundError for a missing file. A link is never followed: reading one is a DamagedError. Ranks on several
    hosts may use one place at once; no two of them write the same name.
    """

    @property
    def uri(self) -> str:
        """How it was asked for; open_place gives the same place for it."""
        ...

    def names(self, below: str = "") -> dict[str, int]:
        """All files of a folder and what lies below it: name (from the place's root) -> size in bytes.

        Leftovers of sync agents and of killed writers are listed, too; a folder that is not there is empty.
        """
        ...

    def write(self, name: str, data: memoryview | bytes) -> int:
        """Write a file, replacing one of that name; gives the CRC-32 of the bytes handed over.

        Content and name are durable when it returns. While it runs, and if it is killed, the file may be there in part,
        so that it counts for nothing before a manifest vouches for it. An OSError leaves no file, as far as possible.
        """
        ...

    def create(self, name: str, data: bytes) -> None:
        """Write a small file: it is there whole or not at all, and durable when this returns.

        Raises:
            FileExistsError: there is one of that name; it stays as it is. Of several that try at once one succeeds.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """As create, but takes the place of one of that name: a reader sees the one or the other, whole."""
        ...

    def swap(self, name: str, expected: bytes, data: bytes) -> bool:
        """Give a small file another content, if it still has the expected one; False if it has not, is missing, or
        another writer is changing it and does not end.

        Of several that try at once one succeeds. The file stays the same one (`mark`). Others see it soon; it need not
        outlive a loss of power.
        """
        ...

    def mark(self, name: str) -> str:
        """A mark that tells a file from a copy that lies elsewhere, or was brought back; "" if there is no file."""
        ...

    def read(self, name: str) -> bytes:
        """A small file's content."""
        ...

    def read_into(self, name: str, buffer: memoryview) -> int:
        """Fill the buffer with a file; gives the CRC-32 of what was read.

        Raises:
            DamagedError: the file has fewer or more bytes than the buffer.
        """
        ...

    def read_part(self, name: str, start: int, length: int) -> bytes:
        """`length` bytes of a file from `start` on; fewer where it ends before."""
        ...

    def checksum(self, name: str) -> tuple[int, int]:
        """Size and CRC-32 of a file, read piece by piece."""
        ...

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, in this order, and folders that are empty then; durable when it returns.

        One that is not there is fine. After a power loss any of them may be left: what must be gone first has a call of
        its own. (Where a sync agent copies the folder elsewhere, assume that the copy stays.)
        """
        ...

    def retire(self, folder: str) -> bool:
        """Remove the manifest of a folder, durably. While the folder is being read it stays: then False.

        No reader can begin between the look and the removal, as far as the place can tell.
        """
        ...

    def move(self, folder: str, to: str) -> None:
        """Rename a folder, durably. Where that takes several steps, the manifest is the first to go from the old name.

        Raises:
            FileExistsError: `to` is there.
        """
        ...

    def reading(self, folder: str) -> AbstractContextManager[None]:
        """Hold a folder with a manifest against retire, until the context ends or the process does.

        Raises:
            FileNotFoundError: it has no manifest (any more).
        """
        ...


def open_place(uri: str | Path) -> Place:
    """The place at a path, or at `scheme://...`; nothing is read or written.

    Raises:
        InputError: no place knows that scheme.
    """
    text = os.fspath(uri)
    scheme, found, _ = text.partition("://")
    schemes = [name for name in kinds() if name != "folder"]
    if found and scheme not in schemes:
        raise unknown_name("kind of place for checkpoints", text, ["a path", *(f"{name}://" for name in schemes)])
    kind = scheme if found else "folder"
    module = importlib.import_module(f"{__name__}.{kind}")
    return module.open_uri(text)


def kinds() -> list[str]:
    """The names of the files beside this one; each has `open_uri(uri: str) -> Place`."""
    return sorted(path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
