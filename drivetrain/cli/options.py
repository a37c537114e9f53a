"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from drivetrain.cli.declared import Argument, Option

Home = Annotated[
    Path | None,
    Option("--home", metavar="DIR", help="Folder of runs and models  [default: $DRIVETRAIN_HOME or .drivetrain]"),
]
Json = Annotated[bool, Option("--json", help="Print JSON, for scripts.")]
JsonLines = Annotated[bool, Option("--json", help="Print JSON lines, for scripts.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print the run's id alone; what failed, on stderr.")]
Config = Annotated[Path | None, Option("--config", "-c", metavar="FILE", help="YAML file with settings.")]


def _settings(incomplete: str, given: Mapping[str, Any]) -> list[str]:
    from drivetrain.cli.completion import settings

    return settings(incomplete, given["target"])


Set = Annotated[
    list[str] | None,
    Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Change a setting, such as epochs=20. Repeatable.",
        complete=_settings,
    ),
]


def _targets(incomplete: str, _: Mapping[str, Any]) -> list[str]:
    from drivetrain.targets.target import target_names

    return [name for name in target_names() if name.startswith(incomplete)]


Target = Annotated[
    str | None,
    Option(
        "--target",
        "-t",
        metavar="NAME",
        help="For what: sagemaker, kubeflow, ... (docs/targets.md)  [default: deployment.target of the settings]",
        complete=_targets,
    ),
]
On = Annotated[
    str | None,
    Option(
        "--on",
        metavar="TARGET",
        help="Where a pipeline is deployed: sagemaker, kubeflow, ... Without it, this machine.",
        complete=_targets,
    ),
]
OnPipeline = Annotated[
    str | None,
    Option("--pipeline", "-p", metavar="PIPELINE", help="With --on, whose run: a name, or FILE.py[:FUNCTION]."),
]
OnConfig = Annotated[
    Path | None,
    Option("--config", "-c", metavar="FILE", help="The settings of a deployment; they name its target, too."),
]
OnSet = Annotated[
    list[str] | None,
    Option("--set", "-s", metavar="KEY=VALUE", help="A setting of a deployment. Repeatable."),
]
Region = Annotated[
    str | None,
    Option("--region", metavar="REGION", help="Of AWS  [default: of the settings, or AWS_REGION]"),
]
Interrupt = Annotated[
    list[str] | None,
    Option(
        "--interrupt",
        metavar="STEP@WHEN",
        help="Rehearse the loss of a training's machines: train@step=120, train@poisson=60s,notice=2s. Repeatable.",
    ),
]


def _runs(incomplete: str, _: Mapping[str, Any]) -> list[str]:
    from drivetrain.cli.completion import runs

    return runs(incomplete)


Execution = Annotated[
    str,
    Argument(
        metavar="ID",
        help="A run's id, its name, the beginning of its id, `latest`, or `latest~1` (the one before).",
        show_default=False,
        complete=_runs,
    ),
]
