"""The owner of a pipeline's folder in the storage: a record beside what apply uploads.

Two namespaces or clusters can be given one root by mistake. Without the record, destroying the pipeline of one would
delete the code that the other's executions fetch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace

from drivetrain.assets.assets import Asset
from drivetrain.base.errors import UserError
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
    project: str = ""
    """See deploying/project.py; records from before there were projects have none."""

    def __str__(self) -> str:
        return f"pipeline {self.pipeline!r} in namespace {self.namespace!r} at {self.endpoint}"

    def record(self, root: str) -> Asset:
        """The object that apply uploads to the pipeline's own folder."""
        said = {name: value for name, value in asdict(self).items() if value}
        content = json.dumps(said, sort_keys=True).encode()
        return Asset(uri_of(root), hashlib.sha256(content).hexdigest(), content)

    def recorded(self, objects: Objects, root: str) -> Owner | None:
        """Read the folder's owner, perhaps of another project; None where there is no record.

        Raises:
            UserError: it is of another namespace or pipeline, or the record cannot be read.
        """
        uri = uri_of(root)
        content = objects.read(uri)
        if content is None:
            return None
        try:
            there = Owner(**json.loads(content))
        except (ValueError, TypeError):
            raise UserError(f"{uri} does not say whose folder it is. Find out, then delete that object.") from None
        if replace(there, project=self.project) != self:
            raise UserError(
                f"{root}/ belongs to {there}; this is {self}. Set another {ROOT}, which no other namespace has. Where "
                f"only the address or the name of the owner has changed, delete {uri} first."
            )
        return there

    def other(self, there: Owner | None) -> str | None:
        """The other project of a record, in words; None where it is this one's, or says nothing of it."""
        is_other = there is not None and there.project and there.project != self.project
        return f"project {there.project!r}" if there is not None and is_other else None


def uri_of(root: str) -> str:
    """The URI of the record in a pipeline's own folder."""
    return f"{root}/{FOLDER}/owner.json"
