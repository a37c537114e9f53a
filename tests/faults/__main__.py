"""Break things on purpose and count violations: `python -m tests.faults [--only NAME] [--trials N] [--seed S] ...`.

One file a fault family, found by its name. Prints a table and writes build/faults.json: records of fault, trials,
violations (their number) and seed. The exit code is 1 when there is a violation.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from pathlib import Path

from tests.faults.harness.families import Family, families

REPORT = Path("build/faults.json")


def main() -> int:
    known = families()
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", action="append", choices=sorted(known), help="this family alone; may be repeated")
    parser.add_argument("--trials", type=int, help="instead of each family's own number")
    parser.add_argument("--seed", type=int, help="of the random instants; drawn and printed unless given")
    parser.add_argument("--quick", action="store_true", help="a few trials of each, as in CI")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else secrets.randbelow(2**31)
    chosen = [known[name] for name in given.only or sorted(known)]
    records = [
        _run(family, given.trials or (family.quick if given.quick else family.trials), seed) for family in chosen
    ]
    _write(records)
    print(f"\n{'fault':<72} {'trials':>6} {'violations':>10}")
    for record in records:
        print(f"{record['fault']:<72} {record['trials']:>6} {record['violations']:>10}")
    print(f"seed {seed}, written to {REPORT}")
    return 1 if any(record["violations"] for record in records) else 0


def _run(family: Family, trials: int, seed: int) -> dict[str, str | int]:
    print(f"{family.name}: {trials} trials (seed {seed})", flush=True)
    began = time.monotonic()
    made, violations = family.run(trials, seed)
    for violation in violations:
        print(f"  VIOLATION: {violation}")
    print(f"  {len(violations)} violations in {time.monotonic() - began:.0f} s", flush=True)
    return {"fault": family.fault, "trials": made, "violations": len(violations), "seed": seed}


def _write(records: list[dict[str, str | int]]) -> None:
    """Keep the records of families that were not run this time."""
    kept: list[dict[str, str | int]] = json.loads(REPORT.read_text()) if REPORT.exists() else []
    fresh = {record["fault"] for record in records}
    REPORT.parent.mkdir(exist_ok=True)
    everything = [record for record in kept if record["fault"] not in fresh] + records
    REPORT.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
