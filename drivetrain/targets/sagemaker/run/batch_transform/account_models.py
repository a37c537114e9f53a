"""Models that exist in the account and that no step makes: a folder or model.tar.gz of this machine stands for one.

`--data model/NAME=PATH` lays it to a place of the local store that no bucket of S3 can have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.run_store.objects import ObjectStore

# No bucket has an underscore: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
_PLACE = "s3://account_models"
_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")
_ARCHIVE = "model.tar.gz"


def uri_of(name: str, *, is_archive: bool) -> str:
    """The URI of the folder or the archive of the model of that name.

    Raises:
        UserError: no model can be called so.
    """
    if not _NAME.fullmatch(name):
        raise UserError(f"{name!r:.80} is no name of a model. Allowed: 1 to 63 letters, digits and hyphens.")
    return f"{_PLACE}/{name}/{_ARCHIVE}" if is_archive else f"{_PLACE}/{name}"


def model_of(name: Any, store: ObjectStore) -> Mapping[str, Any] | None:
    """The arguments with which CreateModel would have made a model that the user gave; None if the user gave none.

    Its image is called as it is, for --image-command.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return None
    archive, folder = uri_of(name, is_archive=True), uri_of(name, is_archive=False)
    given = {f"s3://{key}": path for key, path in store.elsewhere.items()}
    if archive in given or (folder in given and (given[folder] / _ARCHIVE).is_file()):
        return {"ModelName": name, "PrimaryContainer": {"Image": name, "ModelDataUrl": archive}}
    if folder not in given:
        return None
    source = {"S3Uri": f"{folder}/", "S3DataType": "S3Prefix", "CompressionType": "None"}
    return {"ModelName": name, "PrimaryContainer": {"Image": name, "ModelDataSource": {"S3DataSource": source}}}
