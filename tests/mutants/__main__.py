"""Make recorded mistakes in the code, one at a time, and see that tests notice each.

    python -m tests.mutants                     all that are recorded; goes on where it was stopped
    python -m tests.mutants --only cursor       those whose name or file has this in it
    python -m tests.mutants --list

The working tree is never touched: each worker has a copy. First the tests run on the code as it is, since what fails
there would count for nothing. Writes build/mutants.json; a result holds for as long as the code, the tests and the
mutation are the same. The exit code is 1 when a mutation survives, or when the tests fail without one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing.connection
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.mutants.mutant import Keys, Mutant
from tests.mutants.recorded import MUTANTS
from tests.mutants.trial import LIMIT, Copy, overdue, preload

REPORT = Path("build/mutants.json")
_FINE = ("killed", "timed out")


@dataclass
class Trial:
    mutant: Mutant
    copy: Copy
    process: BaseProcess
    started: float


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", action="append", default=[], help="part of a name or file; may be repeated")
    parser.add_argument("--list", action="store_true", help="show the names")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--fresh", action="store_true", help="use no earlier result")
    given = parser.parse_args()
    chosen = [
        each for each in MUTANTS if not given.only or any(part in f"{each.name} {each.file}" for part in given.only)
    ]
    if not chosen:
        parser.error(f"--only {' '.join(given.only)}: no mutation's name or file has this in it; --list shows them")
    if given.jobs < 1:
        parser.error(f"--jobs {given.jobs}; allowed are whole numbers from 1")
    if given.list:
        print("\n".join(f"{each.name:<60} {each.file}" for each in chosen))
        return 0
    root = Path.cwd()
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = [
        name for name in subprocess.check_output(listed, text=True).split("\0") if name and (root / name).is_file()
    ]
    known = {} if given.fresh else read()
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        preload()
        copies = [Copy(root, files, Path(scratch) / str(number)) for number in range(given.jobs)]
        whole = [
            Mutant(f"(nothing: {name})", name, "", "", (name,)) for name in sorted({t for m in chosen for t in m.tests})
        ]
        made = Keys(root, files)  # now, of what has just been copied
        keys = {each.name: made.of(each) for each in (*whole, *chosen)}
        run([each for each in whole if known.get(each.name, {}).get("key") != keys[each.name]], copies, keys, known)
        if any(known[each.name]["came"] != "survived" for each in whole):
            print("tests fail without any mutation; see above")
            return 1
        run([each for each in chosen if known.get(each.name, {}).get("key") != keys[each.name]], copies, keys, known)
    return summary(chosen, known)


def run(mutants: Iterable[Mutant], copies: list[Copy], keys: dict[str, str], known: dict[str, Any]) -> None:
    """Try each, and write down what came of it at once."""
    waiting, free, running = list(reversed(list(mutants))), list(copies), list[Trial]()
    number = 0
    while waiting or running:
        while waiting and free:
            mutant, copy = waiting.pop(), free.pop()
            number += 1
            running.append(Trial(mutant, copy, copy.start(mutant, number), time.monotonic()))
        multiprocessing.connection.wait([trial.process.sentinel for trial in running], timeout=LIMIT / 10)
        for trial in [each for each in running if not each.process.is_alive() or overdue(each.started)]:
            running.remove(trial)
            came, by = trial.copy.end(trial.mutant, trial.process)
            seconds = round(time.monotonic() - trial.started, 1)
            known[trial.mutant.name] = {"key": keys[trial.mutant.name], "came": came, "by": by, "seconds": seconds}
            write(known)
            print(f"{came:<10} {seconds:6.1f} s  {trial.mutant.name}  {by}", flush=True)
            if came == "broken" or (came == "survived") == bool(trial.mutant.find):
                print(trial.copy.log.read_text()[-3000:], flush=True)
            free.append(trial.copy)


def summary(chosen: list[Mutant], known: dict[str, Any]) -> int:
    left = [each for each in chosen if known[each.name]["came"] not in _FINE]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    print(f"{len(chosen)} mutations, {len(left)} not noticed; {seconds:.0f} CPU seconds now; written to {REPORT}")
    for each in left:
        print(f"  {known[each.name]['came']}: {each.name} ({each.file})")
    return 1 if left else 0


def read() -> dict[str, Any]:
    """What is known of mutations that are still recorded, and of tests without any."""
    names = {each.name for each in MUTANTS}
    found = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    return {name: result for name, result in found.items() if name in names or name.startswith("(nothing")}


def write(known: dict[str, Any]) -> None:
    REPORT.parent.mkdir(exist_ok=True)
    new = REPORT.with_suffix(".new")
    new.write_text(json.dumps(known, indent=1) + "\n")
    new.replace(REPORT)


if __name__ == "__main__":
    sys.exit(main())
