"""An installed distribution packed into a wheel again, to the same bytes every time."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import sys
from functools import cache
from pathlib import Path, PurePosixPath

from drivetrain.assets.requirements import normal
from drivetrain.assets.wheel_files import WheelFile, read_metadata
from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass

# What an installer writes beside the wheel's own files.
_INSTALLERS_OWN = frozenset(("INSTALLER", "REQUESTED", "direct_url.json", "RECORD"))
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class InstalledWheel:
    """A distribution of this environment as a wheel: its file name, its metadata, and its bytes on demand."""

    name: str
    file: WheelFile
    info: Path

    def content(self) -> bytes:
        """The wheel; packed once a process.

        Raises:
            UserError: a file is not what was installed.
        """
        return _pack(self.info)


def installed_wheel(name: str) -> InstalledWheel | None:
    """The distribution of this environment with a normal name, or None where it was not installed from a wheel."""
    info = _dist_info(normal(name))
    if info is None or not all((info / needed).is_file() for needed in ("WHEEL", "RECORD", "METADATA")):
        return None
    if (info / "direct_url.json").is_file():  # editable, or from a folder: its files are not those of a release
        return None
    tags = [
        line.partition(":")[2].strip().split("-", 2)
        for line in (info / "WHEEL").read_text(encoding="utf-8").splitlines()
        if line.startswith("Tag:")
    ]
    parts = [".".join(sorted({tag[part] for tag in tags})) for part in range(3)]
    return InstalledWheel(
        name=f"{info.name.removesuffix('.dist-info')}-{'-'.join(parts)}.whl",
        file=read_metadata((info / "METADATA").read_bytes()),
        info=info,
    )


def _dist_info(name: str) -> Path | None:
    for entry in dict.fromkeys(sys.path):
        for info in sorted(Path(entry).glob("*.dist-info")) if entry and Path(entry).is_dir() else ():
            if normal(info.name.removesuffix(".dist-info").rpartition("-")[0]) == name:
                return info
    return None


@cache
def _pack(info: Path) -> bytes:
    """A wheel with the files that RECORD lists, in the order of their names, uncompressed, without times.

    Not compressed, because compressors differ between machines and the bytes name the channel.
    """
    import zipfile

    home = info.parent
    files: dict[str, bytes] = {}
    digests: dict[str, str] = {}
    for name, expected, _ in csv.reader((info / "RECORD").read_text(encoding="utf-8").splitlines()):
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or path.suffix == ".pyc":
            continue  # scripts and caches, which the installer made for this environment
        if path.parts[0] == info.name and path.name in _INSTALLERS_OWN:
            continue
        content = (home / path).read_bytes()
        digests[name] = f"sha256={_digest(content)}"
        if expected and expected != digests[name]:
            raise UserError(
                f"{home / path} is not the file that was installed. Reinstall {info.name.removesuffix('.dist-info')}."
            )
        files[name] = content
    record = "".join(f"{name},{digests[name]},{len(files[name])}\n" for name in sorted(files))
    files[f"{info.name}/RECORD"] = (record + f"{info.name}/RECORD,,\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, _EPOCH)
            member.create_system = 3
            member.external_attr = 0o100644 << 16
            archive.writestr(member, files[name])
    return buffer.getvalue()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
