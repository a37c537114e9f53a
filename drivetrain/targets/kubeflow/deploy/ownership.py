"""Whose a pipeline's folder in the storage is: a record beside what apply uploads.

Two namespaces or clusters can be given one root by mistake. Without the record, destroying the pipeline of one would
delete the code that the other's executions fetch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from drivetrain.base.errors import UserError
from drivetrain.targets.assets.assets import Asset
from drivetrain.targets.kubeflow.deploy.objects import Objects

FOLDER = "owner"
"""Below the pipeline's own folder."""
ROOT = "deployment.targets.kubeflow.root"


@dataclass(frozen=True)
class Owner:
    """A pipeline in a namespace at an address of the Pipelines API."""

    endpoint: str
    namespace: str
    pipeline: str

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r} in namespace {self.namespace!r} at {self.endpoint}"

    def record(self, root: str) -> Asset:
        """What apply uploads to the pipeline's own folder."""
        content = json.dumps(asdict(self), sort_keys=True).encode()
        return Asset(uri_of(root), hashlib.sha256(content).hexdigest(), content)

    def is_recorded(self, objects: Objects, root: str) -> bool:
        """Whether the folder is this one's; False where nobody has said so.

        Raises:
            UserError: it is another one's, or the record cannot be read.
        """
        uri = uri_of(root)
        content = objects.read(uri)
        if content is None:
            return False
        try:
            there = Owner(**json.loads(content))
        except (ValueError, TypeError):
            raise UserError(f"{uri} does not say whose folder it is. Find out, then delete that object.") from None
        if there != self:
            raise UserError(
                f"{root}/ belongs to {there}; this is {self}. Set another {ROOT}, which no other namespace has. Where "
                f"only the address or the name of the owner has changed, delete {uri} first."
            )
        return True


def uri_of(root: str) -> str:
    """Of the record in a pipeline's own folder."""
    return f"{root}/{FOLDER}/owner.json"
