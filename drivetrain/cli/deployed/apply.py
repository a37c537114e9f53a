"""`drivetrain apply`: make the account what the code says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drivetrain.base.errors import UserError
from drivetrain.cli.deployed.deployment import DefinitionFile, Discard, Name, Target, Yes
from drivetrain.cli.groups import new_app
from drivetrain.cli.options import Config, Json, Set

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.deploy.applying.applying import Applied
    from drivetrain.targets.sagemaker.deploy.planning.planning import DeploymentPlan

app = new_app()


@app.command()
def apply(
    target: Target = None,
    definition: DefinitionFile = None,
    name: Name = None,
    config: Config = None,
    set_: Set = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Apply this plan, made by `drivetrain plan --out`.")
    ] = None,
    discard: Discard = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Deploy a pipeline to SageMaker: code, rules, schedules.

    Refused when somebody edited the pipeline since the last apply, unless `drivetrain pull` has brought the edits into
    the code or --discard names them; and a saved plan is refused when code or account have changed since. Applying
    twice changes nothing.

    \b
    Examples:
      drivetrain apply retraining -c production.yaml
      drivetrain apply --plan plan.json
      drivetrain apply retraining --yes --discard steps.train.Arguments
    """
    from drivetrain.cli.deployed.deployment import confirm, look
    from drivetrain.cli.deployed.plan import in_words, planned
    from drivetrain.cli.terminal import say
    from drivetrain.targets.sagemaker.deploy.applying.applying import apply as write

    saved = None
    if plan is not None:
        if discard:
            raise UserError("--discard belongs to the plan: drivetrain plan --discard PLACE --out FILE")
        saved = _read(plan)
        if target is None and definition is None and saved.origin is not None:
            origin = saved.origin
            _check_given_again(origin.get("withheld", ()), set_ or (), plan)
            target, name, set_ = origin["target"], origin["name"], [*origin["set"], *(set_ or ())]
            definition = None if origin["definition"] is None else Path(origin["definition"])
            config = config or (None if origin["config"] is None else Path(origin["config"]))
    wanted = look(target, definition, name, config, set_, command="apply")
    made = saved or planned(wanted, discard)
    if saved is None:
        if not as_json:
            say("\n".join(in_words(made, wanted)))
        if (refusal := made.refusal()) is not None:
            raise UserError(refusal)
        question = f"Apply this to account {made.account}, {made.region}?"
        if not made.is_empty and not confirm(question, yes=yes, instead="Give --yes, or a saved plan: --plan FILE"):
            say("Nothing was changed.")
            return
    done = write(wanted.account, wanted.desired, made, tell=(lambda line: None) if as_json else say)
    _report(made, done, wanted.desired.sha256, saved=saved is not None, as_json=as_json)


def _read(file: Path) -> DeploymentPlan:
    from drivetrain.targets.sagemaker.deploy.planning.plan_files import read_plan

    try:
        return read_plan(file.read_bytes(), str(file))
    except OSError as error:
        raise UserError(f"Plan {file}: {error.strerror}.") from None


def _report(made: DeploymentPlan, done: Applied, sha256: str, *, saved: bool, as_json: bool) -> None:
    from drivetrain.cli.terminal import say, say_json

    if as_json:
        say_json(
            {
                "pipeline": made.pipeline,
                "arn": done.arn,
                "action": "none" if done.is_empty else made.action,
                "version": done.version,
                "definition_sha256": sha256,
                "done": done.done,
            }
        )
    elif not done.is_empty:
        say(f"Applied: {done.arn}" + ("" if done.version is None else f", version {done.version}"))
        say(f"Start it: drivetrain start {made.pipeline} --region {made.region}")
    elif saved:
        say(f"Nothing to do: pipeline {made.pipeline!r} is what the code says.")


def _check_given_again(withheld: Iterable[str], overrides: Iterable[str], plan: Path) -> None:
    given = {override.partition("=")[0] for override in overrides}
    if lacking := [key for key in withheld if key not in given]:
        again = " ".join(f"--set {key}=..." for key in lacking)
        raise UserError(f"Plan {plan} keeps no secrets. Give again what it was made with: {again}")
