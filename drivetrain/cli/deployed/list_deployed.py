"""`drivetrain list --deployed`: what is deployed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from drivetrain.base.formatting import SIGNS, cells, moment, status_word
from drivetrain.telling.terminal import paint, say, say_json, table, width

if TYPE_CHECKING:
    from drivetrain.deploying.listing import Listed
    from drivetrain.targets.deployer import Deployer

# The state of a pipeline -> the style of the status that it is like.
_STYLES = {"as applied": "Succeeded", "edited": "Interrupted", "being applied": "Executing"}


def list_deployed(deployer: Deployer, limit: int, *, as_json: bool) -> None:
    """Print the pipelines that are deployed.

    Raises:
        UserError: the target refuses.
    """
    # One more than is shown, to tell whether there are more.
    found = list(deployer.pipelines(limit + 1))
    shown = found[:limit]
    if as_json:
        say_json([each.to_json() for each in shown])
        return
    if not shown:
        say(f"Nothing is deployed in {deployer.place}. Deploy a pipeline: drivetrain apply NAME -c SETTINGS.yaml")
        return
    say(_table(shown, width()))
    if len(found) > limit:
        say(f"There are more: --limit {2 * limit}")
    states = {each.state for each in shown}
    if hints := [hint for state, hint in deployer.states.items() if state in states]:
        say("\n" + "\n".join(paint(hint, "dim") for hint in hints))


def _table(pipelines: Sequence[Listed], room: int) -> str:
    """With as many of the times as there is room for: a line that breaks is none that can be read."""
    head = ["pipeline", "state", "last execution", "started", "changed"]
    rows = [_row(each) for each in pipelines]
    styles = [["bold", _STYLES.get(each.state, "dim"), each.last["status"] if each.last else "dim", "", ""]
              for each in pipelines]  # fmt: skip
    columns = len(head)
    while columns > 3 and _width([head, *rows], columns) > room:
        columns -= 1
    return table(head[:columns], [row[:columns] for row in rows], styles=[style[:columns] for style in styles])


def _width(rows: Sequence[Sequence[str]], columns: int) -> int:
    return sum(max(cells(row[column]) for row in rows) for column in range(columns)) + 2 * (columns - 1)


def _row(each: Listed) -> list[str]:
    last = each.last
    return [
        each.name,
        each.state,
        "none" if last is None else f"{SIGNS.get(last['status'], '•')} {status_word(last['status'])}",
        "" if last is None else moment(last["started"]),
        moment(each.modified),
    ]
