"""`drivetrain submit`: one job, without writing a pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import click

from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Home, Interrupt

app = App()


class SubmitCommand(click.Command):
    """Help that is about the component which is named beside `--help`: its usage, and what can be set of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if any(word in ctx.help_option_names for word in args):
            ctx.meta[_WORDS] = [word for word in args if not word.startswith("-")]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        named = None
        if words := ctx.meta.get(_WORDS):
            from drivetrain.cli.local.submitted import component_named

            named = component_named(words)
        if named is None:
            super().format_usage(ctx, formatter)
        else:
            formatter.write_usage(ctx.command_path, f"[OPTIONS] {named} --set NAME=VALUE ...")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        super().format_options(ctx, formatter)
        if words := ctx.meta.get(_WORDS):
            from drivetrain.cli.local.submitted import what_can_be_set

            for title, rows in what_can_be_set(words).items():
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=24)


_WORDS = "drivetrain.submit.words"


@app.command(cls=SubmitCommand)
def submit(
    component: Annotated[
        str,
        Argument(
            metavar="COMPONENT",
            help="A component of the package, such as train, or FILE.py:FUNCTION.",
            show_default=False,
        ),
    ],
    set_: Annotated[
        list[str] | None,
        Option("--set", "-s", metavar="NAME=VALUE", help="An input folder or a parameter. Repeatable."),
    ] = None,
    config: Config = None,
    target: Annotated[Literal["local"], Option("--target", help="Where the job runs.")] = "local",
    instance: Annotated[
        str, Option("--instance", metavar="TYPE", help="The instance type that the job is for.")
    ] = "ml.m5.xlarge",
    hosts: Annotated[int, Option("--hosts", min=1, metavar="N", help="Hosts.")] = 1,
    processes: Annotated[
        int | None, Option("--processes", min=1, metavar="N", help="Processes a host  [default: one a GPU]")
    ] = None,
    source: Annotated[
        Path | None,
        Option(
            "--source",
            metavar="DIR",
            help="Folder whose Python files go along  [default: this one, where your script or recipe lies in it]",
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        Option(
            "--env",
            metavar="NAME=VALUE",
            help="A variable of the job, such as DRIVETRAIN_MAX_RESTARTS=2. Repeatable.",
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        Option("--data", metavar="S3URI=PATH", help="A file or folder here that stands for this URI."),
    ] = None,
    interrupt: Interrupt = None,
    out: Annotated[
        Path | None,
        Option("--out", metavar="DIR", help="Copy the outputs there too, each into a folder of its name."),
    ] = None,
    fresh: Annotated[bool, Option("--fresh", help="Use nothing of earlier runs: no result, no checkpoint.")] = False,
    no_cache: Annotated[bool, Option("--no-cache", help="Run it, even where it has run before.")] = False,
    home: Home = None,
    as_json: Annotated[bool, Option("--json", help="Print events as JSON lines, for scripts.")] = False,
) -> int:
    """Run one component as a job, without writing a pipeline.

    It is a pipeline of one step: the same progress, ledger, report and cache as with `drivetrain run`. Inputs are paths
    or s3:// URIs; `drivetrain submit train --help` lists what can be set of `train`.

    \b
    Examples:
      drivetrain submit prepare-data --set raw=example:digits --set key=id \\
          --set label=label --out build
      drivetrain submit train --set train=build/train --set recipe=digits_cnn
      drivetrain submit train -c docs/recipes/mnist_cnn.yaml --set train=mnist
      drivetrain submit train --set train=build/train --interrupt step=120
      drivetrain submit train --set train=faces/ --set recipe=faces --source .
    """
    from drivetrain.cli import options
    from drivetrain.cli.local.submitted import Job, run_here

    job = Job(
        component=component,
        given=tuple(set_ or ()),
        config=config,
        instance=instance,
        hosts=hosts,
        processes=processes,
        source=source,
        data=options.data(data),
        environment=tuple(env or ()),
    )
    assert target == "local"
    interruptions = options.interruptions(interrupt)
    return run_here(
        job, home=home, fresh=fresh, cache=not no_cache, as_json=as_json, out=out, interruptions=interruptions
    )
