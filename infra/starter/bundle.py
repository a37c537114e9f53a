"""The starter Lambda as a zip: its handler and the few files of drivetrain that it uses, the same bytes every time.

write_archive(Path("build/starter.zip"))      # runtime python3.12 or newer, handler "handler.handler"
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import drivetrain

HANDLER = "handler.handler"

_TRIGGERS = ("__init__.py", "event_values.py", "starting.py")
_BASE = ("__init__.py", "errors.py")
_FILES = (
    *(f"base/{name}" for name in _BASE),
    "catalog/__init__.py",
    *(f"triggers/{name}" for name in _TRIGGERS),
)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the earliest a zip can say


def files() -> dict[str, bytes]:
    """Path in the archive -> content."""
    package = Path(drivetrain.__file__).parent
    found = {f"drivetrain/{name}": (package / name).read_bytes() for name in _FILES}
    return {"handler.py": (Path(__file__).parent / "handler.py").read_bytes(), **found}


def archive() -> bytes:
    """The zip's bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in sorted(files().items()):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            made.writestr(entry, content)
    return buffer.getvalue()


def write_archive(path: Path) -> None:
    """Write the zip.

    Raises:
        OSError: it cannot be written there.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(archive())
