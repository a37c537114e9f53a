"""Read and check `--interrupt`: which step loses its machines, when, and with how much notice.

train@step=120                          when step 120 has been taken
train@poisson=60s,seed=7,notice=2s      again and again, every 60 s on average, with 2 s of notice each time
step=120,notice=0                       of the only training step; SIGKILL to everything, without notice
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from drivetrain.targets.sagemaker.document.document import StepNode

# What EC2 gives between its notice and the end of a spot machine.
# https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
DEFAULT_NOTICE_S = 120.0
FORMS = (
    "STEP@step=120, STEP@poisson=60s; more after a comma: notice=2s (0: SIGKILL at once), seed=7. "
    "STEP@ may be left out where there is one training step"
)
_KEYS = ("step", "poisson", "seed", "notice")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|sec|m|min|h)?")
_UNITS = {"s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_LONGEST_S = 28 * 86_400.0  # the longest job


@dataclass(frozen=True, kw_only=True)
class Interruption:
    """One `--interrupt`: either once, at a step of the training, or again and again at random times.

    Attributes:
        text: as it was given, for messages.
        step: the pipeline's step; None for the only one that can be interrupted.
        at_step: the training step after which the machines go.
        mean_s: mean of the exponential waits, in seconds of the job at work.
        seed: of the waits and of the sync agent's order.
        notice_s: seconds from SIGTERM to SIGKILL; 0 for SIGKILL alone.
    """

    text: str
    step: str | None = None
    at_step: int | None = None
    mean_s: float | None = None
    seed: int = 0
    notice_s: float = DEFAULT_NOTICE_S

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Interruption:
        return Interruption(**data)


def parse(text: str) -> Interruption:
    """
    Raises:
        UserError: none of the allowed forms.
    """
    named, at, rest = text.rpartition("@")
    if at and not named:
        raise _refused(text, "there is no step before '@'")
    given: dict[str, str] = {}
    for part in rest.split(","):
        key, equals, value = (word.strip() for word in part.partition("="))
        if not equals or not value:
            raise _refused(text, f"{part.strip()!r} is no KEY=VALUE" if part.strip() else "a part is empty")
        if key not in _KEYS:
            raise _refused(text, f"it has no {key!r}. {did_you_mean(key, _KEYS)}"[:-1])
        if key in given:
            raise _refused(text, f"{key} is given twice")
        given[key] = value
    if ("step" in given) == ("poisson" in given):
        both = "step" in given
        raise _refused(text, "step and poisson are given both" if both else "neither step nor poisson is given")
    return Interruption(
        text=text,
        step=named or None,
        at_step=_whole(text, "step", given["step"], least=1) if "step" in given else None,
        mean_s=_seconds(text, "poisson", given["poisson"], least=0.1) if "poisson" in given else None,
        seed=_whole(text, "seed", given.get("seed", "0"), least=0),
        notice_s=_seconds(text, "notice", given["notice"], least=0.0) if "notice" in given else DEFAULT_NOTICE_S,
    )


def parse_all(texts: Iterable[str] | None) -> tuple[Interruption, ...]:
    """
    Raises:
        UserError: a text of none of the allowed forms, or the same one twice.
    """
    found: list[Interruption] = []
    for text in texts or ():
        interruption = parse(text)
        if interruption in found:
            raise UserError(f"--interrupt {text} is given twice. Give it once; a step is interrupted once.")
        found.append(interruption)
    return tuple(found)


def problems(
    wanted: Iterable[Interruption], steps: Mapping[str, str], refused: Mapping[str, str], stubs: Iterable[str]
) -> list[str]:
    """List the problems of the wanted interruptions of a definition, before it runs.

    Args:
        steps: name -> type of every step.
        refused: the training steps that cannot be interrupted, with the reason.
        stubs: the steps that are not run.
    """
    stubbed = set(stubs)
    trainings = [name for name, kind in steps.items() if kind == "Training" and name not in stubbed]
    can = [name for name in trainings if name not in refused]
    found: list[str] = []
    for one in wanted:
        where = f"--interrupt {one.text}"
        if one.step is None:
            if len(can) > 1:
                found.append(f"{where}: which step? Say it: {can[0]}@{one.text}. Allowed: {', '.join(can)}.")
            elif not can:
                why = "; ".join(f"{name} {reason}" for name, reason in refused.items()) or "there is no training step."
                found.append(f"{where}: no step can be interrupted: {why}")
        elif one.step not in steps:
            found.append(f"{where}: there is no step {one.step!r}. {did_you_mean(one.step, can or steps)}")
        elif one.step in stubbed:
            found.append(f"{where}: {one.step} is not run, since --stub gives its outputs.")
        elif steps[one.step] != "Training":
            allowed = f"Allowed: {', '.join(can)}." if can else "This pipeline has no training step."
            found.append(
                f"{where}: {one.step} is a step of type {steps[one.step]}. Only training jobs lose their machines and "
                f"go on. {allowed}"
            )
        elif one.step in refused:
            found.append(f"{where}: {one.step} {refused[one.step]}")
    return found


def of_step(wanted: Iterable[Interruption], step: StepNode) -> tuple[Interruption, ...]:
    """Those that are meant for a step; none for one that cannot be interrupted."""
    if step.type != "Training" or not step.arguments.get("CheckpointConfig"):
        return ()
    return tuple(one for one in wanted if one.step in (step.name, None))


def _whole(text: str, key: str, value: str, *, least: int) -> int:
    if not value.isascii() or not value.isdigit() or not least <= int(value[:19]) or len(value) > 18:
        raise _refused(text, f"{key} is {value!r:.40}, not a whole number from {least}")
    return int(value)


def _seconds(text: str, key: str, value: str, *, least: float) -> float:
    """`60s`, `5m`, `1.5h`, or a plain number of seconds."""
    found = _DURATION.fullmatch(value) if value.isascii() else None
    seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else -1.0
    if not least <= seconds <= _LONGEST_S:
        raise _refused(text, f"{key} is {value!r:.40}, not a time such as 60s, 5m or 2h")
    return seconds


def _refused(text: str, why: str) -> UserError:
    return UserError(f"--interrupt {text!r:.80}: {why}. Allowed: {FORMS}.")
