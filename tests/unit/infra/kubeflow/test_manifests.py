"""What is written: valid for Kubernetes and Trainer, consistent in itself, under the standard "restricted"."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from drivetrain import Deployment, Pipeline
from drivetrain.base.errors import UserError
from drivetrain.infra.kubeflow import manifests
from drivetrain.infra.kubeflow.launcher import PATCH_FILE
from drivetrain.infra.kubeflow.manifests import write_folder
from drivetrain.infra.kubeflow.network import JOBSET_LABEL, STEP_LABELS
from drivetrain.infra.kubeflow.runtimes import GRACE_SECONDS
from drivetrain.targets.kubeflow.settings import settings_of
from drivetrain.training.launch.job import Options
from tests.fixtures.kubeflow_infra import full, one_node
from tests.fixtures.kubernetes_selectors import matches
from tests.fixtures.pod_security import violations

KUBERNETES = "1.34.0"
PIPELINES: dict[str, Callable[[], Pipeline]] = {"full": full, "one_node": one_node}
Json = dict[str, Any]
FILES = {"one.yaml": "a: 1\n", "index.yaml": "resources: [one.yaml]\n"}
AUTHOR = "drivetrain infra kubeflow nightly"


def built(pipeline: Pipeline) -> list[Json]:
    """The objects, as they are read from the written files."""
    texts = manifests.files(pipeline)
    return [
        each
        for name, text in texts.items()
        if name not in (manifests.KUSTOMIZATION, PATCH_FILE)
        for each in yaml.safe_load_all(text)  # what kubectl reads
    ]


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    return [each for each in objects if each["kind"] == kind]


def named(objects: list[Json], kind: str, name: str) -> Json:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def validate(each: Json) -> None:
    """Refuse what the API would refuse; also a field that it does not know."""
    if each["kind"] != "ClusterTrainingRuntime":
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
        return
    # (Loaded here, as it takes 0.3 s.)
    from kubeflow_trainer_api.models import trainer_v1alpha1_cluster_training_runtime as runtimes

    read = runtimes.TrainerV1alpha1ClusterTrainingRuntime.from_dict(each)
    assert read is not None and read.to_dict() == each  # the model leaves out what it does not know


def pod_specs(objects: list[Json]) -> Iterator[tuple[Json, Json]]:
    """Metadata and spec of every pod."""
    for each in of_kind(objects, "Deployment"):
        yield each["spec"]["template"]["metadata"], each["spec"]["template"]["spec"]
    for each in of_kind(objects, "ClusterTrainingRuntime"):
        for job in each["spec"]["template"]["spec"]["replicatedJobs"]:
            yield job["template"]["spec"]["template"]["metadata"], job["template"]["spec"]["template"]["spec"]


@pytest.fixture(scope="module", params=PIPELINES)
def objects(request: pytest.FixtureRequest) -> list[Json]:
    return built(PIPELINES[request.param]())


def test_every_object_is_valid(objects: list[Json]) -> None:
    for each in objects:
        validate(each)


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Deployment", ("spec", "template", "spec", "containers", 0, "imagePullPolicy"), 7),
        ("Deployment", ("spec", "template", "spec", "runAsNonRoot"), True),
        ("Role", ("rules", 0, "verbs"), "get"),
        ("NetworkPolicy", ("spec", "egres"), []),
        ("PersistentVolumeClaim", ("spec", "storageClass"), "fast"),
        ("ClusterTrainingRuntime", ("spec", "mlPolicy", "tensorflow"), {}),
        ("ClusterTrainingRuntime", ("spec", "template", "spec", "maxRestarts"), 3),
    ],
)
def test_the_validation_notices_a_mistake(kind: str, path: tuple[Any, ...], value: Any) -> None:
    each = copy.deepcopy(of_kind(built(full()), kind)[0])
    place: Any = each
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises((kubernetes_validate.ValidationError, AssertionError)):
        validate(each)


def test_the_kustomization_has_only_objects_of_the_pipeline() -> None:
    """`kubectl delete -k` deletes no namespace, no claim with checkpoints, and nothing that another pipeline uses."""
    pipeline = full()
    texts = manifests.files(pipeline)
    kustomization = yaml.safe_load(texts[manifests.KUSTOMIZATION])
    assert kustomization | {"resources": []} == {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [],
    }
    own = [each for name in kustomization["resources"] for each in yaml.safe_load_all(texts[name])]
    names = {each["metadata"]["name"] for each in own}
    assert all("vision-" in name or name.endswith("-vision") for name in names)
    shared = [each for each in built(pipeline) if each not in own]
    assert [(each["kind"], each["metadata"]["name"]) for each in shared] == [
        ("Namespace", "team-a"),
        ("ClusterTrainingRuntime", "drivetrain-mpi"),
        ("ClusterTrainingRuntime", "drivetrain-tensorflow"),
        ("ClusterTrainingRuntime", "drivetrain-torch"),
        ("ServiceAccount", "vision"),
        ("PersistentVolumeClaim", "vision-checkpoints"),
    ]


def test_the_commands_apply_every_file_once_shared_ones_first() -> None:
    folder = Path("build/our infra")
    assert manifests.commands(full(), folder) == [
        "kubectl apply -f 'build/our infra/namespace.yaml' -f 'build/our infra/runtimes.yaml' "
        "-f 'build/our infra/account.yaml' -f 'build/our infra/volumes.yaml'",
        "kubectl -n team-a patch configmap kfp-launcher --type json --patch-file "
        "'build/our infra/kfp-launcher-patch.yaml'",
        "kubectl apply -k 'build/our infra'",
    ]
    assert manifests.commands(one_node(), Path("out")) == ["kubectl apply -k out"]


def test_no_two_objects_have_one_name(objects: list[Json]) -> None:
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["Vision", "2nd-Model", "a" * 51])
def test_names_are_ones_that_kubernetes_takes(name: str) -> None:
    for each in built(full(name)):
        called = each["metadata"]["name"]
        assert re.fullmatch(
            "[a-z]([-a-z0-9]*[a-z0-9])?" if each["kind"] == "Service" else "[a-z0-9]([-a-z0-9]*[a-z0-9])?", called
        )
        assert len(called) <= 63
        for value in each["metadata"]["labels"].values():
            assert len(value) <= 63


def test_only_the_whole_cluster_s_kinds_have_no_namespace() -> None:
    for each in built(full()):
        in_namespace = each["kind"] not in ("Namespace", "ClusterTrainingRuntime")
        assert each["metadata"].get("namespace") == ("team-a" if in_namespace else None), each["kind"]


def test_shared_objects_are_equal_for_every_pipeline() -> None:
    """Two teams apply their folders in turn: neither changes the other's runtimes."""
    other = built(full("Other", namespace="team-b", image="else:1", service_account="x", s3_secret=None))
    assert of_kind(other, "ClusterTrainingRuntime") == of_kind(built(full()), "ClusterTrainingRuntime")


def test_every_pod_keeps_the_standard_restricted(objects: list[Json]) -> None:
    for metadata, pod in pod_specs(objects):
        assert violations(pod, metadata.get("annotations")) == []
        assert pod["securityContext"]["runAsUser"] > 0, "an image may say root, which a node finds late"
        assert all(each["securityContext"]["capabilities"] == {"drop": ["ALL"]} for each in pod["containers"])


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("hostNetwork",), True, "hostNetwork"),
        (("securityContext", "runAsNonRoot"), False, "securityContext.runAsNonRoot"),
        (("securityContext", "runAsNonRoot"), None, "containers.node.runAsNonRoot"),
        (("securityContext", "runAsUser"), 0, "securityContext.runAsUser"),
        (("securityContext", "seccompProfile"), {"type": "Unconfined"}, "securityContext.seccompProfile"),
        (("securityContext", "seccompProfile"), None, "containers.node.seccompProfile"),
        (("securityContext", "sysctls"), [{"name": "kernel.msgmax", "value": "1"}], "securityContext.sysctls"),
        (("volumes", 0), {"name": "x", "hostPath": {"path": "/"}}, "volumes"),
        (("containers", 0, "securityContext", "privileged"), True, "containers.node.privileged"),
        (("containers", 0, "securityContext", "capabilities"), {"drop": ["KILL"]}, "containers.node.capabilities.drop"),
        (
            ("containers", 0, "securityContext", "capabilities", "add"),
            ["SYS_ADMIN"],
            "containers.node.capabilities.add",
        ),
        (
            ("containers", 0, "securityContext", "allowPrivilegeEscalation"),
            None,
            "containers.node.allowPrivilegeEscalation",
        ),
        (("containers", 0, "securityContext", "seLinuxOptions"), {"type": "spc_t"}, "containers.node.seLinuxOptions"),
        (("containers", 0, "ports"), [{"containerPort": 80, "hostPort": 80}], "containers.node.ports"),
    ],
)
def test_the_standard_notices_a_mistake(path: tuple[Any, ...], value: Any, place: str) -> None:
    (_, pod), *_ = pod_specs(copy.deepcopy(of_kind(built(full()), "ClusterTrainingRuntime")))
    at: Any = pod
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    assert [each.partition(":")[0] for each in violations(pod)] == [place]


@pytest.mark.parametrize(
    ("settings", "region"),
    [({"region": "eu-1"}, "eu-1"), ({}, "us-east-1"), ({"s3_endpoint": None, "region": "eu-2"}, "eu-2")],
)
def test_services_know_the_region_of_the_store(settings: Json, region: str) -> None:
    for each in of_kind(built(full(**settings)), "Deployment"):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        told = {variable["name"]: variable.get("value") for variable in container["env"]}
        assert told["AWS_REGION"] == told["AWS_DEFAULT_REGION"] == region


def test_openshift_s_pods_name_no_user_or_group() -> None:
    """Its restricted-v2 refuses any that is not of the namespace's range, and fills them in."""
    found = built(full(infrastructure={"openshift": True}))
    pods = list(pod_specs(found))
    assert len(pods) == 5
    for metadata, pod in pods:
        assert violations(pod, metadata.get("annotations")) == []
        assert not pod["securityContext"].keys() & {"runAsUser", "runAsGroup", "fsGroup"}


def test_services_have_a_read_only_root_resources_and_probes(objects: list[Json]) -> None:
    for each in of_kind(objects, "Deployment"):
        (container,) = each["spec"]["template"]["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["resources"]["requests"].keys() == {"cpu", "memory"}
        assert container["resources"]["limits"] == {"memory": container["resources"]["requests"]["memory"]}
        assert container["livenessProbe"] and container["readinessProbe"], each["metadata"]["name"]


def test_no_pod_of_ours_has_a_token_of_the_cluster_s_api(objects: list[Json]) -> None:
    for _, pod in pod_specs(objects):
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False


def test_references_point_to_existing_objects(objects: list[Json]) -> None:
    accounts = {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")}
    roles = {each["metadata"]["name"] for each in of_kind(objects, "Role")}
    configurations = {each["metadata"]["name"] for each in of_kind(objects, "ConfigMap")}
    for each in of_kind(objects, "Deployment"):
        pod = each["spec"]["template"]["spec"]
        assert pod["serviceAccountName"] in accounts
        assert {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume} <= configurations
    for each in of_kind(objects, "RoleBinding"):
        assert each["roleRef"]["name"] in roles
        assert [subject["name"] in accounts for subject in each["subjects"]] == [True]
    for _, pod in pod_specs(objects):
        volumes = {volume["name"] for volume in pod["volumes"]}
        mounted = {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]}
        assert mounted == volumes


def test_selectors_find_the_pods_that_they_are_for(objects: list[Json]) -> None:
    by_deployment = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in of_kind(objects, "Deployment")
    }
    for each in of_kind(objects, "Deployment"):
        labels = by_deployment[each["metadata"]["name"]]
        found = [name for name, others in by_deployment.items() if matches(each["spec"]["selector"], others)]
        assert found == [each["metadata"]["name"]]
        assert each["spec"]["selector"]["matchLabels"].items() <= labels.items()
    for each in of_kind(objects, "Service"):
        selector = {"matchLabels": each["spec"]["selector"]}
        (name,) = [name for name, labels in by_deployment.items() if matches(selector, labels)]
        (container,) = named(objects, "Deployment", name)["spec"]["template"]["spec"]["containers"]
        ports = {port["name"] for port in container["ports"]}
        assert {port["targetPort"] for port in each["spec"]["ports"]} <= ports
    ours = [metadata["labels"] for metadata, _ in pod_specs(objects)]
    theirs = [STEP_LABELS, {JOBSET_LABEL: "any"}]  # on the pods that Pipelines and JobSet make
    for each in of_kind(objects, "NetworkPolicy"):
        assert [labels for labels in (*ours, *theirs) if matches(each["spec"]["podSelector"], labels)]


def test_secrets_are_named_and_never_written(objects: list[Json]) -> None:
    assert of_kind(objects, "Secret") == []
    for _, pod in pod_specs(objects):
        for container in pod["containers"]:
            for variable in container.get("env", ()):
                if "KEY" in variable["name"]:
                    assert variable.keys() == {"name", "valueFrom"} and "secretKeyRef" in variable["valueFrom"]


def test_the_notes_name_each_secret_that_must_be_there() -> None:
    assert manifests.notes(full())[-1] == (
        "Secrets are not written. Namespace 'team-a' must have: store-keys, registry-keys, drivetrain-mpi-ssh."
    )


def test_the_notes_name_settings_that_work_only_locally() -> None:
    found = manifests.notes(one_node())
    assert found[0].startswith(
        "deployment.targets.kubeflow.namespace is not set: all of it is written for namespace 'kubeflow'"
    )
    assert [note.partition(" is ")[0] for note in found[1:]] == [
        "deployment.targets.kubeflow.root",
        "deployment.targets.kubeflow.image",
        "deployment.targets.kubeflow.infrastructure.image",
        "deployment.targets.kubeflow.region",
    ]


def test_the_notes_name_others_who_share_the_account() -> None:
    assert "service_account is 'default', under which each pod of namespace 'team-a' runs" in "\n".join(
        manifests.notes(full(service_account="default"))
    )
    assert "service_account" not in "\n".join(manifests.notes(full(service_account="default-editor")))


def test_runtimes_let_the_launcher_save_and_start_no_pod_alone() -> None:
    runtimes = of_kind(built(full()), "ClusterTrainingRuntime")
    assert [each["metadata"]["name"] for each in runtimes] == [
        "drivetrain-mpi",
        "drivetrain-tensorflow",
        "drivetrain-torch",
    ]
    assert Options().stop_timeout + 20 <= GRACE_SECONDS
    for each in runtimes:
        spec = each["spec"]["template"]["spec"]
        (job,) = spec["replicatedJobs"]
        # The names that Trainer looks for.
        assert job["name"] == "node"
        assert job["template"]["metadata"]["labels"]["trainer.kubeflow.org/trainjob-ancestor-step"] == "trainer"
        inner = job["template"]["spec"]
        assert [container["name"] for container in inner["template"]["spec"]["containers"]] == ["node"]
        assert inner["template"]["spec"]["terminationGracePeriodSeconds"] == GRACE_SECONDS
        assert inner["backoffLimit"] == 0 and inner["template"]["spec"]["restartPolicy"] == "Never"
        assert "failurePolicy" not in spec


def test_a_training_on_one_node_may_be_a_train_job_too() -> None:
    pipeline = one_node(trainer={"torch": "drivetrain-torch", "one_node": "always"}, service_account="vision")
    (runtime,) = of_kind(built(pipeline), "ClusterTrainingRuntime")
    (role,) = of_kind(built(pipeline), "Role")
    assert runtime["metadata"]["name"] == "drivetrain-torch"
    assert "trainjobs" in [name for rule in role["rules"] for name in rule["resources"]]
    with pytest.raises(UserError, match=r"service_account is not set, and a training on several nodes \(or any, by"):
        manifests.files(one_node(trainer={"one_node": "always"}))


def test_only_mpi_gets_the_keys_of_ssh() -> None:
    for each in of_kind(built(full()), "ClusterTrainingRuntime"):
        ((_, pod),) = pod_specs([each])
        secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
        assert secrets == (["drivetrain-mpi-ssh"] if each["metadata"]["name"] == "drivetrain-mpi" else [])


@pytest.mark.parametrize("runtime", ["torch-distributed", "company-torch"])
def test_a_foreign_runtime_is_not_written_and_must_exist(runtime: str) -> None:
    pipeline = full(trainer={"torch": runtime})
    found = of_kind(built(pipeline), "ClusterTrainingRuntime")
    assert [each["metadata"]["name"] for each in found] == ["drivetrain-mpi", "drivetrain-tensorflow"]
    (note,) = [note for note in manifests.notes(pipeline) if "ClusterTrainingRuntime" in note]
    assert f"{runtime!r} must be there" in note and "trainer.torch to drivetrain-torch" in note
    assert ("kubectl apply --server-side -k" in note) == (runtime == "torch-distributed")


def test_a_pipeline_of_one_node_gets_what_it_needs_and_no_more() -> None:
    assert list(manifests.files(one_node())) == [
        "accounts.yaml",
        "network.yaml",
        "tensorboard.yaml",
        manifests.KUSTOMIZATION,
    ]


def test_the_namespace_is_created_unless_it_exists() -> None:
    make = {"namespace": "make"}
    (namespace,) = of_kind(built(one_node(namespace="team-a", infrastructure=make)), "Namespace")
    labels = namespace["metadata"]["labels"]
    assert labels["app.kubernetes.io/part-of"] == "kubeflow-profile", "Kubeflow's NetworkPolicies let in by it"
    assert labels["drivetrain/managed-by"] == "drivetrain" and "app.kubernetes.io/managed-by" not in labels
    assert labels["pod-security.kubernetes.io/enforce"] == "baseline"
    assert labels["pod-security.kubernetes.io/warn"] == labels["pod-security.kubernetes.io/audit"] == "restricted"
    assert of_kind(built(one_node(infrastructure=make)), "Namespace") == [], "Kubeflow's own"
    mine = {**make, "platform_namespace": "mine"}
    assert of_kind(built(one_node(namespace="mine", infrastructure=mine)), "Namespace") == []
    assert of_kind(built(one_node(namespace="team-a")), "Namespace") == []


def test_the_claim_is_as_large_as_the_settings_say() -> None:
    (claim,) = of_kind(
        built(full(infrastructure={"checkpoint_gib": 7, "checkpoint_class": "nfs"})), "PersistentVolumeClaim"
    )
    assert claim["metadata"]["name"] == "vision-checkpoints"
    assert claim["spec"] == {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "7Gi"}},
        "storageClassName": "nfs",
    }


@pytest.mark.parametrize(
    ("pipeline", "said"),
    [
        (lambda: full("a" * 60), "at most 51 are allowed"),
        (lambda: full(service_account=None), "deployment.targets.kubeflow.service_account is not set"),
        (lambda: full(registry=None), "deployment.targets.kubeflow.registry is not set, and trigger 'new-base'"),
        (lambda: full(endpoint=None), "deployment.targets.kubeflow.endpoint is not set, and trigger 'new-base'"),
        (
            lambda: full(infrastructure={"steps_reach": "named"}),
            "infrastructure.steps_reach is 'named', and kubernetes_api beside it is not set",
        ),
        (lambda: full(namespace="Team_A"), "deployment.targets.kubeflow.namespace"),
        (lambda: full(infrastructure={"poll": 3}), "deployment.targets.kubeflow.infrastructure.poll"),
    ],
)
def test_bad_settings(pipeline: Callable[[], Pipeline], said: str) -> None:
    with pytest.raises(UserError) as caught:
        manifests.files(pipeline())
    assert said in str(caught.value) and "\n" not in str(caught.value)


PAGE = Path(__file__).parents[4] / "docs" / "kubeflow_infrastructure.md"


def test_the_page_shows_valid_settings_and_every_file() -> None:
    page = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    deployment = Deployment.model_validate(yaml.safe_load(block)["deployment"])
    assert settings_of(deployment).infrastructure.namespace == "existing"
    assert {*re.findall(r"^\| `([a-z-]+\.yaml)` \|", page, re.MULTILINE)} == {*manifests.files(full())}


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_new_folder_and_an_empty_one(tmp_path: Path) -> None:
    write_folder(tmp_path / "a" / "new", FILES, AUTHOR)
    (tmp_path / "empty").mkdir()
    write_folder(tmp_path / "empty", FILES, AUTHOR)
    assert contents(tmp_path / "a" / "new") == contents(tmp_path / "empty")
    header, _, rest = (tmp_path / "empty" / "one.yaml").read_text().partition("\n")
    assert header.startswith(f"# Written by `{AUTHOR}`") and rest == "a: 1\n"


def test_a_folder_is_updated(tmp_path: Path) -> None:
    """Files that are no longer needed are removed; files of others stay."""
    write_folder(tmp_path, {"gone.yaml": "b: 2\n", **FILES}, AUTHOR)
    (tmp_path / "overlay").mkdir()
    (tmp_path / "README.md").write_text("ours")
    write_folder(tmp_path, {**FILES, "one.yaml": "a: 3\n"}, AUTHOR)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "index.yaml", "one.yaml", "overlay"]
    assert (tmp_path / "one.yaml").read_text().endswith("\na: 3\n")


@pytest.mark.parametrize("content", [b"a: 1\n", b"\xff\xfe", b""])
def test_a_folder_with_foreign_files_is_refused_and_unchanged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "one.yaml").write_bytes(content)
    with pytest.raises(UserError, match=r"is not empty: it holds 'one\.yaml'"):
        write_folder(tmp_path, FILES, AUTHOR)
    assert contents(tmp_path) == {"one.yaml": content}


def test_an_edited_file_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES, AUTHOR)
    with (tmp_path / "one.yaml").open("a") as file:
        file.write("mine: true\n")
    before = contents(tmp_path)
    with pytest.raises(UserError, match=r"one\.yaml was edited"):
        write_folder(tmp_path, {"two.yaml": "", **FILES, "index.yaml": "changed"}, AUTHOR)
    assert contents(tmp_path) == before


def test_an_edited_obsolete_file_is_kept(tmp_path: Path) -> None:
    write_folder(tmp_path, {"gone.yaml": "b: 2\n", **FILES}, AUTHOR)
    edited = (tmp_path / "gone.yaml").read_text() + "mine: true\n"
    (tmp_path / "gone.yaml").write_text(edited)
    write_folder(tmp_path, FILES, AUTHOR)
    assert (tmp_path / "gone.yaml").read_text() == edited


def test_the_folder_of_another_pipeline_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path, FILES, "drivetrain infra kubeflow other")
    before = contents(tmp_path)
    with pytest.raises(UserError, match="was written by `drivetrain infra kubeflow other`"):
        write_folder(tmp_path, FILES, AUTHOR)
    assert contents(tmp_path) == before


def test_a_symbolic_link_is_not_overwritten(tmp_path: Path) -> None:
    write_folder(tmp_path / "out", FILES, AUTHOR)
    (tmp_path / "out" / "one.yaml").rename(tmp_path / "elsewhere.yaml")
    (tmp_path / "out" / "one.yaml").symlink_to(tmp_path / "elsewhere.yaml")
    with pytest.raises(UserError, match=r"one\.yaml was edited, or was not written by this command"):
        write_folder(tmp_path / "out", FILES, AUTHOR)


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="file is not a folder"):
        write_folder(tmp_path / "file", FILES, AUTHOR)
