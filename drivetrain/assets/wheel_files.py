"""Wheel files (PEP 427): what their names say, what is inside, and an installed distribution packed into one again, to
the same bytes every time.

`packaging` reads names and metadata; it is imported where there is a wheel to read.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import sys
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from drivetrain.assets.requirements import normal
from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass

if TYPE_CHECKING:
    from packaging.tags import Tag


# What an installer writes beside the wheel's own files.
_INSTALLERS_OWN = frozenset(("INSTALLER", "REQUESTED", "direct_url.json", "RECORD"))
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class WheelName:
    """`safetensors-0.8.0-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl`, taken apart."""

    distribution: str
    """Its normal name."""
    version: str
    tags: frozenset[Tag]
    """Every (python, abi, platform) that the name stands for."""
    info: str
    """The folder inside that describes it."""


@dataclass(frozen=True)
class WheelFile:
    """A wheel's own metadata: its normal name, its version and its `Requires-Dist` lines."""

    name: str
    version: str
    requires: tuple[str, ...]


def wheel_name(file_name: str) -> WheelName:
    """Take a wheel's file name apart.

    Raises:
        UserError: it is not named as wheels are.
    """
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename

    try:
        distribution, version, _, tags = parse_wheel_filename(file_name)
    except InvalidWheelFilename:
        raise UserError(
            f"{file_name!r} is not the name of a wheel (name-version-python-abi-platform.whl). Files keep the names "
            "that pip gives them."
        ) from None
    return WheelName(distribution, str(version), tags, f"{'-'.join(file_name.split('-')[:2])}.dist-info")


def read_wheel(path: Path) -> WheelFile:
    """Read a wheel's metadata and make sure that it is whole, is what its name says, and stays in its folder.

    Raises:
        UserError: it is damaged, another distribution, or has files that would land outside.
    """
    import zipfile

    name = wheel_name(path.name)
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.namelist()
            metadata = archive.read(f"{name.info}/METADATA")
            broken = archive.testzip()
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise UserError(f"{path} is no wheel that can be read ({error}). Download it again.") from None
    if broken is not None:
        raise UserError(f"{path} is damaged at {broken}. Download it again.")
    for member in members:
        parts = member.split("/")
        if member.startswith("/") or ".." in parts or "\\" in member:
            raise UserError(f"{path} holds {member!r}, which leads out of the folder. Do not use this file.")
    found = read_metadata(metadata)
    if (found.name, found.version) != (name.distribution, name.version):
        raise UserError(f"{path} holds {found.name} {found.version}, not what its name says. Download it again.")
    return found


def read_metadata(content: bytes) -> WheelFile:
    """Read a METADATA file."""
    from email.parser import BytesHeaderParser

    fields = BytesHeaderParser().parsebytes(content)
    name, version = (str(fields.get(key, "")).strip() for key in ("Name", "Version"))
    requires = tuple(" ".join(str(line).split()) for line in fields.get_all("Requires-Dist", ()))
    return WheelFile(normal(name), normal_version(version), requires)


def normal_version(text: str) -> str:
    """`1.0.0-RC1` as `1.0.0rc1`; what is no version stays as it is."""
    if re.fullmatch(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*", text, re.ASCII):
        return text
    from packaging.utils import canonicalize_version

    return canonicalize_version(text, strip_trailing_zero=False)


def installed_wheel(name: str) -> Path | None:
    """The folder that describes the distribution of this environment with a normal name; None where it was not
    installed from a wheel."""
    folders = (Path(entry) for entry in dict.fromkeys(sys.path) if entry and Path(entry).is_dir())
    infos = (info for folder in folders for info in sorted(folder.glob("*.dist-info")))
    info = next((info for info in infos if normal(info.stem.rpartition("-")[0]) == name), None)
    if info is None or not all((info / needed).is_file() for needed in ("WHEEL", "RECORD", "METADATA")):
        return None
    # Editable, or from a folder: its files are not those of a release.
    return None if (info / "direct_url.json").is_file() else info


def name_of_installed(info: Path) -> str:
    """The file name of the wheel from which a distribution was installed."""
    lines = (info / "WHEEL").read_text(encoding="utf-8").splitlines()
    tags = [line.partition(":")[2].strip().split("-", 2) for line in lines if line.startswith("Tag:")]
    parts = [".".join(sorted({tag[part] for tag in tags})) for part in range(3)]
    return f"{info.stem}-{'-'.join(parts)}.whl"


@cache
def pack(info: Path) -> bytes:
    """A wheel with the files that RECORD lists, in the order of their names, uncompressed, without times.

    Not compressed, because compressors differ between machines and the bytes name the channel.

    Raises:
        UserError: a file is not what was installed.
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
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
        digests[name] = f"sha256={digest.decode()}"
        if expected and expected != digests[name]:
            raise UserError(f"{home / path} is not the file that was installed. Reinstall {info.stem}.")
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
