"""One request: tokens, time-outs, repeats, and one clear line for what a person can mend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from drivetrain.targets.kubeflow.deploy import service
from drivetrain.targets.kubeflow.deploy.rest import AbsentError, Api, ApiError, Patience
from tests.fixtures.failing_proxy import closed_port
from tests.fixtures.kubeflow_pipelines.place import Clock, Place


def api_of(place: Place, **given: object) -> Api:
    patience = Patience(answer_seconds=0.2, clock=place.clock, pause=place.clock.pause)
    settings = {"token_file": place.settings["token_file"], **given}
    return Api(str(place.cluster.endpoint), str(settings.pop("namespace", "team-a")), patience=patience, **settings)  # pyright: ignore[reportArgumentType]


def refusal(api: Api) -> str:
    with pytest.raises(ApiError) as refused:
        list(service.pipelines(api))
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    return text


def test_an_unreachable_address_is_reported_within_seconds() -> None:
    clock = Clock()
    api = Api(f"http://127.0.0.1:{closed_port()}", "team-a", patience=Patience(clock=clock, pause=clock.pause))
    assert "Connection refused" in refusal(api) and "deployment.targets.kubeflow.endpoint" in refusal(api)
    assert clock.now < 10


def test_following_waits_longer_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    api = Api(f"http://127.0.0.1:{closed_port()}", "team-a", patience=Patience(clock=clock, pause=clock.pause))
    with api.followed():
        assert "Connection refused" in refusal(api)
    said = capsys.readouterr().err
    assert "Connection refused. Following goes on, for up to 10 min" in said and said.count("\n") == 1
    assert 580 < clock.now < 610


def test_tokens(shared_place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KF_PIPELINES_TOKEN", shared_place.cluster.token)
    assert list(service.pipelines(api_of(shared_place, token_file=None))) == []
    monkeypatch.setenv("KF_PIPELINES_TOKEN", "old")
    assert "does not know who asks (401" in refusal(api_of(shared_place, token_file=None))
    assert "into $KF_PIPELINES_TOKEN" in refusal(api_of(shared_place, token_file=None))
    monkeypatch.delenv("KF_PIPELINES_TOKEN")
    (tmp_path / "mounted").write_text(shared_place.cluster.token)
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "mounted"))
    assert list(service.pipelines(api_of(shared_place, token_file=None))) == []
    api = api_of(shared_place)
    Path(shared_place.settings["token_file"]).write_text("expired")
    assert f"into the file {shared_place.settings['token_file']}" in refusal(api)
    Path(shared_place.settings["token_file"]).write_text(shared_place.cluster.token)  # renewed while the process runs
    assert list(service.pipelines(api)) == []
    assert "cannot be read: No such file" in refusal(api_of(shared_place, token_file=str(tmp_path / "none")))
    (tmp_path / "empty").write_text("\n")
    asked = len(shared_place.cluster.calls)
    assert f"{tmp_path / 'empty'} is empty" in refusal(api_of(shared_place, token_file=str(tmp_path / "empty")))
    assert len(shared_place.cluster.calls) == asked


def test_a_namespace_without_permission(shared_place: Place) -> None:
    text = refusal(api_of(shared_place, namespace="team-b"))
    assert "does not allow it in namespace 'team-b'" in text and "kubeflow-edit" in text
    assert len(shared_place.cluster.calls) == 1, "no other attempt mends it"


def test_a_login_page_is_no_answer_and_gets_no_token_of_a_redirect(place: Place) -> None:
    place.cluster.fault = lambda method, path: "page"
    assert "leads to something else, or to a page to log in" in refusal(api_of(place))
    place.cluster.fault = lambda method, path: "no such page"
    assert "it leads to something else" in refusal(api_of(place))
    with pytest.raises(ApiError, match="leads to something else"):  # and not: there is no such pipeline
        service.find_pipeline(api_of(place), "nightly")
    place.cluster.fault = lambda method, path: "302"
    assert "does not know who asks (302" in refusal(api_of(place))


@pytest.mark.parametrize(
    ("answer", "call", "problem"),
    [
        ({"pipelines": {"a": 1}}, lambda api: list(service.pipelines(api)), "pipelines is no list"),
        ({"pipelines": [{"name": "x"}]}, lambda api: list(service.pipelines(api)), "pipelines[0] has no pipeline_id"),
        ({"pipelines": [], "next_page_token": 5}, lambda api: list(service.pipelines(api)), "next_page_token is no"),
        ({"pipeline_id": 5}, lambda api: service.find_pipeline(api, "x"), "pipeline_id is no text"),
        ({}, lambda api: service.find_pipeline(api, "x"), "the answer has no pipeline_id"),
        ({}, lambda api: service.create_pipeline(api, "x", "x", ""), "the answer has no pipeline_id"),
        ({}, lambda api: service.upload_version(api, "id", "x", "", "x"), "has no pipeline_version_id"),
        ({}, lambda api: service.get_version(api, "id", "id"), "has no pipeline_version_id"),
        ({"pipeline_versions": [3]}, lambda api: list(service.versions(api, "id", "x")), "versions[0] is no object"),
        (
            {"pipeline_version_id": "v", "pipeline_spec": {"pipeline_spec": {"root": {"dag": {"tasks": []}}}}},
            lambda api: service.get_version(api, "id", "id"),
            "pipeline_spec.pipeline_spec.root.dag.tasks is no object",
        ),
        ({"experiments": "x"}, lambda api: service.find_experiment(api, "x"), "experiments is no list"),
        ({}, lambda api: service.create_experiment(api, "x", ""), "the answer has no experiment_id"),
        ({"recurringRuns": [{}]}, lambda api: list(service.recurring_runs(api)), "has no recurring_run_id"),
        ({}, lambda api: service.create_recurring_run(api, {"display_name": "x"}), "has no recurring_run_id"),
        ({"runs": [{"run_id": "a", "created_at": "soon"}]}, lambda api: list(service.runs(api, "id")), "is no time"),
        ({}, lambda api: service.create_run(api, {"display_name": "x"}), "the answer has no run_id"),
        (
            {"run_id": "a", "run_details": {"task_details": [{"state": 1}]}},
            lambda api: service.get_run(api, "a"),
            "run_details.task_details[0].state is no text",
        ),
    ],
)  # fmt: skip
def test_an_answer_of_another_shape_means_another_server(
    place: Place, answer: dict[str, object], call: Callable[[Api], object], problem: str
) -> None:
    place.cluster.fault = lambda method, path: json.dumps(answer)
    with pytest.raises(ApiError) as refused:
        call(api_of(place))
    text = str(refused.value)
    assert "did not answer as the Pipelines API does" in text and problem in text, text
    assert len(text.splitlines()) == 1 == len(place.cluster.calls)


@pytest.mark.parametrize("fault", ["500", "503", "429", "gone", "lost"])
def test_requests_are_repeated_for_a_minute_after_the_first_answer(place: Place, fault: str) -> None:
    api = api_of(place)
    assert list(service.pipelines(api)) == []
    until = place.clock.now + 60
    place.cluster.fault = lambda method, path: fault if place.clock.now < until else ""
    assert list(service.pipelines(api)) == []
    assert 60 <= place.clock.now < 90
    place.cluster.fault = lambda method, path: fault
    said = refusal(api)
    assert "Tried for 8" in said or "Tried for 9" in said
    assert ("Check the address" if fault in ("gone", "lost") else "look into the log of the server") in said


def test_an_answer_that_does_not_come_is_given_up(place: Place) -> None:
    api = api_of(place)
    assert list(service.pipelines(api)) == []
    before = len(place.cluster.calls)
    place.cluster.fault = lambda method, path: "late" if len(place.cluster.calls) == before + 1 else ""
    assert list(service.pipelines(api)) == []
    assert len(place.cluster.calls) == before + 2


@pytest.mark.parametrize("fault", ["drip", "drip head"])
def test_an_answer_that_comes_byte_by_byte_is_given_up(place: Place, fault: str) -> None:
    place.cluster.fault = lambda method, path: fault
    patience = Patience(whole_seconds=0.2, first_seconds=0.0)
    api = Api(place.cluster.endpoint, "team-a", place.settings["token_file"], patience)
    assert "its answer did not end within 0.2 s. Tried for 0 s" in refusal(api)
    assert len(place.cluster.calls) == 1


def test_nonrepeatable_requests_are_sent_once(place: Place) -> None:
    api = api_of(place)
    place.apply()
    body = {"display_name": "x", "experiment_id": "none"}
    for fault, may_be_done in (("lost", True), ("500", True), ("gone", True)):
        place.cluster.fault = lambda method, path, fault=fault: fault if method == "POST" else ""
        before = len(place.cluster.calls)
        with pytest.raises(ApiError) as refused:
            service.create_run(api, body)
        assert refused.value.may_be_done == may_be_done and len(place.cluster.calls) == before + 1
    place.cluster.fault = lambda method, path: ""
    with pytest.raises(ApiError) as refused:
        service.create_run(api, {**body, "unknown": 1})
    assert not refused.value.may_be_done and 'unknown field "unknown"' in str(refused.value)


def test_a_500_that_blames_the_request_is_the_last_answer(place: Place) -> None:
    """The API says 500 of a version that is gone, and of names that are too long or missing."""
    api = api_of(place)
    place.apply()
    began, (experiment,) = place.clock.now, place.cluster.store.experiments
    body = {"display_name": "x", "experiment_id": experiment}
    for call, said in (
        (lambda: service.create_run(api, body), "PipelineVersion not found"),
        (lambda: service.create_pipeline(api, "n" * 129, "x", ""), "Pipeline.Name length cannot exceed 128"),
        (lambda: service.create_experiment(api, "", ""), "Experiment must have a non-empty name"),
    ):
        with pytest.raises(ApiError, match=said) as refused:
            call()
        assert refused.value.status == 500 and not refused.value.may_be_done
    assert place.clock.now == began


def test_missing_objects_are_reported(place: Place) -> None:
    api = api_of(place)
    assert service.find_pipeline(api, "none") is None
    with pytest.raises(AbsentError, match="There is no run 'none'"):
        service.get_run(api, "none")
    service.delete_run(api, "none")  # gone is what was wanted


def test_lists_are_read_to_their_end(place: Place) -> None:
    place.cluster.store.page = 2
    api = api_of(place)
    for number in range(5):
        service.create_experiment(api, f"e{number}", "")
    assert service.find_experiment(api, "e4") is not None
    names = [
        each["display_name"]
        for each in service.pages(api, "/experiments", "experiments", "object", about="", namespace="team-a")
    ]
    assert sorted(names) == ["Default", *(f"e{number}" for number in range(5))]


@pytest.mark.parametrize("token", ["eyJsecret\nX-Other: 1", "eyJsecret eyJother", "eyJsécret"])
def test_an_invalid_token_is_refused_and_not_shown(place: Place, token: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(token, encoding="utf-8")
    text = refusal(api_of(place, token_file=str(tmp_path / "token")))
    assert "has spaces, line breaks or letters that no token has" in text
    assert "eyJ" not in text and str(tmp_path / "token") in text
