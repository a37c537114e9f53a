"""`drivetrain check`: whether a definition would be accepted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drivetrain.cli.groups import new_app
from drivetrain.cli.options import Config, Json, Set

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.document.document import Definition

app = new_app()

REFUSED = 1


@app.command()
def check(
    target: Annotated[
        str, typer.Argument(metavar="WHAT", help="A definition FILE.json, a pipeline's name, or FILE.py[:FUNCTION].")
    ],
    config: Config = None,
    set_: Set = None,
    as_json: Json = False,
) -> int:
    """Say what would be refused of a definition, and where.

    Names, references, conditions and cycles, and the arguments of every job against the service's own model, each
    problem with its path; and which step types and functions are not known here. Ends with
    1 when there are problems. Needs no network and no account.

    \b
    Examples:
      drivetrain check pipeline.json
      drivetrain check retraining --set instance_type=ml.g5.xlarge
    """
    from drivetrain.base.formatting import count
    from drivetrain.cli.definition.inspection_text import notes, problems
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.studio.inspection import inspect

    definition = _definition(target, config, set_)
    found = inspect(definition)
    if as_json:
        say_json(found.to_json())
    elif found.is_sound:
        say(f"{target}: {count(sum(found.types.values()), 'step')}, nothing that would be refused.")
    else:
        say("\n".join(problems(found)))
    if not as_json and (said := notes(found)):
        say("\n".join(said))
    return 0 if found.is_sound else REFUSED


def _definition(target: str, config: Path | None, overrides: list[str] | None) -> Definition:
    from drivetrain.cli.operands import compiled, definition_file, is_definition

    if is_definition(target):
        return definition_file(Path(target))
    from drivetrain.targets.sagemaker.document.document import from_json

    return from_json(dict(compiled(target, config, overrides, local=True).definition), target)
