"""One interpreter from which the tasks of a run on one machine are forked:

    python -m drivetrain.steps.kubeflow.forks FD

To start an interpreter and import what a task needs takes longer than the rest of a small task. FD is a socket. Each
request on it brings two files: the task reads its executor input and its variables from the first (marshal), and its
exit code is written as text to the second. This process ends when the other end of the socket is closed; running tasks
go on.
"""

from __future__ import annotations

import contextlib
import importlib
import marshal
import os
import selectors
import socket
import sys

from drivetrain.steps.kubeflow.__main__ import main
from drivetrain.steps.kubeflow.program import Become

# What a component needs before the user's code is imported; not drivetrain.steps.call, which is run.
_COMPONENTS = ("drivetrain.steps.command_line", "drivetrain.steps.declaration", "drivetrain.steps.user_code")


def serve(requests: socket.socket) -> int | None:
    """Serve until the other end is closed; returns in each fork alone, with the file to read from."""
    waiting: dict[int, tuple[int, int]] = {}  # of tasks at work: a file that is readable once it has ended -> it
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd != requests.fileno():
                    _tell(selector, key.fd, *waiting.pop(key.fd))
                    continue
                word, files, _, _ = socket.recv_fds(requests, 1, 2)
                if not word:
                    os._exit(0)
                given, reply = files
                pid = os.fork()
                if pid == 0:
                    for file in (reply, *(each for _, each in waiting.values()), *waiting):
                        os.close(file)
                    requests.close()
                    return given
                os.close(given)
                ended = os.pidfd_open(pid)
                waiting[ended] = (pid, reply)
                selector.register(ended, selectors.EVENT_READ)


def _tell(selector: selectors.BaseSelector, ended: int, pid: int, reply: int) -> None:
    """A task has ended."""
    selector.unregister(ended)
    os.close(ended)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        os.write(reply, b"%d" % code)
    os.close(reply)


if __name__ == "__main__":
    for name in _COMPONENTS:
        importlib.import_module(name)
    given = serve(socket.socket(fileno=int(sys.argv[1])))
    assert given is not None
    with open(given, "rb") as file:
        executor_input, environment = marshal.load(file)  # kfp's runner wrote it  # nosec B302
    # The code of this task: of the package it may hold other rooms than what is loaded.
    sys.path[1:2] = environment["PYTHONPATH"].split(os.pathsep)
    sys.modules["drivetrain"].__path__[:] = [os.path.join(sys.path[1], "drivetrain")]
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:] = [executor_input]
    try:
        main()
    except Become as program:
        program.run()
