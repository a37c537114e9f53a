"""What a family of rows is given: the options, a scratch folder, environments and a place for progress lines."""

from __future__ import annotations

import functools
import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.harness import environments
from tests.benchmarks.harness.environments import Environment, UnavailableError

# Programs under measurement see this and no more: no proxy to reach a network by, no configuration of this machine.
QUIET = {
    "LANG": "C.UTF-8",
    "DO_NOT_TRACK": "1",
    "PYTHONWARNINGS": "ignore",
    "NO_COLOR": "1",
}


@dataclass
class Bench:
    """One run of the benchmark."""

    scratch: Path
    quick: bool = False
    """Fewer rounds and shorter chains: shows that all rows can be made, not what they are worth."""
    with_peers: bool = True
    gigabytes: float | None = None
    """The size that a table should have; None for that of its family."""
    begun: float = field(default_factory=time.perf_counter)
    unavailable: dict[str, str] = field(default_factory=dict)
    """Peer -> why it could not be installed."""

    failed: dict[str, str] = field(default_factory=dict)
    """Peer -> why its command failed, in the family that is being run."""

    @property
    def rounds(self) -> int:
        return 1 if self.quick else 3

    def progress(self, text: str) -> None:
        print(f"[{time.perf_counter() - self.begun:6.1f} s] {text}", file=sys.stderr, flush=True)

    @functools.cached_property
    def ours(self) -> Environment:
        """Our core install with scikit-learn beside it."""
        return environments.ours(self.progress)

    def peers(self, *names: str) -> dict[str, Environment]:
        """The environments of those peers that can be had here; none with --no-peers."""
        found: dict[str, Environment] = {}
        for name in names if self.with_peers else ():
            if name in self.unavailable:
                continue
            try:
                found[name] = environments.peer(name, self.progress)
            except UnavailableError as reason:
                self.unavailable[name] = str(reason)
                self.progress(f"{name} cannot be installed: {reason}")
        return found

    def note(self, *names: str, more: str = "") -> str:
        """`more`, and what a row says of these peers when they are missing."""
        missing = [f"{name} could not be installed" for name in names if name in self.unavailable]
        missing += [f"{name} failed: {why}" for name, why in self.failed.items()]
        return "; ".join(filter(None, [more, *missing, "" if self.with_peers else "peers left out"]))

    def folder(self, name: str) -> Path:
        """A fresh folder below the scratch folder."""
        number = sum(1 for _ in self.scratch.iterdir())
        made = self.scratch / f"{number:04d}-{name}"
        made.mkdir()
        return made

    def variables(self, environment: Environment, home: Path, **more: str) -> dict[str, str]:
        """The process environment for a command of `environment`, with `home` as its home."""
        path = os.pathsep.join([str(environment.bin), "/usr/local/bin", "/usr/bin", "/bin"])
        return {**QUIET, "PATH": path, "HOME": str(home), **more}
