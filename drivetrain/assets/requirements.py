"""Read a component's requirements: `pyarrow`, `pyarrow[s3] >=19,<27; python_version >= "3.12"`.

`packaging` reads whatever says more than a name; it takes 15 ms to import, which a pipeline of plain names saves.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass

if TYPE_CHECKING:
    from packaging.requirements import Requirement as Parsed

# Distributions without a wheel on PyPI -> the command that builds one for a framework and prints its path.
_BUILT = {"horovod": "python -m drivetrain.infra.horovod.build"}
# Distributions that bring the module of another one, which meets a need of them, too.
SAME_MODULE = {"xgboost-cpu": "xgboost"}
_PLAIN = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*")
_ONLY_FOR_EXTRA = re.compile(r"""\(?\s*extra\s*==\s*["'][^"']*["']\s*\)?""")


@dataclass(frozen=True)
class Requirement:
    """A distribution, by its normal name (PEP 503), and what else is asked of it."""

    name: str
    text: str
    parsed: Parsed | None = None
    """None when a name is all there is."""

    @property
    def extras(self) -> frozenset[str]:
        return frozenset(normal(extra) for extra in self.parsed.extras) if self.parsed else frozenset()

    @property
    def any_version(self) -> bool:
        return self.parsed is None or not self.parsed.specifier

    def allows(self, version: str) -> bool:
        """Return True if a version is allowed; a pre-release is if there is no other."""
        return self.parsed is None or self.parsed.specifier.contains(version, prereleases=True)

    def applies(self, python: str, extras: frozenset[str] = frozenset()) -> bool:
        """Return True if the marker holds in a Linux x86-64 image with this CPython (`3.12`), for a parent with
        `extras`."""
        if self.parsed is None or self.parsed.marker is None:
            return True
        environment = {
            "implementation_name": "cpython",
            "implementation_version": f"{python}.0",
            "os_name": "posix",
            "platform_machine": "x86_64",
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{python}.0",
            "python_version": python,
            "sys_platform": "linux",
        }
        return any(self.parsed.marker.evaluate({**environment, "extra": extra}) for extra in (extras or {""}))


def build_command(name: str, framework: str) -> str:
    """The command that builds a wheel of a distribution for `tensorflow` or (any other name) torch; "" where PyPI has
    wheels."""
    return f"{_BUILT[name]} {'tensorflow' if framework == 'tensorflow' else 'torch'}" if name in _BUILT else ""


def normal(name: str) -> str:
    """The one spelling of a distribution's name (PEP 503): `Scikit_Learn` -> `scikit-learn`."""
    return re.sub(r"[-_.]+", "-", name).lower()


def parse(text: str) -> Requirement:
    """Read a requirement.

    Raises:
        UserError: it is no requirement, or an address (`name @ https://...`), which has no version to look for.
    """
    plain = _PLAIN.fullmatch(text)
    if plain is not None:
        return Requirement(normal(plain[1]), text.strip())
    from packaging.requirements import InvalidRequirement
    from packaging.requirements import Requirement as Parsed

    advice = "Write a name and, where they matter, versions, such as 'pyarrow' or 'pyarrow>=19,<27'."
    try:
        parsed = Parsed(text)
    except InvalidRequirement:
        raise UserError(f"{text!r} is not a requirement. {advice}") from None
    if parsed.url is not None:
        raise UserError(f"{text!r} is an address, not a requirement. {advice}")
    return Requirement(normal(parsed.name), text.strip(), parsed)


def wanted_by(requires_dist: str, python: str, extras: frozenset[str]) -> Requirement | None:
    """A distribution's own requirement (a `Requires-Dist` line), or None where it does not apply in the image."""
    marker = requires_dist.partition(";")[2].strip()
    if not extras and _ONLY_FOR_EXTRA.fullmatch(marker):
        return None
    found = parse(requires_dist)
    return found if found.applies(python, extras) else None
