"""The registry and the version that a command works on."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated

from drivetrain.base.records import dataclass
from drivetrain.cli import home_option
from drivetrain.cli.declared import Argument, Option
from drivetrain.cli.options import Home

if TYPE_CHECKING:
    from drivetrain.registry.registry import Registry

Group = Annotated[str, Argument(metavar="GROUP", help="The model group.")]
Version = Annotated[str, Argument(metavar="VERSION", help="A number, `latest`, or `approved`.")]


@dataclass(frozen=True, kw_only=True)
class RegistryOptions:
    """The options that name the registry: `--registry`, or that of the runs at `--home`."""

    registry: Annotated[
        str | None,
        Option(
            "--registry", metavar="URL", help="KIND:LOCATION  [default: $DRIVETRAIN_REGISTRY, or that of the runs here]"
        ),
    ] = None
    home: Home = None

    def opened(self) -> Registry:
        """The registry that they name, or $DRIVETRAIN_REGISTRY, or that of the runs here.

        Raises:
            UserError, InputError: as `drivetrain.operations.models.opened`.
        """
        from drivetrain.operations.models import opened

        return opened(self.registry, self.home, called="--registry ")

    @property
    def repeated(self) -> str:
        """The options that a suggested command must repeat to find the same models."""
        return home_option(self.home) + ("" if self.registry is None else f" --registry {shlex.quote(self.registry)}")


NONE_GIVEN = RegistryOptions()
