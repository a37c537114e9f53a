"""`drivetrain show`: the DAG as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import status_word
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Home, Json, Set
from drivetrain.telling.terminal import paint, say, say_json, table, width

if TYPE_CHECKING:
    from drivetrain.telling.dag import Dag

app = App()


@app.command()
def show(
    target: Annotated[
        str,
        Argument(
            metavar="WHAT", help="A pipeline's name, FILE.py[:FUNCTION], a definition FILE.json, a run's id, `latest`."
        ),
    ],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write FILE.svg or FILE.html instead.")
    ] = None,
    config: Config = None,
    set_: Set = None,
    home: Home = None,
    as_json: Json = False,
) -> None:
    """Draw a pipeline, a definition or a run.

    The picture has its steps and what waits for what; of a run, also how each step went.

    \b
    Examples:
      drivetrain show retraining
      drivetrain show definition.json -o dag.svg
      drivetrain show latest
    """
    title, dag = _read(target, config, set_, home)
    if output is not None:
        _write(title, dag, output)
    elif as_json:
        say_json(_as_json(title, dag))
    else:
        say(in_terminal(dag))


def _read(target: str, config: Path | None, set_: list[str] | None, home: Path | None) -> tuple[str, Dag]:
    """The title and the DAG of whatever `target` names."""
    from drivetrain.operations.operands import compiled, definition_file, is_pipeline

    if target.endswith(".json"):
        from drivetrain.telling.content.from_definition import dag_of

        return Path(target).stem, dag_of(definition_file(Path(target)))
    if is_pipeline(target):
        from drivetrain.targets.sagemaker.document.document import read
        from drivetrain.telling.content.from_definition import dag_of

        built = compiled(target, config, set_, local=True)
        return built.pipeline.name, dag_of(read(built.text, target))
    from drivetrain.authoring.ready import ready_pipelines
    from drivetrain.run_store.reader import Ledger
    from drivetrain.telling.content.from_ledger import run_facts

    with Ledger(local_home(home)) as ledger:
        try:
            run = run_facts(ledger, target)
        except UserError as error:
            raise UserError(f"{error} It is no pipeline ({', '.join(ready_pipelines())}) nor a file, either.") from None
    return f"{run.pipeline} {run.id}", run.dag


def in_terminal(dag: Dag) -> str:
    """Boxes and lines where they fit, else a list."""
    from drivetrain.telling.dag.text_picture import draw

    drawn = draw(dag, width=min(width(), 200), paint=paint)
    if drawn is not None:
        return drawn or "no steps"
    before: dict[str, list[str]] = {node.name: [] for node in dag.nodes}
    for edge in dag.edges:
        if not edge.implied:
            before[edge.target].append(edge.source + (f" ({edge.label})" if edge.label else ""))
    rows = [[node.name, node.type, status_word(node.status), ", ".join(before[node.name])] for node in dag.nodes]
    styles = [["bold", "", node.status or "", "dim"] for node in dag.nodes]
    return table(("step", "type", "status", "after"), rows, styles=styles)


def _write(title: str, dag: Dag, output: Path) -> None:
    from drivetrain.base.files import write_text
    from drivetrain.telling.dag.picture import MAX_NODES, dag_page, dag_svg

    if len(dag.nodes) > MAX_NODES:
        raise UserError(f"{len(dag.nodes):,} steps are too many for one picture (at most {MAX_NODES:,}). Use --json.")
    if output.suffix == ".svg":
        write_text(output, dag_svg(dag, title=title, standalone=True) + "\n")
    elif output.suffix in (".html", ".htm"):
        write_text(output, dag_page(dag, title=title))
    else:
        raise UserError(f"{output}: a picture is written as .svg or .html.")
    say(f"Wrote {output}: {len(dag.nodes)} steps.")


def _as_json(title: str, dag: Dag) -> dict[str, object]:
    return {
        "title": title,
        "steps": [
            {"name": node.name, "type": node.type, "display_name": node.title or node.name, "status": node.status}
            for node in dag.nodes
        ],
        "edges": [
            {"from": edge.source, "to": edge.target, "label": edge.label or None, "carries": edge.carries or None}
            for edge in dag.edges
        ],
    }
