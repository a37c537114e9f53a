"""What must be there in the pipeline's namespace."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from drivetrain.infra.kubeflow import launcher
from drivetrain.infra.kubeflow.needs import needs_of
from drivetrain.infra.kubeflow.readiness import namespace
from tests.fixtures.kubectl import Cluster
from tests.fixtures.kubeflow_infra import full, one_node

STORE = {"s3_endpoint": "http://seaweedfs.kubeflow:9000", "s3_secret": "s3-credentials"}
LABEL = "kubectl label namespace team-a app.kubernetes.io/part-of=kubeflow-profile --overwrite"


def test_the_namespace_is_there(cluster: Cluster, found: Any) -> None:
    assert found(namespace.labels) == [("ok", "kubeflow is there", "")]
    assert found(namespace.labels, namespace="team-a") == [
        (
            "would fail",
            "there is no namespace 'team-a'",
            "Make a profile of that name, or set infrastructure.namespace: make",
        )
    ]
    ((_, _, mend),) = found(namespace.labels, namespace="team-a", infrastructure={"namespace": "make"})
    assert mend == "drivetrain infra kubeflow flow.py -o build/infra && kubectl apply -f build/infra/namespace.yaml"
    cluster.add("namespace", "team-a", "", labels={"app.kubernetes.io/part-of": "kubeflow-profile"})
    assert found(namespace.labels, namespace="team-a") == [("ok", "team-a is there, a kubeflow-profile", "")]


@pytest.mark.parametrize("label", ["drivetrain", None])
def test_network_policies_must_admit_the_platform_pods(cluster: Cluster, found: Any, label: str | None) -> None:
    labels = {"app.kubernetes.io/part-of": label} if label else {}
    cluster.add("namespace", "team-a", "", labels=labels)
    ((state, said, mend),) = found(namespace.labels, namespace="team-a")
    assert (state, mend) == ("would fail", LABEL)
    assert said == (
        "NetworkPolicies of kubeflow (seaweedfs) let in none of its pods: label app.kubernetes.io/part-of is "
        f"{label or 'not set'}"
    )


def test_without_policies_only_our_own_old_label_is_wrong(cluster: Cluster, found: Any) -> None:
    del cluster.objects["networkpolicy", "kubeflow", "seaweedfs"]
    cluster.add("namespace", "team-a", "")
    assert found(namespace.labels, namespace="team-a") == [("ok", "team-a is there", "")]
    cluster.add("namespace", "team-a", "", labels={"app.kubernetes.io/part-of": "drivetrain"})
    ((state, _, mend),) = found(namespace.labels, namespace="team-a")
    assert (state, mend) == ("would fail", LABEL)


def test_a_stock_launcher_does_not_know_the_store(found: Any) -> None:
    ((state, said, mend),) = found(namespace.kfp_launcher, **STORE)
    assert (state, said) == (
        "would fail",
        "ConfigMap kfp-launcher has no providers: each step ends with 'Invalid region'",
    )
    assert mend == (
        "drivetrain infra kubeflow flow.py -o build/infra && kubectl -n kubeflow patch configmap kfp-launcher "
        "--type json --patch-file build/infra/kfp-launcher-patch.yaml"
    )


def test_a_launcher_without_a_configmap(cluster: Cluster, found: Any) -> None:
    del cluster.objects["configmap", "kubeflow", "kfp-launcher"]
    ((state, _, mend),) = found(namespace.kfp_launcher, **STORE)
    assert state == "would fail"
    assert "kubectl -n kubeflow create configmap kfp-launcher --from-literal=defaultPipelineRoot= && kubectl" in mend


def test_the_block_that_the_patch_adds_is_good(cluster: Cluster, found: Any) -> None:
    cluster.patch_data("kfp-launcher", providers=launcher.providers(needs_of(one_node(**STORE))))
    assert found(namespace.kfp_launcher, **STORE) == [("ok", "the launcher finds http://seaweedfs.kubeflow:9000", "")]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"endpoint": "http://other:9000"}, "endpoint is http://other:9000, not http://seaweedfs.kubeflow:9000"),
        ({"forcePathStyle": False}, "forcePathStyle is False, not True"),
        ({"disableSSL": None}, "disableSSL is None, not True"),
        ({"region": ""}, "region is not set, not us-east-1"),
        ({"credentials": None}, "credentials are not set"),
    ],
)
def test_a_block_of_another_store(cluster: Cluster, found: Any, changed: Any, said: str) -> None:
    block = launcher.providers(needs_of(one_node(**STORE)))
    assert block is not None
    block["s3"]["default"] |= changed
    cluster.patch_data("kfp-launcher", providers=block)
    ((state, why, mend),) = found(namespace.kfp_launcher, **STORE)
    assert (state, why) == ("would fail", f"in providers, s3.default: {said}")
    assert mend == "kubectl -n kubeflow edit configmap kfp-launcher, and set them"


def test_an_address_without_its_scheme_is_the_same(cluster: Cluster, found: Any) -> None:
    block = launcher.providers(needs_of(one_node(**STORE)))
    assert block is not None
    block["s3"]["default"]["endpoint"] = "seaweedfs.kubeflow:9000"
    cluster.patch_data("kfp-launcher", providers=block)
    assert found(namespace.kfp_launcher, **STORE)[0][0] == "ok"


@pytest.mark.parametrize("text", ["gs: {}", "- no\n- mapping", "s3: {default: }", "s3: text", "s3: {default: text}"])
def test_a_block_without_the_store(cluster: Cluster, found: Any, text: str) -> None:
    cluster.patch_data("kfp-launcher", providers=text)
    ((state, said, _),) = found(namespace.kfp_launcher, **STORE)
    assert state == "would fail" and "endpoint is not set, not http://seaweedfs.kubeflow:9000" in said


def test_a_block_that_is_no_yaml(cluster: Cluster, found: Any) -> None:
    cluster.patch_data("kfp-launcher", providers="s3: [")
    ((state, said, mend),) = found(namespace.kfp_launcher, **STORE)
    assert state == "would fail" and said.startswith("providers: ") and "is no YAML" in said
    assert mend == "kubectl -n kubeflow edit configmap kfp-launcher"


def test_on_aws_the_launcher_needs_nothing(found: Any) -> None:
    assert found(namespace.kfp_launcher, region="eu-central-1") == []


def test_secrets_have_the_keys_that_are_used(cluster: Cluster, found: Any) -> None:
    settings = {**STORE, "pods": {"secrets": {"HF_TOKEN": "hub/token"}}, "image_pull_secret": "registry-keys"}
    cluster.add("secret", "s3-credentials", data={"AWS_ACCESS_KEY_ID": "eA=="})
    cluster.add("secret", "registry-keys", data={".dockerconfigjson": "e30="})
    assert found(namespace.secrets, **settings) == [
        (
            "would fail",
            "there is no Secret 'hub'",
            "kubectl -n kubeflow create secret generic hub --from-literal=token=...",
        ),
        ("ok", "registry-keys is there", ""),
        (
            "would fail",
            "Secret 's3-credentials' has no AWS_SECRET_ACCESS_KEY",
            'kubectl -n kubeflow patch secret s3-credentials -p \'{"stringData": {"AWS_SECRET_ACCESS_KEY": "..."}}\'',
        ),
    ]


def test_the_keys_of_ssh_are_a_secret_of_mpi_jobs(found: Any) -> None:
    said = [said for state, said, _ in found(namespace.secrets, full()) if state == "would fail"]
    assert said == [f"there is no Secret {name!r}" for name in ("drivetrain-mpi-ssh", "registry-keys", "store-keys")]


def test_the_account_of_the_steps(found: Any) -> None:
    assert found(namespace.account) == []
    assert found(namespace.account, service_account="pipeline-runner") == [("ok", "pipeline-runner is there", "")]
    ((state, said, mend),) = found(namespace.account, service_account="vision")
    assert (state, said) == ("would fail", "there is no service account 'vision'")
    assert mend.startswith("drivetrain infra kubeflow flow.py -o build/infra, and apply account.yaml")
    ((_, _, mend),) = found(namespace.account, service_account="default-editor")
    assert mend.startswith("Kubeflow makes it with a profile"), "it is not written"


def test_the_account_may_do_what_steps_do(cluster: Cluster, found: Any) -> None:
    cluster.add("serviceaccount", "vision", "team-a")
    needed = {
        ("create", "workflowtaskresults.argoproj.io"),
        ("create", "trainjobs.trainer.kubeflow.org"),
        ("get", "pods"),
        ("get", "pods/log"),
        ("list", "events"),
    }
    for missing in sorted(needed):
        cluster.rights = needed - {missing}
        ((state, said, mend),) = found(namespace.rights, full())
        assert (state, said) == ("would fail", f"vision may not {' '.join(missing)}")
        assert mend == "drivetrain infra kubeflow flow.py -o build/infra && kubectl apply -f build/infra/roles.yaml"
    cluster.rights = needed
    assert found(namespace.rights, full()) == [("ok", "vision may do what steps do", "")]
    assert found(namespace.rights) == [], "no account is named"
    assert found(namespace.rights, service_account="pipeline-runner") == [], "Kubeflow gave it what one pod needs"


def test_claims_are_there_and_checkpoints_can_be_written_from_several_nodes(cluster: Cluster, found: Any) -> None:
    settings = {"checkpoint_claim": "kept", "pods": {"volumes": {"/data": "corpus"}}}
    assert [each[:2] for each in found(namespace.claims, **settings)] == [
        ("would fail", "there is no PersistentVolumeClaim 'corpus'"),
        ("would fail", "there is no PersistentVolumeClaim 'kept'"),
    ]
    cluster.add("persistentvolumeclaim", "corpus", spec={"accessModes": ["ReadOnlyMany"]})
    cluster.add("persistentvolumeclaim", "kept", spec={"accessModes": ["ReadWriteOnce"]})
    first, (state, said, _) = found(namespace.claims, **settings)
    assert first == ("ok", "corpus is there", "")
    assert (state, said) == ("would fail", "kept is mounted by one node at a time (ReadWriteOnce)")
    cluster.add("persistentvolumeclaim", "kept", spec={"accessModes": ["ReadWriteMany"]})
    assert found(namespace.claims, **settings)[1] == ("ok", "kept is there", "")


def test_the_patch_is_what_is_checked() -> None:
    """The patch's block is read as the ConfigMap's is."""
    (_, add) = yaml.safe_load(launcher.patch(needs_of(one_node(**STORE))) or "")
    assert yaml.safe_load(add["value"]) == launcher.providers(needs_of(one_node(**STORE)))
