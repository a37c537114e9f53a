"""How the launcher of Pipelines, in each step's pod, finds an object store beside AWS: the block `providers` of the
ConfigMap `kfp-launcher`.

The ConfigMap is the platform's, so no manifest of it is written: a patch is, which refuses itself where the ConfigMap
has a block already. https://www.kubeflow.org/docs/components/pipelines/operator-guides/configure-object-store/
"""

from __future__ import annotations

import textwrap

from drivetrain.infra.kubeflow.needs import Needs
from drivetrain.infra.kubeflow.objects import Json
from drivetrain.targets.kubeflow.compile.yaml_text import yaml_text

CONFIG_MAP, BLOCK = "kfp-launcher", "providers"
PATCH_FILE = "kfp-launcher-patch.yaml"
_PLACE = f"/data/{BLOCK}"


def providers(needs: Needs) -> Json | None:
    """The block; None on AWS, whose address the launcher knows: the region is in each step's environment."""
    settings = needs.settings
    if settings.s3_endpoint is None:
        return None
    keys: Json = {"fromEnv": True}
    if settings.s3_secret is not None:
        names = {"accessKeyKey": "AWS_ACCESS_KEY_ID", "secretKeyKey": "AWS_SECRET_ACCESS_KEY"}
        keys = {"fromEnv": False, "secretRef": {"secretName": settings.s3_secret, **names}}
    store: Json = {
        "endpoint": settings.s3_endpoint,
        "region": settings.storage_region,
        "disableSSL": settings.s3_endpoint.startswith("http://"),
        "forcePathStyle": True,  # a store on a host of its own has no names for buckets
        "credentials": keys,
    }
    return {"s3": {"default": store}}


def patch(needs: Needs) -> str | None:
    """The patch, of type `json`: the API refuses all of it where `providers` is there already."""
    block = providers(needs)
    if block is None:
        return None
    text = textwrap.indent(yaml_text(block), "    ")
    return f"- op: test\n  path: {_PLACE}\n  value: null\n- op: add\n  path: {_PLACE}\n  value: |\n{text}"


def patch_command(needs: Needs, file: str = PATCH_FILE) -> str:
    """Makes the patch."""
    place = f"kubectl -n {needs.settings.namespace} patch configmap {CONFIG_MAP}"
    return f"{place} --type json --patch-file {file}"
