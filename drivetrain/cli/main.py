"""The `drivetrain` command.

Exit codes: 0 done, 1 the run failed, 2 bad input (one message, no traceback), 70 a bug of ours (with the traceback),
130 interrupted, 141 the reader of our output went away.
"""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, TextIO

from drivetrain.cli.declared import COMPLETE, SETTINGS, LazyGroup, Option, help_without_command, parameters_of

# Heading of the help -> command -> the module below this folder that holds it, as `--help` lists them.
GROUPS: dict[str, dict[str, str]] = {
    "Run on this machine": {
        "run": "local.run",
        "runs": "runs.runs",
        "ui": "local.ui",
        "submit": "local.submit",
        "data": "local.data",
        "checkpoints": "training.checkpoints",
        "health": "training.health",
        "attach": "training.attach",
        "evaluations": "runs.evaluations",
        "models": "models.models",
        "home": "local.home",
    },
    "Write pipelines": {
        "init": "project.init",
        "list": "definition.list_pipelines",
        "show": "definition.show",
        "compile": "definition.compile",
        "check": "definition.check",
        "diff": "definition.diff",
        "import": "definition.import_",
        "schema": "definition.schema",
        "recommend": "recommend.recommend",
    },
    "Deploy": {
        "infra": "definition.infra",
        "plan": "deployed.plan",
        "apply": "deployed.apply",
        "pull": "deployed.pull",
        "start": "deployed.start",
        "destroy": "deployed.destroy",
        "prices": "deployed.prices",
    },
    "Start automatically": {
        "triggers": "local.triggers",
        "serve": "local.serve",
    },
    "This installation": {
        "doctor": "project.doctor",
        "setup": "project.setup",
        "completion": "completion",
        "version": "version",
    },
}
COMMANDS = {name: module for commands in GROUPS.values() for name, module in commands.items()}
_DEPLOYED = "--on TARGET -p PIPELINE"
RENAMED = {
    "executions": f"runs list {_DEPLOYED}",
    "status": f"runs show {_DEPLOYED}",
    "logs": f"runs logs {_DEPLOYED}",
    "stop": f"runs stop {_DEPLOYED}",
}

_show_warning = warnings.showwarning


class Main(LazyGroup):
    """All commands."""

    modules = COMMANDS
    headings = GROUPS
    renamed = RENAMED


def drivetrain(version: Annotated[bool, Option("--version", help="Print the version.")] = False) -> None:
    """Pipelines that keep models fresh: here, on SageMaker and on Kubeflow.

    \b
    First steps:
      drivetrain list                       what can be run
      drivetrain run retraining             run it on this machine, watch it go
      drivetrain runs show latest           what came out
      drivetrain compile retraining         the SageMaker definition of it
    """
    if version:
        from drivetrain.cli.version import say_version

        say_version()
    else:
        help_without_command()


app = Main(
    "drivetrain",
    help=drivetrain.__doc__,
    callback=drivetrain,
    params=parameters_of(drivetrain),
    invoke_without_command=True,
    context_settings=SETTINGS,
)


def run(arguments: Sequence[str] | None = None) -> int:
    """The exit code of the command line `arguments` (those of the process unless given)."""
    if COMPLETE in os.environ:
        from drivetrain.cli.completion import complete

        return complete(app)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _say_notice
            given = None if arguments is None else list(arguments)
            result = app(args=given, prog_name="drivetrain", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except (BrokenPipeError, SystemExit):  # click exits by itself for a broken pipe, and for nothing else
        return _reader_went_away()
    except (KeyboardInterrupt, Exception) as error:
        from drivetrain.cli.errors import report_error

        try:
            sys.stdout.flush()
        except OSError:
            _forget(sys.stdout)  # it may be what failed: a full disk behind `> file`
        try:
            return report_error(error)
        except OSError:
            return _reader_went_away()


def _say_notice(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """A warning for people as a note; any other as Python says it."""
    from drivetrain.base.errors import Notice

    if issubclass(category, Notice):
        print(f"note: {message}", file=sys.stderr)
    else:
        _show_warning(message, category, *where, **more)


def _reader_went_away() -> int:
    """`drivetrain runs list | head -1`: no reader is left. The exit code is that of SIGPIPE."""
    _forget(sys.stdout)
    _forget(sys.stderr)
    return 141


def _forget(stream: TextIO) -> None:
    """Lead a stream to nowhere: Python flushes it once more when it ends, which would fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, stream.fileno())
    except (OSError, ValueError):
        return  # not a file of the process (a test's buffer)
    finally:
        os.close(null)


# Nearly all that a command makes as it starts is classes, functions and models of services, which stay: looking
# through them for garbage after every 700 new objects is a fifth of the CPU time of a plan.
OBJECTS_BETWEEN_COLLECTIONS = 200_000


def main() -> NoReturn:
    """Entry point of the installed command."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS, 10, 10)
    # A plug-in of pydantic has nothing to watch here, and to look for one reads the metadata of every distribution.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _mend_streams()
    code = run()
    gc.freeze()  # else Python looks through all of it once more as it ends
    sys.exit(code)


def _mend_streams() -> None:
    """Keep output from ending the work, if a stream is closed (`>&-`) or cannot encode ✓."""
    for name in ("stdout", "stderr"):
        stream: Any = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    main()
