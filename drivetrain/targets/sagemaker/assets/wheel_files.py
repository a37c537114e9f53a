"""Wheel files (PEP 427): what their names say, and what is inside."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from drivetrain.base.errors import UserError
from drivetrain.targets.sagemaker.assets.requirements import normal

_NAME = re.compile(r"([^\s-]+)-([^\s-]+)(?:-(\d[^\s-]*))?-([^\s-]+)-([^\s-]+)-([^\s-]+)\.whl")


@dataclass(frozen=True)
class WheelName:
    """`safetensors-0.8.0-cp310-abi3-manylinux_2_17_x86_64.manylinux2014_x86_64.whl`, taken apart."""

    distribution: str
    version: str
    python: str
    abi: str
    platform: str

    def tags(self) -> Iterable[tuple[str, str, str]]:
        """Every (python, abi, platform) that the name stands for."""
        return product(self.python.split("."), self.abi.split("."), self.platform.split("."))


@dataclass(frozen=True)
class WheelFile:
    """What a wheel says of itself: its version and its `Requires-Dist` lines."""

    version: str
    requires: tuple[str, ...]


def wheel_name(file_name: str) -> WheelName:
    """Take a wheel's file name apart.

    Raises:
        UserError: it is not named as wheels are.
    """
    found = _NAME.fullmatch(file_name)
    if found is None:
        raise UserError(
            f"{file_name!r} is not the name of a wheel (name-version-python-abi-platform.whl). Files keep the names "
            "that pip gives them."
        )
    distribution, version, _, python, abi, platform = found.groups()
    return WheelName(distribution, version, python, abi, platform)


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
            folder = f"{name.distribution}-{name.version}.dist-info"
            metadata = archive.read(f"{folder}/METADATA").decode("utf-8")
            broken = archive.testzip()
    except (zipfile.BadZipFile, KeyError, OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} is no wheel that can be read ({error}). Download it again.") from None
    if broken is not None:
        raise UserError(f"{path} is damaged at {broken}. Download it again.")
    for member in members:
        parts = member.split("/")
        if member.startswith("/") or ".." in parts or "\\" in member:
            raise UserError(f"{path} holds {member!r}, which leads out of the folder. Do not use this file.")
    found = read_metadata(metadata)
    if found.name != normal(name.distribution) or found.file.version != name.version:
        raise UserError(f"{path} holds {found.name} {found.file.version}, not what its name says. Download it again.")
    return found.file


@dataclass(frozen=True)
class Metadata:
    """The head of a METADATA file."""

    name: str
    file: WheelFile


def read_metadata(text: str) -> Metadata:
    """Name, version and requirements from a METADATA file's head; its body is the description."""
    fields: dict[str, list[str]] = {}
    for line in text.replace("\r\n", "\n").partition("\n\n")[0].split("\n"):
        field, colon, value = line.partition(": ")
        if colon:
            fields.setdefault(field.lower(), []).append(value.strip())
    file = WheelFile(version=fields.get("version", [""])[0], requires=tuple(fields.get("requires-dist", ())))
    return Metadata(name=normal(fields.get("name", [""])[0]), file=file)
