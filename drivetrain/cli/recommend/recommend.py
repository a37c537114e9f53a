"""`drivetrain recommend`: which strategy fits a recipe on given machines, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Json, Set

app = App()


@app.command()
def recommend(
    target: Annotated[
        str | None,
        Argument(metavar="PIPELINE", help="Take recipe, batch and machines from this pipeline's training steps."),
    ] = None,
    recipe: Annotated[
        str | None, Option("--recipe", metavar="NAME", help="A recipe of the package, or a module of your own.")
    ] = None,
    recipe_options: Annotated[
        str | None, Option("--recipe-options", metavar="JSON", help="The recipe's options  [default: {}]")
    ] = None,
    instance: Annotated[
        list[str] | None,
        Option(
            "--instance",
            metavar="TYPE",
            help="An instance type, or `local` (this machine). Repeatable.  [default: local]",
        ),
    ] = None,
    hosts: Annotated[int | None, Option("--hosts", min=1, metavar="N", help="Hosts  [default: 1]")] = None,
    processes: Annotated[
        int | None, Option("--processes", min=1, metavar="N", help="Processes a host  [default: one a GPU]")
    ] = None,
    global_batch: Annotated[
        int | None, Option("--global-batch", min=1, metavar="N", help="Samples a step  [default: 32]")
    ] = None,
    precision: Annotated[
        str | None, Option("--precision", metavar="NAME", help="fp32, tf32, bf16, fp16, fp64  [default: fp32]")
    ] = None,
    accumulation: Annotated[
        int | None, Option("--accumulation", min=1, metavar="N", help="Pieces of a batch  [default: 1]")
    ] = None,
    activation_checkpointing: Annotated[
        bool | None, Option("--activation-checkpointing", help="Recompute activations in the backward pass.")
    ] = None,
    write: Annotated[
        bool, Option("--write", help="Measure, and keep the facts beside the pipeline or in this folder.")
    ] = False,
    write_speed: Annotated[
        Path | None,
        Option("--write-speed", metavar="DIR", help="With --write: also measure this folder's disk."),
    ] = None,
    config: Config = None,
    set_: Set = None,
    as_json: Json = False,
) -> int:
    """Recommend a strategy for a recipe on given machines.

    For each strategy: memory a GPU, bytes sent a step and how long they take, whether it fits; then the choice with its
    reason. All numbers are estimates. With --write the recipe is measured into NAME.facts.json, from which a pipeline
    with `strategy: auto` takes its choice when it is compiled.

    \b
    Examples:
      drivetrain recommend --recipe digits_cnn --instance ml.g5.12xlarge
      drivetrain recommend --recipe faces --recipe-options '{"width": 9}' --write
      drivetrain recommend retraining --set epochs=20
    """
    from drivetrain.cli.recommend.cases import Wanted, recommendations, write_facts
    from drivetrain.cli.recommend.table import say_recommendations

    wanted = Wanted(
        target=target,
        recipe=recipe,
        recipe_options=recipe_options,
        instances=tuple(instance or ()),
        hosts=hosts,
        processes=processes,
        global_batch=global_batch,
        precision=precision,
        accumulation=accumulation,
        activation_checkpointing=activation_checkpointing,
    )
    cases = wanted.cases(config, set_)
    if write or write_speed is not None:
        for path in write_facts(cases, write_speed):
            print(f"Wrote {path}.", file=sys.stderr)
    found = recommendations(cases)
    say_recommendations(found, as_json=as_json)
    return 0 if all(made.choice for _, made in found) else 1
