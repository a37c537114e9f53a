"""What a pod asks of the Kubernetes API beyond what following a TrainJob shows: TLS, pauses, logs that break off."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from drivetrain.steps.kubeflow import cluster_api, pod_log
from drivetrain.steps.kubeflow.cluster_api import ClusterApi
from drivetrain.steps.kubeflow.pod_log import PodLog
from drivetrain.steps.kubeflow.task import RetryError, TaskError
from tests.fixtures.kubernetes_server import Cluster, kubernetes


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Generator[Cluster]:
    monkeypatch.setattr(cluster_api, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(pod_log, "_PAUSE_S", 0.02)
    with kubernetes() as found:
        for name, value in found.variables.items():
            monkeypatch.setenv(name, value)
        yield found


def own_authority(account: Path, server: Any) -> None:
    """A certificate for 127.0.0.1 that signs itself, and the file with it where pods have the cluster's."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (account / "ca.crt").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    own = account / "server.pem"
    own.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    server.socket = context.wrap_socket(server.socket, server_side=True)


def test_the_clusters_own_authority_is_trusted_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_api, "FIRST_PAUSE_S", 0.01)
    with kubernetes(tls=own_authority) as first, kubernetes(tls=own_authority) as second:
        for name, value in first.variables.items():
            monkeypatch.setenv(name, value)
        assert ClusterApi().get("pods") == {"items": []}
        monkeypatch.setenv(cluster_api.ADDRESS_VARIABLE, second.address)
        with pytest.raises(RetryError, match="CERTIFICATE_VERIFY_FAILED"):
            ClusterApi(patience=0.05).get("pods")


def test_where_a_pod_finds_the_api(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(cluster_api.ADDRESS_VARIABLE)
    with pytest.raises(TaskError, match="started from a pod, and this process does not run in a pod"):
        ClusterApi()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    assert ClusterApi().address == "https://10.0.0.1:6443"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    assert ClusterApi().address == "https://[fd00::1]:6443"


def test_a_pod_without_a_token_is_reported(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(cluster_api.ACCOUNT_VARIABLE, str(tmp_path))
    with pytest.raises(TaskError, match=r"no service account's namespace .*automountServiceAccountToken"):
        ClusterApi()


def test_the_api_says_how_long_to_wait(cluster: Cluster) -> None:
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        cluster.weather = lambda method, path: None
        return False

    cluster.retry_after = "7"
    cluster.weather = lambda method, path: 429
    assert ClusterApi(away=wait).get("pods") == {"items": []}
    assert waited == [7.0]


def test_pauses_grow_and_end(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    waited: list[float] = []
    monkeypatch.setattr(cluster_api.time, "monotonic", lambda: now + sum(waited))
    monkeypatch.setattr(cluster_api, "FIRST_PAUSE_S", 0.5)
    cluster.weather = lambda method, path: 503
    with pytest.raises(RetryError, match=r"did not GET pods within \d+ s; the last answer: 503 by a test"):
        ClusterApi(away=lambda seconds: waited.append(seconds) is not None).get("pods")
    assert max(waited) <= 10.0 and sum(waited) < 1220 and 120 < len(waited) < 260
    assert waited[0] <= 0.5 and waited[1] <= 1.0


def test_an_interrupted_log_continues_without_repeated_lines(cluster: Cluster) -> None:
    """Broken off within a line, several times, with lines of one second before and after."""
    pod = cluster.add_pod("job", 0)["metadata"]["name"]
    lines = [f"line {number}" for number in range(60)]
    cuts = iter([True] * 6)
    cluster.weather = lambda method, path: "cut" if next(cuts, False) else None
    taken: list[bytes] = []
    done = threading.Event()

    def take(line: bytes) -> None:
        taken.append(line)
        if len(taken) % 10 == 0 and len(taken) < 60:
            cluster.say(pod, *lines[len(taken) : len(taken) + 10])
        if len(taken) == 60:
            done.set()

    cluster.say(pod, *lines[:10])
    log = PodLog(ClusterApi(), pod, take)
    log.start()
    assert done.wait(10)
    cluster.end_pod(pod, 0)
    assert log.finish(10)
    assert taken == [f"{line}\n".encode() for line in lines]
    assert sum(path.endswith("/log") for _, path in cluster.requests) >= 7


def test_lines_with_equal_timestamps_are_distinguished(cluster: Cluster) -> None:
    pod = cluster.add_pod("job", 0)["metadata"]["name"]
    instant = "2026-11-25T10:00:00.000000001Z"
    cluster.logs[pod] = [(instant, "a"), (instant, "a"), (instant, "b")]
    taken: list[bytes] = []
    log = PodLog(ClusterApi(), pod, taken.append)
    assert not taken
    cuts = iter(["cut"])
    cluster.weather = lambda method, path: next(cuts, None)
    cluster.end_pod(pod, 0)
    log.start()
    assert log.finish(10)
    assert taken == [b"a\n", b"a\n", b"b\n"]


def test_a_pod_that_is_gone_ends_its_log(cluster: Cluster) -> None:
    log = PodLog(ClusterApi(), "gone", lambda line: None)
    log.start()
    log.join(10)
    assert not log.is_alive()
