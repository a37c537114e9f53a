"""`drivetrain check`: whether a definition would be accepted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.formatting import count
from drivetrain.cli.declared import App, Argument
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.targets.target import Inspection

app = App()

REFUSED = 1


@app.command()
def check(
    target: Annotated[
        str, Argument(metavar="WHAT", help="A definition's FILE, a pipeline's name, or FILE.py[:FUNCTION].")
    ],
    on: On = None,
    config: Config = None,
    set_: Set = None,
    as_json: Json = False,
) -> int:
    """Check a definition: what would be refused, and where.

    Names, references, conditions and cycles, and the arguments of every job against the service's own model, each
    problem with its path; and which step types and functions are not known here. The content of a file says for which
    target it is. Ends with 1 when there are problems. Needs no network and no account.

    \b
    Examples:
      drivetrain check pipeline.json
      drivetrain check pipeline.yaml
      drivetrain check retraining --set instance_type=ml.g5.xlarge
      drivetrain check retraining --target kubeflow
    """
    found = _inspected(target, on, config, set_)
    if as_json:
        say_json(found.facts)
    elif not found.problems:
        unknown = f" ({found.num_unchecked} could not be checked)" if found.num_unchecked else ""
        say(f"{target}: {count(found.num_steps, 'step')}{unknown}, nothing that would be refused.")
    else:
        say("\n".join(found.problems))
    if not as_json and found.notes:
        say("\n".join(found.notes))
    if not as_json and found.num_unchecked:
        say("`drivetrain run` takes a step of such a type only with its results: --stub STEP=outputs.json.")
    return REFUSED if found.problems else 0


def _inspected(target: str, on: str | None, config: Path | None, overrides: list[str] | None) -> Inspection:
    from drivetrain.operations.operands import compiled_for, definition_text, is_definition, load_for
    from drivetrain.targets.target import inspector, inspector_of

    if is_definition(target):
        text = definition_text(Path(target))
        return (inspector_of(text, target) if on is None else inspector(on)).inspect(text, target)
    loaded, name = load_for(target, config, overrides, on)
    return inspector(name).inspect(compiled_for(loaded, name, local=True).text.encode(), target)
