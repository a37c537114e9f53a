"""Match regular expressions from definitions in a process that can be killed.

A pattern such as `(a+)+$` takes `re` exponential time, in which no signal is heard. So a process of its own does the
matching, and a timer of the kernel ends it when a pattern has had its CPU time.

This file is also that process's program (`python -I -S bounded_matching.py`), so it imports the standard library only.
"""

from __future__ import annotations

import json
import re
import resource
import signal
import sys
import weakref
from collections.abc import Sequence

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    from subprocess import Popen

CPU_S = 2.0
MAX_MEMORY = 1 << 30


class PatternTooSlowError(Exception):
    """A pattern took too much time or memory for its lines."""


class Matcher:
    """Finds numbers in lines. The process starts with the first question, and ends with `close`.

    A question may take `cpu_s` seconds of CPU time.
    """

    def __init__(self, cpu_s: float = CPU_S) -> None:
        self.cpu_s = cpu_s
        self._process: Popen[str] | None = None
        self._end = weakref.finalize(self, lambda: None)

    def values(self, pattern: str, lines: Sequence[str]) -> list[tuple[int, float]]:
        """Place of the line and value, for each match (its first group where it has one) that is a number, nan and inf
        included.

        Raises:
            PatternTooSlowError: it took more time, or more than MAX_MEMORY bytes.
        """
        process = self._process or self._start()
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(json.dumps([self.cpu_s, pattern, lines]) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer.endswith("\n"):
            self.close()
            raise PatternTooSlowError
        return [(place, value) for place, value in json.loads(answer)]

    def close(self) -> None:
        """End the process; a later question starts another."""
        self._end()
        self._process = None

    def _start(self) -> Popen[str]:
        import subprocess

        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the runner
            text=True,
        )
        self._process, self._end = process, weakref.finalize(self, _kill, process)
        return process


def _kill(process: Popen[str]) -> None:
    import contextlib

    process.kill()
    with contextlib.suppress(BrokenPipeError):
        process.communicate()


def _numbers(pattern: str, lines: Sequence[str]) -> list[tuple[int, float]]:
    compiled = re.compile(pattern)
    found: list[tuple[int, float]] = []
    for place, line in enumerate(lines):
        for match in compiled.finditer(line):
            try:
                found.append((place, float(match.group(1) if compiled.groups else match.group())))
            except (TypeError, ValueError):
                continue  # the service, too, passes over what is no number
    return found


def _bounded(kind: int, wanted: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def _answer_questions() -> None:
    _bounded(resource.RLIMIT_AS, MAX_MEMORY)
    # The default action ends the process, whatever `re` is doing.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGPROF])
    for question in sys.stdin:
        cpu_s, pattern, lines = json.loads(question)
        signal.setitimer(signal.ITIMER_PROF, cpu_s)
        print(json.dumps(_numbers(pattern, lines)), flush=True)
        signal.setitimer(signal.ITIMER_PROF, 0)


if __name__ == "__main__":
    _answer_questions()
