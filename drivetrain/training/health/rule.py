"""The contract of a rule: one file that says what it watches, when it fires, what that means and what to do about it.

A file `rules/<name>.py`, or a module of the user's own, has

    WATCHES = "tensors"      what a record must have for the rule to see it: ranks, loss, tensors, layers, classes,
                             validation or columns
    ACTION = "warn"          unless the user says otherwise: note, warn, fail or stop
    WINDOW = "..."           how soon it fires after a fault, for people
    ADVICE = "..."           what to do
    SPOILS = True            where it fires the weights are of no use: a training that stops does not save them
                             (optional; otherwise they are saved)
    REMEMBERS = ("_first",)  which attributes a training that goes on takes over from the start before: numbers, None,
                             or lists of these (optional). What is compared with a training's beginning needs it.
    class Rule               a dataclass whose fields are its options, plain values with defaults; the method `see`

and as its docstring what it fires on. A rule keeps what it needs of earlier records itself. It sees the same records on
all ranks, and must come to the same answer: nothing else (a clock, a random number) may be asked.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, cast, get_args

from drivetrain.base.errors import InputError
from drivetrain.base.json_options import parse_options
from drivetrain.training import plugins
from drivetrain.training.errors import unknown_name
from drivetrain.training.health.record import Record
from drivetrain.training.options import build_options

Watches = Literal["ranks", "loss", "tensors", "layers", "classes", "validation", "columns"]
OF_NETWORKS: tuple[Watches, ...] = ("ranks", "loss", "tensors", "layers", "classes", "validation")
OF_TABLES: tuple[Watches, ...] = ("validation", "columns")
"""The records of trainings of recipes, and of those on tables."""
Action = Literal["note", "warn", "fail", "stop"]
"""Each does what the one before does, too: write it down; print it; `healthy` is 0; all ranks save and end."""

FAMILY = "health/rules"
_OFF = "off"


class Seen(NamedTuple):
    """A rule fires: its finding, as a sentence, and the tensor, layer or rank that it is about."""

    text: str
    about: str = ""


class Rule(Protocol):
    """See the module."""

    def see(self, record: Record) -> Seen | None:
        """Look at a record that has what the rule watches; None where all is well."""
        ...


@dataclass(frozen=True)
class Watching:
    """A rule in a training."""

    name: str
    rule: Rule
    action: Action
    watches: Watches
    advice: str
    spoils: bool
    remembers: tuple[str, ...] = ()

    def state(self) -> dict[str, Any]:
        """The state for a later start; empty if a number is not finite, which a checkpoint cannot hold."""
        held = {name: getattr(self.rule, name) for name in self.remembers}
        return held if all(map(_is_plain, held.values())) else {}

    def load_state(self, state: Mapping[str, Any]) -> None:
        for name in self.remembers:
            if name in state and _is_plain(state[name]):
                setattr(self.rule, name, state[name])

    @property
    def about_model(self) -> bool:
        """True if the rule watches the model and not the machines."""
        return self.watches != "ranks"


@dataclass
class Finding:
    """A rule that has fired: first at `step`, `times` in all."""

    rule: str
    step: int
    action: Action
    text: str
    about: str = ""
    advice: str = ""
    spoils: bool = False
    times: int = 1
    last_step: int = field(default=0)

    def describe(self) -> str:
        return f"{self.rule} at step {self.step}: {self.text}. {self.advice}"


def load_rules(given: str, watched: Collection[Watches] = OF_NETWORKS) -> list[Watching]:
    """All rules of the folder that watch what is recorded, and the user's own among `given`, a JSON object: name ->
    "off", or an object with `action` and the rule's options.

    Raises:
        InputError: no such rule, option or action (with the closest match), or a module that is no rule; one that is
            named and watches what is not recorded.
    """
    options = parse_options(given, "health_rules")
    own = [name for name in options if name not in plugins.names(FAMILY)]
    rules = [_load(name, options.get(name, {})) for name in [*plugins.names(FAMILY), *own]]
    loaded = [rule for rule in rules if rule is not None]
    found = [rule for rule in loaded if rule.watches in watched]
    for rule in loaded:
        if rule.name in options and rule not in found:
            raise InputError(
                f"health_rules: {rule.name!r} watches {rule.watches}, which this training does not record. Allowed: "
                f"{', '.join(each.name for each in found)}."
            )
    return found


def see(rules: Sequence[Watching], record: Record) -> list[Finding]:
    """Show a record to the rules, and give their findings."""
    found: list[Finding] = []
    for watching in rules:
        if not _has(record, watching.watches):
            continue
        seen = watching.rule.see(record)
        if seen is not None:
            text = seen.text.rstrip(".")
            about, advice = seen.about, watching.advice
            found.append(Finding(watching.name, record.step, watching.action, text, about, advice, watching.spoils))
    return found


def _has(record: Record, watched: Watches) -> bool:
    if watched == "loss":
        return record.validation is None and record.loss is not None
    return getattr(record, watched) is not None


def _load(name: str, given: Any) -> Watching | None:
    module = plugins.load(FAMILY, name, kind="health rule", own_modules=True)
    owner = f"health rule {name!r}"
    if given == _OFF:
        return None
    if not isinstance(given, Mapping):
        raise InputError(
            f'health_rules: {name!r} is {json.dumps(given)}. Allowed: "off", or an object with its action and '
            'options: {"action": "stop"}.'
        )
    options = dict(cast("Mapping[str, Any]", given))
    found = getattr(module, "Rule", None)
    watches: Any = getattr(module, "WATCHES", None)
    action = options.pop("action", getattr(module, "ACTION", "warn"))
    if not isinstance(found, type) or not dataclasses.is_dataclass(found) or not callable(getattr(found, "see", None)):
        raise InputError(f"{owner} ({module.__file__}) has no dataclass named Rule with a method see(record).")
    if watches not in get_args(Watches):
        raise unknown_name(f"WATCHES of {owner}", str(watches), get_args(Watches))
    if action not in get_args(Action):
        raise unknown_name(f"action of {owner}", str(action), get_args(Action))
    if name in plugins.names(FAMILY):
        _refuse_below_zero(options, owner)
    rule: Any = build_options(found, options, owner)
    spoils = bool(getattr(module, "SPOILS", False))
    remembers = tuple(getattr(module, "REMEMBERS", ()))
    return Watching(name, rule, action, watches, getattr(module, "ADVICE", ""), spoils, remembers)


def _refuse_below_zero(options: Mapping[str, Any], owner: str) -> None:
    """Shares, factors, times and numbers of records are all that the rules of the folder take.

    Raises:
        InputError: one is below 0, with which a rule would fire always or never.
    """
    for name, value in options.items():
        if isinstance(value, (int, float)) and value < 0:
            raise InputError(f"{owner}: {name}={json.dumps(value)}; allowed is a number from 0.")


def _is_plain(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, cast("Sequence[Any]", value)))
    return value is None or (isinstance(value, (int, float)) and math.isfinite(value))
