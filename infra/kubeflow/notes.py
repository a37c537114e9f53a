"""Notes for an administrator: what to do or to know before the manifests of a pipeline are of use."""

from __future__ import annotations

import re
from collections.abc import Iterator

from drivetrain.infra.kubeflow import launcher
from drivetrain.infra.kubeflow.needs import SSH_SECRET, Needs, own_runtimes
from drivetrain.targets.kubeflow.compile import retries
from drivetrain.targets.kubeflow.settings import BLOCK, Settings

_TRAINER = "https://github.com/kubeflow/trainer.git/manifests/overlays/runtimes?ref=v2.3.0"
INSTALL_RUNTIMES = f"kubectl apply --server-side -k {_TRAINER!r}"
"""The runtimes that Trainer ships, `torch-distributed` among them."""


CONTROLLER, CONFIG_MAP = "workflow-controller", "workflow-controller-configmap"
FINALIZER = "ARGO_POD_STATUS_CAPTURE_FINALIZER"


def no_template_defaults(needs: Needs) -> str:
    """Takes away what a stock installation has in place of a pipeline's own word on repeats: nothing else is there."""
    remove = '[{"op": "remove", "path": "/data/templateDefaults"}]'
    return f"kubectl -n {_platform(needs)} patch configmap {CONFIG_MAP} --type json -p '{remove}'"


def keep_pods(needs: Needs) -> str:
    """Lets the workflow controller see how a pod ended that is deleted."""
    return f"kubectl -n {_platform(needs)} set env deployment/{CONTROLLER} {FINALIZER}=true"


def notes_of(needs: Needs) -> list[str]:
    """The notes, in the order in which they matter."""
    return [
        *_of_settings(needs),
        *_of_images(needs),
        *_of_the_store(needs),
        *_of_retries(needs),
        *_of_runtimes(needs),
        *_of_secrets(needs),
    ]


def _of_settings(needs: Needs) -> Iterator[str]:
    settings = needs.settings
    if "namespace" not in settings.model_fields_set:
        yield (
            f"{BLOCK}.namespace is not set: all of it is written for namespace {settings.namespace!r}, in which "
            "Kubeflow itself is usually installed. An installation for one user runs everything there; in one for many "
            "users set it to your team's."
        )
    if settings.root == Settings.model_fields["root"].default:
        yield f"{BLOCK}.root is {settings.root}, which stands for a folder of this machine. Set it."
    if settings.service_account == "default":
        yield (
            f"{BLOCK}.service_account is 'default', under which each pod of namespace {settings.namespace!r} runs "
            "that names none: all of them get the rights of the steps. Set it to another name: the account is then "
            "made."
        )


def _of_images(needs: Needs) -> Iterator[str]:
    images = {f"{BLOCK}.image": needs.settings.image}
    if needs.trains or needs.events:
        images[f"{BLOCK}.infrastructure.image"] = needs.settings.infrastructure.image
    for field, image in images.items():
        if not re.match(r"[^/]*[.:][^/]*/|localhost/", image):
            yield f"{field} is {image!r}: no registry, so each node looks in its own default one. Name yours."


def _of_the_store(needs: Needs) -> Iterator[str]:
    settings = needs.settings
    if launcher.providers(needs) is not None:
        yield (
            f"Pipelines must know the store {settings.s3_endpoint}: {launcher.patch_command(needs)} adds it to the "
            f"ConfigMap. The patch is refused where {launcher.BLOCK} is there already: then put the patch's `s3` into "
            "it by hand."
        )
    elif settings.region is None:
        yield (
            f"{BLOCK}.region is not set. Set it to the region of root's bucket: on AWS Pipelines needs nothing else, "
            f"and no block in {launcher.CONFIG_MAP}."
        )


def _of_retries(needs: Needs) -> Iterator[str]:
    if needs.repeats:
        yield f"{retries.NOTE} Once: {no_template_defaults(needs)}; {keep_pods(needs)}"


def _of_runtimes(needs: Needs) -> Iterator[str]:
    ours = own_runtimes(needs)
    foreign = {getattr(needs.settings.trainer, framework): framework for framework in needs.frameworks}
    for name, framework in foreign.items():
        if name not in ours:
            how = f" Trainer ships it: {INSTALL_RUNTIMES}." if name == Settings().trainer.torch else ""
            yield (
                f"The ClusterTrainingRuntime {name!r} must be there.{how} Set {BLOCK}.trainer.{framework} to "
                f"drivetrain-{framework} for one that is written here, whose pods get no token and are not started "
                "again alone."
            )


def _of_secrets(needs: Needs) -> Iterator[str]:
    settings = needs.settings
    ssh = SSH_SECRET if "mpi" in own_runtimes(needs).values() else None
    secrets = [settings.s3_secret, settings.image_pull_secret, ssh]
    if named := [secret for secret in secrets if secret is not None]:
        yield f"Secrets are not written. Namespace {settings.namespace!r} must have: {', '.join(named)}."


def _platform(needs: Needs) -> str:
    return needs.settings.infrastructure.platform_namespace
