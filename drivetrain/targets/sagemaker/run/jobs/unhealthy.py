"""The health rule that failed a training, from the health.json that it wrote."""

from __future__ import annotations

import json
from typing import Any

from drivetrain.base.formatting import UNHEALTHY

_FAILS = ("fail", "stop")
_MAX_CHARACTERS = 600


def failed_rule(given: bytes) -> str | None:
    """`unhealthy: RULE at step 9: what it saw. what to do`; None where no rule failed the training, or where a program
    of the user's own wrote something else there."""
    try:
        found: Any = json.loads(given)
        failed = [one for one in found["findings"] if one["action"] in _FAILS]
        said = [f"{one['rule']} at step {one['step']}: {one['text']}. {one['advice']}" for one in failed]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not said:
        return None
    others = ", ".join(str(one["rule"]) for one in failed[1:])
    more = f" Failed, too: {others}." if others else ""
    return UNHEALTHY + " ".join(f"{said[0].strip()}{more}".split())[:_MAX_CHARACTERS]
