"""The registry that a command works on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.cli.declared import Option

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry

RegistryUrl = Annotated[
    str | None,
    Option(
        "--registry", metavar="URL", help="KIND:LOCATION  [default: $DRIVETRAIN_REGISTRY, or that of the runs here]"
    ),
]


def opened(url: str | None, home: Path | None) -> Registry:
    """The registry at `--registry`, of the runs at `--home`, of $DRIVETRAIN_REGISTRY, or of the runs here.

    Raises:
        UserError, InputError: as `drivetrain.operations.models.opened`.
    """
    from drivetrain.operations import models

    return models.opened(url, home, called="--registry ")


def registry_option(url: str | None, home: Path | None) -> str:
    """What a suggested command must repeat, so that it finds the same models."""
    from drivetrain.cli import home_option

    return home_option(home) + ("" if url is None else f" --registry {shlex.quote(url)}")
