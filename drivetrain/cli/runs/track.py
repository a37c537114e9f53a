"""`drivetrain runs track`: tell experiment trackers of a run that has ended."""

from __future__ import annotations

from typing import Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.cli import local_home
from drivetrain.cli.declared import Argument
from drivetrain.cli.options import Execution, Home, Json


def track(
    execution: Execution = "latest",
    settings: Annotated[
        list[str] | None,
        Argument(metavar="TRACKER.FIELD=VALUE...", help="Where the tracker is, if not where the run said."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Tell MLflow, W&B or TensorBoard of a run, or the rest of it.

    A run tells its trackers by itself, while it goes on, where local.trackers of its settings names them.

    \b
    Examples:
      drivetrain runs track latest mlflow.uri=http://127.0.0.1:5000
      drivetrain runs track latest wandb.mode=offline wandb.project=shop
    """
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.targets.local.ledger.reader import Ledger
    from drivetrain.targets.local.options import trackers_of
    from drivetrain.trackers.follow import follow
    from drivetrain.trackers.tracker import checked, names

    place = local_home(home)
    with Ledger(place) as ledger:
        id = ledger.execution(execution).id
    trackers = checked(_read(settings)) if settings else trackers_of(place.run(id))
    if not trackers:
        raise UserError(
            f"Run {id} names no tracker. Say where one is, such as mlflow.uri=http://127.0.0.1:5000. Trackers: "
            f"{', '.join(names())}."
        )
    found = {name: follow(place, id, name, given, lambda seconds: True) for name, given in trackers.items()}
    if as_json:
        say_json({name: {"url": told.url, "problem": told.problem or None} for name, told in found.items()})
    else:
        for name, told in found.items():
            say(told.problem or f"{name}: {told.url}")
    return 1 if any(told.problem for told in found.values()) else 0


def _read(given: list[str]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for text in given:
        key, equals, value = text.partition("=")
        name, dot, field = key.partition(".")
        if not (equals and dot and name and field):
            raise UserError(f"{text!r}: give TRACKER.FIELD=VALUE, such as mlflow.uri=http://127.0.0.1:5000.")
        found.setdefault(name, {})[field] = value
    return found
