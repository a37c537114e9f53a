"""Become a program without network where the kernel allows it, within limits: `python -I -S confined.py COMMAND...`.

For code that came with a model. It dies with the process that started it. Standard library only.
"""

import os
import resource
import signal
import sys

# At the end of the path: nothing in this folder may hide a module of the standard library.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))

import namespaces


def confine() -> None:
    """Limit this process: no core file, no more data than the machine has memory, no network."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for kind, wanted in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, memory)):
        _, hard = resource.getrlimit(kind)
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(kind, (most, most))
    if _may_leave_network():
        namespaces.leave_network()
    namespaces.set_parent_death_signal(signal.SIGKILL)


def _may_leave_network() -> bool:
    """Try it in a child process, because a partial change could not be undone."""
    child = os.fork()
    if child == 0:
        try:
            namespaces.leave_network()
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


if __name__ == "__main__":
    confine()
    os.execv(sys.argv[1], sys.argv[1:])
