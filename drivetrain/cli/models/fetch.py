"""`drivetrain models fetch`: a version's files, verified against the hash that was registered."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.cli.declared import Argument, Option
from drivetrain.cli.models.registry import NONE_GIVEN, RegistryOptions
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json


def fetch(
    group: Annotated[str, Argument(metavar="GROUP", help="The model group.")],
    version: Annotated[str, Argument(metavar="VERSION", help="A number, `latest`, or `approved`.")] = "approved",
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FOLDER", help="Keep the files there; it must not exist or be empty."),
    ] = None,
    where: RegistryOptions = NONE_GIVEN,
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
    from drivetrain.operations.models import keep, refuse_filled

    refuse_filled(output, "--output ")
    found = where.opened().version(group, version)
    keep(found, output, where.registry, where.home)
    name = f"{found.group} version {found.version}"
    if as_json:
        facts = {"group": found.group, "version": found.version, "artifact": found.artifact}
        say_json({**facts, "content_hash": found.content_hash, "output": None if output is None else str(output)})
    else:
        kept = "" if output is None else f"; they are in {output}"
        say(f"{name}: its files are those that were registered ({found.content_hash[:12]}){kept}")
