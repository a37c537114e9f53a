"""Mend what kfp's local runner does otherwise than the service, in the process that runs it.

- A condition's values are pasted into its text, and one that cannot be evaluated counts as false, as does its else.
  A text with a quote or `&&` in it takes the wrong branch, without a word.
- A pipeline without branches and loops ends at its first failure, whatever does not depend on it.
- A task that runs however another one ended runs, too, where that one has not run at all.

And each task has a shell and an interpreter of its own; ours are forks of one (task_forks.py).

All hold of kfp 2.17 (kfp/local/orchestrator); `mend` refuses a kfp in which it does not find what it mends.
"""

from __future__ import annotations

import importlib
import os
import re
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from drivetrain.targets.kubeflow.run.task_forks import TaskForks

_INPUT = r"inputs\.parameter_values\['([^']+)'\]"
# Of the CEL that ../compile/words.py writes: in a literal everything special is escaped, so it ends at the next quote.
_TOKEN = re.compile(rf"{_INPUT}|('[^']*')|(&&|\|\||!(?=\())")
_AT_RUN_TIME = "_KFP_RUNTIME"
"""The variable that keeps `import kfp` from importing all of it."""
_WORDS = {"&&": " and ", "||": " or ", "!": " not "}


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
