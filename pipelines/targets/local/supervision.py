"""What the supervisor of one host does (standard library only; started by supervisor.py).

Two processes guard a job. The *guard* was started by the runner; it forks the *manager*, which starts the command,
takes in every orphan (as the first process of a pid namespace where the kernel allows one, else as child subreaper),
and ends all descendants when there is a reason to. Each watches the other, so no single SIGKILL frees a job:

    runner dies     the manager sees the end of stdin (and of the runner's pidfd) and ends the job
    guard dies      a pid namespace is killed by the kernel; without one the manager sees the end of its pipe
    manager dies    a pid namespace is killed by the kernel; without one its orphans fall to the guard

stdin: one line of JSON with the job (never a file: its environment may hold secrets), later `stop SECONDS`.
stdout: nothing; its end tells the runner that both are gone. stderr: the job's log. What happened is written to the
record, a JSON file that appears by rename when nothing of the job lives any more.

A stop is what a container platform does: SIGTERM to the command alone (a data loader's worker that gets it too would
fail the training that is just saving), the grace, then SIGTERM and at last SIGKILL to whatever is left.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import time

import namespaces
import process_table

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

# Seconds between SIGTERM and SIGKILL for what the command left behind.
LEFTOVER_GRACE_S = 0.5
# Seconds the command gets when the runner is gone: with the above well inside the promised 5.
ORPHAN_GRACE_S = 2.0
# A process that survives SIGKILL this long (an uninterruptible read of a dead disk) is reported, not waited for.
UNKILLABLE_S = 30.0
# A limit may be 28 days, which is more milliseconds than poll(2) takes.
LONGEST_POLL_S = 86_400.0


def main() -> int:
    """The guard. Returns 0 when the record was written, whatever became of the job."""
    runner = _watch_parent()
    namespaces.set_subreaper()
    line, rest = _first_line()
    if not line.endswith(b"\n"):
        return 1  # the runner died before it had recorded us: nothing may start
    spec: dict[str, Any] = json.loads(line)
    started_at = time.time()
    temporary: str = spec["temporary"]
    os.mkdir(temporary, 0o700)
    report_read, report_write = os.pipe()
    alive_read, alive_write = os.pipe()
    try:
        if (spec["mounts"] or spec["pid_namespace"]) and os.geteuid() != 0:
            namespaces.enter_user_namespace()
        if spec["pid_namespace"]:
            namespaces.unshare(namespaces.CLONE_NEWPID)
    except OSError as error:  # the probe allowed it; the limit of namespaces may have been reached since
        _write(f"drivetrain: cannot isolate the job: {error}\n")
        return _conclude(spec, {"exit_code": 126, "error": str(error)}, None, started_at)
    manager = os.fork()
    if manager == 0:
        os.close(report_read)
        os.close(alive_write)
        _manage(spec, report_write, alive_read, runner, rest)
    os.close(report_write)
    os.close(alive_read)
    os.close(0)  # the manager reads it

    def forward(number: int, frame: object) -> None:
        process_table.send(manager, signal.SIGTERM)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, forward)
    report = b""
    while chunk := os.read(report_read, 65536):
        report += chunk
    _, status, usage = os.wait4(manager, 0)
    if _reap_orphans() and not _end_all(_signal_descendants, _reap_orphans):
        _write("drivetrain: processes that cannot be killed were left behind\n")
    told: dict[str, Any] = json.loads(report) if report else {"error": "the supervisor was killed", **_ended(status)}
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
    with open(unfinished, "w", encoding="utf-8") as file:
        json.dump(record, file)
    os.replace(unfinished, spec["record"])
    return 0


def _manage(spec: dict[str, Any], report: int, guard: int, runner: int | None, rest: bytes) -> NoReturn:
    """The manager: everything between the fork and its end. Never returns, never raises."""
    told: dict[str, Any] = {}
    try:
        signals = _SignalPipe()
        if spec["pid_namespace"]:
            namespaces.set_parent_death_signal(signal.SIGKILL)
        namespaces.set_subreaper()
        if spec["mounts"]:
            namespaces.mount_private(spec["mounts"], fresh_proc=spec["pid_namespace"])
        if _at_end(guard):
            os._exit(1)  # the guard died before the parent-death signal was set
        command = _start(spec)
        told = _Watch(spec, command, signals, guard, runner, rest).until_all_ended()
    except OSError as error:
        _write(f"drivetrain: {error}\n")
        told = {"exit_code": 126, "error": str(error)}
    try:
        os.write(report, json.dumps(told).encode())
    except BrokenPipeError:
        os._exit(1)  # the guard is gone; the runner sees the end of stdout
    os._exit(0)


def _start(spec: dict[str, Any]) -> int:
    """Fork the command into a session of its own, with nothing of ours but its log."""
    manager = os.getpid()
    ours = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    # A stop that arrives before the command runs must end it, not meet the handlers that it inherits until then.
    signal.pthread_sigmask(signal.SIG_BLOCK, ours)
    child = os.fork()
    if child != 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ours)
        return child
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (*ours, signal.SIGPIPE, signal.SIGXFSZ):  # the last two Python ignores, and exec keeps that
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if not spec["pid_namespace"]:
            namespaces.set_parent_death_signal(signal.SIGKILL)
            if os.getppid() != manager:
                os._exit(1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        _become(spec["command"], spec["environment"], spec["working_folder"])
    finally:
        os._exit(126)  # a copy of the manager must not go on as one


def _become(command: list[str], environment: dict[str, str], working_folder: str) -> NoReturn:
    try:
        os.chdir(working_folder)
    except OSError as error:
        _write(f"drivetrain: cannot start in the folder {working_folder!r}: {error.strerror}\n")
        os._exit(126)
    try:
        os.execvpe(command[0], command, environment)
    except FileNotFoundError as error:
        where = "" if "/" in command[0] else " on PATH"
        _write(f"drivetrain: cannot start {command[0]!r}: {error.strerror}{where}\n")
        os._exit(127)  # what a container runtime returns
    except (OSError, ValueError) as error:
        _write(f"drivetrain: cannot start {command[0]!r}: {error}\n")
        os._exit(126)


class _Watch:
    """The manager's loop: one poll for children, the runner, the guard, orders and time."""

    def __init__(
        self, spec: dict[str, Any], command: int, signals: _SignalPipe, guard: int, runner: int | None, orders: bytes
    ) -> None:
        self.spec, self.command, self.signals, self.guard, self.runner = spec, command, signals, guard, runner
        self.orders = orders
        self.status: int | None = None
        self.command_ended_at: float | None = None
        self.stopped = self.timed_out = False
        self.stop_deadline: float | None = None  # when the command has had its grace
        limit: float | None = spec["time_limit_s"]
        self.limit = None if limit is None else time.monotonic() + limit

    def until_all_ended(self) -> dict[str, Any]:
        poll = select.poll()
        watched = {0, self.guard, self.signals.read, *([] if self.runner is None else [self.runner])}
        for descriptor in watched:
            poll.register(descriptor, select.POLLIN)
        self._obey(b"")
        while True:
            children = self._reap()
            if self.status is not None:
                break
            now = time.monotonic()
            if self.limit is not None and now >= self.limit:
                self.limit = None
                if self.stop_deadline is None:
                    self.timed_out = True
                    self._stop(self.spec["grace_s"])
            if self.stop_deadline is not None and now >= self.stop_deadline:
                break
            times = [moment for moment in (self.limit, self.stop_deadline) if moment is not None]
            wait_s = min([LONGEST_POLL_S, *(moment - now for moment in times)])
            for descriptor, _ in poll.poll(max(0.0, wait_s) * 1000 + 1):
                if descriptor == self.signals.read:
                    if self.signals.take() & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
                        self._stop(ORPHAN_GRACE_S)
                elif descriptor == 0 and (chunk := os.read(0, 4096)):
                    self._obey(chunk)
                else:
                    poll.unregister(descriptor)  # the runner or the guard is gone
                    self._stop(ORPHAN_GRACE_S)
        signal_all = _signal_namespace if self.spec["pid_namespace"] else _signal_descendants
        if children and not _end_all(signal_all, self._reap):
            return {**self._result(), "error": "processes that cannot be killed were left behind"}
        return self._result()

    def _stop(self, grace_s: float) -> None:
        """Ask the command to end; a later and shorter grace replaces a longer one."""
        if self.stop_deadline is None:
            self.stopped = not self.timed_out
            process_table.send(self.command, signal.SIGTERM)
            self.stop_deadline = time.monotonic() + grace_s
        self.stop_deadline = min(self.stop_deadline, time.monotonic() + grace_s)

    def _obey(self, chunk: bytes) -> None:
        *lines, self.orders = (self.orders + chunk).split(b"\n")
        for line in lines:
            self._stop(float(line.removeprefix(b"stop ")))

    def _reap(self) -> bool:
        """Collect what has ended. False when no descendant is left: each hangs from a living child of ours."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.command:
                self.status, self.command_ended_at = status, time.time()

    def _result(self) -> dict[str, Any]:
        return {
            **(_ended(self.status) if self.status is not None else {"signal": int(signal.SIGKILL)}),
            "timed_out": self.timed_out,
            "stopped": self.stopped,
            "command_ended_at": self.command_ended_at,
        }


class _SignalPipe:
    """Signals as bytes to poll for; their handlers do nothing."""

    def __init__(self) -> None:
        self.read, write = os.pipe()
        os.set_blocking(self.read, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _do_nothing)

    def take(self) -> set[int]:
        return set(os.read(self.read, 4096))


def _do_nothing(number: int, frame: object) -> None:
    """A handler must be there for the signal to be written to the pipe."""


def _end_all(signal_all: Callable[[int], None], reap: Callable[[], bool]) -> bool:
    """SIGTERM, LEFTOVER_GRACE_S, then SIGKILL again and again until no descendant is left.

    Once is not enough where there is no pid namespace: what is forked between the look and the signal is missed.
    """
    signal_all(signal.SIGTERM)
    started, pause = time.monotonic(), 0.002
    while reap():
        waited = time.monotonic() - started
        if waited > UNKILLABLE_S:
            return False
        if waited > LEFTOVER_GRACE_S:
            signal_all(signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 1.2, 0.05)
    return True


def _signal_namespace(number: int) -> None:
    """All processes of the namespace whose first one this is: one call, which no fork can slip through."""
    process_table.send(-1, number)


def _signal_descendants(number: int) -> None:
    for pid in process_table.descendants(os.getpid()):
        process_table.send(pid, number)


def _reap_orphans() -> bool:
    """Collect what the manager left; False when there is nothing (any more)."""
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return True
        except ChildProcessError:
            return False


def _ended(status: int) -> dict[str, int]:
    if os.WIFSIGNALED(status):
        return {"signal": os.WTERMSIG(status)}
    return {"exit_code": os.WEXITSTATUS(status)}


def _watch_parent() -> int | None:
    """A descriptor that becomes readable when the runner ends; None where the kernel has none (then stdin tells)."""
    try:
        return os.pidfd_open(os.getppid())
    except OSError:
        return None


def _first_line() -> tuple[bytes, bytes]:
    data = b""
    while b"\n" not in data and (chunk := os.read(0, 1 << 20)):
        data += chunk
    line, end, rest = data.partition(b"\n")
    return line + end, rest


def _at_end(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(0))


def _write(text: str) -> None:
    try:
        os.write(2, text.encode("utf-8", "backslashreplace"))
    except OSError:
        return  # a full disk must not change how the job ends


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
