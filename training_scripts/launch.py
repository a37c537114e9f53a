"""Start a program on this host's part of the cluster, and answer for it.

    python -m drivetrain.training_scripts.launch drivetrain.training_scripts.train --train build/train ...
    python -m drivetrain.training_scripts.launch --processes 2 my_program --its-own arguments
    python -m drivetrain.training_scripts.launch --launcher mpirun --script train.py --its-own arguments

Every host runs the same command; what it knows of the others is in its platform's contract
(drivetrain.training_scripts.launching.cluster). SIGTERM and SIGINT are passed on to every process. When one fails, its
reason and traceback are printed and written to the file that DRIVETRAIN_FAILURE_FILE names.

Exit codes: 0 done, 1 the program failed, 2 bad input, 75 a retry may help (a process was killed, stopped or hung, a
host was lost), 130 interrupted from the keyboard. A program that itself ends with 2 or 75 is taken at its word.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from drivetrain.training_scripts import plugins
from drivetrain.training_scripts.errors import InputError, LostHostError
from drivetrain.training_scripts.launching import network
from drivetrain.training_scripts.launching.cluster import Cluster, num_gpus, read_cluster
from drivetrain.training_scripts.launching.environment import process_environment
from drivetrain.training_scripts.launching.failure import (
    BAD_INPUT,
    FAILED,
    RETRY,
    Failure,
    describe,
    exit_code,
    root_cause,
    write_failure_file,
)
from drivetrain.training_scripts.launching.heartbeat import FOLDER, RANK_HOSTS
from drivetrain.training_scripts.launching.job import Ended, Job, Options, Program
from drivetrain.training_scripts.launching.orphans import adopt_orphans
from drivetrain.training_scripts.launching.parent import announce_parent, die_with_parent
from drivetrain.training_scripts.launching.watchdog import FirstHost, Watchdog


def main() -> None:
    die_with_parent(signal.SIGTERM)
    adopt_orphans()
    try:
        given, program = parse(sys.argv[1:])
        options = read_options(os.environ, given)
        cluster = read_cluster(
            os.environ,
            processes=_processes(given, options, os.environ),
            nodes=given["nodes"] or "",
            port=given["port"] or 0,
            interface=given["interface"] or "",
        )
        sys.exit(launch(cluster, program, options))
    except InputError as error:
        _fail(f"error: {error}")
        sys.exit(BAD_INPUT)
    except LostHostError as error:
        _fail(f"the hosts of the job did not meet: {error} It can be tried again.")
        sys.exit(RETRY)


def launch(cluster: Cluster, program: Program, options: Options) -> int:
    """Run `program` as this host's processes; returns the exit code.

    Raises:
        InputError: what the launcher cannot start.
        LostHostError: the hosts did not meet.
    """
    options = replace(options, launcher=choose_launcher(cluster, options))
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

        def tick() -> None:
            watchdog.tick()
            restarts.tick()

        job = Job(cluster=cluster, program=program, options=options, environment=environment, folder=folder, tick=tick)
        return judge(cluster, launcher.run(job), watchdog)


def judge(cluster: Cluster, ended: Ended, watchdog: Watchdog) -> int:
    """Say why it failed, if it did; returns the exit code."""
    if ended.code == 0:
        return 0
    if ended.stopped is not None:
        _fail(f"stopped by {ended.stopped.name} before the program was done; it can be tried again.")
        return 130 if ended.stopped == signal.SIGINT else RETRY
    hanging = watchdog.failures()
    # That we ended it is no reason of its own.
    failures = [failure for failure in ended.failures if failure.rank not in {hung.rank for hung in hanging}]
    failures = [*hanging, *(_with_stack(failure, cluster, watchdog) for failure in failures)]
    if failures:
        cause = root_cause(failures)
        _fail(describe(cause, failures, world_size=cluster.world_size, host=cluster.host))
        return exit_code(cause)
    if ended.code < 0:
        name = signal.Signals(-ended.code).name
        _fail(f"{ended.who} on {cluster.host} was ended by {name}; it can be tried again.")
        return RETRY
    _fail(f"{ended.who} on {cluster.host} ended with code {ended.code} and named no rank; its own message is above.")
    return ended.code if ended.code in (BAD_INPUT, RETRY) else FAILED


def _with_stack(failure: Failure, cluster: Cluster, watchdog: Watchdog) -> Failure:
    """A rank that native code ended wrote down where it was."""
    if failure.kind != "signal" or failure.details:
        return failure
    return replace(failure, details=watchdog.where(failure.rank - cluster.host_index * cluster.processes))


def choose_launcher(cluster: Cluster, options: Options) -> str:
    """
    Raises:
        InputError: no such launcher.
    """
    if options.launcher != "auto":
        plugins.load("launchers", options.launcher, kind="launcher")
        return options.launcher
    # One process needs no torchrun, which would import torch once more only to watch it.
    return "python" if cluster.world_size == 1 and not options.max_restarts else "torchrun"


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
        those = ", ".join(repr(host) for host in missing[:20]) + (
            f" and {len(missing) - 20} more" if missing[20:] else ""
        )
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
    """What the ranks of this host reported in one of torchrun's attempts."""
    from drivetrain.training_scripts.launching.failure import from_rank, json_or_none

    found = []
    for path in sorted(folder.glob(f"*/attempt_{attempt}/*/error.json")):
        record = json_or_none(path)
        found.append(from_rank(int(path.parent.name), FAILED, record))
    return found


def parse(words: Sequence[str]) -> tuple[dict[str, Any], Program]:
    """Our own options end where the program begins: with its module, or with `--script PATH`."""
    own, program = _split(words)
    parser = argparse.ArgumentParser(
        prog="python -m drivetrain.training_scripts.launch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        usage="%(prog)s [OPTION ...] (MODULE | --script PATH) [ARGUMENT ...]",
    )
    launchers = ", ".join(plugins.names("launchers"))
    processes = "processes a host; 0: what the cluster says, else one a GPU, else one [default: 0]"
    parser.add_argument("--processes", type=int, default=None, help=processes)
    parser.add_argument("--nodes", help="MIN:MAX hosts of an elastic job [default: all]")
    parser.add_argument("--port", type=int, help="where the first of several hosts listens")
    parser.add_argument("--interface", help="the network interface that joins the hosts [default: by route]")
    for field in fields(Options):
        kind = _KINDS[str(field.type)]
        text = f"auto, {launchers}" if field.name == "launcher" else _HELP[field.name]
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, help=f"{text} [default: {field.default}]")
    parser.add_argument("--script", metavar="PATH", help="the program is this file; what follows are its arguments")
    given = vars(parser.parse_args(own))
    if not program:
        parser.error("give the program: a module name, or --script PATH")
    if given.pop("script") is not None:
        return given, Program.of_script(program[0], program[1:])
    return given, Program("module", program[0], tuple(program[1:]))


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, equals, value = words[at].partition("=")
        if name == "--script":
            script = [value] if equals else list(words[at + 1 : at + 2])
            rest = words[at + 1 :] if equals else words[at + 2 :]
            return [*words[:at], f"--script={''.join(script)}"], [*script, *rest]
        at += 1 if equals or name in ("-h", "--help") else 2
    return list(words[:at]), list(words[at:])


_KINDS = {"str": str, "int": int, "float": float}
_HELP = {
    "rendezvous": "auto, static or c10d",
    "max_restarts": "how often torchrun starts all processes anew",
    "hang_timeout": "seconds without a heartbeat before a process is taken to hang; 0: never",
    "resolve_timeout": "seconds to wait for the hosts' names",
    "join_timeout": "seconds to wait for the other hosts",
    "last_call": "seconds to wait for more than the least number of hosts",
    "stop_timeout": "seconds from SIGTERM to SIGKILL",
}


def read_options(environment: Mapping[str, str], given: Mapping[str, Any]) -> Options:
    """What was given on the command line, else in DRIVETRAIN_<NAME>, else the default.

    Raises:
        InputError: a value that cannot be.
    """
    values: dict[str, Any] = {}
    for field in fields(Options):
        if (value := given.get(field.name)) is not None:
            values[field.name] = value
            continue
        variable = f"DRIVETRAIN_{field.name.upper()}"
        text = environment.get(variable, "").strip()
        if text:
            try:
                values[field.name] = _KINDS[str(field.type)](text)
            except ValueError:
                wanted = "whole numbers" if field.type == "int" else "numbers"
                raise InputError(f"{variable}={text!r}; allowed are {wanted}.") from None
    return Options(**values)


def _processes(given: Mapping[str, Any], options: Options, environment: Mapping[str, str]) -> int:
    """`--launcher python` is one process a host, also where there are more GPUs: the program takes them all."""
    asked = given["processes"] or 0
    named = environment.get("DRIVETRAIN_PROCESSES", "").strip() not in ("", "0")
    return 1 if options.launcher == "python" and not (asked or named) else asked


def _fail(text: str) -> None:
    sys.stdout.flush()
    print(text, file=sys.stderr, flush=True)
    write_failure_file(text)


if __name__ == "__main__":
    main()
