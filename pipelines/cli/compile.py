"""`drivetrain compile`: a pipeline as the definition that SageMaker Pipelines takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from drivetrain.pipelines.cli.groups import new_app
from drivetrain.pipelines.cli.options import Config, Set

app = new_app()


@app.command(name="compile")
def compile_(
    target: Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the definition there.")
    ] = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Compile a pipeline to its SageMaker definition.

    Nothing is deployed, and no network or credentials are needed.

    \b
    Examples:
      drivetrain compile retraining
      drivetrain compile retraining -o retraining.json --set epochs=20
      drivetrain compile digits.py -c production.yaml -o digits.json
    """
    from drivetrain.pipelines.cli.targets import compiled

    definition = compiled(target, config, set_)
    if output is None:
        sys.stdout.write(definition.text)
        return
    from drivetrain.pipelines.cli.files import write_text

    write_text(output, definition.text)
    print(f"Wrote {output}: {len(definition.definition['Steps'])} steps at the top level.", file=sys.stderr)
