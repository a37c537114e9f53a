"""`drivetrain diff`: what differs between two definitions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from drivetrain.base.formatting import printable
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Json, Set
from drivetrain.telling.terminal import say, say_json

app = App()

DIFFERENT = 1

What = Argument(metavar="WHAT", help="A definition FILE.json, a pipeline's name, or FILE.py[:FUNCTION].")


@app.command()
def diff(
    old: Annotated[str, What],
    new: Annotated[str, What],
    config: Config = None,
    set_: Set = None,
    exit_code: Annotated[bool, Option("--exit-code", help="End with 1 when there are differences.")] = False,
    as_json: Json = False,
) -> int:
    """Show what differs between two definitions.

    Steps, parameters and whatever the service reads by name are compared by name, and in meaning: neither the order
    nor a default that is written out makes a difference. Settings are those of the pipelines that are compiled.

    \b
    Examples:
      drivetrain diff exported.json retraining
      drivetrain diff before.json after.json --exit-code
      drivetrain diff before.json retraining --set epochs=30 --json
    """
    from drivetrain.targets.sagemaker.document.difference.difference import describe_all, differences

    changes = differences(_definition(old, config, set_), _definition(new, config, set_))
    if as_json:
        from drivetrain.targets.sagemaker.document.difference.value_words import masked

        say_json([masked(change).to_json() for change in changes])
    else:
        say("\n".join(map(printable, describe_all(changes))) or "No difference.")
    return DIFFERENT if exit_code and changes else 0


def _definition(given: str, config: Path | None, overrides: list[str] | None) -> dict[str, Any]:
    """The definition in a file, or that of a pipeline."""
    from drivetrain.operations.operands import compiled, definition_file, is_definition

    if is_definition(given):
        return definition_file(Path(given)).raw
    return dict(compiled(given, config, overrides, local=True).definition)
