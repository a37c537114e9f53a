"""`drivetrain schema`: JSON Schemas for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from drivetrain.pipelines.cli.groups import new_app
from drivetrain.pipelines.errors import UserError

app = new_app()


@app.command()
def schema(
    target: Annotated[
        str | None,
        typer.Argument(metavar="PIPELINE", help="Of this pipeline's settings file: a name, or FILE.py[:FUNCTION]."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there.")] = None,
) -> None:
    """Print a JSON Schema of settings or definitions, for editors.

    In an editor with a YAML language server, begin the settings file with the line
    `# yaml-language-server: $schema=retraining.schema.json`.

    \b
    Examples:
      drivetrain schema retraining -o retraining.schema.json
      drivetrain schema -o definition.schema.json
    """
    from drivetrain.pipelines.schemas import definition_schema, settings_schema

    if target is None:
        made = definition_schema()
    else:
        from drivetrain.pipelines.loading import load

        settings = load(target).settings
        if settings is None:
            raise UserError(f"{target} takes no settings, so there is no file to describe.")
        made = settings_schema(type(settings))
    text = json.dumps(made, indent=2, ensure_ascii=False) + "\n"
    if output is None:
        print(text, end="")
        return
    from drivetrain.pipelines.cli.files import write_text

    write_text(output, text)
