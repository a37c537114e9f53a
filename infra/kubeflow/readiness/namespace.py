"""Checks of the pipeline's namespace, before its first run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from drivetrain.infra.kubeflow import launcher
from drivetrain.infra.kubeflow.access import PLATFORM_ACCOUNTS, step_permissions
from drivetrain.infra.kubeflow.needs import SSH_SECRET, own_runtimes
from drivetrain.infra.kubeflow.objects import PART_OF, PART_OF_LABEL
from drivetrain.infra.kubeflow.readiness.place import Finding, Json, Place, UnaskedError, fails, mapping, ok
from drivetrain.infra.kubeflow.runtimes import SSH_FILES
from drivetrain.infra.kubeflow.storage import PROFILE
from drivetrain.targets.kubeflow.compile.mounts import store_keys

# Of the launcher, where a block does not say.
_DEFAULTS = {"disableSSL": False, "forcePathStyle": True}


def labels(place: Place) -> Iterator[Finding]:
    """The namespace is there, and Kubeflow's NetworkPolicies let its pods in."""
    found = place.cluster.get("namespace", place.namespace)
    if found is None:
        mend = "Make a profile of that name, or set infrastructure.namespace: make"
        if place.needs.settings.infrastructure.namespace == "make":
            mend = f"{place.write} && kubectl apply -f build/infra/namespace.yaml"
        yield fails(f"there is no namespace {place.namespace!r}", mend)
        return
    part_of = found["metadata"].get("labels", {}).get(PART_OF_LABEL, "")
    mend = f"kubectl label namespace {place.namespace} {PART_OF_LABEL}={PROFILE} --overwrite"
    if place.namespace != place.platform and part_of != PROFILE:
        policies = place.cluster.get("networkpolicies", namespace=place.platform) or {}
        closed = [each["metadata"]["name"] for each in policies.get("items", ()) if PROFILE in str(each["spec"])]
        if closed:
            said = f"NetworkPolicies of {place.platform} ({', '.join(sorted(closed))}) let in none of its pods"
            yield fails(f"{said}: label {PART_OF_LABEL} is {part_of or 'not set'}", mend)
            return
    if part_of == PART_OF:  # as it was written before
        yield fails(f"label {PART_OF_LABEL} is {PART_OF}, which Kubeflow does not know as a team's", mend)
        return
    yield ok(f"{place.namespace} is there" + (f", a {part_of}" if part_of else ""))


def kfp_launcher(place: Place) -> Iterator[Finding]:
    """The launcher of Pipelines finds the store of the settings."""
    wanted = launcher.providers(place.needs)
    if wanted is None:
        return
    patch = launcher.patch_command(place.needs, f"build/infra/{launcher.PATCH_FILE}")
    found = place.there("configmap", launcher.CONFIG_MAP)
    if found is None:
        make = f"kubectl -n {place.namespace} create configmap {launcher.CONFIG_MAP}"
        said = f"there is no ConfigMap {launcher.CONFIG_MAP}: the launcher would ask AWS"
        yield fails(said, f"{place.write} && {make} --from-literal=defaultPipelineRoot= && {patch}")
        return
    text = (found.get("data") or {}).get(launcher.BLOCK, "")
    if not text:
        said = f"ConfigMap {launcher.CONFIG_MAP} has no {launcher.BLOCK}: each step ends with 'Invalid region'"
        yield fails(said, f"{place.write} && {patch}")
        return
    edit = f"kubectl -n {place.namespace} edit configmap {launcher.CONFIG_MAP}"
    try:
        default = mapping(mapping(mapping(text).get("s3")).get("default"))
        different = list(_different(wanted["s3"]["default"], default))
    except UnaskedError as error:
        yield fails(f"{launcher.BLOCK}: {error}", edit)
        return
    if different:
        yield fails(f"in {launcher.BLOCK}, s3.default: {'; '.join(different)}", f"{edit}, and set them")
        return
    yield ok(f"the launcher finds {wanted['s3']['default']['endpoint']}")


def secrets(place: Place) -> Iterator[Finding]:
    """Each Secret that the settings name is there, with the keys that are used. Values are not looked at."""
    for name, keys in sorted(_secrets(place).items()):
        found = place.there("secret", name)
        missing = sorted(keys) if found is None else sorted(keys - (found.get("data") or {}).keys())
        if found is not None and not missing:
            yield ok(f"{name} is there")
            continue
        kubectl = f"kubectl -n {place.namespace}"
        if found is not None:
            added = json.dumps({"stringData": dict.fromkeys(missing, "...")})
            yield fails(f"Secret {name!r} has no {', '.join(missing)}", f"{kubectl} patch secret {name} -p '{added}'")
            continue
        literals = "".join(f" --from-literal={key}=..." for key in missing)
        kind = "generic" if keys else "docker-registry"
        yield fails(f"there is no Secret {name!r}", f"{kubectl} create secret {kind} {name}{literals or ' ...'}")


def account(place: Place) -> Iterator[Finding]:
    """The service account of the steps is there."""
    name = place.needs.settings.service_account
    if name is None:
        return
    if place.there("serviceaccount", name) is None:
        others = f"name one of: kubectl -n {place.namespace} get serviceaccounts"
        mend = f"Kubeflow makes it with a profile or an installation; {others}"
        if name not in PLATFORM_ACCOUNTS:
            mend = f"{place.write}, and apply account.yaml; or {others}"
        yield fails(f"there is no service account {name!r}", mend)
    else:
        yield ok(f"{name} is there")


def rights(place: Place) -> Iterator[Finding]:
    """The account of the steps may do what their pods do; one verb of each kind of objects stands for the others."""
    name = place.needs.settings.service_account
    asked = [each for each in step_permissions(place.needs) if not each.names]
    if name is None or not asked:
        return
    missing: list[str] = []
    for each in asked:
        resource = f"{each.resource}.{each.group}" if each.group else each.resource
        if not place.cluster.may(name, place.namespace, each.verbs[0], resource):
            missing.append(f"{each.verbs[0]} {resource}")
    if missing:
        yield fails(f"{name} may not {', '.join(missing)}", f"{place.write} && kubectl apply -f build/infra/roles.yaml")
    else:
        yield ok(f"{name} may do what steps do")


def claims(place: Place) -> Iterator[Finding]:
    """Each claim that pods mount is there; checkpoints can be written from several nodes."""
    settings = place.needs.settings
    mounted = {claim for pod in (settings.pods, *settings.steps.values()) for claim in pod.volumes.values()}
    for name in sorted({*mounted, *filter(None, [settings.checkpoint_claim])}):
        found = place.there("persistentvolumeclaim", name)
        if found is None:
            how = f"{place.write}, and apply volumes.yaml" if name == settings.checkpoint_claim else "Make it"
            yield fails(f"there is no PersistentVolumeClaim {name!r}", how)
        elif name == settings.checkpoint_claim and "ReadWriteMany" not in found["spec"].get("accessModes", ()):
            said = f"{name} is mounted by one node at a time ({', '.join(found['spec'].get('accessModes', ()))})"
            yield fails(said, "Make another with ReadWriteMany, of a storage class that many nodes can mount")
        else:
            yield ok(f"{name} is there")


def _secrets(place: Place) -> dict[str, set[str]]:
    """Name -> keys that are used; of one with which images are pulled none are named."""
    settings = place.needs.settings
    found: dict[str, set[str]] = {}
    named = [key for pod in (settings.pods, *settings.steps.values()) for key in pod.secrets.values()]
    for each in (*store_keys(settings).values(), *named, *filter(None, [settings.notices])):
        name, _, key = each.partition("/")
        found.setdefault(name, set()).add(key)
    if "mpi" in own_runtimes(place.needs).values():
        found.setdefault(SSH_SECRET, set()).update(SSH_FILES)
    if settings.image_pull_secret is not None:
        found.setdefault(settings.image_pull_secret, set())
    return found


def _different(wanted: Json, found: Json) -> Iterator[str]:
    """Differences from the block that is needed. Keys may come from elsewhere than s3_secret, and a region is any."""
    for key in ("endpoint", "disableSSL", "forcePathStyle"):
        if _plain(found.get(key, _DEFAULTS.get(key))) != _plain(wanted[key]):
            yield f"{key} is {found.get(key, 'not set')}, not {wanted[key]}"
    if not found.get("region"):
        yield f"region is not set, not {wanted['region']}"
    if not found.get("credentials"):
        yield "credentials are not set"


def _plain(value: Any) -> str:
    """A value as text; an address with or without its scheme is the same, which disableSSL says."""
    return str(value).partition("://")[2] or str(value)
