"""What a change must pass, as jobs on lanes: on a clean clone, Debian 12 with Python 3.11, two cores, no
accelerator, package index only."""

import sys

from lanes import Job, main

# Some launcher tests start plain MPI programs, and hosts in network namespaces; Horovod is built by CMake; tests of the
# pages start a browser; Spark runs on Java; a source is a PostgreSQL server. They skip where these are missing. (One
# job: apt lets one in at a time.)
PROGRAMS = """
if [ "$(id -u)" = 0 ]; then
  missing=
  for program in mpicc mpirun cmake ip chromium java; do command -v $program >/dev/null || missing=yes; done
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing=yes
  if [ -n "$missing" ]; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq openmpi-bin libopenmpi-dev g++ make patch cmake iproute2 \
      chromium openjdk-17-jre-headless postgresql >/dev/null
  fi
fi"""


def _tests(verb: str, seconds: int, *needs: str, part: str = "", words: str = "") -> Job:
    """`part`: what a piece of a suite that is longer than the others is called, and `words` what chooses it."""
    name = f"{verb}-{part}" if part else verb
    return _run(verb, name, seconds, needs, words)


def _tests_in(environment: str, seconds: int, *needs: str) -> Job:
    return _run(f"test-in ENV={environment}", f"test-{environment}", seconds, needs)


def _run(verb: str, name: str, seconds: int, needs: tuple[str, ...], words: str = "") -> Job:
    words = f"{words} --junitxml=build/tests/{name}.xml".strip()
    return Job(name, f'make {verb} JOBS=1 ARGS="{words}"', seconds, ("setup", *needs))


# Environments of their own, and about how many seconds each takes.
INSTALLED = {"toolkit": 4, "image": 3, "tensorflow": 3, "spark": 3, "sdk": 2, "sdk2": 1, "infra": 1, "debugger": 1}

JOBS = [
    Job("setup", "make setup", 120),
    # What the longest suite needs, then environments of their own.
    Job("programs", PROGRAMS.strip(), 5, aside=True),
    *(
        Job(f"install-{name}", f"make .venvs/{name}/.installed", seconds, ("setup",), aside=True)
        for name, seconds in INSTALLED.items()
    ),
    # A build takes 5 minutes of CPU time, at low priority beside the others; its wheels are kept for the next run.
    # Where it does not end in time, the tests of Horovod skip.
    Job(
        "horovod",
        'make horovod HOROVOD_ARGS="${HOROVOD_ARGS:---limit 1200}"',
        needs=("programs", "install-tensorflow"),
        aside=True,
    ),
    Job("check", "make check", 90, ("setup",)),
    _tests("test", 500),
    _tests("test-slow", 1000, "programs", part="ranks", words="tests/distributed"),
    _tests("test-slow", 900, "programs", part="rest", words="--ignore=tests/distributed"),
    _tests_in("toolkit", 60, "install-toolkit"),
    _tests_in("image", 60, "install-image"),
    _tests_in("infra", 60, "install-infra"),
    _tests_in("sdk", 190, "programs", "install-sdk", "install-sdk2"),
    _tests_in("debugger", 30, "install-debugger"),
    _tests_in("tensorflow", 180, "horovod"),  # of which some want Horovod, and TensorFlow is installed before it
    _tests_in("spark", 180, "programs", "install-spark"),
    _tests_in("horovod", 100, "horovod"),
    Job("run", "make run", 20, ("setup",)),
    Job("faults", 'make faults ARGS="--quick"', 260, ("setup", "install-tensorflow", "install-spark")),
    # Shows that every benchmark runs; its figures are those of a busy machine.
    Job("bench", 'make bench ARGS="--quick --no-peers"', 180, ("setup",)),
]

if __name__ == "__main__":
    sys.exit(main(JOBS))
