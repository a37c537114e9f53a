"""A folder of generated files: each says in its first line who wrote it and the hash of the rest.

So the folder can be written again: a file that is as it was written is replaced or, where it is no longer needed,
removed. Whatever else lies there, and any file that was edited, is nobody's to overwrite.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.base.files import write_text

_HEADER = re.compile(r"# Written by `(?P<author>[^`\n]+)`; sha256 of the rest (?P<sha256>[0-9a-f]{64})\n")


def write_folder(folder: Path, files: Mapping[str, str], author: str) -> None:
    """Write all files or, where one is refused, none.

    Args:
        files: name -> text. The last one is written last: it is what names the others.
        author: the command that writes them, in one line; the folder is its own.

    Raises:
        UserError: the place is no folder, holds only files that `author` did not write, or a file of these names was
            edited or written by another program.
    """
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Give the name of a folder that is new or empty.")
    present = sorted(folder.iterdir()) if folder.is_dir() else []
    authors = {path.name: _author(path) for path in present}
    ours = {name for name, found in authors.items() if found == author}
    if present and not ours:
        other = next((found for found in authors.values() if found), None)
        said = f"was written by `{other}`" if other else f"is not empty: it holds {present[0].name!r}"
        raise UserError(f"{folder} {said}. Give a folder that is new or empty, or one that this command wrote.")
    for name in files:
        if name in authors and name not in ours:
            raise UserError(
                f"{folder / name} was edited, or was not written by this command: it is left as it is, and nothing was "
                "written. Keep your changes elsewhere (kustomize overlays do that), remove the file, and try again."
            )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(folder / name, f"# Written by `{author}`; sha256 of the rest {_sha256(text)}\n{text}")
    for name in ours - files.keys():
        (folder / name).unlink()


def _author(path: Path) -> str | None:
    """The pipeline that wrote a file; None for a file that was edited since, or that lacks the first line."""
    if path.is_symlink() or not path.is_file():
        return None
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    header = _HEADER.match(text)
    if header is None or header["sha256"] != _sha256(text[header.end() :]):
        return None
    return header["author"]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
