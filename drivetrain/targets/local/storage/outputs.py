"""The outputs of a job: merged from its hosts, checked, hashed and staged in the attempt's folder.

Nothing reaches its place in the store here. The stage holds every output; the ledger then enters the step as succeeded
together with the list of moves, and the moves are renames, which can be repeated. Every byte is on the disk before the
ledger says so; otherwise later steps might read incomplete outputs.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from drivetrain.targets.local.execution import StepFailedError
from drivetrain.targets.local.ledger import ArtifactEntry, Move, ObjectEntry
from drivetrain.targets.local.storage import make_durable
from drivetrain.targets.local.storage.objects import StoredObject, digest_of, sha256_of, stamp_of, walk

BASE = "/opt/ml"
STAGE = "publish"
_LONGEST_CHAIN = 40  # of links, as in the kernel


class Publication:
    """The outputs of one attempt, staged below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.moves: list[Move] = []
        self.artifacts: list[ArtifactEntry] = []
        self.objects: list[ObjectEntry] = []

    def stage(self) -> Path:
        """A place for the next output, in a folder that exists."""
        path = self.folder / STAGE / str(len(self.moves))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def add(self, name: str, uri: str, staged: Path) -> None:
        """Enter a staged file, or a folder with what is in it, as the output `name` that goes to `uri`."""
        found: list[tuple[StoredObject, str]] = []
        below = uri.rstrip("/")
        for key, path in walk(staged) if staged.is_dir() else [("", staged)]:
            make_durable(path)
            about = path.stat()
            place = f"{below}/{key}" if key else uri
            stored = StoredObject(key or below.rpartition("/")[2], place, path, about.st_size, about.st_mtime_ns)
            checksum = sha256_of(path)
            found.append((stored, checksum))
            self.objects.append(ObjectEntry(place, checksum, stored.bytes, stored.mtime_ns))
        for folder in (*_folders(staged), staged.parent):
            make_durable(folder)
        objects = sorted((stored for stored, _ in found), key=lambda item: item.name)
        self.moves.append(Move(str(staged.relative_to(self.folder)), uri))
        self.artifacts.append(
            ArtifactEntry(
                flow="output",
                name=name,
                uri=uri,
                digest=digest_of((stored.name, checksum) for stored, checksum in found),
                stamp=stamp_of(objects),
                files=len(objects),
                bytes=sum(item.bytes for item in objects),
            )
        )


def _folders(staged: Path) -> Iterator[Path]:
    if staged.is_dir():
        yield from (Path(folder) for folder, _, _ in os.walk(staged, topdown=False))


def merge(output: str, folders: Mapping[str, Path], roots: Mapping[str, Path], target: Path) -> None:
    """Move what the hosts wrote into one folder.

    Args:
        output: the output's name, for messages.
        folders: host -> the folder in which it collected this output (it need not exist).
        roots: host -> the folder that was its /opt/ml.

    Raises:
        StepFailedError: two hosts wrote the same name; a link that leads out of /opt/ml or nowhere; a name that is
            not UTF-8; something that is no file (a socket, a device).
    """
    target.mkdir(parents=True)
    writer: dict[str, str] = {}
    found: list[tuple[str, Path, bool]] = []
    for host, folder in folders.items():
        for name, path, linked in files_below(output, folder, roots[host]):
            if name in writer:
                raise StepFailedError(
                    f"hosts {writer[name]} and {host} both wrote {name!r} to output {output!r}, and only one of the "
                    "two can be kept. Put the host's name or rank into the file's name, or write on one host only."
                )
            writer[name] = host
            found.append((name, path, linked))
    # What links lead to is copied first: it may be one of the files that are then moved.
    for name, path, linked in sorted(found, key=lambda item: not item[2]):
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if linked:
            shutil.copyfile(path, place)
        else:
            os.rename(path, place)


def files_below(output: str, folder: Path, root: Path) -> Iterator[tuple[str, Path, bool]]:
    """Every file of an output as (name, path, whether a link led to it). Links are followed as the job saw them."""
    base = os.path.realpath(root)
    # The program may have put something else in the folder's place; what a link leads to is not ours to move.
    through_link = os.path.realpath(folder) != os.path.join(base, os.path.relpath(folder, root))
    if through_link:
        folder = _followed(output, ".", folder, root, base)
    if not folder.exists():
        return
    if not folder.is_dir():
        raise StepFailedError(f"output {output!r} is a file now. Write files into the folder, not in its place.")
    stack: list[tuple[str, Path, bool, tuple[str, ...]]] = [("", folder, through_link, ())]
    while stack:
        prefix, current, linked, above = stack.pop()
        real = os.path.realpath(current)
        if real in above:  # a link to a folder around it
            continue
        with os.scandir(current) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
        for entry in listed:
            name = prefix + entry.name
            if not _is_text(name):
                raise StepFailedError(f"output {output!r} has a file {name!r} whose name is not UTF-8. Rename it.")
            path, through_link = Path(entry.path), linked
            if entry.is_symlink():
                path, through_link = _followed(output, name, path, root, base), True
            mode = path.stat().st_mode
            if stat.S_ISDIR(mode):
                stack.append((name + "/", path, through_link, (*above, real)))
            elif stat.S_ISREG(mode):
                yield name, path, through_link
            else:
                raise StepFailedError(f"output {output!r} has {name!r}, which is no file (a socket, pipe or device).")


def _followed(output: str, name: str, link: Path, root: Path, base: str) -> Path:
    shown = os.readlink(link) if link.is_symlink() else os.path.realpath(link)  # a link in the way to it
    path = link
    for _ in range(_LONGEST_CHAIN):
        if not path.is_symlink():
            break
        target = os.readlink(path)
        inside = target == BASE or target.startswith(BASE + "/")
        # The job saw its root as /opt/ml; here that path means something else, or nothing.
        path = root / target[len(BASE) + 1 :] if inside else path.parent / target
    real = os.path.realpath(path)
    if not (real == base or real.startswith(base + "/")):
        raise StepFailedError(
            f"output {output!r}: {name!r} is a link to {shown}, outside {BASE}. Copy the file itself into the output."
        )
    if not os.path.exists(real):
        raise StepFailedError(f"output {output!r}: {name!r} is a link to {shown}, which does not exist.")
    return Path(real)


def _is_text(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
