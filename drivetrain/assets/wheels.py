"""Wheels for what the image lacks: found without a network when the pipeline is compiled, unpacked where it runs.

    find_wheels(("safetensors",), image, "wheels", Path.cwd())

A wheel comes from the folder that `deployment.targets.sagemaker.wheels` names or, where that has none, from this
environment: an installed distribution whose build also fits the image (pure Python, or the stable ABI on the same
platform) is packed again, to the same bytes every time. What a wheel itself requires travels with it when the image
lacks that too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.assets.image import Image, missing
from drivetrain.assets.requirements import Requirement, build_command, parse, wanted_by
from drivetrain.assets.wheel_files import (
    WheelFile,
    installed_wheel,
    name_of_installed,
    pack,
    read_metadata,
    read_wheel,
    wheel_name,
)
from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass

if TYPE_CHECKING:
    from packaging.tags import Tag

# What pip has to be told: it takes `manylinux_2_28` by its word and would find none of the older wheels, which run too.
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


@dataclass(frozen=True)
class Wheel:
    """A file for the code channel: its name and its bytes, or the file that holds them."""

    name: str
    content: bytes | Path


def find_wheels(needs: Sequence[str], image: Image, folder: str | Path | None, base: Path) -> tuple[Wheel, ...]:
    """The wheels that meet the needs and what these require beyond the image, sorted by name.

    Args:
        needs: requirements that the image does not meet (`image.missing`).
        image: what they have to run in.
        folder: where wheels lie, or None; a relative one starts at `base`.
        base: the folder of the pipeline's file.

    Raises:
        UserError: a wheel is missing or damaged; the message says which command fetches what is missing.
    """
    place = None if folder is None else base / Path(folder).expanduser()
    if place is not None and not place.is_dir():
        raise UserError(f"deployment.targets.sagemaker.wheels is {str(folder)!r}: no such folder ({place}).")
    found: dict[str, tuple[Wheel, WheelFile]] = {}
    looked_at: set[tuple[str, frozenset[str]]] = set()  # wheels may require each other
    waiting = [parse(need) for need in needs]
    while waiting:
        requirement = waiting.pop(0)
        have = found.get(requirement.name)
        if have is not None and not requirement.allows(have[1].version):
            raise UserError(
                f"{requirement.text!r} is needed, but {have[0].name} is what {place or 'this environment'} offers for "
                "it. Give a wheel that all of them can use."
            )
        if have is None:
            have = _one(requirement, image, place)
            if have is None:
                raise UserError(_how_to_get(needs, requirement, image, folder))
            found[requirement.name] = have
        if (requirement.name, requirement.extras) not in looked_at:
            looked_at.add((requirement.name, requirement.extras))
            waiting += _lacking(have[1].requires, requirement, image)
    return tuple(sorted((wheel for wheel, _ in found.values()), key=lambda wheel: wheel.name))


def _one(requirement: Requirement, image: Image, place: Path | None) -> tuple[Wheel, WheelFile] | None:
    candidates = list(_in_folder(requirement, image, place)) if place is not None else []
    if candidates:
        from packaging.version import Version

        path = max(candidates, key=lambda each: (Version(each[0]), each[1].name))[1]
        return Wheel(path.name, path), read_wheel(path)
    return _from_environment(requirement, image)


def _in_folder(requirement: Requirement, image: Image, place: Path) -> Iterator[tuple[str, Path]]:
    """Versions and files that would do, by their names."""
    for path in place.glob("*.whl"):
        name = wheel_name(path.name)
        wanted = name.distribution == requirement.name and requirement.allows(name.version)
        if wanted and not name.tags.isdisjoint(fitting_tags(image.python, image.glibc)):
            yield name.version, path


def _from_environment(requirement: Requirement, image: Image) -> tuple[Wheel, WheelFile] | None:
    info = installed_wheel(requirement.name)
    file = None if info is None else read_metadata((info / "METADATA").read_bytes())
    if info is None or file is None or not requirement.allows(file.version):
        return None
    name = name_of_installed(info)
    if wheel_name(name).tags.isdisjoint(fitting_tags(image.python, image.glibc)):
        return None
    return Wheel(name, pack(info)), file


def _lacking(requires: Iterable[str], parent: Requirement, image: Image) -> list[Requirement]:
    """The requirements of a wheel, with the extras asked of it, that this image lacks. `wanted_by` has looked at their
    markers."""
    wanted = [wanted_by(line, image.python, parent.extras) for line in requires]
    return [each for each in wanted if each is not None and missing([each.text.partition(";")[0]], image)]


@cache
def fitting_tags(python: str, glibc: tuple[int, int]) -> frozenset[Tag]:
    """The tags of wheels that run in an image of CPython on x86-64 (PEP 425, 600).

    Args:
        python: such as 3.12.
    """
    from packaging.tags import compatible_tags, cpython_tags

    version = 3, int(python.partition(".")[2])
    newest = [f"manylinux_{glibc[0]}_{minor}_x86_64" for minor in range(glibc[1], 4, -1)]
    named = ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
    interpreter = f"cp3{version[1]}"
    return frozenset(
        (
            *cpython_tags(version, [interpreter], [*newest, *named]),
            *compatible_tags(version, interpreter, [*newest, *named]),
        )
    )


def _how_to_get(needs: Sequence[str], lacking: Requirement, image: Image, folder: str | Path | None) -> str:
    import shlex

    target = str(folder) if folder is not None else "wheels"
    platforms = " ".join(f"--platform {platform}" for platform in _PLATFORMS)
    command = (
        f"pip download --only-binary=:all: --python-version {image.python} --implementation cp {platforms} "
        f"--dest {shlex.quote(target)} {' '.join(shlex.quote(need) for need in needs)}"
    )
    then = "" if folder is not None else f"\nand set deployment.targets.sagemaker.wheels: {target}"
    if build := build_command(lacking.name, image.framework):
        command = f"{build}\nin that image (PyPI has no wheel of it), copy what it prints to {target}"
        then = then.replace("\n", " ")
    tag = image.uri.partition("/")[2]
    return (
        f"{lacking.text!r} is not in the image {tag}, and no wheel of it that fits (CPython {image.python}, x86-64) is "
        f"in {target if folder is not None else 'this environment'}. Get it with\n  {command}{then}"
    )
