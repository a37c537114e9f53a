"""`drivetrain data labels`: rows of an evaluation whose label may be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.base.errors import InputError
from drivetrain.cli.declared import Argument
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json, table


def labels(
    report: Annotated[Path, Argument(metavar="REPORT", help="The folder of an evaluate report.", show_default=False)],
    as_json: Json = False,
) -> None:
    """List rows whose label may be wrong, the clearest first.

    These are suggestions by the model of an evaluation with predictions. Look at the rows before you change a label.

    \b
    Examples:
      drivetrain data labels build/report
    """
    from drivetrain.telling.content.suspects import HEAD, SUSPECTS_FILE, suspect_facts
    from drivetrain.telling.content.untrusted_json import UnreadableError, read_object

    try:
        found = read_object(report / SUSPECTS_FILE)
    except UnreadableError as error:
        raise InputError(f"{report / SUSPECTS_FILE} {error}.") from None
    if found is None:
        raise InputError(
            f"{report} has no {SUSPECTS_FILE}. Give the report of evaluate(predictions=True) for classes with "
            "probabilities, or for numbers."
        )
    if as_json:
        say_json(found)
        return
    facts = suspect_facts(found)
    say(facts.title)
    if facts.rows:
        say(facts.note)
        say(table(HEAD, [list(row) for row in facts.rows]))
