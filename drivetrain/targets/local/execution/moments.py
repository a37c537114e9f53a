"""What Execution.CurrentDateTime is for a step: the moment at which it first began, kept in the run's folder.

Were it the time of day at each attempt, a step that was killed would go on as another one: its outputs would go
elsewhere, a question would be asked again, and finished trainings of a tuning would be thrown away.
"""

from __future__ import annotations

import json
import time

from drivetrain.targets.local.home import Home
from drivetrain.targets.local.resume.request import write_whole

_MOMENT = "moment.json"


def of_step(home: Home, execution: str, step: str) -> float:
    """The moment of a step, in seconds since the epoch: that which is kept, or now, which is kept from now on."""
    path = home.run(execution) / step / _MOMENT
    try:
        return float(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        pass  # it is asked for the first time
    now = time.time()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(now))
    return now
