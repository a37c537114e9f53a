"""`drivetrain list`: what can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Option
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.options import Target as On
from drivetrain.telling.terminal import paint, say, say_json, table

app = App()

# A folder with more files than this is not one that somebody keeps pipelines in.
MAX_FILES = 200
MAX_FILE_BYTES = 512 * 1024


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
        from drivetrain.cli.deployed.list_deployed import list_deployed
        from drivetrain.operations.deployment import deployer_of

        return list_deployed(deployer_of("", config, set_, region, on)[0], limit, as_json=as_json)
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
