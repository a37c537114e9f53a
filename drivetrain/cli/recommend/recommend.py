"""`drivetrain recommend`: which strategy fits a recipe on given machines, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from drivetrain.cli.declared import App, Option
from drivetrain.cli.options import Config, Json, Set
from drivetrain.cli.recommend.wanted import NONE_GIVEN, Wanted

app = App()


@app.command()
def recommend(
    wanted: Wanted = NONE_GIVEN,
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
    with `strategy: auto` takes its choice when it is compiled. With --rows and --columns: a machine for train_table.

    \b
    Examples:
      drivetrain recommend --recipe digits_cnn --instance ml.g5.12xlarge
      drivetrain recommend --recipe faces --recipe-options '{"width": 9}' --write
      drivetrain recommend retraining --set epochs=20
      drivetrain recommend --rows 5000000 --columns 60 --estimator lightgbm
    """
    if wanted.rows is not None or wanted.columns is not None or wanted.estimator is not None:
        from drivetrain.cli.recommend.tables import recommend_table

        return recommend_table(wanted, as_json=as_json)
    from drivetrain.cli.recommend.cases import cases_of, recommendations, write_facts
    from drivetrain.cli.recommend.table import say_recommendations

    cases = cases_of(wanted, config, set_)
    if write or write_speed is not None:
        for path in write_facts(cases, write_speed):
            print(f"Wrote {path}.", file=sys.stderr)
    found = recommendations(cases)
    say_recommendations(found, as_json=as_json)
    return 0 if all(made.choice for _, made in found) else 1
