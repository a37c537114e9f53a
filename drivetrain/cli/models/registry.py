"""The registry that a command works on."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import Option

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry

RegistryUrl = Annotated[
    str | None,
    Option(
        "--registry", metavar="URL", help="KIND:LOCATION  [default: $DRIVETRAIN_REGISTRY, or that of the runs here]"
    ),
]

_OF_THE_RUNS = ("local", "local:")


def opened(url: str | None, home: Path | None, *, called: str = "--registry ") -> Registry:
    """The registry at `--registry`, of the runs at `--home`, of $DRIVETRAIN_REGISTRY, or of the runs here.

    Commands look at what was registered, so a file that is named has to be there: a mistyped path is not one where
    nothing is registered yet. That of the runs comes with the first of them. `called` is what messages call `url`.

    Raises:
        UserError: both options name a registry, or there is none at the path.
        InputError: no such kind of registry, or something else at the path.
    """
    import os

    from drivetrain.cli import local_home
    from drivetrain.registry.backends.local import LocalRegistry
    from drivetrain.registry.registry import REGISTRY_VARIABLE, open_registry

    given, named_by = None if url in (None, "auto") else url, called
    if given not in (None, *_OF_THE_RUNS) and home is not None:
        raise UserError(f"{called}{given} and home {home} are two places. Give one: home is for local models.")
    if given is None and home is None:
        given, named_by = os.environ.get(REGISTRY_VARIABLE) or None, f"${REGISTRY_VARIABLE}="
    if given in (None, *_OF_THE_RUNS):
        return open_registry(f"local:{local_home(home).ledger}")
    registry = open_registry(given)
    if isinstance(registry, LocalRegistry) and not registry.exists():
        raise UserError(
            f"{named_by}{given}: there is no registry at {registry.path}. Correct the path; the first model that is "
            "registered there makes it."
        )
    return registry


def registry_option(url: str | None, home: Path | None) -> str:
    """What a suggested command must repeat, so that it finds the same models."""
    from drivetrain.cli import home_option

    return home_option(home) + ("" if url is None else f" --registry {shlex.quote(url)}")
