"""The supervisor of one host (standard library only; started by supervisor.py).

Two processes guard a job. The *guard* was started by the runner, or forked for it (fork_server.py). It forks the
*manager*, which starts the command, takes in every orphan (as the first process of a pid namespace where the kernel
allows one, else as child subreaper), and ends all descendants when there is a reason to. Each watches the other, so no
single SIGKILL frees a job:

    runner dies     the manager sees the end of stdin (and of the runner's pidfd) and ends the job
    guard dies      a pid namespace is killed by the kernel; without one the manager sees the end of its pipe
    manager dies    a pid namespace is killed by the kernel; without one its orphans fall to the guard

stdin: the job, as a line with the number of bytes that follow (never a file: its environment may hold secrets), later
`stop SECONDS` or `interrupt SECONDS`. stdout: nothing; its end tells the runner that both are gone. stderr: the job's
log, to which the guard brings what the command writes (scribe.py). What happened is written to the record, a file that
appears by rename when nothing of the job lives any more.
Runner and supervisor are of one Python, so what they tell each other is marshalled: json would take a quarter of the
start to import.

A stop is what a container platform does: SIGTERM to the command alone (a data loader's worker that gets it too would
fail the training that is just saving), the grace, then SIGTERM and at last SIGKILL to whatever is left. An interruption
is what happens to a machine that is taken away: after its seconds of notice SIGKILL to everything, with 0 at once.
"""

from __future__ import annotations

import marshal
import os
import resource
import time

import ending
import manager
import namespaces
import process_table
import scribe

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    import _signal as signal  # see ending.py


def main(runner: int | None) -> int:
    """The guard, which watches the runner by a descriptor. Returns 0 when the record was written, whatever became of
    the job."""
    namespaces.set_subreaper()
    given = _job()
    if given is None:
        return 1  # the runner died before it had recorded us: nothing may start
    job, rest = given
    spec: dict[str, Any] = marshal.loads(job)  # the runner wrote it  # nosec B302
    if spec.get("log"):  # the job was not known when this process started
        log = os.open(spec["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        os.close(log)
    started_at = time.time()
    temporary: str = spec["temporary"]
    os.mkdir(temporary, 0o700)
    report_read, report_write = os.pipe()
    alive_read, alive_write = os.pipe()
    output = scribe.Scribe(spec["secrets"])
    try:
        if (spec["mounts"] or spec["pid_namespace"]) and os.geteuid() != 0:
            namespaces.enter_user_namespace()
        if spec["pid_namespace"]:
            namespaces.unshare(namespaces.CLONE_NEWPID)
    except OSError as error:  # the probe allowed it; the limit of namespaces may have been reached since
        ending.write(f"drivetrain: cannot isolate the job: {error}\n")
        return _conclude(spec, {"exit_code": 126, "error": str(error)}, None, started_at)
    child = os.fork()
    if child == 0:
        os.close(report_read)
        os.close(alive_write)
        manager.manage(spec, report_write, alive_read, runner, rest, output)
    os.close(report_write)
    os.close(alive_read)
    os.close(output.write)
    os.close(0)  # the manager reads it

    def forward(number: int, frame: object) -> None:
        process_table.send(child, signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    report = output.copy_until_end(report_read)
    _, status, usage = os.wait4(child, 0)
    if ending.reap_orphans() and not ending.end_all(ending.signal_descendants, ending.reap_orphans):
        ending.write("drivetrain: processes that cannot be killed were left behind\n")
    output.finish()
    told: dict[str, Any] = (
        marshal.loads(report)  # a child of this process wrote it  # nosec B302
        if report
        else {"error": "the supervisor was killed", **ending.ended(status)}
    )
    return _conclude(spec, told, usage, started_at)


def _conclude(
    spec: dict[str, Any], told: dict[str, Any], usage: resource.struct_rusage | None, started_at: float
) -> int:
    _remove(spec["temporary"])
    record = {
        "exit_code": None,
        "signal": None,
        "timed_out": False,
        "stopped": False,
        "error": None,
        "command_ended_at": None,
        "started_at": started_at,
        "ended_at": time.time(),
        "user_s": usage.ru_utime if usage else 0.0,
        "system_s": usage.ru_stime if usage else 0.0,
        "max_rss_bytes": usage.ru_maxrss * 1024 if usage else 0,
        **told,
    }
    unfinished = spec["record"] + ".unfinished"
    with open(unfinished, "wb") as file:
        marshal.dump(record, file)
    os.replace(unfinished, spec["record"])
    return 0


def watch_parent() -> int | None:
    """A descriptor that becomes readable when the runner ends; None where the kernel has none (then stdin tells)."""
    try:
        return os.pidfd_open(os.getppid())
    except OSError:
        return None


def _job() -> tuple[bytes, bytes] | None:
    """Read the job from stdin, and the bytes behind it; None if the runner is gone before it has sent all."""
    data = b""
    while chunk := os.read(0, 1 << 20):
        data += chunk
        size, end, rest = data.partition(b"\n")
        if end and len(rest) >= int(size):
            return rest[: int(size)], rest[int(size) :]
    return None


def _remove(folder: str) -> None:
    """Remove the job's temporary folder; what cannot be removed stays (it is in the system's temporary folder)."""
    for parent, folders, files in os.walk(folder, topdown=False):
        try:
            os.chmod(parent, 0o700)
            for name in files:
                os.unlink(os.path.join(parent, name))
            for name in folders:
                path = os.path.join(parent, name)
                os.unlink(path) if os.path.islink(path) else os.rmdir(path)
        except OSError:
            continue
    try:
        os.rmdir(folder)
    except OSError:
        return
