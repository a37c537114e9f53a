"""Which checkpoint a training resumes from.

    <checkpoints>/<data>-<fields and code>/step-00000120/...

The folders of one place whose names begin with the same data belong to one series of attempts. What a training goes on
from is the newest checkpoint that it could itself have made. An unfinished training of the same data by other fields or
other code stands in the way: it was perhaps meant to go on, and it is said what changed since. A finished one never
does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.steps.signature import values_before
from drivetrain.training.checkpointing.places import Place, open_place
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.store.store import Store
from drivetrain.training.config import LOOKS_ON, MAY_CHANGE, Config
from drivetrain.training.loop.identity import Identity
from drivetrain.training.loop.saved_state import check_state, is_config
from drivetrain.training.process import Process

# In the folder of a training that somebody has decided not to go on with.
SET_ASIDE_FILE = "set-aside.json"
# Steps and samples are counted: with another one of these a step is another number of samples.
_COUNTS = ("global_batch", "drop_last")
# Where one of these is another, a training that was over may have something left to do.
_ENDS = ("epochs", "max_steps", "early_stopping", "monitor")


@dataclass(frozen=True)
class Found:
    """A training whose folder lies beside ours, described by its newest checkpoint."""

    folder: str
    step: int
    finished: bool
    config: Mapping[str, Any]
    is_set_aside: bool = False


class Choice(NamedTuple):
    """The folder to keep checkpoints in, what to tell people, and folders that no longer stand in the way."""

    folder: str
    lines: tuple[str, ...] = ()
    set_aside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Training:
    """Where this training keeps its checkpoints (None: nowhere), and lines for people. `check` is given the values of
    the checkpoint that is about to be loaded, and raises InputError where they are of another training, DamagedError
    where they are none that a training writes."""

    place: Place | None
    lines: tuple[str, ...] = ()
    check: Callable[[dict[str, Any]], None] = lambda values: None


def find_training(
    checkpoints: Path | str | None, identity: Identity, config: Config, total_steps: int, process: Process
) -> Training:
    """Every rank must call it; rank 0 looks.

    Raises:
        InputError: an unfinished training stands in the way: what changed, and what can be done; or the place cannot be
            looked into.
    """
    if checkpoints is None:
        return Training(None)
    said: dict[str, Any] = {}
    if process.is_main:
        try:
            root = open_place(checkpoints)
            beside = found_beside(root, identity.data)
            choice = choose(beside, identity, config.on_change, total_steps, root.uri)
            for folder in choice.set_aside:
                reason = {"why": "another training of the same data was begun with on_change=fresh"}
                root.replace(f"{folder}/{SET_ASIDE_FILE}", json.dumps(reason).encode())
            begins = choice.folder not in {one.folder for one in beside}
            said = {
                "folder": choice.folder,
                "lines": (*choice.lines, *(_of_other_data(root, identity) if begins else ())),
            }
        except InputError as error:  # the others must hear of it, too
            said = {"problem": str(error)}
        except OSError as error:
            said = {
                "problem": f"cannot look for checkpoints in {checkpoints}: {error}. Fix that, or give another place."
            }
    said = json.loads(process.broadcast_bytes(json.dumps(said).encode() if process.is_main else None))
    if "problem" in said:
        raise InputError(said["problem"])
    place = open_place(f"{checkpoints}/{said['folder']}")

    def check(values: dict[str, Any]) -> None:
        check_state(values)
        refuse_other(values["config"], values["step"], identity, config, total_steps, place.uri)

    return Training(place, tuple(said["lines"]), check)


def found_beside(root: Place, data: str) -> list[Found]:
    """The trainings of that data, each by the newest checkpoint whose manifest is whole."""
    return _found(root, lambda folder: folder.startswith(f"{data}-"))


def _of_other_data(root: Place, identity: Identity) -> tuple[str, ...]:
    """Lines about unfinished trainings that differ from this one only in their data, for users who added a file and
    expected it to resume."""
    ending = identity.name.removeprefix(identity.data)
    return tuple(
        f"starting fresh: the unfinished training in {one.folder} at step {one.step} has other data"
        for one in _found(root, lambda folder: folder.endswith(ending))
        if not one.finished
    )


def _found(root: Place, belongs: Callable[[str], bool]) -> list[Found]:
    found: list[Found] = []
    names = root.names()
    for folder in sorted(filter(belongs, {name.partition("/")[0] for name in names})):
        store = Store(open_place(f"{root.uri}/{folder}"))
        for step in store.steps():
            try:
                values = store.manifest(step).values
            except (DamagedError, FileNotFoundError):
                continue  # it is set aside, with a report, when somebody wants to load it
            aside = f"{folder}/{SET_ASIDE_FILE}" in names
            config = values.get("config") or {}
            if not is_config(config):
                continue  # as if it were damaged
            found.append(Found(folder, step, bool(values.get("finished")), config, aside))
            break
    return found


def choose(found: list[Found], identity: Identity, on_change: str, total_steps: int, where: str) -> Choice:
    """Choose where to resume, or where to start.

    Args:
        found: the trainings of the same data.
        on_change: refuse, resume or fresh.
        total_steps: at which this training ends.

    Raises:
        InputError: refused.
    """
    now = identity.saved
    ours = [one for one in found if _fits(one, now, total_steps)]
    if ours:
        return Choice(max(ours, key=lambda one: (not one.finished, one.step)).folder)
    standing = [one for one in found if not one.finished and not one.is_set_aside]
    if standing and on_change != "fresh":
        # The one that differs least is the one that was probably meant.
        nearest = min(standing, key=lambda one: (len(changes(one.config, now)), -one.step))
        said = _described(nearest, now, total_steps)
        resumable = nearest.step <= total_steps and not _counts_otherwise(nearest.config, now)
        if on_change == "resume" and resumable:
            return Choice(nearest.folder, (f"going on although {said}",))
        ways = "on_change=resume to resume it anyway, " if resumable else ""
        raise InputError(
            f"an unfinished training of the same data lies in {where}/{nearest.folder} at step {nearest.step}, and "
            f"{said}. Undo that, or give {ways}on_change=fresh to start fresh beside it."
        )
    taken = {one.folder for one in found}
    names = [identity.name, *(f"{identity.name}-{number}" for number in range(2, len(taken) + 2))]
    folder = next(name for name in names if name not in taken)
    return Choice(folder, _why_beside(found, identity, folder, total_steps), tuple(one.folder for one in standing))


def _why_beside(found: list[Found], identity: Identity, folder: str, total_steps: int) -> tuple[str, ...]:
    """Why a finished training of the same name is not resumed."""
    before = next((one for one in found if one.folder == identity.name and one.finished), None)
    if before is None:
        return ()
    if before.step > total_steps:
        why = f"has taken {before.step} steps, and {_described(before, identity.saved, total_steps)}"
    else:
        now = identity.saved
        differing = [(name, was) for name, was in _differing(before.config, now) if name not in LOOKS_ON]
        changed = [f"{name} {was!r} -> {now[name]!r}" for name, was in differing]
        why = f"differs: {', '.join(dict.fromkeys([*changed, *changes(before.config, now)]))}"
    return (f"starting fresh in {folder}: the finished training in {before.folder} {why}",)


def refuse_other(
    saved: Mapping[str, Any], step: int, identity: Identity, config: Config, total_steps: int, where: str
) -> None:
    """Refuse a checkpoint that an earlier version of the training wrote; it is loaded when newer ones are damaged.

    Raises:
        InputError: it is.
    """
    one, now = Found(where, step, False, saved), identity.saved
    resumes = config.on_change == "resume" and not _counts_otherwise(saved, now)
    if step > total_steps or (changes(saved, now) and not resumes):
        raise InputError(
            f"the newest whole checkpoint lies in {where} at step {step}, and "
            f"{_described(one, now, total_steps)}. Undo that, or give on_change=fresh to start fresh."
        )


def changes(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What changed, for people: `learning_rate 0.003 -> 0.5`, `code of faces edited`."""
    lines = [f"{name} {was!r} -> {now[name]!r}" for name, was in _differing(saved, now) if name not in MAY_CHANGE]
    was, code = saved.get("code") or {}, now["code"]
    for module in sorted({*was, *code}):
        if was.get(module) != code.get(module):
            lines.append(f"code of {module} {'new' if module not in was else 'edited' if module in code else 'gone'}")
    if saved.get("weights", "") != now["weights"]:
        lines.append("weights to start from")
    if saved.get("continues", "") != now["continues"]:
        lines.append("the earlier model to go on from")
    return lines


def _fits(one: Found, now: Mapping[str, Any], total_steps: int) -> bool:
    if one.step > total_steps or changes(one.config, now):
        return False
    differing = {name for name, _ in _differing(one.config, now)}.difference(LOOKS_ON)
    # What is over, and would only be told again, must have been exactly this training.
    return not (one.finished and differing and not differing & set(_ENDS))


def _differing(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Fields whose values differ, with their old values. For a field that an older version did not have, `Since` gives
    the old behaviour; otherwise it had its default."""
    defaults = {field.name: field.default for field in fields(Config)} | values_before(Config)
    before = {name: saved.get(name, default) for name, default in defaults.items()}
    return [(name, was) for name, was in before.items() if was != now[name]]


def _counts_otherwise(saved: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether resuming is impossible, even on request."""
    return any(name in _COUNTS for name, _ in _differing(saved, now))


def _described(one: Found, now: Mapping[str, Any], total_steps: int) -> str:
    changed = changes(one.config, now)
    lines = [f"these changed since: {', '.join(changed)}"] if changed else []
    if _counts_otherwise(one.config, now):
        lines.append("its steps have a different number of samples")
    if one.step > total_steps:
        lines.append(f"this training ends at step {total_steps}: epochs or max_steps are fewer than they were")
    return ", and ".join(lines)
