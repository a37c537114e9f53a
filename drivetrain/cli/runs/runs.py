"""`drivetrain runs`: what was run on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from drivetrain.cli import home_option, local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Execution, Home, Interrupt, Json, JsonLines, Quiet, Set
from drivetrain.cli.runs import organise
from drivetrain.cli.runs.track import track

SpotDiscount = Annotated[
    float | None,
    Option(metavar="SHARE", help="What spot machines cost less, 0.7 for 70 % off: says what they saved."),
]
Price = Annotated[
    str | None, Option(metavar="PRICES", help="on_demand=1.20,spot=0.36 for an hour of a machine, instead.")
]

app = App(help="List, show, compare, resume and remove runs on this machine.")


@app.command(name="list")
def list_(
    pipeline: Annotated[str | None, Option("--pipeline", "-p", metavar="NAME", help="Of this one only.")] = None,
    limit: Annotated[
        int, Option("--limit", "-n", min=1, max=1_000_000, metavar="N", help="How many, the newest first.")
    ] = 20,
    where: Annotated[
        str | None,
        Option("--where", "-w", metavar="CONDITION", help='Only runs it holds for: "accuracy > 0.98".'),
    ] = None,
    sort: Annotated[
        str | None, Option("--sort", metavar="NAME", help="By this value; -NAME for the greatest first.")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """List executions, the newest first.

    A condition compares metrics, settings, parameters, tag.NAME, and id, pipeline, status, started, ended, seconds,
    name, note by = != < <= > >= and ~ (contains), joined with and, or, not and parentheses.

    \b
    Examples:
      drivetrain runs list -w "accuracy > 0.98 and tag.team = vision"
      drivetrain runs list -w "status = failed" --sort -accuracy --json
    """
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.report.content.concluding import enter_missing
    from drivetrain.targets.local.ledger.reader import Ledger
    from drivetrain.targets.local.ledger.run_values import values_of
    from drivetrain.targets.local.options import why_not_resumed
    from drivetrain.targets.local.organising.search import FIELDS, search

    place = local_home(home)
    if where is not None or sort is not None or as_json:
        enter_missing(place)
    with Ledger(place) as ledger:
        rows = search(ledger, where=where, sort=sort, pipeline=pipeline, limit=limit).rows
        values = values_of(ledger, [row.id for row in rows])
    if as_json:
        from drivetrain.cli.runs.outcome import listed_json

        say_json([listed_json(row, values[row.id]) for row in rows])
        if home is not None and not place.root.exists():
            print(f"note: {place.nothing_run()}", file=sys.stderr)
    elif rows:
        from drivetrain.cli.runs.outcome import listed
        from drivetrain.targets.local.organising.where import names_in

        asked = [*names_in(where or ""), *([sort.lstrip("+-")] if sort else [])]
        say(listed(rows, values, [name for name in dict.fromkeys(asked) if name not in FIELDS]))
        interrupted = (row.id for row in rows if row.status == "Interrupted")
        if interrupted := next((id for id in interrupted if not why_not_resumed(place.run(id))), None):
            say(f"\nAn interrupted run goes on: drivetrain runs resume {interrupted}{home_option(home)}")
    elif (where is not None or pipeline is not None) and place.ledger.exists():
        say("No such run.")
    else:
        say(f"{place.nothing_run()} Start with: drivetrain run retraining")


@app.command()
def show(
    execution: Execution = "latest",
    events: Annotated[
        bool, Option("--events", help="Its changes of status instead, as EventBridge tells them.")
    ] = False,
    spot_discount: SpotDiscount = None,
    price: Price = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show how a run went: steps, interruptions, numbers, model.

    \b
    Examples:
      drivetrain runs show
      drivetrain runs show latest --json
      drivetrain runs show latest --events --json
      drivetrain runs show latest --spot-discount 0.7
    """
    if events:
        from drivetrain.cli.runs.status_events import show_events

        show_events(local_home(home), execution, as_json=as_json)
        return
    from drivetrain.cli.runs import outcome
    from drivetrain.cli.runs.failure import failure_block
    from drivetrain.cli.runs.interruption_text import read_prices
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.report.content.from_ledger import REPORT_FILE, run_facts
    from drivetrain.targets.local.ledger.reader import Ledger

    prices = read_prices(price, spot_discount)
    with Ledger(local_home(home)) as ledger:
        facts = run_facts(ledger, execution)
        report = ledger.home.run(facts.id) / REPORT_FILE
    if as_json:
        say_json(outcome.as_json(facts, prices))
        return
    shown = report if report.exists() else None
    say(outcome.summary(facts, shown, home_option=home_option(home), prices=prices))
    for step in facts.failures():
        say("\n" + failure_block(ledger.home, facts.id, step))


@app.command()
def compare(
    executions: Annotated[
        list[str] | None,
        Argument(metavar="ID...", help="Two runs or more: ids, beginnings of ids, names, `latest`, `latest~1`."),
    ] = None,
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE.html", help="Write its page (with --json, too)."),
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Compare runs: settings that differ, metrics, data and code. Without any: the last two.

    Differences of metrics have intervals where the runs evaluated on the same test set.

    \b
    Examples:
      drivetrain runs compare
      drivetrain runs compare latest 1ee52c
      drivetrain runs compare latest 1ee52c 78767a --output compared.html
    """
    from drivetrain.cli.runs import compare as comparing
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.report.content.comparison import compare as compared

    found = compared(local_home(home), executions or ["latest~1", "latest"])
    if output is not None:
        comparing.write_page(found, output)
    if as_json:
        say_json({**comparing.as_json(found), **({} if output is None else {"page": str(output)})})
    elif output is not None:
        say(f"Wrote {output}.")
    else:
        say(comparing.comparison_text(found))


@app.command()
def logs(
    execution: Execution = "latest",
    step: Annotated[
        str | None, Argument(metavar="STEP", help="A step; the failed, running or last one unless given.")
    ] = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on until the step ends.")] = False,
    attempt: Annotated[
        int | None, Option("--attempt", min=1, metavar="N", help="Which try; the last unless given.")
    ] = None,
    lines: Annotated[int | None, Option("--lines", "-n", min=0, metavar="N", help="Only the last lines.")] = None,
    home: Home = None,
    as_json: JsonLines = False,
) -> None:
    """Print the log of a step.

    \b
    Examples:
      drivetrain runs logs latest train -f
      drivetrain runs logs latest evaluate -n 50
    """
    from drivetrain.cli.runs.logs import print_logs
    from drivetrain.targets.local.ledger.reader import Ledger

    with Ledger(local_home(home)) as ledger:
        print_logs(ledger, execution, step, attempt=attempt, follow=follow, num_lines=lines, as_json=as_json)


@app.command()
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
    from drivetrain.cli.local import run_options
    from drivetrain.cli.progress.watch import resume as resume_watched

    return resume_watched(
        local_home(home),
        execution,
        overrides=tuple(set_ or ()),
        interruptions=run_options.interruptions(interrupt) if interrupt else None,
        as_json=as_json,
        quiet=quiet,
        home_option=home_option(home),
    )


@app.command()
def callback(
    token: Annotated[str | None, Argument(metavar="TOKEN", help="Whose question; all are listed without.")] = None,
    output: Annotated[
        list[str] | None, Option("--output", "-o", metavar="NAME=VALUE", help="What the step gives. Repeatable.")
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


@app.command()
def report(
    execution: Execution = "latest",
    open_: Annotated[bool, Option("--open", help="Show it in the browser.")] = False,
    site: Annotated[
        Path | None, Option("--site", metavar="FOLDER", help="The pages of all runs and models, with their list.")
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
    from drivetrain.cli.terminal import say, say_json
    from drivetrain.report.content.from_ledger import run_facts, save_page
    from drivetrain.targets.local.ledger.reader import Ledger

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


organise.add_to(app)
app.command()(track)
