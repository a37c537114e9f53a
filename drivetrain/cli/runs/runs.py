"""`drivetrain runs`: what was run on this machine or, with `--on`, where a pipeline is deployed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.cli import home_option, local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Execution, Home, Json, JsonLines, On, OnConfig, OnPipeline, OnSet, Region
from drivetrain.cli.runs import here, organise
from drivetrain.cli.runs.here import Price, SpotDiscount
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.targets.deployer import Deployer

app = App(help="List, show, compare, stop and resume runs, here or deployed.")


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """The options that name a deployed pipeline, whose runs are asked for."""

    on: On = None
    pipeline: OnPipeline = None
    config: OnConfig = None
    set_: OnSet = None
    region: Region = None

    def deployed(self, local: Mapping[str, Any], *, lists: bool = False) -> tuple[Deployer, str] | None:
        """The deployer of the pipeline, and its name; None for runs on this machine.

        Args:
            local: the options that only runs on this machine have, with what was given.
            lists: the command lists runs, those on this machine by their pipeline, too; others name one by its id.

        Raises:
            UserError: options that do not go together, no pipeline, or nothing says where it is.
        """
        asked = _given({"--on": self.on, "--config": self.config, "--set": self.set_, "--region": self.region})
        if asked is None:
            if self.pipeline is not None and not lists:
                raise UserError(
                    f"-p {self.pipeline} is of a deployed pipeline. Say where: --on TARGET, -c FILE or --region "
                    f"REGION. A run on this machine has an id: drivetrain runs list -p {self.pipeline}"
                )
            return None
        if local_only := _given(local):
            raise UserError(
                f"{local_only} is for runs on this machine, {asked} for deployed ones. Leave one of them out."
            )
        if self.on == "local":
            raise UserError("--on local: runs on this machine are those without --on. Leave it out.")
        if self.pipeline is None:
            raise UserError(
                f"{asked}: no pipeline is given. Give -p PIPELINE: the name of a deployed one, or FILE.py[:FUNCTION]."
            )
        from drivetrain.operations.deployment import deployer_of

        return deployer_of(self.pipeline, self.config, self.set_, self.region, self.on)


HERE = Elsewhere()


def _given(options: Mapping[str, Any]) -> str | None:
    """The first option that is given."""
    return next((option for option, value in options.items() if value is not None and value is not False), None)


@app.command(name="list")
def list_(
    pipeline: Annotated[
        str | None,
        Option(
            "--pipeline", "-p", metavar="PIPELINE", help="Only its runs; a deployed pipeline may be given as FILE.py."
        ),
    ] = None,
    limit: Annotated[
        int, Option("--limit", "-n", min=1, max=1_000_000, metavar="N", help="How many, the newest first.")
    ] = 20,
    where: Annotated[
        str | None,
        Option("--where", "-w", metavar="CONDITION", help='Only runs it holds for: "accuracy > 0.98".'),
    ] = None,
    sort: Annotated[
        str | None, Option("--sort", metavar="NAME", help="Sort by this value; -NAME puts the greatest first.")
    ] = None,
    home: Home = None,
    on: On = None,
    config: OnConfig = None,
    set_: OnSet = None,
    region: Region = None,
    as_json: Json = False,
) -> None:
    """List runs, the newest first.

    With --on, -c, --set or --region they are the runs of a deployed pipeline, which -p names.

    A condition compares metrics, settings, parameters, tag.NAME, and id, pipeline, status, started, ended, seconds,
    name, note by = != < <= > >= and ~ (contains), joined with and, or, not and parentheses.

    \b
    Examples:
      drivetrain runs list -w "accuracy > 0.98 and tag.team = vision"
      drivetrain runs list -w "status = failed" --sort -accuracy --json
      drivetrain runs list --on sagemaker -p retraining -c production.yaml
    """
    elsewhere = Elsewhere(on=on, pipeline=pipeline, config=config, set_=set_, region=region)
    local = {"--where": where, "--sort": sort, "--home": home}
    if deployed := elsewhere.deployed(local, lists=True):
        from drivetrain.cli.runs import deployed as deployed_runs

        return deployed_runs.print_list(*deployed, limit, as_json=as_json)
    from drivetrain.cli.outcome import listed, listed_json
    from drivetrain.operations.concluding import enter_missing
    from drivetrain.run_store.home import why_not_resumed
    from drivetrain.run_store.reader import Ledger
    from drivetrain.run_store.run_values import values_of
    from drivetrain.run_store.search import FIELDS, search

    place = local_home(home)
    if where is not None or sort is not None or as_json:
        enter_missing(place)
    with Ledger(place) as ledger:
        rows = search(ledger, where=where, sort=sort, pipeline=pipeline, limit=limit).rows
        values = values_of(ledger, [row.id for row in rows])
    if as_json:
        say_json([listed_json(row, values[row.id]) for row in rows])
        if home is not None and not place.root.exists():
            print(f"note: {place.nothing_run()}", file=sys.stderr)
    elif rows:
        from drivetrain.run_store.where import names_in

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
        bool, Option("--events", help="Show its changes of status instead, as EventBridge events.")
    ] = False,
    follow: Annotated[bool, Option("--follow", "-f", help="Show how it goes, until it ends.")] = False,
    spot_discount: SpotDiscount = None,
    price: Price = None,
    home: Home = None,
    elsewhere: Elsewhere = HERE,
    as_json: Json = False,
) -> int:
    """Show how a run went: steps, interruptions, numbers, model.

    With --on, -c, --set or --region it is a run of a deployed pipeline, which -p names: time and, where known, cost of
    its steps, and what spot machines saved.

    \b
    Examples:
      drivetrain runs show
      drivetrain runs show latest --json
      drivetrain runs show latest --events --json
      drivetrain runs show latest --spot-discount 0.7
      drivetrain runs show --on sagemaker -p retraining --follow
    """
    local = {"--events": events, "--spot-discount": spot_discount, "--price": price, "--home": home}
    if deployed := elsewhere.deployed(local):
        from drivetrain.cli.runs import deployed as deployed_runs

        return deployed_runs.show(*deployed, execution, follow=follow, as_json=as_json)
    if follow:
        from drivetrain.cli.runs.following import follow as follow_run

        if other := _given({"--events": events, "--spot-discount": spot_discount, "--price": price}):
            raise UserError(f"--follow and {other} do not go together. Give one of them.")
        return follow_run(local_home(home), execution, as_json=as_json, home_option=home_option(home))
    if events:
        from drivetrain.cli.runs.following import show_events

        show_events(local_home(home), execution, as_json=as_json)
        return 0
    from drivetrain.cli import outcome
    from drivetrain.cli.runs.failure import failure_block
    from drivetrain.cli.runs.interruption_text import read_prices
    from drivetrain.run_store.reader import Ledger
    from drivetrain.telling.content.from_ledger import REPORT_FILE, run_facts

    prices = read_prices(price, spot_discount)
    with Ledger(local_home(home)) as ledger:
        facts = run_facts(ledger, execution)
        report = ledger.home.run(facts.id) / REPORT_FILE
    if as_json:
        say_json(outcome.as_json(facts, prices))
        return 0
    shown = report if report.exists() else None
    say(outcome.summary(facts, shown, home_option=home_option(home), prices=prices))
    for step in facts.failures():
        say("\n" + failure_block(ledger.home, facts.id, step))
    return 0


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
    elsewhere: Elsewhere = HERE,
    as_json: Json = False,
) -> None:
    """Compare runs: settings that differ, metrics, data and code. Without any: the last two.

    Differences of metrics have intervals where the runs evaluated on the same test set.

    With --on, -c, --set or --region they are runs of a deployed pipeline, which -p names: time and, where known, cost.

    \b
    Examples:
      drivetrain runs compare
      drivetrain runs compare latest 1ee52c
      drivetrain runs compare latest 1ee52c 78767a --output compared.html
      drivetrain runs compare --on sagemaker -p retraining -c production.yaml
    """
    chosen = executions or ["latest~1", "latest"]
    if deployed := elsewhere.deployed({"--output": output, "--home": home}):
        from drivetrain.cli.runs import deployed as deployed_runs

        return deployed_runs.compare(*deployed, chosen, as_json=as_json)
    from drivetrain.cli.runs import compare as comparing
    from drivetrain.telling.content.comparison import compare as compared

    found = compared(local_home(home), chosen)
    if output is not None:
        from drivetrain.telling.page.comparison_page import comparison_page

        comparing.write_page(comparison_page(found), output)
    if as_json:
        say_json({**comparing.as_json(found), **({} if output is None else {"page": str(output)})})
    elif output is not None:
        say(f"Wrote {output}.")
    else:
        say(comparing.comparison_text(found))


def _steps(incomplete: str, given: Mapping[str, Any]) -> list[str]:
    """Names of the steps of a run here that begin so; none where there is no such run."""
    from drivetrain.run_store.reader import Ledger

    try:
        with Ledger(local_home(None)) as ledger:
            rows = ledger.steps(ledger.execution(given["execution"]).id)
    except UserError:
        return []
    return [row.name for row in rows if row.name.startswith(incomplete)]


@app.command()
def logs(
    execution: Execution = "latest",
    step: Annotated[
        str | None,
        Argument(metavar="STEP", help="A step; the failed, running or last one unless given.", complete=_steps),
    ] = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Follow the log until the step ends.")] = False,
    attempt: Annotated[
        int | None, Option("--attempt", min=1, metavar="N", help="Which attempt; the last unless given.")
    ] = None,
    lines: Annotated[int | None, Option("--lines", "-n", min=0, metavar="N", help="Only the last lines.")] = None,
    home: Home = None,
    elsewhere: Elsewhere = HERE,
    as_json: JsonLines = False,
) -> None:
    """Print the log of a step.

    With --on, -c, --set or --region it is of a run of a deployed pipeline, which -p names.

    \b
    Examples:
      drivetrain runs logs latest train -f
      drivetrain runs logs latest evaluate -n 50
      drivetrain runs logs latest train --on kubeflow -p retraining -f
    """
    if deployed := elsewhere.deployed({"--attempt": attempt, "--home": home}):
        from drivetrain.cli.runs import deployed as deployed_runs

        return deployed_runs.print_log(*deployed, execution, step, follow=follow, num_lines=lines, as_json=as_json)
    from drivetrain.cli.runs.logs import print_logs
    from drivetrain.run_store.reader import Ledger

    with Ledger(local_home(home)) as ledger:
        print_logs(ledger, execution, step, attempt=attempt, follow=follow, num_lines=lines, as_json=as_json)


@app.command()
def stop(
    execution: Execution = "latest",
    home: Home = None,
    elsewhere: Elsewhere = HERE,
    as_json: Json = False,
) -> None:
    """Stop a run; a training saves a checkpoint first.

    The process of a run on this machine does what it does at Ctrl-C: it asks the steps to end and, asked again, ends
    them at once. `drivetrain runs resume` goes on with the run.

    With --on, -c, --set or --region it is a run of a deployed pipeline, which -p names.

    \b
    Examples:
      drivetrain runs stop
      drivetrain runs stop latest --on sagemaker -p retraining -c production.yaml
    """
    from drivetrain.run_store.stopping import stop as stop_run

    if deployed := elsewhere.deployed({"--home": home}):
        deployer, name = deployed
        handle = deployer.find(name, execution)
        deployer.stop(handle)
        said, again = handle.to_json(), deployer.about_runs("show", name, handle.id) + " --follow"
    else:
        id = stop_run(local_home(home), execution)
        said, again = {"execution": id}, f"drivetrain runs show {id} --follow{home_option(home)}"
    if as_json:
        say_json(said)
    else:
        say(f"Stopping {said['execution']}. See how it ends: {again}")


here.add_to(app)
organise.add_to(app)
