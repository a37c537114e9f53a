"""Events that a job sends by EventBridge's PutEvents, to the default bus of its account."""

# botocore has no types of its own.
# pyright: basic

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.aws.session import client, open_session
from drivetrain.base.errors import InputError

PERMISSION = "events:PutEvents"
MOST = 10
"""Entries of one request. https://docs.aws.amazon.com/eventbridge/latest/APIReference/API_PutEvents.html"""


def put_events(source: str, events: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Send events, each a detail type and a detail.

    Raises:
        InputError: no credentials; EventBridge refuses the request, or one of its entries.
    """
    errors: Any = importlib.import_module("botocore.exceptions")
    bus = client(open_session("events of findings need"), "events")
    for first in range(0, len(events), MOST):
        entries = [
            {"Source": source, "DetailType": kind, "Detail": json.dumps(dict(detail), allow_nan=False)}
            for kind, detail in events[first : first + MOST]
        ]
        try:
            answer = bus.put_events(Entries=entries)
        except (errors.ClientError, errors.BotoCoreError) as error:
            raise _refused(" ".join(str(error).split())) from None
        if answer["FailedEntryCount"]:
            failed = next(each for each in answer["Entries"] if each.get("ErrorCode"))
            raise _refused(f"{answer['FailedEntryCount']} events: {failed['ErrorCode']}: {failed.get('ErrorMessage')}")


def _refused(why: str) -> InputError:
    return InputError(
        f"EventBridge did not take the event of a finding: {why.rstrip('.')}. Allow the role of this step {PERMISSION} "
        "on the default event bus, and run it again: the finding is kept, and is told then."
    )
