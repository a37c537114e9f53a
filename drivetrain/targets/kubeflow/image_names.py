"""Names of container images: `[REGISTRY[:PORT]/]NAME[:TAG][@DIGEST]`, one check for settings, steps and anybody's IR.

The grammar is that of https://github.com/distribution/reference, which nodes read a name by.
"""

from __future__ import annotations

import re

ALLOWED = "[REGISTRY[:PORT]/]NAME[:TAG][@sha256:DIGEST] with NAME in lower case, such as registry.example.com/train:1"
_MAX = 255
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_REGISTRY = re.compile(rf"({_LABEL}(\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(:(?P<port>[0-9]+))?")
_PART = re.compile(r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"[A-Za-z][A-Za-z0-9]*([-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}")


def image_name(image: str) -> str:
    """The last part of a name, without tag and digest: `drivetrain-cpu` of `registry.example.com/drivetrain-cpu:1`."""
    return image.partition("@")[0].rpartition("/")[2].partition(":")[0]


def image_problem(image: str) -> str | None:
    """Why a node could not read the name of an image, in words that end without a full stop; None where it could."""
    if any(character.isspace() for character in image):
        return "it has a space"
    rest, at, digest = image.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return "what follows @ is no digest"
    first, slash, path = rest.partition("/")
    named = slash and (first == "localhost" or any(sign in first for sign in ".:") or first != first.lower())
    if named:
        found = _REGISTRY.fullmatch(first)
        if found is None:
            return f"{first!r} is no address of a registry"
        if (port := found["port"]) is not None and not 0 < int(port) < 65_536:
            return f"port {port} of its registry is no number from 1 to 65535"
    name, colon, tag = (path if named else rest).partition(":")
    if colon and not _TAG.fullmatch(tag):
        return f"{tag!r} is no tag"
    for part in name.split("/"):
        if not _PART.fullmatch(part):
            return f"{part!r} is no part of a name" if part else "a part of its name is empty"
    return f"its name is longer than {_MAX} characters" if len(rest) - len(colon + tag) > _MAX else None
