"""Execute a compiled pipeline with kfp's local runner, in a process of its own:

    python -m drivetrain.targets.kubeflow.run.kfp_process PIPELINE.yaml ARGUMENTS.json FOLDER

kfp writes into this process's output, changes it while tasks run, and cannot be stopped but with its process. Exit
codes: 0 done, 1 a task failed, 3 kfp cannot be used, or refuses the pipeline; its last line says why.

`mend` corrects what kfp's local runner (2.17, kfp/local/orchestrator) does otherwise than the service, and refuses a
kfp in which it does not find what it corrects:

- A condition's values are pasted into its text, and one that cannot be evaluated counts as false, as does its else.
  A text with a quote or `&&` in it takes the wrong branch, without a word.
- A pipeline without branches and loops ends at its first failure, whatever does not depend on it.
- A task that runs however another one ended runs, too, where that one has not run at all.
- Each task has a shell and an interpreter of its own; ours are forks of one (drivetrain/steps/kubeflow/forks.py).
"""

from __future__ import annotations

import contextlib
import importlib
import json
import marshal
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Protocol

from drivetrain.processes import TOKEN_VARIABLE, with_token
from drivetrain.processes.namespaces import set_parent_death_signal
from drivetrain.targets.kubeflow.compile.tasks import DOCUMENT

FAILED, REFUSED = 1, 3
UNPACKED = "DRIVETRAIN_UNPACKED_CODE"
"""The SHA-256 of each archive of code -> the folders from which its tasks import, the user's source the second, as
JSON; this process has its own places."""
_INPUT = r"inputs\.parameter_values\['([^']+)'\]"
# Of the CEL that ../compile/words.py writes: in a literal everything special is escaped, so it ends at the next quote.
_TOKEN = re.compile(rf"{_INPUT}|('[^']*')|(&&|\|\||!(?=\())")
_AT_RUN_TIME = "_KFP_RUNTIME"
"""The variable that keeps `import kfp` from importing all of it."""
_WORDS = {"&&": " and ", "||": " or ", "!": " not "}
Run = Callable[[Sequence[str], Mapping[str, str]], int]
PROGRAM = "drivetrain.steps.kubeflow.forks"
# The beginning of every task's command (start_command of ../compile/tasks.py).
_CODE = re.compile(r'c=([0-9a-f]{64}); test "\$DRIVETRAIN_UNPACKED" = \$c ')


def end_all(number: int, frame: FrameType | None) -> NoReturn:
    """The runner is gone: nobody waits for the tasks any more."""
    for pid in with_token(os.environ[TOKEN_VARIABLE]):
        if pid != os.getpid():
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(os.environ["TMPDIR"], ignore_errors=True)
    os._exit(128 + number)


def main() -> NoReturn:
    signal.signal(signal.SIGTERM, end_all)
    set_parent_death_signal(signal.SIGTERM)
    # kfp orders tasks by sets of their names; the runner fixes that order, and for kfp alone.
    os.environ.pop("PYTHONHASHSEED", None)
    unpacked: dict[str, list[str]] = json.loads(os.environ.pop(UNPACKED))
    pipeline, arguments, folder = map(Path, sys.argv[1:])
    # A task's resources and image mean nothing here.
    warnings.filterwarnings("ignore", module="kfp")
    try:
        components, local = import_kfp()
    except ImportError as error:
        print(f"kfp cannot be imported: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    try:
        forks = mend(unpacked)
    except GapError as error:
        print(f"{error}. Install one that is: pip install 'drivetrain[kubeflow]'.", file=sys.stderr)
        sys.exit(REFUSED)
    local.init(runner=local.SubprocessRunner(use_venv=False), pipeline_root=str(folder), raise_on_error=True)
    try:
        loaded = components.load_component_from_text(pipeline.read_text(encoding="utf-8"))
    except Exception as error:
        print(f"kfp refuses the pipeline: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(REFUSED)
    try:
        loaded(**json.loads(arguments.read_text(encoding="utf-8")))
    except RuntimeError as error:  # its word for a task that failed
        print(error, file=sys.stderr)
        sys.exit(FAILED)
    finally:
        forks.end()
    sys.exit(0)


class GapError(RuntimeError):
    """This kfp has not what is mended here; or a condition cannot be evaluated."""


def import_kfp() -> tuple[Any, Any]:
    """Import kfp's components and its local runner, without its client of the service: that takes four fifths of the
    time, and a local run needs nothing of it.

    Raises:
        ImportError: kfp is not installed.
    """
    os.environ[_AT_RUN_TIME] = "true"
    importlib.import_module("kfp")
    del os.environ[_AT_RUN_TIME]
    return importlib.import_module("kfp.components"), importlib.import_module("kfp.local")


class Inputs(Protocol):
    """kfp's IOStore: what the DAG around a task has been given."""

    def get_parent_input(self, key: str) -> Any: ...


def holds(condition: str, inputs: Inputs) -> bool:
    """Return True if a condition in CEL holds, by the values of the inputs that it names.

    Raises:
        GapError: it names what there is not, or compares what cannot be compared.
    """
    values: list[Any] = []

    def python(found: re.Match[str]) -> str:
        name, literal, word = found.groups()
        if name is None:
            return literal or _WORDS[word]
        values.append(inputs.get_parent_input(name))
        return f"values[{len(values) - 1}]"

    try:
        expression = _TOKEN.sub(python, condition)
        names: dict[str, Any] = {"__builtins__": {}, "true": True, "false": False, "values": values}
        return bool(eval(expression.strip(), names))
    except Exception as error:
        raise GapError(f"the condition {condition} cannot be evaluated: {type(error).__name__}: {error}") from error


def strict(execute_task: Callable[..., Any], failure: Any) -> Callable[..., Any]:
    """kfp's `execute_task`, which leaves out a task where one that it waits for has not run.

    Args:
        failure: what it gives with the outputs of a task that failed.
    """
    begun = weakref.WeakKeyDictionary[Any, set[str]]()  # by the store of a DAG

    def execute(*, task_name: str, task_spec: Any, io_store: Any, **more: Any) -> Any:
        known = begun.setdefault(io_store, set())
        failed = [name for name in task_spec.dependent_tasks if name not in known and _has_failed(io_store, name)]
        if failed:
            return {}, failure
        known.add(task_name)
        return execute_task(task_name=task_name, task_spec=task_spec, io_store=io_store, **more)

    return execute


def _has_failed(io_store: Any, task: str) -> bool:
    try:
        return io_store.get_task_status(task) == "FAILED"
    except ValueError:  # it has no status, as a task whose condition did not hold
        return False


def mend(unpacked: Mapping[str, Sequence[str]]) -> TaskForks:
    """Put ours in the place of kfp's; gives what runs the tasks, which is to be ended.

    Args:
        unpacked: the SHA-256 of each archive of code -> the folders from which its tasks import.

    Raises:
        GapError: this kfp has no such functions.
    """
    try:
        enhanced: Any = importlib.import_module("kfp.local.orchestrator.enhanced_dag_orchestrator")
        plain: Any = importlib.import_module("kfp.local.orchestrator.dag_orchestrator")
        handler: Any = importlib.import_module("kfp.local.subprocess_task_handler")
        evaluator, run_dag = enhanced.ConditionEvaluator, enhanced.run_enhanced_dag
        execute_task, failure = enhanced.execute_task, enhanced.status.Status.FAILURE
        run_process = handler.run_local_subprocess
        _ = evaluator.evaluate_condition, plain.run_dag
    except (ImportError, AttributeError) as error:
        raise GapError(f"this kfp is not as 2.17 is: {error}") from None
    forks = TaskForks(run_process, unpacked)
    handler.run_local_subprocess = forks.run
    evaluator.evaluate_condition = staticmethod(holds)
    enhanced.execute_task = strict(execute_task, failure)
    plain.run_dag = run_dag
    return forks


class TaskForks:
    """Runs commands of our tasks without a shell and an interpreter of their own.

    Args:
        otherwise: kfp's way, for all other commands, and where the interpreter is gone.
        unpacked: the SHA-256 of each archive of code -> the folders from which its tasks import, the package's first,
            the user's source the second. The first rooms of the package are the same in all.
    """

    def __init__(self, otherwise: Run, unpacked: Mapping[str, Sequence[str]]) -> None:
        self.otherwise, self.unpacked = otherwise, unpacked
        package = next(iter(unpacked.values()))[0]
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        command = [sys.executable, "-m", PROGRAM, str(theirs.fileno())]
        environment = {**os.environ, "PYTHONPATH": package}
        self.process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()

    def run(self, full_command: Sequence[str], env_vars: Mapping[str, str]) -> int:
        """The exit code of a task's command, once it has ended; as kfp's `run_local_subprocess`.

        Args:
            full_command: `sh -c TEXT EXECUTOR-INPUT`.
            env_vars: the container's.
        """
        code = _CODE.match(full_command[2]) if DOCUMENT in env_vars else None
        if code is None or code[1] not in self.unpacked:
            return self.otherwise(full_command, env_vars)
        folders = self.unpacked[code[1]]
        env_vars = {
            **env_vars,
            "DRIVETRAIN_UNPACKED": code[1],
            "DRIVETRAIN_SOURCE": folders[1],
            "PYTHONPATH": os.pathsep.join(folders),
        }
        ended = self._forked(full_command[3], {**os.environ, **env_vars})
        return self.otherwise(full_command, env_vars) if ended is None else ended

    def _forked(self, executor_input: str, environment: Mapping[str, str]) -> int | None:
        """None where the interpreter is gone, and nothing has begun."""
        given, giving = os.pipe()
        told, telling = os.pipe()
        try:
            socket.send_fds(self.requests, [b"!"], [given, telling])
        except OSError:
            os.close(giving)
            os.close(told)
            return None
        finally:
            os.close(given)
            os.close(telling)
        with contextlib.suppress(BrokenPipeError), open(giving, "wb") as file:  # its end is told below
            marshal.dump((executor_input, dict(environment)), file)
        with open(told, "rb") as file:
            return int(file.read() or 137)  # killed, as the interpreter was

    def end(self) -> None:
        """No more tasks will come."""
        self.requests.close()
        self.process.wait()


if __name__ == "__main__":
    main()
