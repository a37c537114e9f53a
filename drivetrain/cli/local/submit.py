"""`drivetrain submit`: one job, without writing a pipeline."""

from __future__ import annotations

from typing import Annotated, Any

import click

from drivetrain.cli.declared import App, Option
from drivetrain.cli.local.job import Job
from drivetrain.cli.options import Home

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
    job: Job,
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
    from drivetrain.cli.local.submitted import run_here

    return run_here(job, home=home, as_json=as_json)
