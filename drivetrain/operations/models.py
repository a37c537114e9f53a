"""Registered models: a registry opened, a version's files fetched, held against the hash that was registered, kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion, Registry

_OF_THE_RUNS = ("local", "local:")


def opened(url: str | None, home: Path | None, *, called: str = "registry ") -> Registry:
    """The registry at `url`, of the runs at `home`, of $DRIVETRAIN_REGISTRY, or of the runs here.

    What was registered is looked at, so a file that is named has to be there: a mistyped path is not one where nothing
    is registered yet. That of the runs comes with the first of them. `called` is what messages call `url`.

    Raises:
        UserError: both name a registry, or the path has none.
        InputError: no such kind of registry, or something else at the path.
    """
    from drivetrain.registry.backends.local import LocalRegistry
    from drivetrain.registry.registry import REGISTRY_VARIABLE, open_registry
    from drivetrain.run_store.home import local_home

    given, named_by = None if url in (None, "auto") else url, called
    if given not in (None, *_OF_THE_RUNS) and home is not None:
        raise UserError(f"{called}{given} and home {home} are two places. Give one: home is for local models.")
    if given is None and home is None:
        given, named_by = os.environ.get(REGISTRY_VARIABLE) or None, f"${REGISTRY_VARIABLE}="
    if given in (None, *_OF_THE_RUNS):
        return open_registry(f"local:{local_home(home).ledger}")
    registry = open_registry(given)
    if isinstance(registry, LocalRegistry) and not registry.exists():
        raise UserError(
            f"{named_by}{given}: there is no registry at {registry.path}. Correct the path; the first model that is "
            "registered there makes it."
        )
    return registry


def refuse_filled(output: Path | None, option: str = "") -> None:
    """
    Raises:
        UserError: something is at the place where files are to be kept.
    """
    if (
        output is not None
        and os.path.lexists(output)
        and (output.is_symlink() or not output.is_dir() or any(output.iterdir()))
    ):
        raise UserError(f"{option}{output}: something is there. Give a folder that does not exist, or is empty.")


def keep(found: ModelVersion, output: Path | None, registry: str | None, home: Path | None) -> None:
    """Verify a version's files, and keep them in `output`, which is empty or not there.

    Raises:
        UserError: they are not those that were registered, or nothing says which those are.
        InputError: they cannot be had.
    """
    name = f"{found.group} version {found.version}"
    if not found.content_hash:
        raise UserError(
            f"the registry knows no content hash of {name}, so nothing says which files are its own. Register it with "
            "one: a step register(..., decision=compared), or register_model."
        )
    import tempfile  # of a fetch alone: each command on models loads this file

    beside = None if output is None else output.absolute().parent
    if beside is not None:
        beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".drivetrain-fetch-", dir=beside) as scratch:
        downloads = Path(scratch) / "fetched"
        path = fetched(found, downloads, registry, home)
        check(found, path)
        if output is not None and path.is_relative_to(downloads):
            downloads.replace(output)
        elif output is not None:
            kept = Path(scratch) / "kept"
            kept.mkdir()
            for each in path.rglob("*") if path.is_dir() else [path]:
                place = kept / (each.relative_to(path) if path.is_dir() else path.name)
                if each.is_dir() and not each.is_symlink():
                    place.mkdir()  # as the umask says: the home's are for its owner only
                else:
                    shutil.copyfile(each, place, follow_symlinks=False)
            check(found, kept if path.is_dir() else kept / path.name)  # others may write to where it lies
            kept.replace(output)


def fetched(version: ModelVersion, folder: Path, registry: str | None, home: Path | None) -> Path:
    """A version's files on this machine: a folder or an archive, in `folder` where they had to be downloaded.

    Raises:
        InputError: they cannot be had.
    """
    from drivetrain.registry import artifacts

    with _local_store(registry, home):
        return artifacts.fetch(version.artifact, folder)


def check(version: ModelVersion, path: Path) -> None:
    """Hold files against the hash that was registered.

    Raises:
        UserError: they are others.
    """
    from drivetrain.registry.intact import MEND, difference

    if problem := difference(path, version.content_hash):
        raise UserError(
            f"the files of {version.group} version {version.version} at {version.artifact} are not those that were "
            f"registered ({version.content_hash[:12]}): {problem}. {MEND}"
        )


@contextmanager
def _local_store(registry: str | None, home: Path | None) -> Generator[None]:
    """Within the context, read what a registry of local runs names in S3 from the folder of those runs."""
    from drivetrain.registry.artifacts import OBJECT_STORE
    from drivetrain.registry.registry import REGISTRY_VARIABLE
    from drivetrain.run_store.home import local_home

    given = registry if registry not in (None, "auto") else None if home else os.environ.get(REGISTRY_VARIABLE)
    kind, _, location = (given or "local").partition(":")
    if kind != "local" or OBJECT_STORE in os.environ:
        yield
        return
    os.environ[OBJECT_STORE] = str(Path(location).parent / "s3" if location else local_home(home).objects)
    try:
        yield
    finally:
        del os.environ[OBJECT_STORE]


def login() -> str | None:
    """The name of the user, who decides on models here; None in a container without a name for its user."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return None
