"""kubectl as a program: its answers, and what it says when there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivetrain.infra.kubeflow.readiness.place import Kubectl, UnaskedError
from tests.fixtures.kubectl import CONTEXT, Cluster

FORBIDDEN = 'Error from server (Forbidden): secrets "keys" is forbidden: User "ann" cannot get resource "secrets"'


def program(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A kubectl that says `text` on stderr and ends with 1, and counts how often it was started."""
    folder.mkdir(exist_ok=True)
    (folder / "kubectl").write_text(f"#!/bin/sh\necho x >> '{folder}/started'\necho '{text}' >&2\nexit 1\n")
    (folder / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_objects_lists_and_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    monkeypatch.setenv("PATH", f"{cluster.write_program(tmp_path / 'bin').parent}:/usr/bin:/bin")
    kubectl = Kubectl()
    assert kubectl.context == CONTEXT
    assert kubectl.get("configmap", "kfp-launcher", "kubeflow") == cluster.get("configmap", "kfp-launcher", "kubeflow")
    listed = kubectl.get("networkpolicies", namespace="kubeflow")
    assert listed is not None and [each["metadata"]["name"] for each in listed["items"]] == ["seaweedfs"]
    assert kubectl.get("configmap", "kfp-launcher", "team-a") is None


def test_a_kind_that_the_cluster_does_not_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, "error: the server doesn'\\''t have a resource type \"clustertrainingruntimes\"")
    assert Kubectl().get("clustertrainingruntime", "torch-distributed") is None


def test_what_an_account_may_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    cluster.rights = {("get", "pods/log"), ("create", "trainjobs.trainer.kubeflow.org")}
    monkeypatch.setenv("PATH", f"{cluster.write_program(tmp_path / 'bin').parent}:/usr/bin:/bin")
    kubectl = Kubectl()
    assert kubectl.may("vision", "team-a", "get", "pods/log")
    assert kubectl.may("vision", "team-a", "create", "trainjobs.trainer.kubeflow.org")
    assert not kubectl.may("vision", "team-a", "get", "pods")


def test_a_caller_without_impersonation_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path,
        monkeypatch,
        'Error from server (Forbidden): serviceaccounts "vision" is forbidden: cannot impersonate',
    )
    with pytest.raises(UnaskedError, match="cannot impersonate"):
        Kubectl().may("vision", "team-a", "get", "pods")


def test_an_unreadable_object_does_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, monkeypatch, FORBIDDEN)
    kubectl = Kubectl()
    for _ in range(2):
        with pytest.raises(UnaskedError, match="cannot get resource"):
            kubectl.get("secret", "keys", "team-a")
    assert (tmp_path / "started").read_text() == "x\nx\n"


def test_an_unreachable_cluster_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        tmp_path,
        monkeypatch,
        "The connection to the server localhost:8080 was refused - did you specify the right host or port?",
    )
    kubectl = Kubectl()
    for name in ("one", "two"):
        with pytest.raises(UnaskedError, match="was refused"):
            kubectl.get("configmap", name, "kubeflow")
    assert (tmp_path / "started").read_text() == "x\n"


@pytest.mark.parametrize(("text", "said"), [("", "nothing"), ("Hello", "Hello"), ("[]", r"\[\]")])
def test_an_invalid_answer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    """Such as of a program around kubectl, which greets."""
    program(tmp_path, monkeypatch, "")
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\necho '{text}'\n")
    with pytest.raises(UnaskedError, match=f"no.* JSON, it printed: {said}$"):
        Kubectl().get("namespace", "kubeflow")


def test_without_kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnaskedError, match="kubectl is not on PATH"):
        Kubectl().get("namespace", "kubeflow")
