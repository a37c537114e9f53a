"""Runs that real servers recorded (2.17.0 unless a name begins with another version): what is said of each."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from drivetrain.base.errors import UserError
from drivetrain.deploying.following import step_with_log
from drivetrain.deploying.runs import RemoteRun
from drivetrain.targets.kubeflow.deploy.deployer import report
from drivetrain.targets.kubeflow.deploy.executions import executions
from drivetrain.targets.kubeflow.deploy.executions.executions import describe
from drivetrain.targets.kubeflow.deploy.executions.steps import PodStep
from drivetrain.targets.kubeflow.deploy.executions.workflow import read_workflow
from drivetrain.targets.kubeflow.deploy.rest import AbsentError, Api, ApiError, ForeignError
from drivetrain.targets.kubeflow.deploy.shapes import problem_of

RECORDED = Path(__file__).parents[4] / "fixtures" / "kubeflow_runs"
Json = dict[str, Any]
FOREIGN = 0
"""In place of a status: the answer is not the API's, such as a page to log in."""
# A pipeline's tasks: a name, or a name with its branches or with the body of a loop.
CHAIN = ["make", "count"]
DECIDE = ["make", "count", ("decide", {"then": ["yes"], "otherwise": ["stop"]})]
FLAGSHIP = ["prepare", "train", "evaluate", "compare"]
RETRAINING = [*FLAGSHIP, ("register", {"then": ["register-model"], "otherwise": ["keep"]})]
PIPELINES: dict[str, list[Any]] = {
    "chain": CHAIN,
    "multi-user-chain": CHAIN,
    "decide": DECIDE,
    "flagship": RETRAINING,
    "spot": RETRAINING,
    "hosts2": ["prepare", "train"],
    "loop": [("sweep", ["score"])],
    "inner": [("each", ["again"])],
    "best": [("sweep", ["fit"]), "sweep-selected", "look"],
    "whatever": ["make", "count", "tell"],
    "noticed": [("all-steps", {"": ["boom"]}), "notice"],
    "nan": ["nan", "use"],
    "hello": ["say", "say-2", ("condition-1", {"": ["say-3"]})],
    "kfp-retry": ["bad"],
    "multi-user-again": ["broken"],
    "types": ["typed-out"],
    **{name: ["flaky"] for name in ("retry", "halves", "backoff")},
    **{name: ["slow"] for name in ("pod-deleted", "max60", "stopped", "multi-user-pod-deleted")},
    **{name: ["tell"] for name in ("secret", "resources", "namespace-ignored", "multi-user-claims")},
    **{name: ["read"] for name in ("other", "same-bucket")},
}
DONE = "Succeeded"
EXIT_1 = "Error (exit code 1)"
EXIT_143 = "Error (exit code 143): SIGTERM: the pod was deleted, evicted or preempted, or ran too long"
NO_MORE_TIME = "Max duration limit exceeded"
CHAIN_DONE = {"make": DONE, "count": DONE}
CHAIN_CACHED = {"make": "Cached", "count": "Cached"}
NO_BRANCH = {"decide": "Succeeded no", "yes": "NotExecuted", "stop": "Failed 1"}
REFUSED = {**CHAIN_DONE, **NO_BRANCH}
WHOLE = {**dict.fromkeys(FLAGSHIP, DONE), "register": "Succeeded yes", "register-model": DONE, "keep": "NotExecuted"}
AFTER_TRAIN = dict.fromkeys(["evaluate", "compare", "register", "register-model", "keep"], "NotExecuted")
CUT = {"prepare": "Cached", **AFTER_TRAIN}
WHATEVER = {"make": DONE, "count": "Failed 1", "tell": DONE}
# Run -> status, its steps (status, and attempts or iterations where they are not 1), and the reason without the log.
EXPECTED: dict[str, tuple[str, dict[str, str], str | None]] = {
    "hello": (DONE, {"say": DONE, "say-2": DONE, "condition-1": DONE, "say-3": DONE}, None),
    "kfp-retry": ("Failed", {"bad": "Failed 1"}, f"bad: {EXIT_1}"),
    "chain-unpatched": ("Failed", {"make": "Failed 1", "count": "NotExecuted"}, f"make: {EXIT_1}"),
    "chain-ok": (DONE, CHAIN_DONE, None),
    "chain-cached": (DONE, CHAIN_CACHED, None),
    "chain-without-templatedefaults": (DONE, CHAIN_DONE, None),
    "decide-yes": (DONE, {**CHAIN_DONE, "decide": "Succeeded yes", "yes": DONE, "stop": "NotExecuted"}, None),
    "decide-no": ("Failed", REFUSED, f"stop: {EXIT_1}"),
    "loop": (DONE, {"sweep": DONE, "score": "Cached 3 iterations"}, None),
    "best": (
        "Failed",
        {"sweep": DONE, "fit": "Succeeded 3 iterations", "sweep-selected": DONE, "look": "Failed 1"},
        f"look: {EXIT_1}",
    ),
    "whatever-1": ("Failed", WHATEVER, f"count: {EXIT_1}"),
    "retry-stock": ("Failed", {"flaky": "Failed 1"}, f"flaky: {EXIT_1}"),
    "retry-notemplatedefaults": ("Executing", {"flaky": "Executing 4"}, None),
    "pod-deleted": (DONE, {"slow": "Succeeded 2"}, None),
    "spot1": ("Failed", {**CUT, "train": "Failed 1"}, f"train: {EXIT_143}"),
    "spot-resumed": (DONE, {**WHOLE, "prepare": "Cached", "train": "Succeeded 2"}, None),
    "max60": ("Failed", {"slow": "Failed 2"}, f"slow: {EXIT_143}; {NO_MORE_TIME}"),
    "halves": (
        "Failed",
        {"flaky": "Failed 1"},
        f"flaky: {EXIT_1}; task 'halves-9fj4n.root.flaky.executor' errored: value '1.5' cannot be resolved to an int",
    ),
    "stopped": ("Stopped", {"slow": "Stopped 1"}, None),
    "nan": ("Failed", {"nan": "Failed 1", "use": "NotExecuted"}, f"nan: {EXIT_1}"),
    "other": ("Failed", {"read": "Failed 1"}, f"read: {EXIT_1}"),
    "same-bucket": (DONE, {"read": DONE}, None),
    **dict.fromkeys(("secret", "resources", "namespace-ignored", "multi-user-claims"), (DONE, {"tell": DONE}, None)),
    **dict.fromkeys(("types-1", "types-2"), (DONE, {"typed-out": DONE}, None)),
    "noticed": ("Failed", {"boom": "Failed 1", "notice": DONE}, f"boom: {EXIT_1}"),
    "flagship": (DONE, WHOLE, None),
    "flagship-registry": (DONE, {**WHOLE, "prepare": "Cached"}, None),
    "flagship-hosts2": ("Failed", {**CUT, "train": "Failed 2"}, f"train: {EXIT_1}"),
    "hosts2-long": (DONE, {"prepare": DONE, "train": DONE}, None),
    "spot-old": ("Failed", {**CUT, "train": "Failed 1"}, "train: pod deleted"),
    "multi-user-chain": (DONE, CHAIN_DONE, None),
    "multi-user-pod-deleted-finalizer": (DONE, {"slow": "Succeeded 2"}, None),
    "multi-user-again-always": ("Stopped", {"broken": "Failed 9"}, None),
    "backoff-2days": ("Failed", {"flaky": "Failed 4"}, f"flaky: {EXIT_1}"),
    **dict.fromkeys(
        ("backoff-nomax", "backoff-bare"), ("Failed", {"flaky": "Failed 1"}, f"flaky: {EXIT_1}; {NO_MORE_TIME}")
    ),
    "2.5.0-inner": ("Failed", {"each": "Failed 0", "again": "Failed 1"}, f"again: {EXIT_1}"),
    "2.15.0-inner": ("Failed", {"each": "Failed 0", "again": "Failed 3"}, f"again: {EXIT_1}"),
} | {
    f"{version}-{name}": said
    for version in ("2.5.0", "2.15.0")
    for name, said in {
        "chain": (DONE, CHAIN_DONE, None),
        "chain-cached": (DONE, CHAIN_CACHED, None),
        "decide-no": ("Failed", REFUSED, f"stop: {EXIT_1}"),
        "retry": ("Failed", {"flaky": "Failed 4"}, f"flaky: {EXIT_1}"),
        "whatever": ("Failed", WHATEVER, f"count: {EXIT_1}"),
        "loop": (DONE, {"sweep": DONE, "score": "Succeeded 3 iterations"}, None),
    }.items()
}


@cache
def text_of(run: str) -> str:
    return (RECORDED / f"{run}.json").read_text()


def recorded(run: str) -> Json:
    return json.loads(text_of(run))


def spec_of(run: str) -> Json:
    """A document with the tasks of a run's pipeline."""
    name = run.split("-", 1)[1] if run[0].isdigit() else run
    tasks = next(PIPELINES[each] for each in sorted(PIPELINES, key=len, reverse=True) if name.startswith(each))
    components: Json = {}

    def dag(of: list[Any]) -> Json:
        found: Json = {}
        for before, each in zip([None, *of], of, strict=False):
            task, inner = (each, None) if isinstance(each, str) else each
            found[task] = {"componentRef": {"name": f"comp-{task}"}}
            if before is not None:
                found[task]["dependentTasks"] = [before if isinstance(before, str) else before[0]]
            if isinstance(inner, list):
                found[task]["parameterIterator"] = {}
            components[f"comp-{task}"] = {"dag": body(task, inner)} if inner else {"executorLabel": f"exec-{task}"}
        return {"tasks": found}

    def body(task: str, inner: Any) -> Json:
        if isinstance(inner, list) or "" in inner:
            return dag(inner if isinstance(inner, list) else inner[""])
        for branch, of in inner.items():
            components[f"comp-{task}-{branch}"] = {"dag": dag(of)}
        return {"tasks": {f"{task}-{branch}": {"componentRef": {"name": f"comp-{task}-{branch}"}} for branch in inner}}

    return {"root": {"dag": dag(tasks)}, "components": components}


class Server:
    """Answers as it was recorded; each answer is held against the shape that is expected."""

    def __init__(self, run: str, *, manifest: Json | None = None, status: int = 200) -> None:
        self.run = recorded(run)
        self.manifest = manifest or self.run["workflow"]
        self.answer: Json = {**self.run["run"], "pipeline_spec": spec_of(run)}
        self.status = status

    def call(self, method: str, path: str, *, shape: Any = "object", **_: Any) -> Json:
        if path.startswith("/apis/v1beta1/"):
            if self.status != 200:
                kind = {404: AbsentError, FOREIGN: ForeignError}.get(self.status, ApiError)
                raise kind("refused", status=self.status)
            answer: Json = {"pipeline_runtime": {"workflow_manifest": json.dumps(self.manifest)}}
        else:
            answer = self.answer
        assert problem_of(answer, shape) is None
        return answer

    def described(self) -> RemoteRun:
        return describe(cast(Api, self), "p", "r")


def steps_of(execution: RemoteRun) -> list[PodStep]:
    return cast("list[PodStep]", list(execution.steps))


def shown(execution: RemoteRun) -> dict[str, str]:
    """The steps of an execution in the words of the table."""
    found: dict[str, str] = {}
    for step in steps_of(execution):
        counted = step.status in ("Failed", "Executing", "Stopped") or step.tried > 1
        count = f" {step.iterations} iterations" if step.iterations > 1 else f" {step.tried}" if counted else ""
        found[step.name] = step.status + count + (f" {step.branch}" if step.branch else "")
    return found


def test_the_table_is_complete() -> None:
    assert {path.stem for path in RECORDED.glob("*.json")} == EXPECTED.keys()


@pytest.mark.parametrize("run", EXPECTED)
def test_a_recorded_run_is_shown_as_expected(run: str) -> None:
    status, steps, reason = EXPECTED[run]
    found = Server(run).described()
    assert (found.status, shown(found), found.reason) == (status, steps, reason)


@pytest.mark.parametrize("run", EXPECTED)
def test_times_are_those_of_the_recording(run: str) -> None:
    found = Server(run).described()
    for step in steps_of(found):
        if step.status != "NotExecuted" and not run[0].isdigit():  # of older versions no times were recorded
            assert step.started is not None and found.started is not None and step.started >= found.started
        # A decided condition has none: its node ends with its branch.
        without = step.status in ("Executing", "NotExecuted") or step.branch or run[0].isdigit()
        assert (step.ended is None) == bool(without)


def test_packed_nodes_say_the_same() -> None:
    whole = recorded("loop")["workflow"]
    text = json.dumps(whole["status"].pop("nodes")).encode()
    packed = base64.b64encode(gzip.compress(text)).decode()
    whole["status"]["compressedNodes"] = packed
    assert shown(Server("loop", manifest=whole).described()) == EXPECTED["loop"][1]
    for broken in (packed[:-8], base64.b64encode(gzip.compress(text[:-1])).decode(), "no base64", "e30="):
        assert read_workflow({"status": {"compressedNodes": broken}}) is None


def test_archives_that_unpack_too_large_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from drivetrain.targets.kubeflow.deploy.executions import workflow

    nodes = base64.b64encode(gzip.compress(b'{"n": {"name": "w.root.a"}}' + b" " * 1_000)).decode()
    assert workflow.read_workflow({"status": {"compressedNodes": nodes}}) is not None
    monkeypatch.setattr(workflow, "MAX_NODES_BYTES", 1_000)
    assert workflow.read_workflow({"status": {"compressedNodes": nodes}}) is None


@pytest.mark.parametrize("status", [302, 403, 404, 405, 501, FOREIGN])
@pytest.mark.parametrize(
    ("run", "steps"),
    [
        ("chain-ok", CHAIN_DONE),
        ("2.15.0-chain", CHAIN_DONE),
        ("chain-unpatched", {"make": "Failed", "count": "NotExecuted"}),
        ("decide-yes", {**CHAIN_DONE, "decide": "Succeeded yes", "yes": DONE, "stop": "NotExecuted"}),
        ("best", {"sweep": DONE, "fit": "Succeeded 3 iterations", "sweep-selected": DONE, "look": "Failed"}),
        ("stopped", {"slow": "Stopped"}),
    ],
)
def test_without_the_workflow_task_details_are_read(run: str, steps: dict[str, str], status: int) -> None:
    found = Server(run, status=status).described()
    assert {name: text.removesuffix(" 0") for name, text in shown(found).items()} == steps
    assert (found.status, found.note) == (EXPECTED[run][0], executions.NO_WORKFLOW)


@pytest.mark.parametrize("status", [400, 401, 500])
def test_other_workflow_errors_are_reported(status: int) -> None:
    with pytest.raises(ApiError, match="refused"):
        Server("chain-ok", status=status).described()


def test_a_run_that_has_ended_will_have_no_log() -> None:
    with pytest.raises(UserError, match=r"has a log\. The server does not give the Workflow"):
        step_with_log(Server("chain-ok", status=404).described(), None)


def test_a_workflow_with_odd_nodes_is_read_as_far_as_it_goes() -> None:
    for odd in (None, 7, "abc", {"name": "pod-spec-patch"}, [None, 5, {"name": "pod-spec-patch"}]):
        manifest = recorded("chain-ok")["workflow"]
        for node in manifest["status"]["nodes"].values():
            node |= {"startedAt": "soon", "finishedAt": "99999999", "inputs": {"parameters": odd}}
        found = Server("chain-ok", manifest=manifest).described()
        assert (shown(found), found.steps[0].seconds) == (CHAIN_DONE, None)
        assert steps_of(found)[0].programs[0][0].log is None


def test_a_deleted_version_is_reported() -> None:
    server = Server("chain-ok")
    del server.answer["pipeline_spec"]
    server.answer["pipeline_version_reference"] = {"pipeline_id": "p", "pipeline_version_id": "v"}
    answered = server.call

    def call(method: str, path: str, **more: Any) -> Json:
        if "/versions/" in path:
            raise AbsentError("There is no pipeline version", status=404)
        return answered(method, path, **more)

    server.call = call  # type: ignore[method-assign]
    found = server.described()
    assert (found.steps, found.note) == ((), executions.NO_VERSION)


def test_a_run_whose_version_names_no_pipeline_has_its_own_spec() -> None:
    server = Server("chain-ok")
    server.answer["pipeline_version_reference"] = {"pipeline_version_id": "v"}
    assert shown(server.described()) == CHAIN_DONE


def test_a_pipeline_that_others_compiled_may_call_a_task_then() -> None:
    """`decide-then` is no branch of ours there: it is a program."""
    server = Server("decide-yes")
    server.answer["pipeline_spec"]["components"]["comp-decide-then"] = {"executorLabel": "exec-decide-then"}
    assert {step.name for step in server.described().steps} >= {"make", "decide", "decide-then"}


def test_no_step_runs_in_a_run_that_has_ended() -> None:
    """The run's state is written some seconds before those of its tasks."""
    server = Server("chain-ok", status=404)
    for detail in server.answer["run_details"]["task_details"]:
        if detail.get("display_name") in ("count", "count(0)"):
            detail |= {"state": "RUNNING", "end_time": "1970-01-01T00:00:00Z"}
    found = server.described()
    assert shown(found) == CHAIN_DONE and found.steps[-1].seconds is None
    server.answer["state"] = "RUNNING"
    assert shown(server.described())["count"] == "Executing 0"


def test_a_version_without_steps_is_reported() -> None:
    server = Server("chain-ok", status=404)
    del server.answer["run_details"]
    found = server.described()
    assert (found.steps, found.note) == ((), executions.NO_STEPS)


def test_a_workflow_that_could_not_be_made_says_why() -> None:
    manifest = {"metadata": {"name": "w"}, "status": {"phase": "Error", "message": "invalid spec: no template root"}}
    found = Server("chain-unpatched", manifest=manifest).described()
    assert (found.reason, found.note) == ("invalid spec: no template root", None)
    assert shown(found) == {"make": "NotExecuted", "count": "NotExecuted"}


def test_a_waiting_pod_is_shown_with_its_reason() -> None:
    """Recorded while its fourth attempt was pending."""
    found = Server("retry-notemplatedefaults").described()
    (remark,) = (row.remark for row in report(found).rows)
    assert remark == "4 attempts, pending: PodInitializing"
    (fresh,) = (row.remark for row in report(replace(found, fresh=True)).rows)
    assert fresh == f"--fresh, {remark}"
    manifest = recorded("retry-notemplatedefaults")["workflow"]
    nodes: dict[str, Json] = manifest["status"]["nodes"]
    manifest["status"]["nodes"] = {id: node for id, node in nodes.items() if "flaky" not in node["name"]}
    importer = next(node for node in nodes.values() if node["displayName"] == "import-code")
    importer |= {"phase": "Pending", "message": "Unschedulable: 0/3 nodes are available"}
    found = Server("retry-notemplatedefaults", manifest=manifest).described()
    assert found.steps == () and found.note == "import-code is pending: Unschedulable: 0/3 nodes are available"


def test_a_training_is_known_by_the_place_of_its_checkpoints() -> None:
    server = Server("hosts2-long")
    documents = {
        "train": '{"arguments":[{"option":["--checkpoints",{"place":"s3://b/checkpoints"}]}]}',
        "prepare": json.dumps({"arguments": [{"option": ["--query", '{"place": 1} {"place":1}']}]}),
    }
    server.answer["pipeline_spec"]["deploymentSpec"] = {
        "executors": {
            f"exec-{name}": {"container": {"env": [{"name": "A"}, {"name": "DRIVETRAIN_TASK", "value": text}]}}
            for name, text in documents.items()
        }
    }
    found = server.described()
    assert {step.name: step.trains for step in steps_of(found)} == {"prepare": False, "train": True}
    told = replace(found, steps=(replace(steps_of(found)[1], starts="starts from step 8"),))
    (remark,) = (row.remark for row in report(told).rows)
    assert remark == "starts from step 8" and report(told).to_json()["steps"][0]["starts_from"] == remark


def test_a_pod_of_the_platform_that_failed_is_the_reason() -> None:
    """An importer or a driver that cannot reach the storage: no step began."""
    manifest = recorded("chain-unpatched")["workflow"]
    nodes: dict[str, Json] = manifest["status"]["nodes"]
    for id in [id for id, node in nodes.items() if ".make" in node["name"]]:
        del nodes[id]
    driver = next(node for node in nodes.values() if node["displayName"] == "count-driver")
    importer = next(node for node in nodes.values() if node["displayName"] == "import-code(0)")
    importer |= {"phase": "Failed", "message": "Error (exit code 1)"}
    found = Server("chain-unpatched", manifest=manifest).described()
    assert (found.reason, shown(found)["count"]) == ("import-code: Error (exit code 1)", "NotExecuted")
    importer |= {"phase": "Succeeded", "message": None}
    driver |= {"type": "Pod", "phase": "Failed", "message": "Error (exit code 1)"}
    found = Server("chain-unpatched", manifest=manifest).described()
    assert (found.reason, shown(found)["count"]) == ("count: its driver: Error (exit code 1)", "Failed 1")


@pytest.mark.parametrize(("state", "says"), [("CANCELING", "is stopping already"), ("SUCCEEDED", "has ended")])
def test_a_run_that_stops_or_has_ended_is_not_stopped_again(state: str, says: str) -> None:
    server = Server("stopped")
    server.answer["state"] = state
    with pytest.raises(UserError, match=says):
        executions.stop(cast(Api, server), "r")


def test_stopping_an_ended_run_is_reported() -> None:
    """Somebody else has stopped it between two requests: 400, "Row not found"."""
    server = Server("stopped")
    server.answer["state"] = "RUNNING"
    calls: list[str] = []

    def call(method: str, path: str, **more: Any) -> Json:
        calls.append(method)
        if method == "POST":
            server.answer["state"] = "CANCELING"
            raise ApiError("Failed to terminate a run. Row not found", status=400)
        return Server.call(server, method, path, **more)

    server.call = call  # type: ignore[method-assign]
    with pytest.raises(UserError, match="is stopping already"):
        executions.stop(cast(Api, server), "r")
    assert calls == ["GET", "POST", "GET"]


def test_pods_are_named_as_the_cluster_names_them() -> None:
    """The log of this pod was recorded under both of its names."""
    (make, _) = steps_of(Server("chain-ok").described())
    assert make.pods == ("chain-htljc-system-container-impl-3862424703",)
    assert make.programs[0][0].node == "chain-htljc-3862424703"
