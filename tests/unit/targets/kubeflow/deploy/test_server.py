"""Which installation answers: refused where steps would fail, noted where nobody tried it."""

from __future__ import annotations

import pytest

from drivetrain.base.errors import UserError
from drivetrain.targets.deployer import StartRequest
from drivetrain.targets.kubeflow.compile import retries
from drivetrain.targets.kubeflow.deploy.server import RETRIES_BEFORE, Server
from tests.fixtures.kubeflow_pipelines.place import Place


def test_a_server_that_is_too_old_is_refused_by_plan_apply_and_start(place: Place) -> None:
    plan = place.deployer().plan(place.wanted())
    place.cluster.store.tag_name = "2.13.0"
    for refused in (
        lambda: place.deployer().plan(place.wanted()),
        lambda: place.deployer().apply(place.wanted(), plan, lambda line: None),
        lambda: place.deployer().start("nightly", StartRequest()),
    ):
        with pytest.raises(UserError, match=r"is Kubeflow Pipelines 2\.13\.0; 2\.14\.0 or newer is needed"):
            refused()
    assert place.cluster.wrote() == []


@pytest.mark.parametrize(
    ("tag", "note"),
    [
        ("2.14.0", None),
        ("2.17.3", None),
        ("2.18.0", "Kubeflow Pipelines 2.18.0 is newer than 2.17.0, the newest that was tried"),
        ("v3.0.0-rc.1", "Kubeflow Pipelines v3.0.0-rc.1 is newer than 2.17.0, the newest that was tried"),
        ("unknown", "the server says 'unknown' for its version; of Kubeflow Pipelines, 2.5.0, 2.15.0 and 2.17.0 were"),
        ("", "the server does not say its version; of Kubeflow"),
    ],
)
def test_untested_versions_are_noted(tag: str, note: str | None) -> None:
    server = Server(tag, single_user=False)
    server.refuse_old("https://kubeflow.example.com")
    found = list(server.notes((), "team-a"))
    assert (found == []) if note is None else found[0].startswith(note)


@pytest.mark.parametrize(
    ("tag", "says"), [("2.16.1", RETRIES_BEFORE), ("2.17.0", retries.NOTE), ("fork", retries.NOTE)]
)
def test_retries_depend_on_the_version(tag: str, says: str) -> None:
    assert next(Server(tag, single_user=False).notes((retries.NOTE,), "team-a")) == says


def test_a_server_without_a_version_is_accepted(place: Place) -> None:
    place.cluster.fault = lambda method, path: "404" if path.endswith("healthz") else ""
    assert place.deployer().server == Server("", single_user=False)
    place.cluster.fault = lambda method, path: ""
    assert place.deployer().server == Server("2.17.0", single_user=True)


def test_the_version_is_asked_once(place: Place) -> None:
    deployer, wanted = place.deployer(), place.wanted()
    deployer.apply(wanted, deployer.plan(wanted), lambda line: None)
    deployer.start("nightly", StartRequest())
    assert [path for _, path in place.cluster.calls].count("/apis/v2beta1/healthz") == 1
