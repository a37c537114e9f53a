import hashlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.registry.backends._tags import warn_once
from drivetrain.registry.backends.mlflow import MlflowRegistry
from drivetrain.registry.package_mapping import record_of
from drivetrain.registry.record import ModelRecord
from drivetrain.registry.registry import RegistryError, open_registry
from tests.fixtures.failing_proxy import closed_port
from tests.fixtures.mlflow_server import VARIABLES, new_database

pytestmark = pytest.mark.slow  # importing MLflow takes as long as all of them

CONTENTS = [hashlib.sha256(bytes([n])).hexdigest() for n in range(3)]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def database(tmp_path: Path) -> str:
    return new_database(tmp_path)


def test_a_database_without_a_server(database: str) -> None:
    registry = open_registry(f"mlflow:{database}")
    assert isinstance(registry, MlflowRegistry) and registry.groups() == [] and registry.champion("digits") is None
    package = {"SourceUri": "file:///models/digits"}
    assert registry.register("digits", CONTENTS[0], record_of(package), metrics={"accuracy": 1 / 3}) == (1, True)
    assert registry.register("digits", CONTENTS[0], record_of(package)) == (1, False)
    version = registry.version("digits")
    assert (version.artifact, version.metrics) == ("file:///models/digits", {"accuracy": 1 / 3})


def test_the_environment_names_the_registry(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", database)
    open_registry("mlflow").register("digits", CONTENTS[0], ModelRecord())
    assert MlflowRegistry(database).version("digits").version == 1


@pytest.mark.parametrize(("status", "caller"), [(200, "ann"), (404, None)])
def test_the_caller_is_the_login_of_the_server(
    status: int, caller: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server without a login has no such path."""
    asked: list[tuple[str, str, Any]] = []

    def http_request(host: Any, endpoint: str, method: str, **given: Any) -> SimpleNamespace:
        asked.append((host.username, endpoint, given["params"]))
        return SimpleNamespace(status_code=status)

    monkeypatch.setattr("mlflow.utils.rest_utils.http_request", http_request)
    registry = open_registry("mlflow:http://127.0.0.1:9")
    assert registry.caller is None and asked == [], "nobody logs in"
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ann")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "secret")
    assert registry.caller == caller
    assert asked == [("ann", "/api/2.0/mlflow/users/get", {"username": "ann"})]


def test_the_alias_follows_the_champion(database: str) -> None:
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    registry, client = MlflowRegistry(database), MlflowClient(database, database)

    def alias() -> int:
        return int(client.get_model_version_by_alias("digits", "champion").version)

    for content in CONTENTS:
        registry.register(
            "digits", content, ModelRecord(), approval="Approved" if content == CONTENTS[0] else "Rejected"
        )
    assert alias() == 1
    registry.set_status("digits", 3, "Approved")
    assert alias() == 3
    registry.set_status("digits", 3, "Rejected")
    assert alias() == 1
    registry.set_status("digits", 1, "Rejected")
    with pytest.raises(MlflowException):
        alias()


def test_a_duplicate_left_by_a_kill_is_removed_unless_decided_on(database: str) -> None:
    from mlflow.tracking import MlflowClient

    registry, client = MlflowRegistry(database), MlflowClient(database, database)
    registry.register("digits", CONTENTS[0], ModelRecord())
    tags = client.get_model_version("digits", "1").tags
    for _ in range(2):
        client.create_model_version("digits", source="s3://models/digits", tags=tags)
    registry.set_status("digits", 3, "Rejected")
    assert registry.register("digits", CONTENTS[0], ModelRecord()) == (1, False)
    assert [version.version for version in registry.versions("digits")] == [3, 1]


def test_versions_of_others_are_pending(database: str) -> None:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(database, database)
    client.create_registered_model("digits")
    client.create_model_version("digits", source="s3://models/digits")
    version = MlflowRegistry(database).version("digits")
    assert (version.content_hash, version.status, version.decision) == ("", "PendingManualApproval", None)


@pytest.mark.parametrize("uri", ["sqlite:////proc/none/mlflow.db", "sqlite:///{folder}", "no-such-scheme://host"])
def test_an_invalid_location_is_refused(uri: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        MlflowRegistry(uri.format(folder=tmp_path)).champion("digits")
    assert "\n" not in str(caught.value)


def test_without_mlflow(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow.tracking", None)
    with pytest.raises(RegistryError, match=r"pip install 'drivetrain\[mlflow\]'"):
        MlflowRegistry(database).groups()


@pytest.mark.parametrize("user", ["u:s3cret@", "u:s3/cret@", "u:s3@cret@"])
def test_no_password_is_shown_in_errors(user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RegistryError) as caught:
        MlflowRegistry(f"http://{user}127.0.0.1:{closed_port()}/").champion("digits")
    assert "cret" not in str(caught.value) and "127.0.0.1" in str(caught.value)


def test_no_database_password_is_shown_in_errors(tmp_path: Path) -> None:
    with pytest.raises(RegistryError) as caught:
        MlflowRegistry(f"sqlite:////{tmp_path}/none/x.db?user=u&password=s3cret").champion("digits")
    assert "s3cret" not in str(caught.value)
    with pytest.raises(RegistryError) as caught:  # without the driver, or without the server
        MlflowRegistry("postgresql://ada:s3cret@127.0.0.1:1/db?user=u&password=s3cret").champion("digits")
    assert "s3cret" not in str(caught.value) and "postgresql://127.0.0.1:1/db" in str(caught.value)


def test_one_hand_edited_tag_breaks_nothing_else(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    from mlflow.tracking import MlflowClient

    registry, client = MlflowRegistry(database), MlflowClient(database, database)
    warn_once.cache_clear()
    for content in CONTENTS:
        registry.register("digits", content, ModelRecord(), approval="Approved")
    for number, text in (("3", "Approved"), ("2", '{"status": "Approved", "at": "today"}')):
        client.set_model_version_tag("digits", number, "drivetrain.approval", text)
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 1 == registry.version("digits", "approved").version
    assert [version.status for version in registry.versions("digits")] == [*["PendingManualApproval"] * 2, "Approved"]
    said = capsys.readouterr().err
    assert said.count("digits version 3: drivetrain.approval was changed by hand") == 1
    assert registry.set_status("digits", 3, "Approved").status == "Approved"
    champion = registry.champion("digits")
    assert champion is not None and champion.version == 3
    client.set_model_version_tag("digits", "3", "drivetrain.approval", '{"by":"ada","status":"Approved"}')
    assert registry.champion("digits") == registry.version("digits", 3)
    client.set_model_version_tag("digits", "3", "drivetrain.metrics", "x")
    with pytest.raises(RegistryError, match="waits for approval all the same"):
        registry.set_status("digits", 3, "Approved", reason="again")


def test_queries_never_read_all_versions_of_a_group(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = MlflowRegistry(database)
    for content in CONTENTS:
        registry.register("digits", content, ModelRecord())
    registry.set_status("digits", 1, "Approved")
    client, read = registry._client, list[int]()
    search = client.search_model_versions

    def counted(*given: Any, **more: Any) -> Any:
        page = search(*given, **more)
        read.append(len(page))
        return page

    monkeypatch.setattr(client, "search_model_versions", counted)
    for ask, number in (
        (lambda: registry.champion("digits"), 1),
        (lambda: registry.version("digits"), 3),
        (lambda: registry.version("digits", 2), 2),
        (lambda: registry.version("digits", "approved"), 1),
        (lambda: registry.find("digits", CONTENTS[1]), 2),
    ):
        read.clear()
        found = ask()
        assert found is not None and found.version == number and sum(read) == 1 == len(read)


def test_no_token_is_shown_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "s3cret\nmore")
    with pytest.raises(RegistryError, match="header value, that of a token or key") as caught:
        MlflowRegistry(f"http://127.0.0.1:{closed_port()}").champion("digits")
    assert "s3cret" not in str(caught.value)
