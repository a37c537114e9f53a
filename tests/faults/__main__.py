"""Break things on purpose and count violations.

    python -m tests.faults                                    the full campaign; goes on where it was stopped
    python -m tests.faults --quick --seed 7                   the few that CI runs
    python -m tests.faults --minutes 60                       as much of it as an hour holds, a part of each family
    python -m tests.faults --only checkpoint_killed --seed 7 --trial 41     one trial again, as it was

One file a fault family, found by its name. Prints a table and writes build/faults.json: a record a family with the
numbers of trials and violations, the seed, and what was done how often. The folders of violating trials are kept below
build/faults/kept. A campaign that was killed, or stopped by --minutes, goes on with its seed when it is started again
in the same way, unless the code has changed. The exit code is 1 when there is a violation, also of an earlier start.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import math
import secrets
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.faults.harness import campaign
from tests.faults.harness.families import Family, family, family_names
from tests.faults.harness.line import Line
from tests.faults.harness.progress import Progress, code_hash, record

REPORT = Path("build/faults.json")
FOLDER = Path("build/faults")
KEPT = FOLDER / "kept"
_INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", choices=family_names(), help="this family alone; may be repeated")
    parser.add_argument("--trials", type=int, help="instead of each family's own number")
    parser.add_argument("--seed", type=int, help="of all that is drawn; drawn itself, and printed, unless given")
    parser.add_argument("--trial", type=int, help="this one alone, of one family and a seed; nothing is recorded")
    parser.add_argument("--quick", action="store_true", help="a few trials of each, as in CI")
    parser.add_argument("--minutes", type=float, help="begin no trial after so many; the same command goes on")
    parser.add_argument("--fresh", action="store_true", help="start anew where a campaign was stopped")
    given = parser.parse_args()
    if given.trials is not None and given.trials < 1:
        parser.error(f"--trials {given.trials}; allowed are whole numbers from 1")
    if given.minutes is not None and not given.minutes > 0:
        parser.error(f"--minutes {given.minutes:g}; allowed are numbers above 0")
    chosen = [family(name) for name in given.only or family_names()]
    for each in chosen:
        if each.missing:
            print(f"{each.name} is not run: {each.missing}")
    chosen = [each for each in chosen if not each.missing]
    if not chosen:
        return 0
    if given.trial is not None:
        if given.seed is None or len(chosen) != 1:
            parser.error("--trial needs --seed, and --only with the family")
        return repeat(chosen[0], given.seed, given.trial)
    held = [lock(each.name) for each in chosen]
    if busy := [each.name for each, locked in zip(chosen, held, strict=True) if locked is None]:
        parser.error(f"another campaign is at {', '.join(busy)} here; wait for it, or work in another folder")
    code = code_hash()
    progresses = {
        each.name: Progress(
            FOLDER / f"{each.name}.jsonl", given.trials or (each.quick if given.quick else each.trials), code
        )
        for each in chosen
    }
    seed = begin(progresses, given.seed, fresh=given.fresh)
    stopped, failed = False, False
    with campaign.scratch_folder() as scratch:
        try:
            failed = not run(chosen, progresses, scratch, given.minutes)
        except KeyboardInterrupt:
            stopped = True
    records = [record(each.fault, each.name, progresses[each.name]) for each in chosen]
    write(records)
    show(records)
    print(f"seed {seed}, written to {REPORT}")
    if stopped:
        print("stopped; the same command goes on")
        return _INTERRUPTED
    if left := [f"{each['family']} {each['of'] - each['trials']}" for each in records if each["trials"] < each["of"]]:
        why = f"stopped after {given.minutes:g} minutes; " if given.minutes and not failed else ""
        print(f"{why}trials left: {', '.join(left)}; the same command goes on")
    return 1 if failed or any(each["violations"] for each in records) else 0


def lock(name: str) -> IO[bytes] | None:
    """The right to add to a family's progress, for as long as the file is open; None where another campaign has it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    held = (FOLDER / f"{name}.lock").open("wb")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.close()
        return None
    return held


def begin(progresses: Mapping[str, Progress], seed: int | None, *, fresh: bool) -> int:
    """Decide what is gone on with: a campaign in the same numbers, of the same code, that was not brought to its end.
    Returns the seed."""
    known = {} if fresh else {name: each for name, each in progresses.items() if each.seed is not None}
    if seed is not None:
        known = {name: each for name, each in known.items() if each.seed == seed}
    unfinished = len(known) < len(progresses) or any(each.missing for each in known.values())
    goes_on = known if unfinished else {}
    seed = next((each.seed for each in goes_on.values() if each.seed is not None), seed)
    if seed is None:
        seed = secrets.randbelow(2**31)
    for name, each in progresses.items():
        if name not in goes_on or each.seed != seed:
            each.begin(seed)
            for left in KEPT.glob(f"{name}-*-*"):
                shutil.rmtree(left)
    return seed


def run(
    chosen: Sequence[Family], progresses: Mapping[str, Progress], scratch: Path, minutes: float | None = None
) -> bool:
    """Make what is missing; gives whether every family could be prepared.

    Args:
        minutes: after these no trial begins. Each family gets its share of what the ones before it have left: however
            often the code changes between two starts, none is left out.
    """
    context, line = campaign.forkserver(chosen), Line()
    all_made = True
    end = time.monotonic() + 60 * minutes if minutes else math.inf
    for number, each in enumerate(chosen):
        progress = progresses[each.name]
        now = time.monotonic()
        until = now + max(0.0, end - now) / (len(chosen) - number)
        line.begin(each, progress)
        try:
            campaign.run(each, progress, context, scratch, KEPT.absolute(), line, until=until)
        except campaign.PreparationError as error:
            print(f"  {each.name} could not be prepared: {error}", flush=True)
            all_made = False
        line.end(progress)
    return all_made


def repeat(each: Family, seed: int, number: int) -> int:
    """One trial alone; its folder is kept whatever comes of it."""
    progress = Progress(FOLDER / "repeated" / f"{each.name}.jsonl", 1, code="")
    progress.begin(seed)
    line = Line()
    line.begin(each, progress)
    with campaign.scratch_folder() as scratch:
        campaign.run(each, progress, campaign.forkserver([each]), scratch, KEPT.absolute(), line, only=number)
    line.end(progress)
    print(f"did: {progress.did}")
    return 1 if progress.violating else 0


def show(records: Sequence[Mapping[str, Any]]) -> None:
    print(f"\n{'fault':<88} {'trials':>11} {'violations':>10}  seed")
    for each in records:
        count = str(each["trials"]) if each["trials"] == each["of"] else f"{each['trials']} of {each['of']}"
        print(f"{each['fault']:<88} {count:>11} {each['violations']:>10}  {each['seed']}")
        if each["did"]:
            print("    " + ", ".join(f"{name}: {number}" for name, number in each["did"].items()))
    for each in records:
        for trial in each["violated"]:
            again = f"--only {each['family']} --seed {each['seed']} --trial {trial['trial']}"
            print(f"violated, {again}: {trial['violations'][0]:.300}")


def write(records: Sequence[Mapping[str, Any]]) -> None:
    """Keep the records of families that were not run this time."""
    kept: list[dict[str, Any]] = json.loads(REPORT.read_text()) if REPORT.exists() else []
    fresh = {each["family"] for each in records}
    REPORT.parent.mkdir(exist_ok=True)
    everything = [each for each in kept if each.get("family", "") not in fresh and "family" in each] + [*records]
    REPORT.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
