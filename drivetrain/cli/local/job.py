"""The options of `drivetrain submit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from drivetrain.base.records import dataclass
from drivetrain.cli.declared import Argument, Option
from drivetrain.cli.options import Config, Interrupt


@dataclass(frozen=True, kw_only=True)
class Job:
    """A component, what is set of it, the machines, and how it runs."""

    component: Annotated[
        str,
        Argument(
            metavar="COMPONENT",
            help="A component of the package, such as train, or FILE.py:FUNCTION.",
            show_default=False,
        ),
    ]
    set_: Annotated[
        list[str] | None,
        Option("--set", "-s", metavar="NAME=VALUE", help="An input folder or a parameter. Repeatable."),
    ] = None
    config: Config = None
    target: Annotated[Literal["local"], Option("--target", help="Where the job runs.")] = "local"
    instance: Annotated[str, Option("--instance", metavar="TYPE", help="The instance type that the job is for.")] = (
        "ml.m5.xlarge"
    )
    hosts: Annotated[int, Option("--hosts", min=1, metavar="N", help="Hosts.")] = 1
    processes: Annotated[
        int | None, Option("--processes", min=1, metavar="N", help="Processes a host  [default: one a GPU]")
    ] = None
    source: Annotated[
        Path | None,
        Option(
            "--source",
            metavar="DIR",
            help="Folder whose Python files go along  [default: this one, where your script or recipe lies in it]",
        ),
    ] = None
    env: Annotated[
        list[str] | None,
        Option(
            "--env",
            metavar="NAME=VALUE",
            help="A variable of the job, such as DRIVETRAIN_MAX_RESTARTS=2. Repeatable.",
        ),
    ] = None
    data: Annotated[
        list[str] | None,
        Option("--data", metavar="S3URI=PATH", help="A file or folder here that stands for this URI."),
    ] = None
    interrupt: Interrupt = None
    out: Annotated[
        Path | None,
        Option("--out", metavar="DIR", help="Copy the outputs there too, each into a folder of its name."),
    ] = None
    fresh: Annotated[bool, Option("--fresh", help="Use nothing of earlier runs: no result, no checkpoint.")] = False
    no_cache: Annotated[bool, Option("--no-cache", help="Run it, even where it has run before.")] = False
