import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry.backends import kubeflow
from drivetrain.registry.backends.kubeflow import KubeflowRegistry
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import RegistryError
from tests.fixtures.kubeflow_server import Store, kubeflow_server

CONTENT = hashlib.sha256(b"model").hexdigest()
PACKAGE = {"SourceUri": "s3://models/digits"}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[KubeflowRegistry, Store]]:
    monkeypatch.setattr(kubeflow, "FIRST_PAUSE", 0.001)
    with kubeflow_server() as (address, store):
        yield KubeflowRegistry(f"{address}/"), store


def test_what_others_see_of_a_version(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    package = {**PACKAGE, "ModelPackageDescription": "reads digits"}
    registry.register("digits", CONTENT, record_of(package), metrics={"accuracy": 0.5})
    registry.register("digits", CONTENT, record_of(package), metrics={"accuracy": 0.5})
    [version], [artifact] = store.kinds["versions"].values(), store.kinds["artifacts"].values()
    assert (version["name"], version["externalId"], version["description"]) == (
        "1",
        f"digits/{CONTENT}",
        "reads digits",
    )
    assert version["customProperties"]["accuracy"] == {"metadataType": "MetadataDoubleValue", "double_value": 0.5}
    assert (artifact["uri"], artifact["parent"]) == ("s3://models/digits", version["id"])


def test_an_artifact_that_a_killed_process_did_not_come_to_is_made_by_the_next(
    served: tuple[KubeflowRegistry, Store],
) -> None:
    registry, store = served
    registry.register("digits", CONTENT, record_of(PACKAGE))
    store.kinds["artifacts"].clear()
    assert registry.register("digits", CONTENT, record_of(PACKAGE)) == (1, False)
    assert [artifact["uri"] for artifact in store.kinds["artifacts"].values()] == ["s3://models/digits"]


def test_a_number_that_another_took_meanwhile(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    registry.register("digits", CONTENT, ModelRecord())
    make = store.make
    others = [hashlib.sha256(bytes([n])).hexdigest() for n in range(3)]
    seen = iter(others[1:])

    def first_another(kind: str, given: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
        if kind == "versions" and (other := next(seen, None)) is not None:
            make(kind, {**given, "externalId": f"digits/{other}", "customProperties": {}}, more)
        return make(kind, given, more)

    store.make = first_another  # type: ignore[method-assign]
    assert registry.register("digits", others[0], ModelRecord()) == (4, True)


def test_where_external_ids_are_not_unique_a_second_version_is_archived(
    served: tuple[KubeflowRegistry, Store],
) -> None:
    registry, store = served
    store.unique_external_ids = False
    registry.register("digits", CONTENT, ModelRecord())
    [version] = store.kinds["versions"].values()
    copy = {name: version[name] for name in ("name", "customProperties", "externalId")} | {"name": "2"}
    store.make("versions", copy, {"parent": version["parent"]})
    assert len(registry.versions("digits")) == 2
    assert registry.register("digits", CONTENT, ModelRecord()) == (1, False)
    assert [each.version for each in registry.versions("digits")] == [1]
    assert registry.register("digits", hashlib.sha256(b"other").hexdigest(), ModelRecord()) == (3, True)


def test_versions_of_others_are_left_alone(served: tuple[KubeflowRegistry, Store]) -> None:
    registry, store = served
    model = store.make("models", {"name": "digits"}, {})
    store.make("versions", {"name": "v1.0"}, {"parent": model["id"]})
    assert registry.groups() == [] and registry.champion("digits") is None
    assert registry.register("digits", CONTENT, ModelRecord()) == (1, True)
    store.make("versions", {"name": "2"}, {"parent": model["id"]})
    version = registry.version("digits", 2)
    assert (version.content_hash, version.status, version.metrics) == ("", "PendingManualApproval", {})


@pytest.mark.parametrize("address", ["", "host:8080", "ftp://host", "file:///etc/passwd", "http://", "http://a:b@host"])
def test_an_address_that_is_none(address: str) -> None:
    with pytest.raises(InputError, match="is no address"):
        KubeflowRegistry(address)


class Recorded(BaseHTTPRequestHandler):
    seen: list[str | None]
    answer = b'{"items": [], "nextPageToken": "", "pageSize": 200, "size": 0}'

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization"))
        self.send_response_only(200)
        self.send_header("Content-Length", str(len(self.answer)))
        self.end_headers()
        self.wfile.write(self.answer)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, type[Recorded]]]:
    monkeypatch.setattr(kubeflow, "FIRST_PAUSE", 0.001)

    class Handler(Recorded):
        seen: list[str | None] = []  # noqa: RUF012

        def log_message(self, format: str, *args: object) -> None:
            """No line a request."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_token_of_the_pod_is_sent_and_read_anew(
    recorded: tuple[str, type[Recorded]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, handler = recorded
    monkeypatch.setenv("KF_PIPELINES_SA_TOKEN_PATH", str(tmp_path / "token"))
    with pytest.raises(RegistryError, match="KF_PIPELINES_SA_TOKEN_PATH cannot be read"):
        KubeflowRegistry(address).groups()
    (tmp_path / "token").write_text("secret\n")
    assert KubeflowRegistry(address).groups() == []
    assert handler.seen == ["Bearer secret"]


@pytest.mark.parametrize("answer", [b"<html>sign in</html>", b"[1]", b"\xff"])
def test_a_server_that_is_another(recorded: tuple[str, type[Recorded]], answer: bytes) -> None:
    address, handler = recorded
    handler.answer = answer
    with pytest.raises(RegistryError) as caught:
        KubeflowRegistry(address).champion("digits")
    assert address in str(caught.value) and len(handler.seen) == kubeflow.ATTEMPTS
