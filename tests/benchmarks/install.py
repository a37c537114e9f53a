"""Size and packages of a core install, and lines of user code for the same pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.records import Record
from tests.benchmarks.harness.tool import lines_of_code, source

PEERS = ("metaflow", "zenml", "kfp", "dagster", "prefect")


def records(bench: Bench) -> Iterator[Record]:
    peers = bench.peers(*PEERS)
    yield Record(
        name="install: packages",
        unit="packages",
        ours=bench.ours.packages,
        peers={name: environment.packages for name, environment in peers.items()},
        target=12,
        note=bench.note(*PEERS),
    )
    yield Record(
        name="install: size",
        unit="MB",
        ours=bench.ours.size / 1e6,
        peers={name: environment.size / 1e6 for name, environment in peers.items()},
        target=40,
        note=bench.note(*PEERS, more="site-packages without pip and setuptools"),
    )
    yield Record(
        name="install: lines of user code",
        unit="lines",
        ours=_lines("drivetrain"),
        peers={name: _lines(name) for name in PEERS},
        limit=_lines("plain"),
        target=24,
        note="the limit is the same work as a plain script, without steps, cache or history",
    )


def _lines(name: str) -> int:
    return lines_of_code(source(name).read_text(encoding="utf-8"))
