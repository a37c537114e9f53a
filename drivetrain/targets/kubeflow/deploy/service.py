"""The requests to the Pipelines API v2beta1 that deploying needs, each a function.

Documented at https://www.kubeflow.org/docs/components/pipelines/reference/api/kubeflow-pipeline-api-spec/
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast
from urllib.parse import quote

from drivetrain.targets.kubeflow.deploy import shapes
from drivetrain.targets.kubeflow.deploy.rest import AbsentError, Api, ApiError, ConflictError, ForeignError

BASE = "/apis/v2beta1"
PAGE = 100
CREATE_ATTEMPTS = 3
"""Tries of a request whose answer was lost, and which was not done."""
Json = dict[str, Any]


def pages(api: Api, path: str, key: str, item: shapes.Shape, *, about: str, **query: str) -> Iterator[Json]:
    """The items of a list, as they are read."""
    token = ""
    while True:
        more = {"page_token": token} if token else {}
        given = {"page_size": str(PAGE), **query, **more}
        said = api.call("GET", BASE + path, about=about, query=given, shape=shapes.page(key, item))
        yield from said.get(key) or ()
        token = str(said.get("next_page_token") or "")
        if not token:
            return


def equals(key: str, value: str) -> str:
    """A filter of a list."""
    return json.dumps({"predicates": [{"operation": "EQUALS", "key": key, "string_value": value}]})


def health(api: Api) -> Json:
    """Ask the installation about itself: `tag_name`, `multi_user`."""
    return api.call("GET", f"{BASE}/healthz", about="answer to healthz", shape={"tag_name": "text"})


def find_pipeline(api: Api, name: str) -> Json | None:
    """The pipeline of that name in the namespace."""
    try:
        return api.call(
            "GET",
            f"{BASE}/pipelines/names/{quote(name, safe='')}",
            about=f"pipeline {name!r}",
            query={"namespace": api.namespace},
            shape=shapes.PIPELINE,
        )
    except AbsentError:
        return None


def pipelines(api: Api) -> Iterator[Json]:
    """Those of the namespace, by name."""
    return pages(
        api,
        "/pipelines",
        "pipelines",
        shapes.PIPELINE,
        about=f"pipelines of namespace {api.namespace!r}",
        namespace=api.namespace,
        sort_by="name asc",
    )


def create_pipeline(api: Api, name: str, display_name: str, description: str) -> tuple[Json, bool]:
    """The pipeline, and whether this made it: its name is unique, and others may make it at the same moment."""
    body = {"name": name, "display_name": display_name, "description": description, "namespace": api.namespace}
    return _created(
        lambda: api.call("POST", f"{BASE}/pipelines", about=f"pipeline {name!r}", body=body, shape=shapes.PIPELINE),
        lambda: find_pipeline(api, name),
    )


def delete_pipeline(api: Api, id: str, name: str, *, versions: bool = True) -> None:
    """It, with its versions; without `versions` it is refused where there are any, as by servers before 2.14.0."""
    _delete(api, f"/pipelines/{id}", f"pipeline {name!r}", **({"cascade": "true"} if versions else {}))


def versions(api: Api, pipeline_id: str, name: str) -> Iterator[Json]:
    """The newest first."""
    about = f"versions of pipeline {name!r}"
    path = f"/pipelines/{pipeline_id}/versions"
    return pages(api, path, "pipeline_versions", shapes.VERSION, about=about, sort_by="created_at desc")


def upload_version(api: Api, pipeline_id: str, name: str, description: str, text: str) -> tuple[Json, bool]:
    """The version, and whether this made it: its name is unique in the pipeline, and says its content."""
    query = {"pipelineid": pipeline_id, "name": name, "display_name": name, "description": description}
    about, file = f"pipeline version {name!r}", text.encode("utf-8")
    path = f"{BASE}/pipelines/upload_version"

    def there() -> Json | None:
        known = versions(api, pipeline_id, name)
        return next((each for each in known if name in (each.get("name"), each.get("display_name"))), None)

    return _created(lambda: api.call("POST", path, about=about, query=query, file=file, shape=shapes.VERSION), there)


def get_version(api: Api, pipeline_id: str, version_id: str) -> Json:
    path = f"{BASE}/pipelines/{pipeline_id}/versions/{version_id}"
    return api.call("GET", path, about="pipeline version", shape=shapes.VERSION)


def delete_version(api: Api, pipeline_id: str, version_id: str) -> None:
    _delete(api, f"/pipelines/{pipeline_id}/versions/{version_id}", "pipeline version")


def find_experiment(api: Api, name: str) -> Json | None:
    found = pages(
        api,
        "/experiments",
        "experiments",
        shapes.EXPERIMENT,
        about=f"experiment {name!r}",
        namespace=api.namespace,
        filter=equals("display_name", name),
    )
    # The platform compares names without regard to case.
    return next((each for each in found if each.get("display_name") == name), None)


def create_experiment(api: Api, name: str, description: str) -> tuple[Json, bool]:
    """The experiment, and whether this made it: its name is unique."""
    body = {"display_name": name, "description": description, "namespace": api.namespace}
    about = f"experiment {name!r}"
    return _created(
        lambda: api.call("POST", f"{BASE}/experiments", about=about, body=body, shape=shapes.EXPERIMENT),
        lambda: find_experiment(api, name),
    )


def delete_experiment(api: Api, id: str, name: str) -> None:
    _delete(api, f"/experiments/{id}", f"experiment {name!r}")


def recurring_runs(api: Api) -> Iterator[Json]:
    """Those of the namespace, the oldest first."""
    about = f"recurring runs of namespace {api.namespace!r}"
    return pages(
        api,
        "/recurringruns",
        "recurringRuns",
        shapes.RECURRING_RUN,
        about=about,
        namespace=api.namespace,
        sort_by="created_at asc",
    )


def create_recurring_run(api: Api, body: Mapping[str, Any]) -> Json:
    """Not to be repeated: its name is not unique."""
    about = f"recurring run {body['display_name']!r}"
    return api.call("POST", f"{BASE}/recurringruns", about=about, body=body, repeat=False, shape=shapes.RECURRING_RUN)


def disable_recurring_run(api: Api, id: str, name: str) -> None:
    """Let it start nothing any more."""
    try:
        api.call("POST", f"{BASE}/recurringruns/{id}:disable", about=f"recurring run {name!r}")
    except AbsentError:
        return


def delete_recurring_run(api: Api, id: str, name: str) -> None:
    _delete(api, f"/recurringruns/{id}", f"recurring run {name!r}")


def runs(api: Api, experiment_id: str, **query: str) -> Iterator[Json]:
    """Those of an experiment, the newest first."""
    return pages(
        api,
        "/runs",
        "runs",
        shapes.RUN,
        about="runs",
        experiment_id=experiment_id,
        **{"sort_by": "created_at desc", **query},
    )


def get_run(api: Api, id: str) -> Json:
    return api.call("GET", f"{BASE}/runs/{quote(id, safe='')}", about=f"run {id!r}", shape=shapes.RUN)


def get_workflow(api: Api, id: str) -> Json | None:
    """The Argo Workflow of a run as the API keeps it, also after the cluster has deleted it; None where the server
    has no such call, or a gateway does not pass it on. Version v1beta1 alone tells it.

    The caller has read the run itself just before: a page to log in and a 403 are then the gateway's.
    """
    shape: shapes.Shape = {"pipeline_runtime": {"workflow_manifest": "text"}}
    try:
        said = api.call("GET", f"/apis/v1beta1/runs/{quote(id, safe='')}", about=f"Workflow of run {id!r}", shape=shape)
        found: Any = json.loads(part(said, "pipeline_runtime").get("workflow_manifest") or "null")
    except ApiError as error:
        if error.status in (403, 404, 405, 501) or 300 <= error.status < 400 or isinstance(error, ForeignError):
            return None
        raise
    except (ValueError, RecursionError):
        return None
    return cast("Json", found) if isinstance(found, dict) else None


def create_run(api: Api, body: Mapping[str, Any]) -> Json:
    """Not to be repeated: its name is not unique."""
    about = f"run {body['display_name']!r}"
    return api.call("POST", f"{BASE}/runs", about=about, body=body, repeat=False, shape=shapes.RUN)


def terminate_run(api: Api, id: str) -> None:
    api.call("POST", f"{BASE}/runs/{id}:terminate", about=f"run {id!r}")


def delete_run(api: Api, id: str) -> None:
    _delete(api, f"/runs/{id}", f"run {id!r}")


def pod_log(api: Api, run_id: str, pod: str) -> str:
    """Read what a pod printed so far: the API server asks the cluster, or its archive of logs."""
    # Served beside the documented API, under its first version's path alone.
    return api.text(f"/apis/v1alpha1/runs/{run_id}/nodes/{quote(pod, safe='')}/log", about=f"log of pod {pod!r}")


def created_once(create: Callable[[], Json], find: Callable[[], Json | None]) -> Json:
    """Make a thing without a unique name once: where the answer is lost, it is looked for before the next attempt."""
    for attempt in range(1, CREATE_ATTEMPTS + 1):
        try:
            return create()
        except ApiError as error:
            if not error.may_be_done:
                raise
            if (there := find()) is not None:
                return there
            if attempt == CREATE_ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _created(create: Callable[[], Json], find: Callable[[], Json | None]) -> tuple[Json, bool]:
    """A thing with a unique name, and whether this made it."""
    try:
        return create(), True
    except ConflictError:
        if (there := find()) is None:
            raise
        return there, False


def _delete(api: Api, path: str, about: str, **query: str) -> None:
    try:
        api.call("DELETE", BASE + path, about=about, query=query)
    except AbsentError:
        return  # by an earlier attempt, or by others


def part(said: Mapping[str, Any], name: str) -> Json:
    """An object in an answer; an empty one where it is left out."""
    found: Any = said.get(name)
    return cast("Json", found) if isinstance(found, dict) else {}


def seconds(text: Any) -> float | None:
    """An RFC 3339 time as seconds since the epoch; None if it is missing or invalid."""
    try:
        found = datetime.fromisoformat(text).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None
    return found if found > 0 else None
