"""Training data on a file system that is there already: `fsx://fs-0123456789abcdef0/mount/folder`, `efs://fs-.../folder`.

It is mounted instead of copied, read-only unless the URI ends with `?access=rw`. The path is whole: that of FSx for
Lustre begins with the file system's mount name.
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_FileSystemDataSource.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SCHEMES = {"fsx": "FSxLustre", "efs": "EFS"}
_URI = re.compile(r"(?P<scheme>fsx|efs)://(?P<id>fs-[0-9a-f]{8,18})(?P<path>/[^?#]*)(?:\?access=(?P<access>ro|rw))?")
ALLOWED = (
    "fsx://fs-0123456789abcdef0/mount/folder, efs://fs-0123456789abcdef0/folder, with ?access=rw where it is written"
)


@dataclass(frozen=True)
class FileSystem:
    """A folder of a file system, in the service's words: `FSxLustre` or `EFS`, access `ro` or `rw`."""

    type: str
    id: str
    path: str
    access: str


def is_file_system(value: object) -> bool:
    """Whether a value means one, well written or not."""
    return isinstance(value, str) and value.partition("://")[0] in SCHEMES and "://" in value


def file_system(uri: str) -> FileSystem | None:
    """What a URI names; None for one that is not written as it must be."""
    found = _URI.fullmatch(uri)
    if found is None or ".." in found["path"].split("/"):
        return None
    return FileSystem(SCHEMES[found["scheme"]], found["id"], found["path"], found["access"] or "ro")
