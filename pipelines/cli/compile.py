"""`drivetrain compile`: a pipeline as the definition that SageMaker Pipelines takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from drivetrain.pipelines.cli.groups import new_app
from drivetrain.pipelines.cli.options import Config, Home, Set

app = new_app()


@app.command(name="compile")
def compile_(
    target: Annotated[str, typer.Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the definition there.")
    ] = None,
    config: Config = None,
    set_: Set = None,
    home: Home = None,
) -> None:
    """Compile a pipeline to its SageMaker definition.

    Nothing is deployed, and no network or credentials are needed. With --output the code and data that the definition
    names are put into the home too, so that `drivetrain run -d FILE` runs it here.

    \b
    Examples:
      drivetrain compile retraining
      drivetrain compile retraining -o retraining.json --set epochs=20
      drivetrain compile digits.py -c production.yaml -o digits.json
    """
    from drivetrain.pipelines.cli.targets import compiled

    definition = compiled(target, config, set_)
    for note in definition.notes:
        print(f"warning: {note}", file=sys.stderr)
    if output is None:
        sys.stdout.write(definition.text)
        return
    from drivetrain.pipelines.cli.home import local_home
    from drivetrain.pipelines.files import write_text
    from drivetrain.pipelines.targets.local.runner import put_assets
    from drivetrain.pipelines.targets.local.storage.objects import ObjectStore

    write_text(output, definition.text)
    folder = local_home(home)
    folder.create()
    put_assets(ObjectStore(folder.objects), definition.assets)
    print(
        f"Wrote {output}: {len(definition.definition['Steps'])} steps at the top level. "
        f"The {len(definition.assets)} objects that it names are in {folder.objects}.",
        file=sys.stderr,
    )
