"""The options of `drivetrain recommend` that name recipes and machines."""

from __future__ import annotations

from typing import Annotated

from drivetrain.base.records import dataclass
from drivetrain.cli.declared import Argument, Option


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Recipes and machines; None is what was not given."""

    target: Annotated[
        str | None,
        Argument(metavar="PIPELINE", help="Take recipe, batch and machines from this pipeline's training steps."),
    ] = None
    recipe: Annotated[
        str | None, Option("--recipe", metavar="NAME", help="A recipe of the package, or a module of your own.")
    ] = None
    recipe_options: Annotated[
        str | None, Option("--recipe-options", metavar="JSON", help="The recipe's options  [default: {}]")
    ] = None
    instance: Annotated[
        list[str] | None,
        Option(
            "--instance",
            metavar="TYPE",
            help="An instance type, or `local` (this machine). Repeatable.  [default: local]",
        ),
    ] = None
    hosts: Annotated[int | None, Option("--hosts", min=1, metavar="N", help="Hosts  [default: 1]")] = None
    processes: Annotated[
        int | None, Option("--processes", min=1, metavar="N", help="Processes a host  [default: one a GPU]")
    ] = None
    global_batch: Annotated[
        int | None, Option("--global-batch", min=1, metavar="N", help="Samples a step  [default: 32]")
    ] = None
    precision: Annotated[
        str | None, Option("--precision", metavar="NAME", help="fp32, tf32, bf16, fp16, fp64  [default: fp32]")
    ] = None
    accumulation: Annotated[
        int | None, Option("--accumulation", min=1, metavar="N", help="Pieces of a batch  [default: 1]")
    ] = None
    activation_checkpointing: Annotated[
        bool | None, Option("--activation-checkpointing", help="Recompute activations in the backward pass.")
    ] = None
    rows: Annotated[
        int | None, Option("--rows", min=1, metavar="N", help="For train_table: rows of the training data")
    ] = None
    columns: Annotated[
        int | None, Option("--columns", min=1, metavar="N", help="For train_table: columns that are learnt from")
    ] = None
    estimator: Annotated[
        str | None, Option("--estimator", metavar="NAME", help="For train_table  [default: xgboost]")
    ] = None


NONE_GIVEN = Wanted()
