"""`drivetrain home`: look after the folder of runs and models."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.base.formatting import count, size
from drivetrain.cli import local_home
from drivetrain.cli.declared import App, Option
from drivetrain.cli.options import Home, Json
from drivetrain.telling.terminal import say, say_json

if TYPE_CHECKING:
    from drivetrain.run_store import home as homes
    from drivetrain.run_store.verifying import Damage

app = App(help="Look after the folder of runs and models.")

# Exit codes of the program that looks at checkpoints.
_DAMAGED, _NONE = 1, 2
# Seconds between two lines about how far it is.
_TOLD_EVERY_S = 5.0


@app.command()
def verify(
    no_checkpoints: Annotated[bool, Option("--no-checkpoints", help="Leave checkpoints out.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Read every stored file, and say what is damaged.

    Runs trust a file whose size and times are as they were; this reads the bytes. Exit code 1 if one is damaged: the
    next run makes it again if it can. Files that a later run has made again are listed, and are no error.

    \b
    Examples:
      drivetrain home verify
      drivetrain home verify --json
    """
    from dataclasses import asdict

    from drivetrain.run_store.verifying import verify as verify_objects

    place = local_home(home)
    _check_home(place, home)
    found = verify_objects(place, Told())
    checkpoints = [] if no_checkpoints else list(_checkpoints(place))
    damages = [*found.damages, *(damage for _, each in checkpoints for damage in each)]
    bad = sum(not damage.superseded for damage in damages)
    if as_json:
        num_checkpoints = sum(number for number, _ in checkpoints)
        say_json({**asdict(found), "checkpoints": num_checkpoints, "damages": [asdict(each) for each in damages]})
    elif not place.ledger.exists():
        say(place.nothing_run())
    else:
        for damage in damages:
            say(text_of(damage))
            say()
        read = f"{count(found.files, 'file')} ({size(found.bytes)})"
        if not no_checkpoints:
            read += f" and {count(sum(number for number, _ in checkpoints), 'checkpoint')}"
        rest = "" if bad == len(damages) else f" ({len(damages) - bad:,} that a later run made again left out)"
        say(f"Read {read}: " + (f"{bad:,} damaged" if bad else "all as they were written") + f"{rest}.")
        if found.unknown:
            say(f"Of {count(found.unknown, 'more file')} no hash is kept: checkpoints, and what was put there by hand.")
    return _DAMAGED if bad else 0


def _check_home(place: homes.Home, given: Path | None) -> None:
    """
    Raises:
        UserError: the given folder holds no runs and was never made for them.
    """
    from drivetrain.run_store.home import HOME_MARK, VARIABLE

    named = given is not None or os.environ.get(VARIABLE)
    if named and not place.ledger.exists() and not (place.root / HOME_MARK).exists():
        wrong = "is no folder of runs and models" if place.root.exists() else "does not exist"
        raise UserError(f"{place.root} {wrong}. Give the folder of your runs by --home or ${VARIABLE}.")


def tell_damages(home: homes.Home) -> None:
    """Read every stored file before a run, and say on stderr what is damaged: the run does not trust it."""
    from drivetrain.run_store.verifying import verify as verify_objects

    for damage in verify_objects(home, Told()).damages:
        if not damage.superseded:
            print(text_of(damage), file=sys.stderr)


class Told:
    """Says on stderr how far it is, where that takes longer than some seconds."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._last > _TOLD_EVERY_S:
            self._last = time.monotonic()
            print(f"read {size(done)} of {size(total)}", file=sys.stderr, flush=True)


def text_of(damage: Damage) -> str:
    """One damage for people: the file, the runs and versions that it touches, and the advice, a line each."""
    lines = [f"{damage.what}: {damage.problem}", f"  file:     {damage.path}"]
    if damage.runs:
        lines.append(f"  runs:     {', '.join(damage.runs)}")
    if damage.versions:
        lines.append(f"  versions: {', '.join(damage.versions)}")
    return "\n".join([*lines, f"  {damage.advice}"])


def _checkpoints(home: homes.Home) -> Iterator[tuple[int, list[Damage]]]:
    """The number of checkpoints that were read in each place, and the damaged ones. A script's own have no manifest,
    and so no hash.

    Raises:
        UserError: they cannot be looked at.
    """
    from drivetrain.cli.training.checkpoints import PROGRAM
    from drivetrain.run_store.verifying import Damage, checkpoint_places

    for uri, folder in checkpoint_places(home):
        command = [sys.executable, "-P", "-m", PROGRAM, "verify", "--all", "--json", "--", str(folder)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == _NONE:
            continue
        if done.returncode not in (0, _DAMAGED):
            raise UserError(f"the checkpoints in {folder} cannot be verified: {done.stderr.strip()[-500:]}")
        verdicts: list[dict[str, Any]] = [verdict for verdict in json.loads(done.stdout) if verdict["counts"]]
        yield (
            len(verdicts),
            [
                Damage(
                    what=f"{uri}, checkpoint of step {verdict['step']}",
                    path=str(folder),
                    problem="; ".join(f"{each['file']}: {each['problem']}" for each in verdict["problems"]),
                    advice="A training passes it by and goes on from an older one. Set it aside: "
                    f"drivetrain checkpoints verify {folder} --all --quarantine",
                )
                for verdict in verdicts
                if verdict["state"] != "good"
            ],
        )
