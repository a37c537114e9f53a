"""The registry that a command works on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from drivetrain.pipelines.errors import UserError

if TYPE_CHECKING:
    from drivetrain.components.registries import Registry

RegistryUrl = Annotated[
    str | None,
    typer.Option(
        "--registry", metavar="URL", help="KIND:LOCATION  [default: $DRIVETRAIN_REGISTRY, or that of the runs here]"
    ),
]


def opened(url: str | None, home: Path | None) -> Registry:
    """The registry at `--registry`, of the runs at `--home`, of $DRIVETRAIN_REGISTRY, or of the runs here.

    Raises:
        UserError: both options name a registry.
        InputError: no such kind of registry.
    """
    import os

    from drivetrain.components.registries import REGISTRY_VARIABLE, open_registry
    from drivetrain.pipelines.cli.home import local_home

    given = None if url in (None, "auto") else url
    if given not in (None, "local") and home is not None:
        raise UserError(f"--registry {given} and --home {home} are two places. Give one: --home is for local models.")
    if given is None and home is None:
        given = os.environ.get(REGISTRY_VARIABLE) or None
    if given in (None, "local"):
        given = f"local:{local_home(home).ledger}"
    return open_registry(given)


def registry_option(url: str | None, home: Path | None) -> str:
    """What a suggested command must repeat, so that it finds the same models."""
    from drivetrain.pipelines.cli.home import home_option

    return home_option(home) + ("" if url is None else f" --registry {shlex.quote(url)}")
