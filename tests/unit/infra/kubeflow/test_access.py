"""Least privilege: every request that our pods send is allowed, and no permission is left that none of them needs.

The requests are written as they go over the wire, apart from the permissions, and a small evaluator decides as the API
server does.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest

from drivetrain import Pipeline
from drivetrain.infra.kubeflow import manifests
from tests.fixtures.kubeflow_infra import full, one_node

Json = dict[str, Any]
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "TERMINATE": "terminate"}


@dataclass(frozen=True)
class Request:
    """What the API server sees of a request to objects of a namespace."""

    verb: str
    group: str
    namespace: str
    resource: str
    name: str

    @staticmethod
    def of(line: str) -> Request:
        """From `METHOD PATH`, by https://kubernetes.io/docs/reference/access-authn-authz/authorization/."""
        method, _, target = line.partition(" ")
        path, _, query = target.partition("?")
        group = ""
        match path.strip("/").split("/"):
            case ["api", _, "namespaces", namespace, resource, *rest]:
                pass
            case ["apis", group, _, "namespaces", namespace, resource, *rest]:
                pass
            case _:
                raise AssertionError(line)
        name, *part = rest or [""]
        if part:
            resource = f"{resource}/{part[0]}"
        read = "get" if name else "watch" if "watch=true" in query else "list"
        return Request(VERBS.get(method, read), group, namespace, resource, name)


STEP = [
    "POST /apis/argoproj.io/v1alpha1/namespaces/team-a/workflowtaskresults",
    "PATCH /apis/argoproj.io/v1alpha1/namespaces/team-a/workflowtaskresults/vision-abc-1",
    "GET /api/v1/namespaces/team-a/configmaps/kfp-launcher",
]
STORE_KEYS = ["GET /api/v1/namespaces/team-a/secrets/store-keys"]
TRAIN_JOB = [
    "POST /apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs",
    "GET /apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/vision-train-1",
    "GET /apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs?labelSelector=run%3Da",
    "DELETE /apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/vision-train-1?propagationPolicy=a",
    "GET /api/v1/namespaces/team-a/pods/vision-abc-impl",
    "GET /api/v1/namespaces/team-a/pods?labelSelector=jobset.sigs.k8s.io%2Fjobset-name%3Dvision-train-1",
    "GET /api/v1/namespaces/team-a/pods/vision-train-1-node-0-0-x/log?follow=true",
    "GET /api/v1/namespaces/team-a/events?fieldSelector=involvedObject.name%3Dvision-train-1",
]
# What Pipelines asks for a caller, before it does what an HTTP request wants (SubjectAccessReview); it has verbs of its
# own. In the order in which a run is started once.
STARTER = [
    "GET /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/pipelines/vision",
    "GET /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/pipelines",  # versions
    "GET /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/experiments",
    "POST /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/experiments",
    "GET /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/runs",
    "GET /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/runs/who-registered-it",
    "POST /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/runs",
    "TERMINATE /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/runs/second",
    "DELETE /apis/pipelines.kubeflow.org/v1beta1/namespaces/team-a/runs/second",
]
NEVER = [
    "GET /api/v1/namespaces/team-a/secrets",
    "GET /api/v1/namespaces/team-a/secrets/somebody-elses",
    "GET /api/v1/namespaces/team-a/configmaps",
    "GET /api/v1/namespaces/team-a/configmaps/somebody-elses",
    "POST /api/v1/namespaces/team-a/pods",
    "DELETE /api/v1/namespaces/team-a/pods/any",
    "POST /api/v1/namespaces/team-a/pods/any/exec",
    "PATCH /apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/any",
    "POST /apis/trainer.kubeflow.org/v1alpha1/namespaces/team-b/trainjobs",
    "POST /apis/rbac.authorization.k8s.io/v1/namespaces/team-a/rolebindings",
]


def rules_of(objects: list[Json], account: str) -> list[tuple[str, Json]]:
    """(namespace, rule) of an account, by its bindings."""
    roles = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Role"}
    found = []
    for binding in (each for each in objects if each["kind"] == "RoleBinding"):
        if any(subject["name"] == account for subject in binding["subjects"]):
            role = roles[binding["roleRef"]["name"]]
            found += [(role["metadata"]["namespace"], rule) for rule in role["rules"]]
    return found


def allows(rules: list[tuple[str, Json]], request: Request) -> bool:
    return any(
        namespace == request.namespace
        and request.verb in rule["verbs"]
        and request.group in rule["apiGroups"]
        and request.resource in rule["resources"]
        # A collection and what is only being made have no name that a rule could be about.
        and ("resourceNames" not in rule or request.name in rule["resourceNames"])
        for namespace, rule in rules
    )


def objects_of(pipeline: Pipeline) -> list[Json]:
    return [each for found in manifests.objects(pipeline).values() for each in found]


CASES: dict[str, tuple[Pipeline, str, list[str]]] = {
    "several nodes": (full(), "vision", [*STEP, *STORE_KEYS, *TRAIN_JOB]),
    "one node": (one_node(namespace="team-a", service_account="vision"), "vision", STEP),
    "an account of Kubeflow's": (full(service_account="default-editor"), "default-editor", TRAIN_JOB),
    "the account of all pods": (full(service_account="default", s3_secret=None), "default", [*STEP, *TRAIN_JOB]),
    "the starter": (full(), "vision-starter", STARTER),
    "tensorboard": (full(), "vision-tensorboard", []),
}


@pytest.mark.parametrize("case", CASES)
def test_exactly_the_called_verbs_are_allowed(case: str) -> None:
    pipeline, account, calls = CASES[case]
    rules = rules_of(objects_of(pipeline), account)
    assert [line for line in calls if not allows(rules, Request.of(line))] == []
    assert [line for line in NEVER if allows(rules, Request.of(line))] == []
    others = [line for line in (*STEP, *STORE_KEYS, *TRAIN_JOB, *STARTER) if line not in calls]
    assert [line for line in others if allows(rules, Request.of(line))] == []


@pytest.mark.parametrize("case", CASES)
def test_every_permission_is_needed(case: str) -> None:
    pipeline, account, calls = CASES[case]
    rules = rules_of(objects_of(pipeline), account)
    for at, (_, rule) in enumerate(rules):
        assert "*" not in (*rule["verbs"], *rule["resources"], *rule["apiGroups"])
        for field in ("verbs", "resources", "apiGroups", "resourceNames"):
            for value in rule.get(field, ()):
                fewer = copy.deepcopy(rules)
                fewer[at][1][field].remove(value)
                refused = [line for line in calls if not allows(fewer, Request.of(line))]
                assert refused, f"{field} {value!r} of {rule} is not used"


def test_a_pipeline_of_one_node_without_an_account_gets_no_role() -> None:
    assert [each for each in objects_of(one_node()) if each["kind"] in ("Role", "RoleBinding")] == []


def test_kubeflow_s_own_account_is_not_written() -> None:
    accounts = [each for each in objects_of(full(service_account="default-editor")) if each["kind"] == "ServiceAccount"]
    assert [each["metadata"]["name"] for each in accounts] == ["vision-starter", "vision-tensorboard"]


def test_no_object_is_about_the_rights_of_the_whole_cluster() -> None:
    kinds = {each["kind"] for each in objects_of(full())}
    assert kinds.isdisjoint({"ClusterRole", "ClusterRoleBinding"})
