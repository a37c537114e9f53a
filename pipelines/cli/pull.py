"""`drivetrain pull`: bring into the code what was edited in Studio."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from drivetrain.pipelines.cli.groups import new_app
from drivetrain.pipelines.cli.options import Config, Json, Set
from drivetrain.pipelines.errors import UserError

if TYPE_CHECKING:
    from drivetrain.pipelines.studio.merge import Merged, Side

app = new_app()

CONFLICTS = 1


@app.command()
def pull(
    target: Annotated[
        str, typer.Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].", show_default=False)
    ],
    config: Config = None,
    set_: Set = None,
    take_studio: Annotated[
        list[str] | None, typer.Option(metavar="PLACE", help="Of a conflict: take what Studio has. Repeatable.")
    ] = None,
    take_code: Annotated[
        list[str] | None, typer.Option(metavar="PLACE", help="Of a conflict: keep what the code has. Repeatable.")
    ] = None,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take a pipeline over that apply did not make: all that differs is an edit.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the edits, and write nothing.")] = False,
    as_json: Json = False,
) -> int:
    """Bring edits that were made in Studio into the code.

    What apply wrote last, the code and what is deployed are merged. The edits become a file beside the pipeline,
    NAME.studio.yaml, for you to review and to keep in git: every compile lays it on the definition. Where code and
    Studio changed the same thing in different ways, nothing is written, and you choose.

    \b
    Examples:
      drivetrain pull retraining -c production.yaml
      drivetrain pull retraining -c production.yaml --take-studio steps.train.Arguments.ResourceConfig.InstanceType
      drivetrain pull digits.py --dry-run
    """
    from drivetrain.pipelines.cli.pulled import read_both
    from drivetrain.pipelines.cli.terminal import say, say_json
    from drivetrain.pipelines.studio import patch as patches
    from drivetrain.pipelines.studio.merge import merge
    from drivetrain.pipelines.studio.suggestions import suggest

    take: dict[str, Side] = {}
    for places, side in ((take_studio, "studio"), (take_code, "code")):
        for place in places or ():
            if place in take:
                raise UserError(f"{place} is given to both --take-studio and --take-code. Choose one.")
            take[place] = "studio" if side == "studio" else "code"
    both = read_both(target, config, set_, adopt=adopt)
    merged = merge(both.applied, both.code, both.deployed, take=take)
    wanted = patches.between(both.name, both.alone, merged.definition)
    written = not (merged.conflicts or dry_run or (not merged.edits and not both.file.exists()))
    if written and merged.edits:
        wanted.write(both.file)
    told = suggest(target, config, set_ or (), merged.edits) if merged.edits else ()
    if as_json:
        said = _as_json(merged, both.file, written=written and bool(merged.edits))
        say_json({**said, "suggestions": [suggestion.to_json() for suggestion in told]})
    else:
        say("\n".join(_lines(merged, both.file, target, written=written)))
        if told and not merged.conflicts:
            say("These are settings, too; written there, the file need not hold them:")
            say("\n".join(f"    {suggestion}" for suggestion in told))
    return CONFLICTS if merged.conflicts else 0


def _lines(merged: Merged, file: Path, target: str, *, written: bool) -> list[str]:
    from drivetrain.pipelines.definition.change_words import describe_all

    if merged.conflicts:
        return [
            "Code and Studio changed the same things in different ways; nothing was written:",
            *(f"    {conflict}" for conflict in merged.conflicts),
            "For each, give --take-studio PLACE or --take-code PLACE (and apply with --discard PLACE for the code's).",
        ]
    if not merged.edits:
        return ["Nothing to pull: the pipeline holds no edit that the code does not have."]
    lines = ["Edited in Studio:", *(f"    {line}" for line in describe_all(merged.edits))]
    if written:
        lines.append(f"Wrote {file}: review it and keep it in git. Then: drivetrain plan {target}")
    return lines


def _as_json(merged: Merged, file: Path, *, written: bool) -> dict[str, Any]:
    from drivetrain.pipelines.definition.value_words import masked

    return {
        "edits": [masked(edit).to_json() for edit in merged.edits],
        "conflicts": [conflict.to_json() for conflict in merged.conflicts],
        "file": str(file) if written else None,
    }
