"""Who reaches whom, decided as a network plug-in does."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from drivetrain.infra.kubeflow.needs import needs_of
from drivetrain.infra.kubeflow.network import (
    JOBSET_LABEL,
    NAMESPACE_LABEL,
    STEP_LABELS,
    TRAINING_LABELS,
    network_policies,
    service_namespace,
    to_address,
)
from drivetrain.infra.kubeflow.objects import labels_of
from tests.fixtures.kubeflow_infra import full, one_node
from tests.fixtures.kubernetes_selectors import matches

Json = dict[str, Any]
TRAINING = {**TRAINING_LABELS, JOBSET_LABEL: "job"}
FOREIGN = {JOBSET_LABEL: "job-of-a-runtime-of-somebody-else-s"}
STARTER, TENSORBOARD = labels_of("vision", "starter"), labels_of("vision", "tensorboard")
NOTEBOOK = {"app": "notebook"}


def policies(**changes: Any) -> list[Json]:
    return [each["spec"] for each in network_policies(needs_of(full(**changes)))]


def may_reach(found: list[Json], target: dict[str, str], source: dict[str, str]) -> bool:
    """Whether pods of the namespace with the labels `source` may open a connection to those with `target`."""
    about = [each for each in found if "Ingress" in each["policyTypes"] and matches(each["podSelector"], target)]
    peers = [peer for each in about for rule in each["ingress"] for peer in rule["from"]]
    return not about or any(matches(peer["podSelector"], source) for peer in peers)


def may_leave(
    found: list[Json],
    source: dict[str, str],
    address: str,
    port: int,
    namespace: str = "",
    labels: dict[str, str] | None = None,
) -> bool:
    """Whether pods with the labels `source` may open a connection to an address; of a pod with `labels` where
    `namespace` says so."""
    about = [each for each in found if "Egress" in each["policyTypes"] and matches(each["podSelector"], source)]
    to = (address, namespace, labels or {})
    return not about or any(_lets(rule, port, to) for each in about for rule in each["egress"])


def _lets(rule: Json, port: int, to: tuple[str, str, dict[str, str]]) -> bool:
    if "ports" in rule and port not in [each["port"] for each in rule["ports"]]:
        return False
    return "to" not in rule or any(_is(peer, *to) for peer in rule["to"])


def _is(peer: Json, address: str, namespace: str, labels: dict[str, str]) -> bool:
    if block := peer.get("ipBlock"):
        place = ip_address(address)
        inside = place in ip_network(block["cidr"])
        return inside and not any(place in ip_network(each) for each in block.get("except", ()))
    there = {NAMESPACE_LABEL: namespace or "team-a"}
    return (
        bool(namespace)
        and matches(peer.get("namespaceSelector", {"matchLabels": {NAMESPACE_LABEL: "team-a"}}), there)
        and matches(peer.get("podSelector", {}), labels)
    )


def test_only_pods_of_a_training_reach_each_other() -> None:
    found = policies()
    for pods in (TRAINING, FOREIGN):
        assert may_reach(found, pods, TRAINING) and may_reach(found, pods, FOREIGN)
        assert not may_reach(found, pods, NOTEBOOK) and not may_reach(found, pods, STEP_LABELS)


@pytest.mark.parametrize("pods", [STEP_LABELS, STARTER, TENSORBOARD], ids=("step", "starter", "tensorboard"))
def test_pods_that_serve_nothing_accept_no_connections(pods: dict[str, str]) -> None:
    assert [
        source for source in (TRAINING, STEP_LABELS, STARTER, NOTEBOOK) if may_reach(policies(), pods, source)
    ] == []


def test_other_pods_of_the_namespace_go_on_as_they_were() -> None:
    assert may_reach(policies(), NOTEBOOK, STEP_LABELS)
    assert may_leave(policies(), NOTEBOOK, "198.51.100.7", 5432)
    assert may_leave(policies(), {**STEP_LABELS, "of": "another pipeline"}, "198.51.100.7", 5432)


def test_a_training_reaches_names_the_store_and_its_peers() -> None:
    found = policies()
    assert may_leave(found, TRAINING, "10.0.0.3", 53, "kube-system", CLUSTER_DNS)
    assert may_leave(found, TRAINING, "10.0.0.9", 8333, namespace="storage"), "the port of the pod is not the service's"
    assert not may_leave(found, TRAINING, "10.0.0.9", 9000, namespace="other")
    assert not may_leave(found, TRAINING, "198.51.100.7", 443)
    assert may_leave(found, TRAINING, "10.0.0.8", 29_500, "team-a", TRAINING)
    assert not may_leave(found, TRAINING, "10.0.0.8", 29_500, "team-a", NOTEBOOK)
    assert not may_leave(found, TRAINING, "10.0.0.8", 29_500, "team-b", TRAINING)


def test_the_starter_reaches_only_the_api_the_registry_and_the_store() -> None:
    found = policies(registry="kubeflow:http://registry.models.svc.cluster.local:8080")
    for namespace in ("kubeflow", "models", "storage"):
        assert may_leave(found, STARTER, "10.0.0.9", 8888, namespace=namespace)
    assert not may_leave(found, STARTER, "10.0.0.9", 8888, namespace="team-a")


def test_a_store_beyond_the_cluster_is_reached_at_its_port_and_the_machine_s_credentials_never() -> None:
    found = policies(s3_endpoint=None)
    for pods in (TRAINING, TENSORBOARD):
        assert may_leave(found, pods, "52.216.0.1", 443) and may_leave(found, pods, "2600:1fa0::1", 443)
        assert not may_leave(found, pods, "52.216.0.1", 80)
        assert not may_leave(found, pods, "169.254.169.254", 443) and not may_leave(found, pods, "fd00:ec2::254", 443)


@pytest.mark.parametrize("pods", [TRAINING, STARTER, TENSORBOARD], ids=("training", "starter", "tensorboard"))
def test_without_keys_pods_reach_the_credential_service(pods: dict[str, str]) -> None:
    """EKS Pod Identity by itself; the machine's metadata service, with the node's rights, where `also` names it."""
    alone = policies(s3_endpoint=None, s3_secret=None)
    assert may_leave(alone, pods, "169.254.170.23", 80) and may_leave(alone, pods, "fd00:ec2::23", 80)
    assert not may_leave(alone, pods, "169.254.169.254", 80) and not may_leave(alone, pods, "fd00:ec2::254", 80)
    assert not may_leave(policies(s3_endpoint=None), pods, "169.254.170.23", 80), "a Secret has the keys"
    named = policies(
        s3_endpoint=None, s3_secret=None, infrastructure={"also": ["http://169.254.169.254", "http://[fd00:ec2::254]"]}
    )
    assert may_leave(named, pods, "169.254.169.254", 80) and may_leave(named, pods, "fd00:ec2::254", 80)


CLUSTER_DNS = {"k8s-app": "kube-dns"}


def test_names_are_asked_of_the_cluster_s_dns_alone() -> None:
    found = policies()
    for pods in (TRAINING, STARTER, TENSORBOARD):
        assert may_leave(found, pods, "10.0.0.3", 53, "kube-system", CLUSTER_DNS)
        assert not may_leave(found, pods, "198.51.100.7", 53), "a tunnel by names"
        assert not may_leave(found, pods, "10.0.0.3", 53, "kube-system", {"k8s-app": "metrics-server"})
        assert not may_leave(found, pods, "10.0.0.3", 53, "team-b", CLUSTER_DNS)


def test_the_dns_of_another_kind_of_cluster() -> None:
    dns = {
        "namespace": "openshift-dns",
        "labels": {"dns.operator.openshift.io/daemonset-dns": "default"},
        "port": 5353,
        "addresses": ["169.254.20.10"],
    }
    found = policies(infrastructure={"dns": dns})
    assert may_leave(found, TRAINING, "10.0.0.3", 5353, "openshift-dns", dns["labels"])
    assert may_leave(found, TRAINING, "169.254.20.10", 53)
    assert not may_leave(found, TRAINING, "10.0.0.3", 53, "kube-system", CLUSTER_DNS)


def test_steps_reach_what_the_settings_name() -> None:
    given = {
        "steps_reach": "named",
        "kubernetes_api": "https://10.9.8.7:6443",
        "also": ["https://hub.example.com"],
    }
    found = policies(infrastructure=given, registry="kubeflow:http://registry.models.svc:8080")
    for pods in (STEP_LABELS, TRAINING):
        assert may_leave(found, pods, "10.0.0.3", 53, "kube-system", CLUSTER_DNS)
        assert may_leave(found, pods, "10.0.0.9", 8333, "storage")
        assert may_leave(found, pods, "198.51.100.7", 443), "the hub: policies know no names"
        assert not may_leave(found, pods, "198.51.100.7", 5432)
    assert may_leave(found, STEP_LABELS, "10.9.8.7", 6443) and not may_leave(found, TRAINING, "10.9.8.7", 6443)
    assert may_leave(found, STEP_LABELS, "10.0.0.9", 8080, "models")
    assert may_leave(found, STEP_LABELS, "10.0.0.9", 8080, "kubeflow"), "the metadata of Pipelines"
    assert not may_leave(found, STEP_LABELS, "10.0.0.9", 8080, "team-b")
    assert may_leave(policies(), STEP_LABELS, "198.51.100.7", 5432), "anywhere unless the settings say so"


def test_an_address_by_number() -> None:
    rule = to_address("https://10.1.2.3:9443/x", needs_of(one_node()))
    assert rule == {"ports": [{"port": 9443, "protocol": "TCP"}], "to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}]}
    assert to_address("http://[fd00::7]", needs_of(one_node()))["to"] == [{"ipBlock": {"cidr": "fd00::7/128"}}]


@pytest.mark.parametrize(
    ("host", "namespace"),
    [
        ("minio", "team-a"),
        ("minio.team-a", "team-a"),
        ("ml-pipeline.kubeflow", "kubeflow"),
        ("minio.storage.svc", "storage"),
        ("minio.storage.svc.cluster.local", "storage"),
        ("minio.storage", None),
        ("example.com", None),
        ("s3.eu-central-1.amazonaws.com", None),
        ("localhost", None),
    ],
)
def test_cluster_local_names_are_recognized(host: str, namespace: str | None) -> None:
    assert service_namespace(host, needs_of(one_node(namespace="team-a"))) == namespace
