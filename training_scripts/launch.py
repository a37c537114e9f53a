"""Start a program on this host's part of the cluster, and answer for it.

    python -m drivetrain.training_scripts.launch drivetrain.training_scripts.train --train build/train ...
    python -m drivetrain.training_scripts.launch --processes 2 my_program --its-own arguments
    python -m drivetrain.training_scripts.launch --launcher mpirun --script train.py --its-own arguments

Every host runs the same command; what it knows of the others is in its platform's contract
(drivetrain.training.launch.cluster). SIGTERM and SIGINT are passed on to every process. When one fails, its
reason and traceback are printed and written to the file that DRIVETRAIN_FAILURE_FILE names.

Exit codes: 0 done, 1 the program failed (or was interrupted too often), 2 bad input, 75 a retry may help (a process was
killed, stopped or hung, a host was lost), 130 interrupted from the keyboard. A program that itself ends with 2 or 75 is
taken at its word.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from drivetrain.base.errors import BAD_INPUT, FAILED, INTERRUPTED, RETRY, InputError, and_more
from drivetrain.steps import trainings
from drivetrain.steps.forked import Forked, forked
from drivetrain.training import plugins
from drivetrain.training.continuation import publish_files
from drivetrain.training.errors import LostHostError
from drivetrain.training.launch import network
from drivetrain.training.launch.arguments import are_processes_named, num_processes, parse, read_options
from drivetrain.training.launch.cluster import Cluster, num_gpus, read_cluster
from drivetrain.training.launch.environment import process_environment
from drivetrain.training.launch.interruptions import TooManyInterruptionsError, counted
from drivetrain.training.launch.job import Ended, Job, Options, Program
from drivetrain.training.launch.machine import Machine
from drivetrain.training.launch.processes.failure import (
    Failure,
    describe,
    exit_code,
    from_rank,
    json_or_none,
    root_cause,
    write_failure_file,
)
from drivetrain.training.launch.processes.heartbeat import FOLDER, RANK_HOSTS
from drivetrain.training.launch.processes.last_word import speak_for
from drivetrain.training.launch.processes.orphans import adopt_orphans
from drivetrain.training.launch.processes.parent import announce_parent, die_with_parent, follows_parent
from drivetrain.training.launch.processes.watchdog import FirstHost, Watchdog
from drivetrain.training.launch.spot_notice import SpotNotice, is_asked
from drivetrain.training.launch.tf_config import read_roles, with_processes


def main() -> None:
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    try:
        given, program = parse(sys.argv[1:], __doc__)
        options = read_options(os.environ, given)
        cluster = read_cluster(
            os.environ,
            processes=num_processes(given, options, os.environ),
            nodes=given["nodes"] or "",
            port=given["port"] or 0,
            interface=given["interface"] or "",
        )
        launcher = choose_launcher(cluster, program, options)
        of_strategy = literal_of_strategy(program, "ROLES") if launcher == "tf_config" else ""
        options = replace(options, launcher=launcher, roles=options.roles or of_strategy)
        asked = cluster.processes if are_processes_named(given, os.environ) else 0
        cluster = with_processes(cluster, read_roles(options.roles), asked)
        forks = options.launcher == "python" and program.kind == "module"
        waiting = forked(cluster.processes if forks else 0, _rank())
        with counted(options, is_first=cluster.host_index == 0) as end:
            code = launch(cluster, program, options, waiting)
            if code == 0 and options.publish:
                publish_files(Path(options.checkpoints), Path(options.publish))
            end(code)
        if code == 0 and options.checkpoints and "://" not in options.checkpoints and cluster.host_index == 0:
            trainings.end(Path(options.checkpoints))
        sys.exit(code)
    except InputError as error:
        _fail(f"error: {error}")
        sys.exit(BAD_INPUT)
    except TooManyInterruptionsError as error:
        _fail(str(error))
        sys.exit(FAILED)
    except LostHostError as error:
        _fail(f"the hosts of the job did not meet: {error} It can be tried again.")
        sys.exit(RETRY)


def _rank() -> Callable[[], None]:
    """The first act of a rank: get a process group of its own, and end with this process."""
    follow = follows_parent(signal.SIGTERM)

    def prepare() -> None:
        os.setpgid(0, 0)
        follow()

    return prepare


def launch(cluster: Cluster, program: Program, options: Options, waiting: Sequence[Forked] = ()) -> int:
    """Run `program` as this host's processes, in those that are `waiting` for it; returns the exit code.

    Raises:
        InputError: what the launcher cannot start.
        LostHostError: the hosts did not meet.
    """
    launcher = plugins.load("launchers", options.launcher, kind="launcher")
    addresses = resolve_hosts(cluster, options)
    interface, why = network.choose_interface(cluster.hosts, cluster.host_index, cluster.interface, addresses)
    if cluster.world_size > 1 or cluster.contract != Cluster.contract:
        network.say(describe_cluster(cluster, options, interface, why))
    with tempfile.TemporaryDirectory(prefix="drivetrain-launch-") as name:
        folder = Path(name)
        ranks = folder / "ranks"
        ranks.mkdir()
        environment = announce_parent(
            process_environment(cluster, os.environ, interface=interface, accelerators=num_gpus(os.environ))
        )
        environment[FOLDER] = str(ranks)
        if not (cluster.is_elastic or options.max_restarts or options.rendezvous == "c10d"):
            environment[RANK_HOSTS] = ",".join(cluster.hosts)
        other = options.launcher == "torchrun" and cluster.host_index > 0
        first = FirstHost(cluster.hosts[0], cluster.port) if other else None
        watchdog = Watchdog(ranks, hang_timeout=options.hang_timeout, first_host=first)
        restarts = Restarts(folder, watchdog, options)
        machine = Machine(ranks)
        asks = is_asked(options.spot_notice, cluster, os.environ)
        with SpotNotice(os.environ, asks=asks, say=network.say) as notice:

            def tick() -> None:
                for each in (watchdog, restarts, notice, machine):
                    each.tick()

            job = Job(
                cluster=cluster,
                program=program,
                options=options,
                environment=environment,
                folder=folder,
                tick=tick,
                forked=waiting,
            )
            ended = launcher.run(job)
        return judge(cluster, ended, watchdog, notice.given)


def judge(cluster: Cluster, ended: Ended, watchdog: Watchdog, spot_notice: str = "") -> int:
    """Say why it failed, if it did; returns the exit code."""
    if ended.code == 0:
        return 0
    if ended.stopped is not None:
        whom = f"the machine's spot notice ({spot_notice})" if spot_notice else ended.stopped.name
        _fail(f"stopped by {whom} before the program was done; it can be tried again.")
        return INTERRUPTED if ended.stopped == signal.SIGINT else RETRY
    hanging = watchdog.failures()
    # That we ended it is no reason of its own.
    failures = [failure for failure in ended.failures if failure.rank not in {hung.rank for hung in hanging}]
    failures = [*hanging, *(_with_stack(failure, cluster, watchdog) for failure in failures)]
    speak_for(failures, watchdog.folder, cluster.host_index * cluster.processes)
    if failures and all(failure.kind in ("signal", "peer", "apart", "stopped") for failure in failures):
        failures += watchdog.mismatch()
    if failures:
        cause = root_cause(failures)
        simulated = len(cluster.hosts) > 1 and all(host.startswith("127.") for host in cluster.hosts)
        text = describe(cause, failures, world_size=cluster.world_size, host=cluster.host, is_simulated=simulated)
        _fail(text)
        return exit_code(cause)
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        _fail(f"{ended.who} on {cluster.host} was ended by {name}; it can be tried again.")
        return RETRY
    _fail(f"{ended.who} on {cluster.host} ended with code {ended.code} and named no rank; its own message is above.")
    return ended.code if ended.code in (BAD_INPUT, RETRY) else FAILED


def _with_stack(failure: Failure, cluster: Cluster, watchdog: Watchdog) -> Failure:
    """A rank that native code ended wrote down where it was, the others in what they waited for it."""
    if failure.kind != "signal" or failure.details:
        return failure
    own, others = (
        watchdog.where(failure.rank - cluster.host_index * cluster.processes),
        watchdog.waited_in(failure.rank),
    )
    return replace(failure, details="\n".join(filter(None, (own, others))))


def choose_launcher(cluster: Cluster, program: Program, options: Options) -> str:
    """
    Raises:
        InputError: no such launcher.
    """
    if options.launcher != "auto":
        plugins.load("launchers", options.launcher, kind="launcher")
        return options.launcher
    # One host needs no torchrun, which would import torch once more only to watch its processes. A program that is not
    # ours may look for what torchrun alone gives: its store, the number of restarts.
    ours = program.kind == "module" and program.target.startswith("drivetrain.")
    if ours and (own := literal_of_strategy(program, "LAUNCHER")):
        return own
    direct = cluster.world_size == 1 or (len(cluster.hosts) == 1 and ours)
    return "python" if direct and not options.max_restarts else "torchrun"


def literal_of_strategy(program: Program, name: str) -> str:
    """The literal by which a strategy asks something of its launcher: LAUNCHER, or the ROLES of TF_CONFIG; "" for
    nothing."""
    given = [word.partition("=")[2] for word in program.arguments if word.startswith("--strategy=")]
    if not given or given[-1] not in plugins.names("strategies"):
        return ""
    return plugins.literal("strategies", given[-1], name, kind="strategy")


def resolve_hosts(cluster: Cluster, options: Options) -> Mapping[str, str | None]:
    """The address of each host, once all (or the least number of a range) have one.

    Raises:
        LostHostError: naming those that have none.
    """
    if len(cluster.hosts) == 1:
        return {}
    addresses = network.wait_for(
        cluster.hosts, seconds=options.resolve_timeout, least=cluster.min_hosts, say=network.say
    )
    missing = [host for host, address in addresses.items() if address is None]
    if missing and (
        not cluster.is_elastic or cluster.hosts[0] in missing or len(addresses) - len(missing) < cluster.min_hosts
    ):
        those = and_more(map(repr, missing), 20)
        have, are = ("has", "Is it") if len(missing) == 1 else ("have", "Are they")
        raise LostHostError(
            f"{those} {have} no address after {options.resolve_timeout:.0f} s. {are} part of this job "
            f"({cluster.contract} names {len(cluster.hosts)} hosts)?"
        )
    return addresses


def describe_cluster(cluster: Cluster, options: Options, interface: str, why: str) -> str:
    """One line: what was read where, and what is made of it."""
    hosts = len(cluster.hosts)
    number = f"{cluster.min_hosts} to {hosts}" if cluster.is_elastic else str(hosts)
    here = f", this is {cluster.host_index} ({cluster.host})" if hosts > 1 else ""
    met = f", meeting at {cluster.hosts[0]}:{cluster.port}" if hosts > 1 and options.launcher != "python" else ""
    restarts = f", up to {options.max_restarts} restarts" if options.max_restarts else ""
    network_ = f", network interface {interface} ({why})" if interface and hosts > 1 else ""
    return (
        f"from {cluster.contract}: {number} host{'s' * (hosts > 1)} x {cluster.processes} "
        f"process{'es' * (cluster.processes > 1)}{here}; {options.launcher}{met}{restarts}{network_}"
    )


def _fail(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
    write_failure_file(text)


class Restarts:
    """Says why torchrun starts its processes anew, which torchrun itself does not."""

    def __init__(self, folder: Path, watchdog: Watchdog, options: Options) -> None:
        self.folder, self.watchdog, self.options = folder, watchdog, options
        self.told = 0

    def tick(self) -> None:
        while self.told < min(self.watchdog.attempt, self.options.max_restarts):
            failures = attempt_failures(self.folder / "torchrun", self.told)
            self.told += 1
            reason = "another host's process failed"
            if failures:
                cause = root_cause(failures)
                if cause.kind == "input":  # torchrun does not know that the same would happen again
                    raise InputError(cause.summary)
                reason = f"rank {cause.rank}: {(cause.summary.splitlines() or [''])[0]}"
            network.say(f"restart {self.told} of {self.options.max_restarts} ({reason})")


def attempt_failures(folder: Path, attempt: int) -> list[Failure]:
    """Read what this host's ranks reported in one of torchrun's attempts."""
    found = []
    for path in sorted(folder.glob(f"*/attempt_{attempt}/*/error.json")):
        record = json_or_none(path)
        found.append(from_rank(int(path.parent.name), FAILED, record))
    return found


if __name__ == "__main__":
    main()
