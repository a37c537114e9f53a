"""`drivetrain models fetch`: a version's files, verified against the hash that was registered."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import Argument, Option
from drivetrain.cli.models.registry import RegistryUrl
from drivetrain.cli.options import Home, Json

if TYPE_CHECKING:
    from drivetrain.registry.registry import ModelVersion


def fetch(
    group: Annotated[str, Argument(metavar="GROUP", help="The model group.")],
    version: Annotated[str, Argument(metavar="VERSION", help="A number, `latest`, or `approved`.")] = "approved",
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FOLDER", help="Keep the files there; it must not exist or be empty."),
    ] = None,
    registry: RegistryUrl = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Fetch a version's files, verified by the registered hash.

    An endpoint does not verify the files it loads. Run this before deploying: it fails if the files were changed.
    With --output it keeps the files that it verified, for you to deploy.

    \b
    Examples:
      drivetrain models fetch retraining
      drivetrain models fetch retraining 3 --output model
    """
    from drivetrain.cli.models.registry import opened
    from drivetrain.telling.terminal import say, say_json

    refuse_filled(output, "--output ")
    found = opened(registry, home).version(group, version)
    keep(found, output, registry, home)
    name = f"{found.group} version {found.version}"
    if as_json:
        facts = {"group": found.group, "version": found.version, "artifact": found.artifact}
        say_json({**facts, "content_hash": found.content_hash, "output": None if output is None else str(output)})
    else:
        where = "" if output is None else f"; they are in {output}"
        say(f"{name}: its files are those that were registered ({found.content_hash[:12]}){where}")


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
    import shutil
    import tempfile

    name = f"{found.group} version {found.version}"
    if not found.content_hash:
        raise UserError(
            f"the registry knows no content hash of {name}, so nothing says which files are its own. Register it with "
            "one: a step register(..., decision=compared), or register_model."
        )
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
    """Hold files against what was registered; say it where the registry does not know.

    Raises:
        UserError: they are others.
    """
    from drivetrain.registry.content_hash import content_hash
    from drivetrain.registry.intact import MEND

    name = f"{version.group} version {version.version}"
    if not version.content_hash:
        print(f"warning: the registry knows no content hash of {name}: its files are not verified.", file=sys.stderr)
    elif (hashed := content_hash(path)) != version.content_hash:
        raise UserError(
            f"the files of {name} at {version.artifact} are not those that were registered: their hash is "
            f"{hashed[:12]}, and not {version.content_hash[:12]}. {MEND}"
        )


@contextmanager
def _local_store(registry: str | None, home: Path | None) -> Generator[None]:
    """What a registry of local runs names in S3 lies in the folder of those runs."""
    from drivetrain.cli import local_home
    from drivetrain.registry.artifacts import OBJECT_STORE
    from drivetrain.registry.registry import REGISTRY_VARIABLE

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
