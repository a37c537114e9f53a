"""Every request to Kubeflow Pipelines 2.5.0, 2.15.0 and 2.17.0 that was recorded, replayed against the stand-in: the
same status, fields, kinds and values, but for ids and times of its own."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.fixtures.kubeflow_pipelines.replay import calls, document, seed, upload_of
from tests.fixtures.kubeflow_pipelines.server import Cluster, pipelines_api
from tests.fixtures.kubeflow_pipelines.store import Store

Json = dict[str, Any]
CALLS = calls()
# Values that differ from one time to the next, or that depend on another installation.
OWN = {"next_page_token", "error_details", "state_message", "total_size", "commit_sha", "last_run_created_at"}
OWN |= {"run_id", "recurring_run_id", "pipeline_id", "pipeline_version_id", "experiment_id", "id"}
OPAQUE = {"pipeline_spec", "run_details", "state_history", "plugins_output", "workflow_manifest", "pipeline_manifest"}


def answered(cluster: Cluster, call: Json) -> tuple[int, Any]:
    """Status and answer."""
    headers = {} if call["status"] == 401 else {"Authorization": f"Bearer {cluster.token}"}
    body: str | None = None
    if "upload_version" in call["path"]:
        headers["Content-Type"] = "multipart/form-data; boundary=x"
        name = 'Content-Disposition: form-data; name="uploadfile"; filename="p.yaml"'
        body = f"--x\r\n{name}\r\n\r\n{upload_of(call)}\r\n--x--\r\n"
    elif isinstance(call["request"], dict):
        headers["Content-Type"] = "application/json"
        asked = dict(call["request"])
        if "pipeline_spec" in asked:
            asked["pipeline_spec"] = json.loads(document())
        body = json.dumps(asked)
    where = urlsplit(cluster.endpoint)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    try:
        connection.request(call["method"], f"{where.path}{call['path']}", body, headers)
        answer = connection.getresponse()
        content = answer.read().decode()
    finally:
        connection.close()
    try:
        return answer.status, json.loads(content)
    except ValueError:
        return answer.status, content


def differences(recorded: Any, ours: Any, place: str = "") -> list[str]:
    name = place.rpartition(".")[2]
    if type(recorded) is not type(ours):
        return [f"{place}: {recorded!r:.150} is {ours!r:.150}"]
    if name in OPAQUE:
        return []
    if isinstance(recorded, dict):
        if set(recorded) != set(ours):
            return [f"{place}: fields {sorted(set(recorded) ^ set(ours))} differ"]
        return [each for key in recorded for each in differences(recorded[key], ours[key], f"{place}.{key}")]
    if isinstance(recorded, list):
        if len(recorded) != len(ours):
            return [f"{place}: {len(recorded)} items are {len(ours)}"]
        return [each for a, b in zip(recorded, ours, strict=True) for each in differences(a, b, f"{place}[]")]
    is_free = name in OWN or name.endswith(("_at", "_time"))
    is_cut = isinstance(recorded, str) and ("... (" in recorded or recorded.endswith("..."))
    return [] if recorded == ours or is_free or is_cut else [f"{place}: {recorded!r:.300} is {ours!r:.300}"]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_the_answer_is_the_recorded_one(number: int) -> None:
    call = CALLS[number]
    with pipelines_api(call["version"], multi_user=call["multi_user"]) as cluster:
        cluster.store = Store(call["version"], multi_user=call["multi_user"], installed_in="kubeflow")
        seed(cluster.store, call)
        status, ours = answered(cluster, call)
        cluster.unknown.clear()
    assert status == call["status"], ours
    if call["version"] == "2.5.0" and "upload" not in call["path"]:
        assert ("error" in ours) == ("error" in call["answer"])
    assert differences(call["answer"], ours) == [], call["what"]
