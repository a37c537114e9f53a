"""The manager of a host: it starts the command and watches it until nothing is left (see supervision.py).

Standard library only, like all that the supervisor imports.
"""

from __future__ import annotations

import marshal
import os
import resource
import select
import time

import become
import ending
import namespaces
import process_table
import scribe

TYPE_CHECKING = False  # typing itself would cost a tenth of the start
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn
else:
    import _signal as signal  # see ending.py

# Seconds the command gets when the runner is gone: with ending.LEFTOVER_GRACE_S well inside the promised 5.
ORPHAN_GRACE_S = 2.0
# A limit may be 28 days, which is more milliseconds than poll(2) takes.
LONGEST_POLL_S = 86_400.0


def manage(
    spec: dict[str, Any], report: int, guard: int, runner: int | None, rest: bytes, output: scribe.Scribe
) -> NoReturn:
    """The manager: everything between the fork and its end. Never returns, never raises."""
    told: dict[str, Any] = {}
    try:
        signals = _SignalPipe()
        _mark(spec["mark"])
        if spec["pid_namespace"]:
            namespaces.set_parent_death_signal(signal.SIGKILL)
        namespaces.set_subreaper()
        if spec["mounts"]:
            namespaces.mount_private(spec["mounts"], fresh_proc=spec["pid_namespace"])
        if _at_end(guard):
            os._exit(1)  # the guard died before the parent-death signal was set
        command = _start(spec, output)
        os.close(output.write)
        told = _Watch(spec, command, signals, guard, runner, rest).until_all_ended()
    except OSError as error:
        ending.write(f"drivetrain: {error}\n")
        told = {"exit_code": 126, "error": str(error)}
    try:
        os.write(report, marshal.dumps(told))
    except BrokenPipeError:
        output.finish()
        os._exit(1)  # the guard is gone; the runner sees the end of stdout
    os._exit(0)


def _mark(mark: int) -> None:
    """Give this process and all below it the limit by which they are found (processes.mark_of)."""
    _, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
    if hard == resource.RLIM_INFINITY or hard >= mark:
        resource.setrlimit(resource.RLIMIT_RTTIME, (mark, hard))


def _start(spec: dict[str, Any], output: scribe.Scribe) -> int:
    """Fork the command into a session of its own; the log is the only descriptor that it inherits."""
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
        os.dup2(output.write, 1)
        os.dup2(output.write, 2)
        _become(spec["command"], spec["environment"], spec["working_folder"], spec.get("in_this_interpreter", False))
    except become.Become:
        raise
    except BaseException as error:
        ending.write(f"drivetrain: cannot start the command: {error!r}\n")
    os._exit(126)  # a copy of the manager must not go on as one


def _become(
    command: list[str], environment: dict[str, str], working_folder: str, in_this_interpreter: bool
) -> NoReturn:
    try:
        os.chdir(working_folder)
    except OSError as error:
        ending.write(f"drivetrain: cannot start in the folder {working_folder!r}: {error.strerror}\n")
        os._exit(126)
    if in_this_interpreter:
        become.prepare(command, environment)
    try:
        os.execvpe(command[0], command, environment)
    except FileNotFoundError as error:
        where = "" if "/" in command[0] else " on PATH"
        ending.write(f"drivetrain: cannot start {command[0]!r}: {error.strerror}{where}\n")
        os._exit(127)  # what a container runtime returns
    except (OSError, ValueError) as error:
        ending.write(f"drivetrain: cannot start {command[0]!r}: {error}\n")
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
        self.stopped = self.timed_out = self.taken_away = False
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
        signal_all = ending.signal_namespace if self.spec["pid_namespace"] else ending.signal_descendants
        end = ending.kill_all if self.taken_away else ending.end_all
        if children and not end(signal_all, self._reap):
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
            order, _, seconds = line.partition(b" ")
            if order == b"interrupt":
                self._take_away(float(seconds))
            else:
                self._stop(float(seconds))

    def _take_away(self, notice_s: float) -> None:
        """The machine is taken away: a notice, if there is one, then SIGKILL to every process."""
        self.taken_away = True
        if notice_s > 0:
            self._stop(notice_s)
        elif self.stop_deadline is None:
            self.stopped, self.stop_deadline = not self.timed_out, time.monotonic()
        else:
            self.stop_deadline = time.monotonic()

    def _reap(self) -> bool:
        """Reap ended children. Returns False when no descendant is left: every descendant has a living child of ours
        above it."""
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
            **(ending.ended(self.status) if self.status is not None else {"signal": int(signal.SIGKILL)}),
            "timed_out": self.timed_out,
            "stopped": self.stopped,
            "command_ended_at": self.command_ended_at,
        }


class _SignalPipe:
    """Delivers signals as bytes on a pipe, for poll; the handlers do nothing."""

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
    """Without a handler Python would not write the signal to the pipe."""


def _at_end(pipe: int) -> bool:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(0))
