"""The stand-in of the Pipelines API, as the official client sees it: what that sends is taken, and what comes back is
what the client's models hold. So it is the API that deploying is tested against."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import kfp_server_api as official
import pytest

from tests.fixtures.kubeflow_pipelines.place import Place
from tests.fixtures.kubeflow_pipelines.server import Cluster, pipelines_api
from tests.fixtures.s3_server import environment, s3_server, variables


@pytest.fixture(params=[False, True], ids=["single user", "multi-user"])
def cluster(request: pytest.FixtureRequest) -> Generator[Cluster]:
    with pipelines_api(multi_user=request.param) as cluster, environment(variables(s3_server())):
        yield cluster


@pytest.fixture
def client(cluster: Cluster) -> Generator[official.ApiClient]:
    configuration = official.Configuration(host=cluster.endpoint)
    configuration.api_key, configuration.api_key_prefix = {"authorization": cluster.token}, {"authorization": "Bearer"}
    with official.ApiClient(configuration) as client:
        yield client


def test_the_official_client_deploys_and_starts(cluster: Cluster, client: official.ApiClient, tmp_path: Path) -> None:
    text = Place(tmp_path / "code", cluster).wanted().text
    (tmp_path / "p.yaml").write_text(text)
    pipelines, runs = official.PipelineServiceApi(client), official.RunServiceApi(client)
    made = pipelines.pipeline_service_create_pipeline(
        official.V2beta1Pipeline(name="p", display_name="P", namespace="team-a", description="d")
    )
    uploading = official.PipelineUploadServiceApi(client)
    version = uploading.upload_pipeline_version(str(tmp_path / "p.yaml"), name="v1", pipelineid=made.pipeline_id)
    assert version.pipeline_spec["pipelineInfo"]["name"] == "nightly"
    experiments = official.ExperimentServiceApi(client)
    experiment = experiments.experiment_service_create_experiment(
        official.V2beta1Experiment(display_name="e", namespace="team-a")
    )
    reference = official.V2beta1PipelineVersionReference(made.pipeline_id, version.pipeline_version_id)
    of = {"experiment_id": experiment.experiment_id, "pipeline_version_reference": reference}
    run = runs.run_service_create_run(official.V2beta1Run(display_name="r", **of))
    assert run.state == "PENDING"
    predicate = {"operation": "EQUALS", "key": "display_name", "string_value": "R"}
    found = runs.run_service_list_runs(
        experiment_id=experiment.experiment_id, filter=json.dumps({"predicates": [predicate]})
    )
    assert [each.run_id for each in found.runs] == [run.run_id]
    runs.run_service_terminate_run(run.run_id)
    assert runs.run_service_get_run(run.run_id).state == "CANCELING"
    recurring = official.RecurringRunServiceApi(client)
    trigger = official.V2beta1Trigger(cron_schedule=official.V2beta1CronSchedule(cron="0 0 2 * * ?"))
    asked = official.V2beta1RecurringRun(
        display_name="d", trigger=trigger, max_concurrency="1", no_catchup=True, mode="ENABLE", **of
    )
    scheduled = recurring.recurring_run_service_create_recurring_run(asked)
    assert scheduled.status == "ENABLED" and scheduled.trigger == trigger
    recurring.recurring_run_service_delete_recurring_run(scheduled.recurring_run_id)
    pipelines.pipeline_service_delete_pipeline(made.pipeline_id, cascade="true")
    assert cluster.store.left()["versions"] == []


def test_requests_refused_by_the_api_are_refused(cluster: Cluster, client: official.ApiClient) -> None:
    pipelines = official.PipelineServiceApi(client)
    pipeline = official.V2beta1Pipeline(name="p", namespace="team-a")
    pipelines.pipeline_service_create_pipeline(pipeline)
    for asked, status in (
        (lambda: pipelines.pipeline_service_create_pipeline(pipeline), 409),
        (lambda: pipelines.pipeline_service_get_pipeline_by_name("q", namespace="team-a"), 404),
        *(
            [
                (lambda: pipelines.pipeline_service_list_pipelines(namespace="team-b"), 403),
                (lambda: client.call_api("/apis/v2beta1/pipelines", "GET"), 401),
            ]
            if cluster.store.multi_user
            else []
        ),
    ):
        with pytest.raises(official.ApiException) as refused:
            asked()
        assert refused.value.status == status, refused.value.body
