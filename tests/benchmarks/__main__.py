"""Benchmarks: `make bench`, or `python -m tests.benchmarks` from the top folder.

    python -m tests.benchmarks --list
    python -m tests.benchmarks --only compile --only first_hour
    python -m tests.benchmarks --quick --no-peers
    python -m tests.benchmarks --only prepare_data --gigabytes 5

Prints a table and writes build/bench.json. These are measurements and not tests: a missed target is a row that says
NO. The exit code is 0 unless a family broke (1) or an argument is wrong (2).

A new family of rows is a new file beside this one with a docstring and

    def records(bench: Bench) -> Iterator[Record]: ...

A peer is a folder in peers/ with its pinned requirements.txt; its environment is made on demand.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import traceback
from pathlib import Path

from tests.benchmarks.harness import families
from tests.benchmarks.harness.bench import Bench
from tests.benchmarks.harness.environments import ROOT
from tests.benchmarks.harness.records import Record, shown, summary, table, write_json


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure Drivetrain and its peers.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="one family; may be repeated")
    parser.add_argument("--list", action="store_true", help="name the families and stop")
    parser.add_argument("--quick", action="store_true", help="one round, short chains")
    parser.add_argument("--no-peers", action="store_true", help="measure ours and the limits only")
    parser.add_argument("--gigabytes", type=_size, metavar="N", help="size of the table of prepare_data, as CSV")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench.json", metavar="FILE")
    given = parser.parse_args(arguments)
    if given.list:
        for name, headline in families.available().items():
            print(f"{name:16} {headline}")
        return 0
    try:
        names = families.chosen(given.only)
    except families.UnknownFamilyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found: list[Record] = []
    broken: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="drivetrain-bench-", ignore_cleanup_errors=True) as scratch:
        bench = Bench(
            scratch=Path(scratch), quick=given.quick, with_peers=not given.no_peers, gigabytes=given.gigabytes
        )
        for name in names:
            bench.progress(name)
            bench.failed.clear()
            try:
                for record in families.load(name)(bench):
                    found.append(record)
                    verdict = {True: "met", False: "NOT MET", None: ""}[record.met]
                    ours = "-" if record.ours is None else shown(record.ours)
                    bench.progress(f"  {record.name}: {ours} {record.unit} {verdict}".rstrip())
            except Exception:  # one family that breaks must not take the others' hour of measurements with it
                broken[name] = traceback.format_exc()
                bench.progress(f"  {name} broke")
            write_json(found, given.output)
    print(table(found))
    print()
    print(summary(found) + f" ({given.output})")
    for name, raised in broken.items():  # last, where a log that is cut short still has them
        print(f"\n{name} broke:\n{raised}", file=sys.stderr)
    return 1 if broken else 0


def _size(text: str) -> float:
    """
    Raises:
        ValueError: it is no number above 0, which argparse tells.
    """
    size = float(text)
    if not 0 < size < 1e6:
        raise ValueError(text)
    return size


if __name__ == "__main__":
    sys.exit(main())
