"""Run commands to their end, pass on the platform's signals, and leave nobody behind."""

from __future__ import annotations

import signal
import subprocess
import time
import types
from collections.abc import Callable, Collection, Mapping, Sequence

from drivetrain.steps.forked import Forked
from drivetrain.training.launch.network import say
from drivetrain.training.launch.processes.orphans import end_orphans, wait_for_an_end
from drivetrain.training.launch.processes.parent import follows_parent

# Once one of several processes has failed the others have nothing left to do but leave.
PEER_SECONDS = 30
TICK_SECONDS = 0.5

Command = tuple[Sequence[str], Mapping[str, str]]


def supervise(
    commands: Sequence[Command],
    *,
    stop_seconds: float,
    tick: Callable[[], None] = lambda: None,
    stop_signal: signal.Signals | None = None,
    forked: Sequence[Forked] = (),
    serving: Collection[int] = (),
    is_served: Callable[[], bool] = lambda: True,
) -> tuple[list[int], signal.Signals | None]:
    """Run each (command, environment); their codes (negative: the signal that ended it) and the stop signal we got.

    SIGTERM and SIGINT are passed on once; who is still there `stop_seconds` later is killed. When one fails, the others
    are sent SIGTERM. `stop_signal` is sent in place of SIGTERM and SIGINT where a command knows another word for it.
    `tick` is called every half second. Where there is a `forked` process for each command they run in these. Each
    child has a process group of its own: a terminal's Ctrl-C reaches it once, through us; and it ends when this
    process does.

    Args:
        serving: places of commands that serve the others and never end by themselves. Once those are done, they are
            sent SIGTERM, and their code is 0 however they end.
        is_served: asked then: whether nobody elsewhere needs them.
    """
    done_serving = False
    stopped: list[signal.Signals] = []
    children: list[subprocess.Popen[bytes] | Forked] = []
    kill_at: list[float] = []

    def send(number: int, grace: float) -> None:
        kill_at.append(time.monotonic() + grace)
        for child in children:
            if child.poll() is None:
                child.send_signal(number)

    def pass_on(number: int, frame: types.FrameType | None) -> None:
        if not stopped:  # a second signal would break off an orderly stop
            stopped.append(signal.Signals(number))
            send(stop_signal or number, stop_seconds)

    before = {number: signal.signal(number, pass_on) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        for number, (command, environment) in enumerate(commands):
            if len(forked) == len(commands):
                forked[number].start(command, environment)
                children.append(forked[number])
            else:
                children.append(
                    subprocess.Popen(
                        list(command), env=dict(environment), process_group=0, preexec_fn=follows_parent(signal.SIGTERM)
                    )
                )
            if stopped:  # it came while a child was being started
                children[-1].send_signal(stop_signal or stopped[0])
        while running := [child for child in children if child.poll() is None]:
            wait_for_an_end([child.pid for child in running], TICK_SECONDS)
            tick()
            if not kill_at and any(child.poll() for child in children):
                send(signal.SIGTERM, PEER_SECONDS)
            others = [child for place, child in enumerate(children) if place not in serving]
            if serving and not kill_at and all(child.poll() == 0 for child in others) and is_served():
                done_serving = True
                send(signal.SIGTERM, PEER_SECONDS)
            if kill_at and time.monotonic() > min(kill_at):
                for child in running:
                    child.kill()
        # A launcher script of the user's own may end before what it started does.
        left = end_orphans(max(0.0, min(kill_at) - time.monotonic()) if kill_at else PEER_SECONDS)
        if left and not stopped:
            say(f"ended {left} process{'es' * (left > 1)} that the program had left behind")
        codes = [child.wait() for child in children]
        if done_serving:
            codes = [0 if place in serving else code for place, code in enumerate(codes)]
        return codes, (stopped[0] if stopped else None)
    finally:
        for child in children:
            if child.poll() is None:  # an exception is on its way
                child.kill()
                child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
