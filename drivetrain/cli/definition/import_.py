"""`drivetrain import`: a definition that somebody else made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Json

app = App()


@app.command(name="import")
def import_(
    file: Annotated[Path, Argument(metavar="FILE.json", help="A definition, as DescribePipeline gives it.")],
    output: Annotated[Path | None, Option("--output", "-o", metavar="FILE", help="Write the definition there.")] = None,
    as_json: Json = False,
) -> None:
    """Read any SageMaker definition, and say what it is.

    Nothing of it is lost: fields and step types that are not known here are kept as they are. What the service would
    refuse is said with its path. The file that is written means the same, and the other commands take it.

    \b
    Examples:
      drivetrain import exported.json
      drivetrain import exported.json -o pipeline.json
      drivetrain run -d pipeline.json
    """
    from drivetrain.cli.operands import definition_file
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.targets.sagemaker.inspection import inspect

    definition = definition_file(file)
    found = inspect(definition)
    if output is not None:
        from drivetrain.base.files import write_text
        from drivetrain.targets.sagemaker.document.document import write

        write_text(output, write(definition))
    if as_json:
        say_json({**found.to_json(), "file": None if output is None else str(output)})
        return
    said = found.lines(definition)
    if output is not None:
        said.append(f"Wrote {output}.")
    usable = output or file
    say("\n".join([*said, f"Look at it: drivetrain show {usable}", f"Run it here: drivetrain run -d {usable}"]))
