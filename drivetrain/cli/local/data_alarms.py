"""`drivetrain data alarms`: the open alarms on a group's data and findings in what is served, and answers to them."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import InputError
from drivetrain.base.formatting import count
from drivetrain.cli.declared import Option
from drivetrain.cli.models.registry import NONE_GIVEN, Group, RegistryOptions
from drivetrain.cli.options import Json
from drivetrain.telling.terminal import say, say_json, table

if TYPE_CHECKING:
    from drivetrain.data.history import History
    from drivetrain.decision.served_findings import Finding


def alarms(
    group: Group,
    accept: Annotated[
        list[str] | None, Option("--accept", metavar="COLUMN", help="Its alarm is the new normal; may be repeated.")
    ] = None,
    forget: Annotated[bool, Option("--forget", help="Begin the nights of all columns anew. The records stay.")] = False,
    why: Annotated[str, Option("--why", metavar="TEXT", help="The reason, which is kept.")] = "",
    by: Annotated[str | None, Option("--by", metavar="NAME", help="Who accepts; recorded with the login.")] = None,
    where: RegistryOptions = NONE_GIVEN,
    as_json: Json = False,
) -> None:
    """Show the open alarms on a group's data, or answer some.

    Findings in the data that its approved version served are shown, too. An accepted column's nights begin anew: what
    its alarm told of is the new normal. A column without an answer warns or fails again each night.

    \b
    Examples:
      drivetrain data alarms retraining
      drivetrain data alarms retraining --accept age --why "the form asks for it now"
      drivetrain data alarms retraining --forget --why "another source from today on"
    """
    from drivetrain.decision import data_nights
    from drivetrain.operations.models import login

    registry = where.opened()
    if accept and forget:
        raise InputError("--accept and --forget are two answers. Give one of them.")
    if (accept or forget) and not why:
        raise InputError("an answer needs the reason. Give --why TEXT; it is kept with your name.")
    if why and not (accept or forget):
        raise InputError("--why is the reason of an answer. Give --accept COLUMN or --forget, too.")
    who, today = by or registry.caller or login() or "unknown", datetime.datetime.now(datetime.UTC).date()
    if accept:
        history = data_nights.accept(registry, group, accept, who=who, why=why, day=today)
    elif forget:
        history = data_nights.forget(registry, group, who=who, why=why, day=today)
    else:
        history = data_nights.kept_history(registry, group)
    found = data_nights.open_findings(registry, group)
    if as_json:
        served = [{"kind": each.kind, **each.detail()} for each in found]
        facts = {"nights": len(history), "alarms": history.alarms, "records": history.records, "served": served}
        say_json({"group": group, **facts})
        return
    _tell(group, history, found, accept or ())


def _tell(group: str, history: History, found: Sequence[Finding], accepted: Collection[str]) -> None:
    last = f", the last one of {history.days[-1]}" if history.days else ""
    say(f"{group}: {count(len(history), 'accepted night')}{last}")
    if not history.alarms and not found:
        say("No alarm is open.")
    if history.alarms:
        names = ("column", "since", "nights", "text")
        rows = [tuple(str(each[name]) for name in names) for each in history.alarms]
        say(table(("column", "since", "nights", "alarm"), rows))
    if found:
        served = [(each.kind.removeprefix("Drivetrain ").lower(), each.day, each.why) for each in found]
        say(table(("served", "since", "why"), served))
    alarmed = [str(each["column"]) for each in history.alarms]
    left = [*alarmed, *(name for each in found for name in each.columns if name not in accepted)]
    if left:
        say(f'Accept one: drivetrain data alarms {group} --accept {left[0]} --why "..."')
