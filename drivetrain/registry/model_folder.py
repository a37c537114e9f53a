"""Open what a training step handed on: a folder, or the model.tar.gz that a platform makes of it.

An archive comes from outside, so nothing in it is trusted: only plain files and folders below its root are written,
never links or devices, and never more than a bound.
"""

from __future__ import annotations

import errno
import gzip
import tarfile
import tempfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from drivetrain.base.errors import InputError
from drivetrain.registry.content_hash import ARCHIVE, MOST_BYTES_OF_SMALL_ARCHIVE, Bounded, too_large
from drivetrain.registry.model_package import CONTINUES_FILE

DESCRIPTION = "model.json"
# Weights hardly shrink (2:1 at best), so an archive that grows twentyfold is not a model. The floor lets small ones be.
MOST_GROWTH = 20


@contextmanager
def open_model(path: Path) -> Generator[Path]:
    """The model's folder: `path` itself, or where the archive in it (or at it) was unpacked while the block runs.

    Raises:
        InputError: neither a model folder nor an archive of one, or an archive that cannot be trusted.
    """
    with open_files(path) as folder:
        if not (folder / DESCRIPTION).is_file():
            if folder == path:
                raise InputError(f"{_no_model(path)} A model of your own goes through describe_model first.")
            raise InputError(
                f"{path / ARCHIVE if path.is_dir() else path} holds no {DESCRIPTION}: it is a model of your own. Give "
                "it to describe_model, and its output `model` to this step. A program opens it by "
                f"tarfile.open(model / {ARCHIVE!r})."
            )
        yield folder


@contextmanager
def open_files(path: Path) -> Generator[Path]:
    """The files that a training step or fetch_previous handed on, of any program: the folder itself, or where its
    archive was unpacked while the block runs.

    Raises:
        InputError: neither files nor an archive of them, or an archive that cannot be trusted.
    """
    if path.is_dir() and {each.name for each in path.iterdir()} == {CONTINUES_FILE, "model"}:
        path /= "model"
    archive = path / ARCHIVE if path.is_dir() else path
    if (path / DESCRIPTION).is_file() or not archive.is_file():
        if not path.is_dir() or not any(path.iterdir()):
            raise InputError(_no_model(path))
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="drivetrain-model-") as folder:
        unpack(archive, Path(folder))
        yield Path(folder)


def _no_model(path: Path) -> str:
    return f"{path} holds no model: neither {DESCRIPTION} nor {ARCHIVE}. Give the output `model` of a training step."


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a .tar.gz into an empty folder.

    Raises:
        InputError: a damaged archive; a member that is a link, a device or lies outside the folder; more bytes than
            MOST_GROWTH times the archive's size (MOST_BYTES_OF_SMALL_ARCHIVE at least); a full disk.
    """
    most = max(MOST_BYTES_OF_SMALL_ARCHIVE, MOST_GROWTH * archive.stat().st_size)
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=Bounded(stream, most, archive), mode="r|") as members:
            files: set[PurePosixPath] = set()
            for member in members:
                name = _checked_name(member, archive, most)
                if name in files:
                    raise InputError(f"{archive} holds {member.name!r} twice.")
                if member.isreg():
                    files.add(name)
                members.extract(member, folder, filter="data")
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{archive} is not a whole .tar.gz: {error}") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        name = Path(error.filename).relative_to(folder).parts[0]
        raise InputError(f"{archive} names {name!r} both as a file and as a folder.") from None
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(f"no space left in {folder} to unpack {archive}. Free some, or set TMPDIR.") from None
        raise


def _checked_name(member: tarfile.TarInfo, archive: Path, most: int) -> PurePosixPath:
    name = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()):
        raise InputError(f"{archive} holds {member.name!r}, a link or device; a model holds only files and folders.")
    if name.is_absolute() or ".." in name.parts:
        raise InputError(f"{archive} holds {member.name!r}, which lies outside of it.")
    if member.size > most:  # before a sparse file takes room
        raise too_large(archive, most)
    return name
