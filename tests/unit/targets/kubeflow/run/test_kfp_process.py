"""What runs by kfp's local runner lean on in kfp 2.17, each by its name: an update of kfp that changes one is noticed
here. What is mended for it (drivetrain/targets/kubeflow/run/kfp_process.py) is tested beside it."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain.spec.values import All, AnyOf, Comparison, Condition, In, Not, ParameterRef
from drivetrain.steps.kubeflow.program import Reporter
from drivetrain.targets.kubeflow.compile.words import cel
from drivetrain.targets.kubeflow.run import kfp_process
from drivetrain.targets.kubeflow.run.conditions import holds as holds_here
from drivetrain.targets.kubeflow.run.kfp_process import TaskForks
from tests.unit.steps.kubeflow.test_task_program import MODULE, given, working

SHA = "0" * 64
COMMAND = f'c={SHA}; test "$DRIVETRAIN_UNPACKED" = $c && exec "python3" -m drivetrain.steps.kubeflow "$0"'
OTHERWISE = 99


def kfp(name: str) -> Any:
    """A module of kfp, imported where a test asks for it: collecting shall not cost its import."""
    kfp_process.import_kfp()
    return importlib.import_module(f"kfp.{name}")


class Given(dict[str, Any]):
    """kfp's IOStore, as far as conditions ask it."""

    def get_parent_input(self, key: str) -> Any:
        if key not in self:
            raise ValueError(f"no parent input {key}")
        return self[key]


VALUE, NAME = ParameterRef(name="value", type="Float"), "pipelinechannel--value"
TEXTS = ["plain", "it's", 'so "quoted"', "a && b || !(c)", "pipelinechannel--value", "a\\b\n", "ü€😀", "", "'"]


def compiled(condition: Condition) -> str:
    return cel(condition, lambda _: NAME)


def equals(value: Any) -> Comparison:
    return Comparison(operator="Equals", left=VALUE, right=value)


def test_a_run_imports_no_client_of_kubernetes() -> None:
    program = (
        "import os, sys; from drivetrain.targets.kubeflow.run.kfp_process import import_kfp; "
        "before = dict(os.environ); components, local = import_kfp(); "
        "components.load_component_from_text, local.SubprocessRunner; "
        "print(before == dict(os.environ), {'kfp.client', 'kubernetes'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True set()\n"


def test_a_command_runs_if_it_holds_the_words_executor_main() -> None:
    handler = kfp("local.subprocess_task_handler").SubprocessTaskHandler
    runner = kfp("local").SubprocessRunner(use_venv=False)
    given = {"image": "python:3", "pipeline_root": "root", "runner": runner}
    handler(full_command=["sh", "-c", "true # kfp.dsl.executor_main"], **given)
    with pytest.raises(RuntimeError, match="only supports running Lightweight Python Components"):
        handler(full_command=["sh", "-c", "true"], **given)


def test_the_text_python3_is_replaced_but_for_the_argument_after_the_comment() -> None:
    replaced = kfp("local.subprocess_task_handler").replace_python_executable
    comment = 'exec "python3" # kfp.dsl.executor_main "$program_path/ephemeral_component.py" "$@"'
    found = replaced(["sh", "-c", comment, "a value with python3"], "/bin/py")
    assert found[2].startswith('exec "/bin/py"') and found[3] == "a value with python3"
    assert replaced(["sh", "-c", "true", "a value with python3"], "/bin/py")[3] == "a value with /bin/py"


def test_an_output_folder_counts_only_if_executor_output_names_it(tmp_path: Path) -> None:
    inputs, outputs = kfp("local.executor_input_utils"), kfp("local.executor_output_utils")
    component = kfp("pipeline_spec.pipeline_spec_pb2").ComponentSpec()
    component.output_definitions.artifacts["data"].artifact_type.schema_title = "system.Artifact"
    given = inputs.construct_executor_input(component, {}, str(tmp_path), block_input_artifact=False)
    (tmp_path / "data").mkdir()
    assert outputs.get_outputs_for_task(given, component) == {}
    named = {"artifacts": {"data": {"artifacts": [{"name": "data", "uri": str(tmp_path / "data")}]}}}
    (tmp_path / "executor_output.json").write_text(json.dumps(named))
    assert outputs.get_outputs_for_task(given, component)["data"].uri == str(tmp_path / "data")


def test_numbers_arrive_as_doubles() -> None:
    """So that 7 is 7.0 to a task, and texts of numbers are handed on as JSON."""
    inputs, spec = kfp("local.executor_input_utils"), kfp("pipeline_spec.pipeline_spec_pb2")
    component = spec.ComponentSpec()
    component.input_definitions.parameters["double"].parameter_type = spec.ParameterType.NUMBER_DOUBLE
    component.input_definitions.parameters["whole"].parameter_type = spec.ParameterType.NUMBER_INTEGER
    given = inputs.construct_executor_input(component, {"double": 7, "whole": 7}, "root", block_input_artifact=False)
    values = inputs.executor_input_to_dict(given, component)["inputs"]["parameterValues"]
    assert repr(values["double"]) == "7.0" and repr(values["whole"]) == "7"


def test_placeholders_are_filled_in_inside_of_values() -> None:
    """Which a run refuses in its parameters; and JSON hides them in what steps return."""
    replaced = kfp("local.placeholder_utils").replace_placeholders
    said = json.dumps("{{$.pipeline_job_name}}").replace("{{", "{\\u007b")
    given = {
        "inputs": {"parameterValues": {"plain": "{{$.pipeline_job_name}}", "json": said}},
        "outputs": {"outputFile": "out"},
    }
    ids = {"pipeline_resource_name": "the-name", "task_resource_name": "task", "pipeline_root": "root"}
    found = replaced(["{{$}}"], executor_input_dict=given, unique_pipeline_id="1", **ids)
    values = json.loads(found[0])["inputs"]["parameterValues"]
    assert values["plain"] == "the-name" and json.loads(values["json"]) == "{{$.pipeline_job_name}}"


def test_a_condition_that_cannot_be_evaluated_is_false_and_so_is_its_else() -> None:
    evaluated = kfp("local.orchestrator.enhanced_dag_orchestrator").ConditionEvaluator.evaluate_condition
    values = Given({"value": 1.0, NAME: 1.0})
    reference = f"inputs.parameter_values['{NAME}']"
    assert evaluated(f"{reference} == 1.0", values) is True
    for condition in (f"{reference} == double(1)", f"!({reference} == double(1))"):
        assert evaluated(condition, values) is False
        with pytest.raises(kfp_process.GapError, match="double"):
            kfp_process.holds(condition, values)


def test_a_text_with_a_quote_or_an_operator_in_it_takes_the_wrong_branch() -> None:
    evaluated = kfp("local.orchestrator.enhanced_dag_orchestrator").ConditionEvaluator.evaluate_condition
    wrong = [text for text in TEXTS if not evaluated(compiled(equals(text)), Given({"value": text, NAME: text}))]
    assert {"it's", "a && b || !(c)", "'"} <= set(wrong)


@pytest.mark.parametrize("text", TEXTS)
def test_ours_compares_texts_whatever_is_in_them(text: str) -> None:
    values = Given({NAME: text})
    assert kfp_process.holds(compiled(equals(text)), values)
    assert not kfp_process.holds(compiled(Not(condition=equals(text))), values)
    assert not kfp_process.holds(compiled(equals(text + "x")), values)


@pytest.mark.parametrize("value", [-1.0, 0, 1, 2.5, 1e-7])
def test_our_evaluation_matches_the_pipeline(value: float) -> None:
    """The compiled condition, and the condition itself."""
    small, large = (Comparison(operator=one, left=VALUE, right=1) for one in ("LessThan", "GreaterThanOrEqualTo"))
    conditions = [
        small,
        All(conditions=(small, Not(condition=large))),
        AnyOf(conditions=(large, equals(0))),
        Not(condition=AnyOf(conditions=(small, equals(2.5)))),
        In(value=VALUE, options=(0, 1, 1e-7)),
        Not(condition=In(value=VALUE, options=(2, 3))),
    ]
    for condition in conditions:
        expected = holds_here(condition, lambda _: value)
        assert kfp_process.holds(compiled(condition), Given({NAME: value})) is expected, compiled(condition)


def test_a_missing_value_is_not_false() -> None:
    with pytest.raises(kfp_process.GapError, match=r"no parent input pipelinechannel--value"):
        kfp_process.holds(compiled(equals(1)), Given())


def test_patched_functions_exist_with_the_same_arguments() -> None:
    enhanced = kfp("local.orchestrator.enhanced_dag_orchestrator")
    plain = kfp("local.orchestrator.dag_orchestrator")
    ours, theirs = inspect.signature(enhanced.run_enhanced_dag), inspect.signature(plain.run_dag)
    more = [parameter for name, parameter in ours.parameters.items() if name not in theirs.parameters]
    assert theirs.parameters.keys() <= ours.parameters.keys() and all(one.default is None for one in more)
    evaluator = inspect.signature(enhanced.ConditionEvaluator.evaluate_condition)
    assert list(evaluator.parameters) == ["condition", "io_store"]
    assert "dag_orchestrator.run_dag(" in inspect.getsource(kfp("local.pipeline_orchestrator"))


def test_mend_replaces_the_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    enhanced = kfp("local.orchestrator.enhanced_dag_orchestrator")
    plain = kfp("local.orchestrator.dag_orchestrator")
    monkeypatch.setattr(enhanced.ConditionEvaluator, "evaluate_condition", None)
    monkeypatch.setattr(plain, "run_dag", None)
    handler = kfp("local.subprocess_task_handler")
    theirs = handler.run_local_subprocess
    monkeypatch.setattr(handler, "run_local_subprocess", theirs)
    monkeypatch.setattr(enhanced, "execute_task", enhanced.execute_task)
    forks = kfp_process.mend({"0" * 64: ["package", "source"]})
    forks.end()
    assert handler.run_local_subprocess == forks.run and forks.otherwise is theirs
    assert "run_local_subprocess(" in inspect.getsource(handler.SubprocessTaskHandler.run)
    assert "execute_task(" in inspect.getsource(enhanced.run_enhanced_dag)
    assert enhanced.ConditionEvaluator().evaluate_condition("1.0 < 2.0", Given()) is True
    assert plain.run_dag is enhanced.run_enhanced_dag


class Store:
    """kfp's IOStore, as far as it knows how tasks ended."""

    def __init__(self, **status: str) -> None:
        self.status = status

    def get_task_status(self, task: str) -> str:
        if task not in self.status:
            raise ValueError(task)
        return self.status[task]


def test_tasks_after_a_skipped_task_do_not_run() -> None:
    ran: list[str] = []

    def execute_task(*, task_name: str, **_: Any) -> tuple[dict[str, str], str]:
        ran.append(task_name)
        return {}, "done"

    execute, store = kfp_process.strict(execute_task, "failed"), Store(tried="FAILED", skipped="FAILED")
    done = [
        execute(task_name=name, task_spec=SimpleNamespace(dependent_tasks=needed), io_store=within)
        for name, needed, within in (
            ("tried", [], store),
            ("after-a-failure", ["tried"], store),
            ("after-none", ["tried", "skipped"], store),
            ("after-a-branch-not-taken", ["branch"], store),
            ("in-another-dag", ["tried"], Store(tried="FAILED")),
        )
    ]
    assert [state for _, state in done] == ["done", "done", "failed", "done", "failed"]
    assert ran == ["tried", "after-a-failure", "after-a-branch-not-taken"]


def test_a_kfp_without_the_patched_functions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(kfp("local.orchestrator.dag_orchestrator"), "run_dag")
    with pytest.raises(kfp_process.GapError, match=r"not as 2\.17 is: .*run_dag"):
        kfp_process.mend({"0" * 64: ["package", "source"]})


def test_retries_use_one_output_folder() -> None:
    """So a task empties it first."""
    root = kfp("local.executor_input_utils").construct_local_task_root
    assert list(inspect.signature(root).parameters) == ["pipeline_root", "pipeline_resource_name", "task_resource_name"]


def test_two_iterations_run_at_a_time() -> None:
    executor = kfp("local.orchestrator.enhanced_dag_orchestrator").ParallelExecutor
    assert executor(None).max_workers == executor(10).max_workers == 2


@pytest.mark.parametrize(("dag", "iteration"), [("sweep-iteration-12", 12), ("a-branch", None)])
def test_an_iteration_is_identified_by_the_folder_of_its_tasks(dag: str, iteration: int | None) -> None:
    nested = kfp("local.orchestrator.task_spec_utils").get_nested_pipeline_resource_name(dag, "run-1")
    root = kfp("local.executor_input_utils").construct_local_task_root("/objects", nested, "fit")
    task: Any = SimpleNamespace(step="fit", outputs={"outputFile": f"{root}/executor_output.json"})
    assert Reporter(task).about == {"step": "fit", "iteration": iteration}


def test_a_failure_is_reported_without_its_reason() -> None:
    """So that tasks report their own."""
    told = kfp("local.pipeline_orchestrator").log_and_maybe_raise_for_failure
    assert list(inspect.signature(told).parameters) == ["pipeline_name", "raise_on_error", "fail_stack"]
    with pytest.raises(RuntimeError, match="Inner task failed"):
        told(pipeline_name="p", raise_on_error=True, fail_stack=["train"])


def test_nothing_is_cached_unless_asked_for() -> None:
    assert kfp("local.cache").get_local_cache() is None


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "s3" / "bucket" / "data").mkdir(parents=True)
    (tmp_path / "s3" / "bucket" / "data" / "rows.csv").write_text("1")
    (tmp_path / "worked.py").write_text(MODULE)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("DRIVETRAIN_OBJECT_STORE", str(tmp_path / "s3"))
    return tmp_path


def otherwise(full_command: Sequence[str], env_vars: Mapping[str, str]) -> int:
    return OTHERWISE


@pytest.fixture
def forks(store: Path) -> Iterator[TaskForks]:
    found = TaskForks(otherwise, {SHA: [str(store / "package"), str(store)]})
    yield found
    found.end()


def command(store: Path) -> list[str]:
    return ["sh", "-c", COMMAND, json.dumps(given(store))]


def told(*more: object, **document: object) -> dict[str, str]:
    known = {"step": "work", "outputs": ["made", "metrics"]}
    return {"DRIVETRAIN_TASK": json.dumps({**known, **working(*more, **document)})}


def test_a_task_is_a_fork(forks: TaskForks, store: Path) -> None:
    before = dict(os.environ)
    assert forks.run(command(store), told({"option": ["--text", "it's"]}, metrics={"rows": "rows"})) == 0
    assert (store / "s3" / "out" / "made" / "text.txt").read_text() == "it's|0.0|['rows.csv']|[]"
    made = (store / "s3" / "out" / "made" / "process.txt").read_text()
    assert made.startswith("call.py ") and "drivetrain.steps.kubeflow.forks" in made
    assert json.loads((store / "out" / "executor_output.json").read_text())["parameterValues"] == {"rows": 7}
    assert forks.run(command(store), told({"option": ["--ends", "bad"]})) == 2
    assert forks.run(command(store), told({"option": ["--ends", "lost"]})) == 75
    assert dict(os.environ) == before


def test_other_commands_run_as_kfp_runs_them(forks: TaskForks, store: Path) -> None:
    assert forks.run(["sh", "-c", "true", "{}"], told()) == OTHERWISE
    assert forks.run([*command(store)[:2], COMMAND.replace(SHA, "1" * 64), "{}"], told()) == OTHERWISE
    assert forks.run(command(store), {}) == OTHERWISE


def test_without_the_interpreter_tasks_run_as_kfp_runs_them(forks: TaskForks, store: Path) -> None:
    forks.process.kill()
    forks.process.wait()
    assert forks.run(command(store), told()) == OTHERWISE


def test_a_task_whose_interpreter_is_killed_has_failed(
    forks: TaskForks, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have done anything, so it is not run again."""
    monkeypatch.setenv("DRIVETRAIN_SOURCE", str(store))
    (store / "killing.py").write_text("import os, signal, sys\nos.kill(int(sys.argv[1]), signal.SIGKILL)\n")
    document = {"step": "kill", "program": "script:killing.py", "arguments": [str(forks.process.pid)]}
    assert forks.run(command(store), {"DRIVETRAIN_TASK": json.dumps(document)}) == 137
