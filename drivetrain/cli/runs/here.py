"""`drivetrain runs resume|callback|report|track`: what only runs on this machine have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import duration
from drivetrain.cli import home_option, local_home, options
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Execution, Home, Interrupt, Json, Quiet, Set
from drivetrain.telling.terminal import paint, say, say_json, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from drivetrain.run_store.home import Home as Place
    from drivetrain.targets.sagemaker.run.callbacks import Question

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
    from drivetrain.targets.sagemaker.run import callbacks

    place = local_home(home)
    if token is None:
        if output or fail is not None:
            raise UserError(
                "Whose question is answered? Give its token: drivetrain runs callback TOKEN --output NAME=VALUE."
            )
        _show_waiting(place, callbacks.waiting(place), as_json=as_json)
        return
    if output and fail is not None:
        raise UserError("--output and --fail exclude each other: a step succeeds with outputs, or fails for a reason.")
    question = callbacks.answer(place, token, options.pairs("--output", output, "NAME=VALUE"), fail)
    running = place.is_running(question.execution)
    if as_json:
        say_json({"execution": question.execution, "step": question.step, "running": running})
        return
    say(f"{question.step} of {question.execution} {'fails' if fail is not None else 'goes on'}.")
    if not running:
        say(f"Its run does not go on by itself: drivetrain runs resume {question.execution}{home_option(home)}")


def _show_waiting(home: Place, waiting: Sequence[Question], *, as_json: bool) -> None:
    """List the questions that wait for an answer."""
    import json
    import time
    from dataclasses import asdict

    if as_json:
        say_json([asdict(question) for question in waiting])
        return
    if not waiting:
        say("No step waits for an answer.")
        return
    now = time.time()
    rows = [
        [
            question.token,
            question.step,
            question.execution if home.is_running(question.execution) else f"{question.execution} (not running)",
            duration(now - question.asked),
            ", ".join(f"{name} ({kind})" for name, kind in question.outputs.items()) or "none",
            json.dumps(question.body["arguments"], ensure_ascii=False)[:80],
        ]
        for question in waiting
    ]
    say(table(["token", "step", "run", "for", "outputs", "arguments"], rows))
    say(paint("\nAnswer with: drivetrain runs callback TOKEN --output NAME=VALUE, or --fail REASON", "dim"))


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

    prices = read_prices(price, spot_discount)
    if site is not None:
        from drivetrain.operations.models import opened
        from drivetrain.operations.site import write_site

        if execution != "latest":
            raise UserError(f"--site is of all runs, {execution} is one. Give one of the two.")
        registry = opened(None, home)
        groups = {group.name: registry.versions(group.name) for group in registry.groups()}
        write_site(local_home(home), groups, site)
        path = (site / "index.html").absolute()
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
