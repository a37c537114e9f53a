"""What takes hours, as jobs on lanes: `make test-nightly`.

Campaigns of faults and mutants go on where they were stopped; `FAULT_MINUTES` in the environment bounds the campaign.
"""

import os
import sys

from jobs import PROGRAMS
from lanes import Job, main

_MINUTES = os.environ.get("FAULT_MINUTES", "240")

JOBS = [
    Job("setup", "make setup", 120),
    Job("install-audit", "make .venvs/audit/.installed", aside=True),
    Job("install-tensorflow", "make .venvs/tensorflow/.installed", 3, ("setup",), aside=True),
    Job(
        "nightly",
        "HYPOTHESIS_PROFILE=nightly .venv/bin/python -m pytest -m 'nightly or hypothesis'",
        3000,
        ("setup", "install-tensorflow"),
    ),
    Job("mutants", "make mutants", 600, ("setup",)),
    Job("programs", PROGRAMS, 5, aside=True),
    Job("horovod", "make horovod", 300, ("setup", "programs")),
    Job("test-horovod", "make test-in ENV=horovod", 100, ("horovod",)),
    Job("test-spark35", "make test-in ENV=spark35", 2000, ("setup", "programs")),
    Job("faults", f'make faults ARGS="--minutes {int(_MINUTES)}"', 9000, ("setup", "horovod")),
    Job("install-hashed", "make .venvs/hashed/.installed", 15, ("setup",)),
    Job("audit-code", "make audit-code", 20, ("setup", "install-audit")),
    Job("audit-pins", "make audit-pins", 10, ("setup", "install-audit")),
    Job("bench", "make bench", 1800, ("setup",), alone=True),
]

if __name__ == "__main__":
    sys.exit(main(JOBS))
