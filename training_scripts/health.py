"""Show the records of a training's health, or apply rules to them again.

    python -m drivetrain.training_scripts.health show build/output
    python -m drivetrain.training_scripts.health replay build/output --rules '{"overfitting": {"share": 0.1}}'

FOLDER is a training's output folder, or `health` in it; it may still be written. `show` tells what fired, where the
time went, and the last steps of each rank, also of one that was killed. `replay` applies the rules, with other options,
to what was recorded; nothing is trained. Of a script that has a hook of smdebug of its own, FOLDER has its trial: the
rules see what the hook saved. Exit codes: 0 done, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from drivetrain.base.errors import BAD_INPUT, InputError
from drivetrain.training.command_line import CommandParser, reader_went_away
from drivetrain.training.health import recording
from drivetrain.training.health.flight import Flight, read_flights
from drivetrain.training.health.record import PHASES
from drivetrain.training.health.rule import OF_NETWORKS, OF_TABLES, Finding, load_rules
from drivetrain.training.health.smdebug.files import Trial, read_trial, trials_below
from drivetrain.training.health.smdebug.trial import in_words, saved, summary_of
from drivetrain.training.health.summary import SUMMARY_FILE, Summary, summed_up
from drivetrain.training.health.wording import rules_in_words

LAST_STEPS = 3


def show(given: argparse.Namespace) -> int:
    """Show what was found while it ran."""
    folder = folder_of(given.folder)
    if isinstance(folder, Trial):
        found = summary_of(folder, "{}").as_json(0.0)
        lines = [f"saved by {in_words(folder)}", *summary_lines(found)]
        _print({**found, "smdebug": saved(folder)}, lines, given.json)
        return 0
    summary = folder / SUMMARY_FILE
    # Without a summary it still runs, or was killed: what rules say of what is there.
    found = _object(summary) if summary.is_file() else {**_as_it_was_told(folder).as_json(0.0), "unfinished": True}
    try:
        flights = read_flights(folder)
    except (ValueError, OSError) as error:
        raise InputError(f"{error}. Give the output folder of a training.") from None
    found["killed"] = [_killed(one) for one in flights if one.end.get("by") == "signal"]
    told = [{**asdict(one), "steps": one.steps[-given.steps :]} for one in flights]
    _print({**found, "flights": told}, [*summary_lines(found), *flight_lines(flights, given.steps)], given.json)
    return 0


def replay(given: argparse.Namespace) -> int:
    """Apply rules to what was recorded."""
    folder = folder_of(given.folder)
    summary = summary_of(folder, given.rules) if isinstance(folder, Trial) else _replayed(folder, given.rules)
    found = summary.as_json(0.0)
    kept = {name: found[name] for name in ("healthy", "findings", "rules", "records")}
    _print(kept, summary_lines(found), given.json)
    return 0


def _print(found: Mapping[str, Any], lines: Sequence[str], as_json: bool) -> None:
    print(json.dumps(_plain(dict(found)), indent=2) if as_json else "\n".join(lines))


def folder_of(given: str) -> Path | Trial:
    """The folder `health`, or what smdebug has saved.

    Raises:
        InputError: nothing was recorded there.
    """
    for folder in (Path(given), Path(given) / recording.FOLDER):
        if (folder / recording.RECORDS_FILE).is_file():
            return folder
    trials = trials_below(Path(given))
    if len(trials) > 1:
        raise InputError(f"{given} holds {len(trials)} trials of smdebug. Give one: {', '.join(map(str, trials))}.")
    if trials:
        return read_trial(trials[0])
    raise InputError(
        f"{given} holds no {recording.FOLDER}/{recording.RECORDS_FILE}. Give the output folder of a training that ran "
        "with health=true, or of a script with a hook of smdebug."
    )


def summary_lines(found: Mapping[str, Any]) -> list[str]:
    """For people."""
    findings = found.get("findings") or []
    records = found.get("records") or {}
    validations = records.get("validation", 0)
    state = "healthy" if found.get("healthy") else "not healthy"
    lines = [
        f"{state}: {rules_in_words((one['action'] for one in findings), len(found.get('rules') or {}))}; "
        f"{records.get('ranks', 0)} records, {records.get('tensors', 0)} of them with tensors, and "
        f"{validations} validation{'' if validations == 1 else 's'}"
    ]
    if found.get("killed"):
        lines += [*found["killed"], "(this is what the rules say of what the training left)"]
    elif found.get("unfinished"):
        lines.append("(the training has not ended, or was killed; this is what the rules say of what it left)")
    for one in findings:
        often = f", {one['times']} times until step {one['last_step']}" if one["times"] > 1 else ""
        lines += [
            f"  {one['action']:<5} {one['rule']} at step {one['step']}{often}: {one['text']}",
            f"        {one['advice']}",
        ]
    if found.get("verdict"):
        lines.append(f"time: {found['verdict']}")
    lines += [f"host {number}: {text}" for number, text in enumerate(found.get("hosts") or [])]
    lines += _phase_lines(found.get("phases") or {})
    return lines


def _phase_lines(phases: Mapping[str, list[float]]) -> list[str]:
    """A row a rank: each phase's share of its time."""
    named = [name for name, seconds in phases.items() if name not in ("steps", "own") and any(seconds)]
    if not named:
        return []
    lines = ["  rank  " + "  ".join(f"{name:>13}" for name in named) + f"  {'own ms a step':>13}"]
    for rank in range(len(phases[named[0]])):
        whole = sum(phases[name][rank] for name in named) or 1.0
        own = phases["own"][rank]
        cells = [f"{phases[name][rank] / whole:>13.1%}" for name in named]
        cells.append(f"{own * 1e3:>13.3g}" if own else f"{'-':>13}")
        lines.append(f"  {rank:>4}  " + "  ".join(cells))
    return lines


def _killed(flight: Flight) -> str:
    after = f"after step {flight.steps[-1]['step']:.0f}" if flight.steps else "before its first step"
    return f"rank {flight.rank} was ended {after} by {flight.end['reason']!s:.200}"


def flight_lines(flights: Sequence[Flight], steps: int) -> list[str]:
    lines: list[str] = []
    for flight in flights:
        last = flight.steps[-1] if flight.steps else None
        ended = f", ended by {str(flight.end['reason']).splitlines()[0]:.200}" if flight.end.get("reason") else ""
        lines.append(f"rank {flight.rank}: " + (f"last step {last['step']:.0f}{ended}" if last else f"no step{ended}"))
        for step in flight.steps[-steps:] if steps else ():
            loss = "-" if math.isnan(step["loss"]) or not step["samples"] else f"{step['loss'] / step['samples']:.5g}"
            seconds = sum(value for name, value in step.items() if name in PHASES)
            lines.append(
                f"  step {step['step']:.0f}  samples {step['consumed']:.0f}  loss {loss}  "
                f"learning_rate {step['learning_rate']:.4g}  {seconds * 1e3:.3g} ms"
            )
    return lines


def _replayed(folder: Path, given: str) -> Summary:
    names, records = recording.read(folder / recording.RECORDS_FILE)
    return summed_up(load_rules(given, OF_TABLES if names.of_table else OF_NETWORKS), records)


def _as_it_was_told(folder: Path) -> Summary:
    """By the training's own `health_rules`; by the usual ones where its own modules are not here."""
    try:
        return _replayed(folder, recording.rules_of(folder))
    except InputError as error:
        print(f"the usual rules, for the training's own cannot be applied here: {error}", file=sys.stderr)
        return _replayed(folder, "{}")


def _object(path: Path) -> dict[str, Any]:
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
        for one in found["findings"]:
            Finding(**one)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{path} is no summary of ours. Give the output folder of a training.") from None
    return found


def _plain(value: Any) -> Any:
    """JSON has neither infinities nor NaN: they become null."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parser() -> argparse.ArgumentParser:
    made = CommandParser(
        prog="python -m drivetrain.training_scripts.health",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=CommandParser)
    for function, summary in ((show, "what fired, where the time went, the last steps"), (replay, "apply rules anew")):
        command = commands.add_parser(function.__name__, help=summary, description=f"{summary}.", allow_abbrev=False)
        command.set_defaults(function=function)
        command.add_argument("folder", metavar="FOLDER", help="the output folder of a training")
        command.add_argument("--json", action="store_true", help="for scripts")
        if function is show:
            command.add_argument("--steps", type=int, default=LAST_STEPS, help="of each rank's last steps so many")
        else:
            command.add_argument("--rules", default="{}", metavar="JSON", help="as health_rules of a training")
    return made


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of a command line."""
    try:
        given = parser().parse_args(arguments)
        code = given.function(given)
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        return reader_went_away()


if __name__ == "__main__":
    sys.exit(run())
