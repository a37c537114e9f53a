"""`drivetrain schema`: JSON Schemas for editors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from drivetrain.cli.declared import App, Argument, Option

app = App(
    help="Print JSON Schemas, which help editors find mistakes.\n\n"
    "With a schema, an editor completes names and underlines mistakes. For YAML, begin the file with "
    "`# yaml-language-server: $schema=FILE`.",
)

Output = Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write it there.")]


@app.command()
def settings(
    target: Annotated[str, Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].")],
    output: Output = None,
) -> None:
    """Print the schema of a pipeline's settings file.

    \b
    Examples:
      drivetrain schema settings retraining -o retraining.schema.json
    """
    from drivetrain.authoring.loading import settings_of
    from drivetrain.schemas.settings import settings_schema

    _give(settings_schema(settings_of(target)), output)


@app.command()
def definition(output: Output = None) -> None:
    """Print the schema of SageMaker definitions, as written here.

    \b
    Examples:
      drivetrain schema definition -o definition.schema.json
    """
    from drivetrain.schemas.definition import definition_schema

    _give(definition_schema(), output)


@app.command()
def patch(output: Output = None) -> None:
    """Print the schema of NAME.studio.yaml, the edits from Studio.

    \b
    Examples:
      drivetrain schema patch -o studio.schema.json
    """
    from drivetrain.schemas.settings import patch_schema

    _give(patch_schema(), output)


@app.command()
def rules(output: Output = None) -> None:
    """Print the schema of a file of row rules.

    \b
    Examples:
      drivetrain schema rules -o rules.schema.json
    """
    from drivetrain.schemas.row_rules import row_rules_schema

    _give(row_rules_schema(), output)


def _give(schema: dict[str, Any], output: Path | None) -> None:
    from drivetrain.schemas import text_of

    if output is None:
        print(text_of(schema), end="")
        return
    from drivetrain.base.files import write_text

    write_text(output, text_of(schema))
