"""One interpreter, loaded once, from which supervisors are forked on request of spares.py (standard library only).

Starting an interpreter and importing what the start file and a component need takes longer than all that a small step
does. Each request on stdin, a socket, brings two files: the fork's stdin and stdout. The fork tells its pid on its
stdout, and is from then on a supervisor whose job may come (supervision.py).

The server ends with the runner, whose end closes its stdin, and ends waiting forks. A fork with a job ends the job, as
it does on SIGTERM.
"""

from __future__ import annotations

import os
import socket

import become
import scribe
import supervision

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # see ending.py

_LONGEST = 64  # bytes of a request


def serve(modules: list[str]) -> int | None:
    """Serve until the runner ends. Returns only in the forks, with the descriptor that watches the runner."""
    runner = supervision.watch_parent()
    become.load(modules)
    scribe.log_masking(())  # loads what masks
    requests = socket.socket(fileno=0)
    # Until here SIGTERM ends it at once; from here on there may be forks to take along.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    forked: list[int] = []
    while True:
        request, files, _, _ = socket.recv_fds(requests, _LONGEST, 2)
        # Their times count as the server's from here on, and those as the runner's.
        forked = [pid for pid in forked if os.waitpid(pid, os.WNOHANG)[0] == 0]
        if not request:
            break
        pid = os.fork()
        if pid == 0:
            requests.detach()
            _wait_for_a_job(files)
            return runner
        forked.append(pid)
        for file in files:
            os.close(file)
    for pid in forked:
        os.kill(pid, signal.SIGTERM)
    for pid in forked:
        os.waitpid(pid, 0)
    os._exit(0)


def _wait_for_a_job(files: list[int]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.setsid()  # as each supervisor has a session of its own
    for descriptor, file in enumerate(files):
        os.dup2(file, descriptor)
        os.close(file)
    os.write(1, b"%d\n" % os.getpid())
