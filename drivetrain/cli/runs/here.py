"""`drivetrain runs resume|callback|report|track`: what only runs on this machine have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.cli import home_option, local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Execution, Home, Interrupt, Json, Quiet, Set

SpotDiscount = Annotated[
    float | None,
    Option(metavar="SHARE", help="The discount of spot machines, 0.7 for 70 % off: shows what they saved."),
]
Price = Annotated[
    str | None, Option(metavar="PRICES", help="Prices of a machine and hour instead: on_demand=1.20,spot=0.36.")
]


def add_to(app: App) -> None:
    """Add these commands to those of `drivetrain runs`."""
    for command in (resume, callback, report, track):
        app.command()(command)


def resume(
    execution: Execution = "latest",
    set_: Set = None,
    interrupt: Interrupt = None,
    home: Home = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, Option("--json", help="Print events as JSON lines.")] = False,
) -> int:
    """Go on with a run that was interrupted or failed.

    What is done is not done again.

    With --set the pipeline is compiled anew first: steps that are then different, and what needs them, are done again,
    a training from its checkpoint; rehearsed interruptions end, unless --interrupt asks for others.

    \b
    Examples:
      drivetrain runs resume
      drivetrain runs resume latest --set spot=false
    """
    from drivetrain.cli import options
    from drivetrain.cli.outcome import Terminal, exit_code
    from drivetrain.operations import running

    place = local_home(home)
    terminal = Terminal(place, as_json=as_json, quiet=quiet, home_option=home_option(home))
    interruptions = options.interruptions(interrupt) if interrupt else None
    return exit_code(running.resume(place, execution, terminal, settings=set_ or (), interruptions=interruptions))


def callback(
    token: Annotated[
        str | None, Argument(metavar="TOKEN", help="The question's token; without one, all questions are listed.")
    ] = None,
    output: Annotated[
        list[str] | None, Option("--output", "-o", metavar="NAME=VALUE", help="An output of the step. Repeatable.")
    ] = None,
    fail: Annotated[str | None, Option("--fail", metavar="REASON", help="The step fails, for this reason.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Answer a Callback step that waits, or list those that do.

    \b
    Examples:
      drivetrain runs callback
      drivetrain runs callback h2Xc0pQ9aB --output approved=true
      drivetrain runs callback h2Xc0pQ9aB --fail "the reviewer said no"
    """
    from drivetrain.cli.runs.callbacks import answer, show_waiting

    if token is None:
        show_waiting(local_home(home), output, fail, as_json=as_json)
    else:
        answer(local_home(home), token, output, fail, home_option=home_option(home), as_json=as_json)


def report(
    execution: Execution = "latest",
    open_: Annotated[bool, Option("--open", help="Show it in the browser.")] = False,
    site: Annotated[
        Path | None,
        Option("--site", metavar="FOLDER", help="Write the pages of all runs and models there, with a list."),
    ] = None,
    spot_discount: SpotDiscount = None,
    price: Price = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Write the HTML page of a run anew and print where it is.

    \b
    Examples:
      drivetrain runs report latest --open
      drivetrain runs report --site public
    """
    from drivetrain.cli.runs.interruption_text import read_prices
    from drivetrain.run_store.reader import Ledger
    from drivetrain.telling.content.from_ledger import run_facts, save_page
    from drivetrain.telling.terminal import say, say_json

    prices = read_prices(price, spot_discount)
    if site is not None:
        from drivetrain.cli.runs.site import write

        path = write(site, execution, home)
    else:
        with Ledger(local_home(home)) as ledger:
            path = save_page(ledger.home, run_facts(ledger, execution), prices)
    if as_json:
        say_json({"page": str(path)})
    else:
        say(str(path))
    if open_:
        import webbrowser

        webbrowser.open(path.as_uri())


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
    from drivetrain.run_store.home import saved_options
    from drivetrain.run_store.reader import Ledger
    from drivetrain.telling.terminal import say, say_json
    from drivetrain.trackers.follow import follow
    from drivetrain.trackers.tracker import checked, names

    place = local_home(home)
    with Ledger(place) as ledger:
        id = ledger.execution(execution).id
    trackers = checked(_read(settings)) if settings else saved_options(place.run(id)).get("trackers", {})
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
