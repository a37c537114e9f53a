"""`drivetrain apply`: make what is deployed what the code says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Option
from drivetrain.cli.deployed.deployment import Adopt, DefinitionFile, Discard, Name, Target, Yes, confirm
from drivetrain.cli.options import Config, Json, Set, refuse_both
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.deploying.plan import Plan
    from drivetrain.operations.deployment import DeploymentRequest

app = App()


@app.command()
def apply(
    target: Target = None,
    definition: DefinitionFile = None,
    name: Name = None,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    plan: Annotated[
        Path | None, Option("--plan", metavar="FILE", help="Apply this plan, made by `drivetrain plan --out`.")
    ] = None,
    discard: Discard = None,
    adopt: Adopt = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Deploy a pipeline to its target: code, rules, schedules.

    Refused if the pipeline was edited since the last apply, unless `drivetrain pull` has brought the edits into the
    code or --discard names them; and if it belongs to another project, unless --adopt takes it over. A saved plan is
    refused if the code or the deployed pipeline has changed since. Applying twice changes nothing.

    \b
    Examples:
      drivetrain apply retraining -c production.yaml
      drivetrain apply --plan plan.json
      drivetrain apply retraining --yes --discard steps.train.Arguments
    """
    from drivetrain.cli.deployed.plan import planned
    from drivetrain.deploying.plan import lines
    from drivetrain.operations.deployment import look

    saved = None
    if plan is not None:
        if discard or adopt:
            option = "--discard PLACE" if discard else "--adopt"
            raise UserError(f"{option.split()[0]} belongs to the plan: drivetrain plan {option} --out FILE")
        saved = _read(plan)
        if target is None and definition is None and saved.origin is not None:
            origin = saved.origin
            _check_given_again(origin.withheld, set_ or (), plan)
            target, name, set_ = origin.target, origin.name, [*origin.set, *(set_ or ())]
            on = on or origin.on
            definition = None if origin.definition is None else Path(origin.definition)
            config = config or (None if origin.config is None else Path(origin.config))
    refuse_both(target, definition, "apply")
    wanted = look(target, definition, name, config, set_, on=on)
    made = saved or planned(wanted, discard, adopt=adopt)
    if saved is None:
        if not as_json:
            say("\n".join(lines(made)))
        if (refusal := made.refusal) is not None:
            raise UserError(refusal)
        question = f"Apply this to {wanted.deployer.where}?"
        if not made.is_empty and not confirm(question, yes=yes, instead="Give --yes, or a saved plan: --plan FILE"):
            say("Nothing was changed.")
            return
    _apply(made, wanted, saved=saved is not None, as_json=as_json)


def _read(file: Path) -> Plan:
    from drivetrain.deploying.plan import read_plan

    try:
        content = file.read_bytes()
    except OSError as error:
        raise UserError(f"Plan {file}: {error.strerror}.") from None
    return read_plan(content, str(file))


def _apply(made: Plan, wanted: DeploymentRequest, *, saved: bool, as_json: bool) -> None:
    done = wanted.deployer.apply(wanted.wanted, made, (lambda line: None) if as_json else say)
    if as_json:
        say_json(dict(done.said))
    elif not done.is_empty:
        say(f"Applied: {done.address}" + ("" if done.version is None else f", version {done.version}"))
        say(f"Start it: drivetrain start {wanted.deployer.again(made.pipeline)}")
    elif saved:
        say(f"Nothing to do: pipeline {made.pipeline!r} is what the code says.")


def _check_given_again(withheld: Iterable[str], overrides: Iterable[str], plan: Path) -> None:
    given = {override.partition("=")[0] for override in overrides}
    if lacking := [key for key in withheld if key not in given]:
        again = " ".join(f"--set {key}=..." for key in lacking)
        raise UserError(f"Plan {plan} keeps no secrets. Give again what it was made with: {again}")
