"""`drivetrain list`: what can be run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import SIGNS, cells, moment, status_word
from drivetrain.cli.declared import App, Option
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import paint, say, say_json, table, width

if TYPE_CHECKING:
    from drivetrain.deploying.runs import Listed
    from drivetrain.targets.deployer import Deployer

app = App()

# A folder with more files than this is not a folder of pipelines.
MAX_FILES = 200
MAX_FILE_BYTES = 512 * 1024
# The state of a pipeline -> the style of the status that it is like.
_STATE_STYLES = {"as applied": "Succeeded", "edited": "Interrupted", "being applied": "Executing"}


@app.command(name="list")
def list_(
    deployed: Annotated[
        bool, Option("--deployed", help="List deployed pipelines, with their last executions.")
    ] = False,
    region: Annotated[
        str | None, Option("--region", metavar="REGION", help="With --deployed: the region  [default: AWS_REGION]")
    ] = None,
    limit: Annotated[
        int, Option("--limit", "-n", min=1, max=10_000, metavar="N", help="With --deployed: how many.")
    ] = 50,
    on: On = None,
    config: Config = None,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """List the pipelines that can be run, or are deployed.

    They are those of the package, and those in the .py files of the current folder; with --deployed those in the
    account or namespace, each with its last execution, and whether it is what apply wrote or others edited it since.

    \b
    Examples:
      drivetrain list
      drivetrain list --deployed --region eu-west-1
      drivetrain list --deployed -c production.yaml
    """
    if deployed:
        from drivetrain.operations.deployment import deployer_of

        return _list_deployed(deployer_of("", config, set_, region, on)[0], limit, as_json=as_json)
    for option, value in {"--region": region, "--target": on, "--config": config, "--set": set_}.items():
        if value:
            raise UserError(f"{option} is of the deployed pipelines. Give --deployed, too.")
    from drivetrain.authoring.ready import ready_pipelines

    ready, own = ready_pipelines(), own_pipelines(Path.cwd())
    if as_json:
        say_json(
            [{"pipeline": name, "description": text, "kind": "ready"} for name, text in ready.items()]
            + [{"pipeline": name, "description": text, "kind": "file"} for name, text in own.items()]
        )
        return
    rows = [[name, text] for name, text in {**ready, **own}.items()]
    say(table(("pipeline", "what it does"), rows, styles=[("bold", "")] * len(rows)))
    say()
    say(paint("Run one: drivetrain run NAME. Its steps: drivetrain show NAME.", "dim"))
    say(paint("Those that are deployed: drivetrain list --deployed, with the -c of their settings", "dim"))


def own_pipelines(folder: Path) -> dict[str, str]:
    """`file.py` (or `file.py:function`, where there are several) -> one line about each pipeline in a folder's files.

    The files are read, not imported: a function counts that is annotated `-> Pipeline`.
    """
    import ast

    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.py"))[:MAX_FILES]:
        try:
            if path.stat().st_size > MAX_FILE_BYTES:
                continue
            text = path.read_text(encoding="utf-8")
            if "Pipeline" not in text:
                continue
            module = ast.parse(text)
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError):
            continue  # `run` says what is wrong with it; a list goes on
        functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and _makes_pipeline(node)]
        for function in functions:
            name = path.name if len(functions) == 1 else f"{path.name}:{function.name}"
            about = ast.get_docstring(function) or (ast.get_docstring(module) if len(functions) == 1 else None) or ""
            found[name] = about.partition("\n")[0]
    return found


def _makes_pipeline(function: object) -> bool:
    import ast

    returned = getattr(function, "returns", None)
    if isinstance(returned, ast.Constant):
        return returned.value == "Pipeline"
    return isinstance(returned, ast.Name | ast.Attribute) and ast.unparse(returned).rpartition(".")[2] == "Pipeline"


def _list_deployed(deployer: Deployer, limit: int, *, as_json: bool) -> None:
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
    say(_deployed_table(shown, width()))
    if len(found) > limit:
        say(f"There are more: --limit {2 * limit}")
    states = {each.state for each in shown}
    if hints := [hint for state, hint in deployer.states.items() if state in states]:
        say("\n" + "\n".join(paint(hint, "dim") for hint in hints))


def _deployed_table(pipelines: Sequence[Listed], room: int) -> str:
    """With as many of the times as there is room for: a line that wraps cannot be read."""
    head = ["pipeline", "state", "last execution", "started", "changed"]
    rows = [_deployed_row(each) for each in pipelines]
    styles = [["bold", _STATE_STYLES.get(each.state, "dim"), each.last["status"] if each.last else "dim", "", ""]
              for each in pipelines]  # fmt: skip
    columns = len(head)
    while columns > 3 and _width([head, *rows], columns) > room:
        columns -= 1
    return table(head[:columns], [row[:columns] for row in rows], styles=[style[:columns] for style in styles])


def _width(rows: Sequence[Sequence[str]], columns: int) -> int:
    return sum(max(cells(row[column]) for row in rows) for column in range(columns)) + 2 * (columns - 1)


def _deployed_row(each: Listed) -> list[str]:
    last = each.last
    return [
        each.name,
        each.state,
        "none" if last is None else f"{SIGNS.get(last['status'], '•')} {status_word(last['status'])}",
        "" if last is None else moment(last["started"]),
        moment(each.modified),
    ]
