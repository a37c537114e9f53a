"""The launcher's own words: its options on the command line and in variables, and the program that they end before."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.base.errors import InputError
from drivetrain.steps.signature import parameters_of
from drivetrain.training import plugins
from drivetrain.training.launch.job import Options, Program


def parse(words: Sequence[str], description: str | None = None) -> tuple[dict[str, Any], Program]:
    """Our own options end where the program begins: with its module, or with `--script PATH`."""
    own, program = _split(words)
    parser = argparse.ArgumentParser(
        prog="python -m drivetrain.training_scripts.launch",
        description=description,
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
    for name, option in parameters_of(Options).items():
        text = f"auto, {launchers}" if name == "launcher" else _HELP[name]
        help_text = f"{text} [default: {option.default}]"
        parser.add_argument(f"--{name.replace('_', '-')}", type=option.type, help=help_text)
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


_HELP = {
    "rendezvous": "auto, static or c10d",
    "max_restarts": "how often torchrun starts all processes anew",
    "hang_timeout": "seconds without a heartbeat before a process is taken to hang; 0: never",
    "resolve_timeout": "seconds to wait for the hosts' names",
    "join_timeout": "seconds to wait for the other hosts",
    "last_call": "seconds to wait for more than the least number of hosts",
    "stop_timeout": "seconds from SIGTERM to SIGKILL",
    "checkpoints": "the folder or URI that outlives a start, for max-interruptions",
    "publish": "the model's folder, which gets the files in checkpoints when the program has ended well",
    "max_interruptions": "how often in a row the job may be interrupted; 0: any number of times",
    "roles": "with tf_config: what the processes of all hosts are, such as chief=1,worker=2,ps=1",
    "spot_notice": "ask the machine whether it is about to be taken away: on, off or auto",
}


def read_options(environment: Mapping[str, str], given: Mapping[str, Any]) -> Options:
    """Read each option from the command line, else from DRIVETRAIN_<NAME>, else its default.

    Raises:
        InputError: a value that cannot be.
    """
    values: dict[str, Any] = {}
    for name, option in parameters_of(Options).items():
        if (value := given.get(name)) is not None:
            values[name] = value
            continue
        variable = f"DRIVETRAIN_{name.upper()}"
        text = environment.get(variable, "").strip()
        if text:
            try:
                values[name] = option.type(text)
            except ValueError:
                wanted = "whole numbers" if option.type is int else "numbers"
                raise InputError(f"{variable}={text!r}; allowed are {wanted}.") from None
    return Options(**values)


def num_processes(given: Mapping[str, Any], options: Options, environment: Mapping[str, str]) -> int:
    """`--launcher python` is one process a host, also where there are more GPUs: the program takes them all."""
    one = options.launcher == "python" and not are_processes_named(given, environment)
    return 1 if one else given["processes"] or 0


def are_processes_named(given: Mapping[str, Any], environment: Mapping[str, str]) -> bool:
    """Return True if the number of processes of a host was given."""
    return bool(given["processes"]) or environment.get("DRIVETRAIN_PROCESSES", "").strip() not in ("", "0")
