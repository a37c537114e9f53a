"""NetworkPolicies for this pipeline's pods alone: who may reach them, and whom they may reach.

A policy allows and never forbids, so those of several pipelines in one namespace add up. Nothing is selected by an
empty selector: notebooks and model servers of the same namespace go on as they were.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from drivetrain.infra.kubeflow.needs import Needs, own_runtimes
from drivetrain.infra.kubeflow.objects import NAME_LABEL, PART_OF, PART_OF_LABEL, Json, labels_of, part_object

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
# On the pods of every task: https://github.com/kubeflow/pipelines/blob/master/backend/src/v2/compiler/argocompiler.
STEP_LABELS = {"pipelines.kubeflow.org/v2_component": "true"}
# On the pods of every JobSet; a TrainJob makes one (https://jobset.sigs.k8s.io/docs/concepts/).
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
# On the pods of our own runtimes.
TRAINING_LABELS = {NAME_LABEL: "training", PART_OF_LABEL: PART_OF}
# All addresses but those of the machine's metadata service, which gives away the node's own credentials.
_OF_THE_NODE = ("169.254.0.0/16", "fd00:ec2::/32")
ANYWHERE: tuple[Json, ...] = tuple(
    {"cidr": cidr, "except": [but]} for cidr, but in zip(("0.0.0.0/0", "::/0"), _OF_THE_NODE, strict=True)
)
AWS = "https://s3.amazonaws.com"
# EKS Pod Identity's agent, which gives each pod the rights of its own account and no others:
# https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
POD_IDENTITY = ("http://169.254.170.23", "http://[fd00:ec2::23]")


def network_policies(needs: Needs) -> Iterator[Json]:
    """One policy a kind of pods."""
    settings = needs.settings
    stores = tuple(_to_store(needs))
    also = tuple(to_address(address, needs) for address in settings.infrastructure.also)
    # Steps are no servers. What they reach is open unless the settings say otherwise: every pipeline's steps in the
    # namespace have this label, and the address of the cluster's API is unknown here.
    steps = None if settings.infrastructure.steps_reach == "anywhere" else _different([*_of_steps(needs), *also])
    yield _policy(needs, "steps", {"matchLabels": STEP_LABELS}, ingress=(), egress=steps)
    if needs.makes_train_jobs:
        pods: Json = {"matchExpressions": [{"key": JOBSET_LABEL, "operator": "Exists"}]}
        yield _policy(needs, "jobs", pods, ingress=(pods,), egress=None)
    if own_runtimes(needs):
        ours: Json = {"matchLabels": TRAINING_LABELS}
        reached = _different([{"to": [{"podSelector": ours}]}, *stores, *also])
        yield _policy(needs, "training", ours, ingress=None, egress=reached)
    if needs.trains:
        labels = labels_of(needs.name, "tensorboard")
        yield _policy(needs, "tensorboard", {"matchLabels": labels}, ingress=(), egress=stores)
    if needs.events:
        labels = labels_of(needs.name, "starter")
        reached = _different([to_address(settings.endpoint, needs), *_to_registry(needs), *stores])
        yield _policy(needs, "starter", {"matchLabels": labels}, ingress=(), egress=reached)


def _policy(
    needs: Needs, part: str, selector: Json, *, ingress: Sequence[Json] | None, egress: Sequence[Json] | None
) -> Json:
    """The NetworkPolicy of the pods that a selector finds.

    Args:
        ingress: the pods (as selectors) that may reach them; None leaves open.
        egress: whom they reach beside DNS; None leaves open.
    """
    spec: Json = {"podSelector": selector, "policyTypes": []}
    if egress is not None:
        spec["policyTypes"].append("Egress")
        spec["egress"] = [*_to_dns(needs), *egress]
    if ingress is not None:
        spec["policyTypes"].append("Ingress")
        spec["ingress"] = [{"from": [{"podSelector": peer} for peer in ingress]}] if ingress else []
    return part_object(needs, part, "networking.k8s.io/v1", "NetworkPolicy", {"spec": spec})


def _to_dns(needs: Needs) -> Iterator[Json]:
    """Rules that let DNS queries through to the cluster's DNS."""
    dns = needs.settings.infrastructure.dns
    pods: Json = {
        "namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: dns.namespace}},
        "podSelector": {"matchLabels": dict(dns.labels)},
    }
    yield {"ports": _both(dns.port), "to": [pods]}
    if dns.addresses:
        blocks = [{"ipBlock": {"cidr": f"{each}/{ip_address(each).max_prefixlen}"}} for each in dns.addresses]
        yield {"ports": _both(53), "to": blocks}


def _to_store(needs: Needs) -> Iterator[Json]:
    """To the object store and, where no Secret has its keys, to what gives a pod the rights of its account.

    The machine's own metadata service gives away the node's rights: it is open where `also` names it.
    """
    settings = needs.settings
    yield to_address(settings.s3_endpoint or AWS, needs)
    if settings.s3_secret is None:
        named = _of_the_node(settings.infrastructure.also)
        yield from (to_address(address, needs) for address in (*POD_IDENTITY, *named))


def _of_the_node(addresses: Iterable[str]) -> Iterator[str]:
    """Those by number that only the node itself answers."""
    for address in addresses:
        with contextlib.suppress(ValueError):  # a name
            found = ip_address(urlsplit(address).hostname or "")
            if any(found in ip_network(each) for each in _OF_THE_NODE):
                yield address


def _to_registry(needs: Needs) -> Iterator[Json]:
    """To the model registry, where its place is an address."""
    place = (needs.settings.registry or "").partition(":")[2]
    if place.startswith(("http://", "https://")):
        yield to_address(place, needs)


def _both(port: int) -> list[Json]:
    return [{"port": port, "protocol": protocol} for protocol in ("TCP", "UDP")]


def _of_steps(needs: Needs) -> Iterator[Json]:
    """Rules for the pods of steps: the storage, the registry, the API of Kubernetes (Argo's executor, and steps that
    make TrainJobs), and Kubeflow's own services (metadata, the Pipelines API)."""
    infrastructure = needs.settings.infrastructure
    yield from _to_store(needs)
    yield from _to_registry(needs)
    yield {"to": [{"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: infrastructure.platform_namespace}}}]}
    assert infrastructure.kubernetes_api is not None, "checked with the settings"
    yield to_address(infrastructure.kubernetes_api, needs)


def to_address(address: str, needs: Needs) -> Json:
    """An egress rule that lets through to a URL.

    For a service of the cluster the whole of its namespace, at any port: a policy is about the port of the pod, which
    need not be that of the service. For any other name all addresses but the machine's own, at the URL's port: policies
    know no names.
    """
    place = urlsplit(address)
    host, port = place.hostname or "", place.port or (443 if place.scheme == "https" else 80)
    try:
        found = ip_address(host)
        blocks: Sequence[Json] = ({"cidr": f"{found}/{found.max_prefixlen}"},)
    except ValueError:
        if (namespace := service_namespace(host, needs)) is not None:
            return {"to": [{"namespaceSelector": {"matchLabels": {NAMESPACE_LABEL: namespace}}}]}
        blocks = ANYWHERE
    return {"ports": [{"port": port, "protocol": "TCP"}], "to": [{"ipBlock": block} for block in blocks]}


def service_namespace(host: str, needs: Needs) -> str | None:
    """The namespace of a service by its name in the cluster: `NAME`, `NAME.NAMESPACE`, `NAME.NAMESPACE.svc...`.

    `NAME.NAMESPACE` looks like a domain, so it is one unless the namespace is one that the settings name.
    """
    name, *rest = host.split(".")
    known = (needs.settings.namespace, needs.settings.infrastructure.platform_namespace)
    if not rest:
        return needs.settings.namespace if name != "localhost" and name else None
    if rest[1:2] == ["svc"] or (len(rest) == 1 and rest[0] in known):
        return rest[0]
    return None


def _different(rules: Sequence[Json]) -> tuple[Json, ...]:
    """Each rule once, in their order."""
    return tuple(rule for at, rule in enumerate(rules) if rule not in rules[:at])
