"""Modules of pipelines' folders, forgotten once their files have changed.

A notebook lives for days. Python keeps each module that it has imported, so an edit of a pipeline's file, or of a
module beside it, would not be seen by the next run. Folders keep apart, too: two of them may each have a `helper.py`.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

_FOREIGN = frozenset(["site-packages", "dist-packages"])
_seen: dict[Path, dict[str, tuple[Path, bytes]]] = {}
"""Folder -> module -> its file, and the hash of the bytes that it was loaded from."""


def prepare(folder: Path) -> None:
    """Put a folder first on sys.path, and forget each module that an import for its pipelines must not find.

    Forgotten are all modules of the folder when one of them has changed, and those of other pipelines' folders whose
    names this folder has, too.
    """
    if sys.path[:1] != [str(folder)]:
        sys.path[:] = [str(folder), *(entry for entry in sys.path if entry != str(folder))]
    if any(_hash(file) != seen for file, seen in _seen.get(folder, {}).values()):
        _forget(folder)
    for other in [other for other in _seen if other != folder]:
        if any(_has(folder, name.partition(".")[0]) for name in _seen[other]):
            _forget(other)
    importlib.invalidate_caches()


def remember(folder: Path) -> None:
    """Note which bytes the modules of a folder were loaded from."""
    seen = _seen.setdefault(folder, {})
    for name, file in _modules(folder):
        if name not in seen and file is not None:
            seen[name] = file, _hash(file)


def _forget(folder: Path) -> None:
    for name, file in list(_modules(folder)):
        del sys.modules[name]
        if file is not None:
            # Python takes a compiled file by time and size alone: an edit within a second may leave both as they were.
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    _seen.pop(folder, None)


def _modules(folder: Path) -> Iterator[tuple[str, Path | None]]:
    """Imported modules of a folder with their files; None for a package without a file.

    Left out are Drivetrain itself, the running program, modules that are still being imported, and what an environment
    within the folder holds.
    """
    for name, module in list(sys.modules.items()):
        found = getattr(module, "__dict__", {})
        if name.partition(".")[0] in ("drivetrain", "__main__") or getattr(
            found.get("__spec__"), "_initializing", False
        ):
            continue
        file = found.get("__file__")
        place = file or next(iter(found.get("__path__") or ()), None)
        if not isinstance(place, str) or not (place := Path(place).resolve()).is_relative_to(folder):
            continue
        if not any(part in _FOREIGN or part.startswith(".") for part in place.relative_to(folder).parts):
            yield name, place if file else None


def _has(folder: Path, name: str) -> bool:
    return (folder / f"{name}.py").is_file() or (folder / name).is_dir()


def _hash(file: Path) -> bytes:
    """SHA-256 of the file; empty where it is gone."""
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return b""
