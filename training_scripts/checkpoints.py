"""Look at checkpoints, verify them, and bring one to serving.

    python -m drivetrain.training_scripts.checkpoints list build/checkpoints
    python -m drivetrain.training_scripts.checkpoints show build/checkpoints newest
    python -m drivetrain.training_scripts.checkpoints verify build/checkpoints --all
    python -m drivetrain.training_scripts.checkpoints export build/checkpoints 120 --out weights.safetensors

PLACE is a training's checkpoint folder, the folder around several of them, or s3://BUCKET/PREFIX. It needs nothing but
Python, runs beside a training without disturbing it, and reads no pickle. Exit codes: 0 done, 1 a checkpoint is
damaged, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from drivetrain.base.errors import BAD_INPUT, INTERRUPTED, InputError
from drivetrain.base.formatting import printable
from drivetrain.training.checkpointing.inspection.trainings import (
    NEWEST,
    Found,
    NoTrainingError,
    Training,
    choose_step,
    find,
    short_names,
)
from drivetrain.training.checkpointing.store.manifest import DamagedError, MissingError
from drivetrain.training.command_line import CommandParser, reader_went_away

DAMAGED = 1


def list_(given: argparse.Namespace) -> int:
    """Every training of the place, a table each; without any, the files of other programs there."""
    from drivetrain.training.checkpointing.inspection.belonging import with_trainings
    from drivetrain.training.checkpointing.inspection.listing import list_own_files, list_training
    from drivetrain.training.checkpointing.inspection.text import listing_text

    try:
        found = [list_training(training) for training in find(given.place).trainings]
    except NoTrainingError as nothing:
        own = list_own_files(given.place, nothing.recognised)
        if own is None:
            raise
        found = [own]
    found = with_trainings(found)
    names = short_names(each.training for each in found)
    _say(listing_text(found, time.time(), names), [asdict(each) for each in found], given.json)
    return 0


def show(given: argparse.Namespace) -> int:
    """One checkpoint."""
    from drivetrain.training.checkpointing.inspection.contents import contents
    from drivetrain.training.checkpointing.inspection.text import contents_text

    training, step = _chosen(find(given.place), given)
    found = contents(training, step)
    _say(contents_text(found, time.time()), asdict(found), given.json)
    return 0


def verify(given: argparse.Namespace) -> int:
    """One checkpoint of each training, or all; 1 where one is damaged."""
    from drivetrain.training.checkpointing.inspection import verification
    from drivetrain.training.checkpointing.inspection.terminal import Bar
    from drivetrain.training.checkpointing.inspection.text import verdict_text

    verdicts: list[verification.Verdict] = []

    def say(verdict: verification.Verdict) -> None:
        verdicts.append(verdict)
        if not given.json:
            print(verdict_text(verdict, names[verdict.training]), flush=True)

    place = find(given.place)
    names = {training.id: training.name for training in place.trainings}
    for training, steps in _to_verify(place, given):
        unfinished = verification.without_manifest(training) if given.all else []
        for step in steps:
            while unfinished and unfinished[0].step > step:
                say(unfinished.pop(0))
            bar = Bar(f"step {step}")
            try:
                verdict = verification.verify(training.store, training.id, step, bar)
            except FileNotFoundError:
                continue  # retention was quicker
            finally:
                bar.clear()
            if verdict.state == "damaged" and given.quarantine:
                verdict = replace(verdict, quarantined=_quarantine(training, step, verdict))
            say(verdict)
        for verdict in unfinished:
            say(verdict)
    if given.json:
        _say("", [asdict(verdict) for verdict in verdicts], True)
    return 0 if all(verdict.state == "good" for verdict in verdicts if verdict.counts) else DAMAGED


def export(given: argparse.Namespace) -> int:
    """One checkpoint as a file or a model folder."""
    from drivetrain.training.checkpointing.inspection.export import Wanted
    from drivetrain.training.checkpointing.inspection.export import export as export_checkpoint
    from drivetrain.training.checkpointing.inspection.terminal import Bar
    from drivetrain.training.checkpointing.inspection.text import exported_text

    if given.best and given.optimizer:
        raise InputError("--best and --optimizer exclude each other: everything includes the best model.")
    if not given.out.strip():
        raise InputError("--out is empty. Give NAME.safetensors, or the name of a folder to make.")
    training, step = _chosen(find(given.place), given)
    wanted = Wanted(average=not given.no_average, best=given.best, everything=given.optimizer)
    bar = Bar(f"step {step}")
    try:
        done = export_checkpoint(training, step, Path(given.out), wanted, force=given.force, progress=bar)
    finally:
        bar.clear()
    _say(exported_text(done), asdict(done), given.json)
    return 0


def _chosen(found: Found, given: argparse.Namespace) -> tuple[Training, int]:
    """The checkpoint to show or export: the newest whole one if no step is named."""
    from drivetrain.training.checkpointing.inspection.listing import newest_whole

    training = found.choose(given.training)

    def newest() -> int | None:
        step, passed_by = newest_whole(training)
        if step is not None and passed_by is not None:
            what = f"step {passed_by.step} is {passed_by.state} ({passed_by.problem})"
            print(f"note: {printable(what)}; the newest whole one is of step {step}", file=sys.stderr, flush=True)
        return step

    return training, _step(found, training, given.checkpoint, newest)


def _step(found: Found, training: Training, word: str, newest: Callable[[], int | None]) -> int:
    from drivetrain.training.checkpointing.inspection.listing import best_step

    if found.step is not None and word == NEWEST:
        word = str(found.step)
    return choose_step(training, word, newest=newest, best=lambda: best_step(training))


def _to_verify(found: Found, given: argparse.Namespace) -> list[tuple[Training, list[int]]]:
    """The checkpoints to verify: the newest with a manifest of each training if no step is named; or all."""
    trainings = found.trainings if given.training is None else (found.choose(given.training),)
    if given.all:
        if given.checkpoint != NEWEST or found.step is not None:
            raise InputError("--all means every checkpoint of a training, and one is named. Give one of the two.")
        chosen = [(training, training.store.steps()) for training in trainings]
    elif given.checkpoint == NEWEST and found.step is None:
        chosen = [(training, training.store.steps()[:1]) for training in trainings]
    else:
        training = found.choose(given.training)
        chosen = [(training, [_step(found, training, given.checkpoint, lambda: None)])]
    if not any(steps for _, steps in chosen):
        raise InputError(f"{found.uri} has no whole checkpoint to verify. `list` shows what there is.")
    return chosen


def _quarantine(training: Training, step: int, verdict: Any) -> str:
    """Set a damaged checkpoint aside, as the only one who writes there.

    Raises:
        InputError: a training is at work in the place.
    """
    from drivetrain.training.checkpointing.inspection.verification import as_damage
    from drivetrain.training.checkpointing.store.lock import Lock
    from drivetrain.training.checkpointing.store.store import Store

    with Lock(training.place, "checkpoints verify --quarantine") as lock:
        return Store(training.place, fence=lock).quarantine(step, as_damage(verdict.problems))


def _say(text: str, value: Any, as_json: bool) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str) if as_json else text, flush=True)


def parser() -> argparse.ArgumentParser:
    made = CommandParser(
        prog="python -m drivetrain.training_scripts.checkpoints",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    for function, summary in (
        (list_, "list checkpoints"),
        (show, "files, tensors and values of one"),
        (verify, "read every byte and compare it with what was written"),
        (export, "whole tensors in one safetensors file, or a model folder"),
    ):
        command = commands.add_parser(
            function.__name__.rstrip("_"), help=summary, description=summary + ".", allow_abbrev=False
        )
        command.set_defaults(function=function)
        command.add_argument("place", metavar="PLACE", help="a folder, or s3://BUCKET/PREFIX")
        command.add_argument("--json", action="store_true", help="for scripts")
        if function is list_:
            continue
        command.add_argument(
            "checkpoint", metavar="CHECKPOINT", nargs="?", default=NEWEST, help="a step, newest (the default) or best"
        )
        command.add_argument("--training", metavar="ID", help="which training of the place, as `list` names it")
        if function is verify:
            command.add_argument("--all", action="store_true", help="every checkpoint")
            command.add_argument("--quarantine", action="store_true", help="set damaged ones aside, with a report")
        if function is export:
            command.add_argument("--out", required=True, metavar="PATH", help="NAME.safetensors, or a model folder")
            command.add_argument("--no-average", action="store_true", help="the weights, and not their moving average")
            command.add_argument("--best", action="store_true", help="the model of the best validation")
            command.add_argument("--optimizer", action="store_true", help="everything, in one file")
            command.add_argument("--force", action="store_true", help="replace what an earlier export wrote")
    return made


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    try:
        given = parser().parse_args(arguments)
        return given.function(given)
    except InputError as error:
        return _refused(str(error), BAD_INPUT)
    except DamagedError as error:
        state = "incomplete" if isinstance(error, MissingError) else "damaged"
        return _refused(f"this checkpoint is {state}: {error}. To see all that is wrong with it, run verify.", DAMAGED)
    except BrokenPipeError:
        return reader_went_away()
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _refused(f"{where}{error.strerror or error}.", BAD_INPUT)
    except KeyboardInterrupt:
        return _refused("interrupted", INTERRUPTED, prefix="")


def _refused(text: str, code: int, prefix: str = "error: ") -> int:
    print(f"{prefix}{printable(text)}", file=sys.stderr, flush=True)
    return code


def main() -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    sys.exit(run())


if __name__ == "__main__":
    main()
