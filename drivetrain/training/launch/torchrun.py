"""torchrun, with every failed rank written down where the launcher finds it.

    python -m drivetrain.training.launch.torchrun REPORT <arguments of torchrun>

REPORT becomes a JSON list of {rank, exit_code, record}, where `record` is the rank's error file or null, in the order
in which torchrun noticed them. torchrun itself picks one failure by time in whole seconds, which cannot tell a rank
that died from those that lost it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from drivetrain.training.launch.processes import collectives
from drivetrain.training.launch.processes.failure import NO_RANK
from drivetrain.training.launch.processes.heartbeat import FOLDER
from drivetrain.training.launch.processes.parent import announce_parent, die_with_parent

CPP_LOG_LEVEL = "TORCH_CPP_LOG_LEVEL"
SHUTDOWN = "--shutdown-timeout"
_ANSWER_SECONDS = 0.2


def main() -> None:
    # On SIGTERM torchrun ends its ranks in order: the gentle signal is enough.
    die_with_parent(signal.SIGTERM)
    # The first host's end closes the store on which the others still wait to say good-bye: a page of warning from C++
    # that says nothing. It is silenced in this process only; the ranks' own warnings stay.
    quiet = CPP_LOG_LEVEL not in os.environ
    if quiet:
        os.environ[CPP_LOG_LEVEL] = "ERROR"
    from torch.distributed import DistError, run
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError

    if "LOGLEVEL" not in os.environ:  # torch's own switch for these messages; the launcher reports in one place
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
        for name in list(logging.root.manager.loggerDict):
            if name.startswith(("torch.distributed.elastic", "torch.distributed.run", "torch.distributed.launcher")):
                logging.getLogger(name).setLevel(logging.CRITICAL)
    if quiet:
        del os.environ[CPP_LOG_LEVEL]
    os.environ.update(announce_parent({}))
    _ask_before_ending()
    report = Path(sys.argv[1])
    try:
        run.run(run.parse_args(_known(sys.argv[2:], run.get_args_parser().format_help())))
    except ChildFailedError as error:
        records = [
            {
                "rank": rank,
                "exit_code": failure.exitcode,
                "record": failure.error_file_data if Path(failure.error_file).is_file() else None,
            }
            for rank, failure in error.failures.items()
        ]
        report.write_text(json.dumps(records), encoding="utf-8")
        sys.exit(1)
    except SignalException as error:
        sys.exit(128 + error.sigval)
    except (DistError, RendezvousError) as error:
        summary = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        record = {"drivetrain": {"kind": "hosts", "summary": summary, "details": "", "when": time.time()}}
        report.write_text(json.dumps([{"rank": NO_RANK, "exit_code": 1, "record": record}]), encoding="utf-8")
        sys.exit(1)


def _known(words: list[str], help_text: str) -> list[str]:
    """Without the option that torch before 2.13 does not have: there ranks that are stopped have 30 s."""
    place = next((number for number, word in enumerate(words) if word.startswith(f"{SHUTDOWN}=")), None)
    return words if place is None or SHUTDOWN in help_text else words[:place] + words[place + 1 :]


def _ask_before_ending() -> None:
    """Let the other ranks write in which collective they are before torchrun ends them after a rank's failure."""
    from torch.distributed.elastic.multiprocessing import api

    folder, close = os.environ.get(FOLDER), api.PContext.close
    if folder is None:
        return

    def ask_and_close(context: Any, *given: Any, **more: Any) -> None:
        collectives.ask(Path(folder), range(context.nprocs), _ANSWER_SECONDS)
        close(context, *given, **more)

    api.PContext.close = ask_and_close  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
