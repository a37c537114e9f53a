"""`drivetrain models card`: all that is known of a version, as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import printable
from drivetrain.cli.declared import Argument, Option
from drivetrain.cli.models.registry import NONE_GIVEN, RegistryOptions
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json


def card(
    group: Annotated[str, Argument(metavar="GROUP", help="The model group.")],
    version: Annotated[str, Argument(metavar="VERSION", help="A number, `latest`, or `approved`.")] = "latest",
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
