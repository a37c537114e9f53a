"""`drivetrain plan`: what apply would change where the pipeline is deployed."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.cli.declared import App, Option
from drivetrain.cli.deployed.deployment import Adopt, DefinitionFile, Discard, Name, Target
from drivetrain.cli.options import Config, Json, Set, refuse_both
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.deploying.plan import Plan
    from drivetrain.operations.deployment import DeploymentRequest

app = App()

DIFFERENT = 1


@app.command()
def plan(
    target: Target = None,
    definition: DefinitionFile = None,
    name: Name = None,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    discard: Discard = None,
    adopt: Adopt = False,
    out: Annotated[
        Path | None,
        Option("--out", "-o", metavar="FILE", help="Keep the plan there, for `drivetrain apply --plan`."),
    ] = None,
    exit_code: Annotated[bool, Option("--exit-code", help="End with 1 when something would change.")] = False,
    as_json: Json = False,
) -> int:
    """Show what apply would change on the target.

    Compares the code with what is deployed, by meaning: steps, parameters, instances, code; schedules and rules; what
    others edited since; what the next execution takes from the cache. Nothing is written there.

    \b
    Examples:
      drivetrain plan retraining -c production.yaml
      drivetrain plan retraining -c production.yaml --out plan.json
      drivetrain plan -d exported.json --name nightly -c production.yaml
    """
    from drivetrain.deploying.plan import lines
    from drivetrain.operations.deployment import look

    refuse_both(target, definition, "plan")
    wanted = look(target, definition, name, config, set_, on=on)
    made = planned(wanted, discard, adopt=adopt)
    if out is not None:
        from drivetrain.base.files import write_text

        write_text(out, made.text())
    if as_json:
        say_json(made.to_json())
    else:
        say("\n".join(lines(made)))
        if (refusal := made.refusal) is not None:
            say(f"\nApply will refuse this. {refusal}")
            if out is not None:
                say(f"{out} is refused, too: plan again with --discard or --adopt, and --out {shlex.quote(str(out))}")
        elif out is not None:
            again = "".join(f" --set {key}=..." for key in wanted.withheld)
            say(f"\nApply it: drivetrain apply --plan {shlex.quote(str(out))}{again}")
            if again:
                say("A plan keeps no secrets, so they are given again.")
    return DIFFERENT if exit_code and not made.is_empty else 0


def planned(wanted: DeploymentRequest, discard: list[str] | None, *, adopt: bool) -> Plan:
    """The plan for what was named, with what its decisions can show."""
    from drivetrain.deploying.plan import Terms

    terms = Terms(discarded=tuple(discard or ()), adopted=adopt, origin=wanted.origin)
    made = wanted.deployer.plan(wanted.wanted, terms)
    if wanted.pipeline is None:
        return made
    from drivetrain.operations.planned_decisions import notes

    more = notes(wanted.pipeline, wanted.folder, wanted.registry, wanted.evidence)
    return made.model_copy(update={"notes": (*made.notes, *more)})
