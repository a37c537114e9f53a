"""`drivetrain models card` and `fetch`: a version's card as a page, and its files, verified by the registered hash."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import printable
from drivetrain.cli.declared import Option
from drivetrain.cli.models.registry import NONE_GIVEN, Group, RegistryOptions, Version
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json


def card(
    group: Group,
    version: Version = "latest",
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Write it there: Markdown (.md) or a page (.html)."),
    ] = None,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Print a version's card: data, metrics, health, decision, use.

    \b
    Examples:
      drivetrain models card retraining
      drivetrain models card retraining approved -o card.html
    """
    from drivetrain.registry.card_sections import as_markdown, sections

    if output is not None and output.suffix not in (".md", ".html"):
        raise UserError(f"--output {output}: give a file that ends in .md or .html.")
    found = where.opened().version(group, version)
    if output is not None:
        from drivetrain.telling.page.card_page import card_page

        text = card_page(found) if output.suffix == ".html" else as_markdown(found)
        try:
            output.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"--output {output} cannot be written: {error.strerror}.") from None
    if as_json:
        parts = [{**each._asdict(), "rows": [list(row) for row in each.rows]} for each in sections(found)]
        written = None if output is None else str(output)
        say_json({"group": found.group, "version": found.version, "sections": parts, "output": written})
    elif output is None:
        say("\n".join(map(printable, as_markdown(found).splitlines())))
    else:
        say(f"{found.group} version {found.version}: its card is in {output}")


def fetch(
    group: Group,
    version: Version = "approved",
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
