"""Wheel files (PEP 427): what their names say, and what is inside.

`packaging` reads both; it is imported where there is a wheel to read.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.assets.requirements import normal
from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass

if TYPE_CHECKING:
    from packaging.tags import Tag


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
