"""Start a host's program with what only this host has: `python host_launch.py LAUNCH`.

LAUNCH is a JSON file below the host's /opt/ml with `command`, `environment` and `working_folder`. All hosts of a job
start with one command and one environment; where they differ (SM_CURRENT_HOST), this file stands in between.
"""

from __future__ import annotations

import json
import os
import sys

if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        launch = json.load(file)
    os.chdir(launch["working_folder"])
    os.execvpe(launch["command"][0], launch["command"], {**os.environ, **launch["environment"]})
