"""`drivetrain evaluations`: what an evaluation found, from its folder or from a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Home, Json
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.telling.content.decision import DecisionFacts
    from drivetrain.telling.content.evaluation import EvaluationFacts

app = App(help="Look at what evaluations found and what was decided.")


@app.command()
def show(
    what: Annotated[
        str, Argument(metavar="WHAT", help="A folder that evaluate or compare wrote, a run's id, or `latest`.")
    ] = "latest",
    html: Annotated[Path | None, Option("--html", metavar="FILE", help="Write the page of it instead.")] = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Show metrics with their intervals, slices, and the decision.

    \b
    Examples:
      drivetrain evaluations show
      drivetrain evaluations show build/report --html evaluation.html
    """
    title, found, decided = _read(what, home)
    if html is not None:
        _write(html, title, found, decided)
        return
    if as_json:
        from drivetrain.cli.runs.evaluation_text import as_json as measured_json

        say_json(
            {
                "evaluations": [measured_json(one) for one in found],
                "decisions": [measured_json(one) for one in decided],
            }
        )
        return
    from drivetrain.cli.runs.evaluation_text import decision_lines, evaluation_text

    blocks = ["\n".join(decision_lines(one)) for one in decided]
    for one in found:
        name = f"{one.step}\n" if len(found) > 1 else ""
        blocks.append(name + evaluation_text(one))
    say("\n\n".join(blocks))


def _read(what: str, home: Path | None) -> tuple[str, tuple[EvaluationFacts, ...], tuple[DecisionFacts, ...]]:
    """A title, and what lies there.

    Raises:
        UserError: nothing does.
    """
    folder = Path(what)
    if folder.is_dir() or "/" in what or folder.is_file():
        return _of_folder(folder)
    from drivetrain.run_store.reader import Ledger
    from drivetrain.telling.content.from_ledger import run_facts

    with Ledger(local_home(home)) as ledger:
        run = run_facts(ledger, what)
    if not run.evaluations and not run.decisions:
        raise UserError(f"run {run.id} of {run.pipeline} has no evaluation: no step wrote an evaluation.json.")
    return f"{run.pipeline} {run.id}", run.evaluations, run.decisions


def _of_folder(folder: Path) -> tuple[str, tuple[EvaluationFacts, ...], tuple[DecisionFacts, ...]]:
    from drivetrain.telling.content.decision import DECISION_FILE, read_decision
    from drivetrain.telling.content.evaluation import EVALUATION_FILE, read_evaluation

    if folder.name in (EVALUATION_FILE, DECISION_FILE):
        folder = folder.parent
    # The outputs of a component lie beside each other: build/report, build/decision.
    places = [place for place in (folder, folder / "report", folder / "decision") if place.is_dir()]
    found = tuple(one for place in places for one in [read_evaluation(place.name, place)] if one is not None)
    decided = tuple(one for place in places for one in [read_decision("", place)] if one is not None)
    if not found and not decided:
        raise UserError(
            f"{folder} has no {EVALUATION_FILE} nor {DECISION_FILE} of ours. Give the output `report` of evaluate, or "
            "`decision` of compare."
        )
    for one in (*found, *decided):
        if one.problem:
            raise UserError(f"{folder}: {one.problem}.")
    return f"Evaluation of {folder.resolve().name}", found, decided


def _write(html: Path, title: str, found: tuple[EvaluationFacts, ...], decided: tuple[DecisionFacts, ...]) -> None:
    import time

    from drivetrain.cli.runs.compare import write_page
    from drivetrain.telling.page.evaluation_section import evaluation_page

    write_page(evaluation_page(title, found, decided, written=time.time()), html)
    say(f"Wrote {html}.")
