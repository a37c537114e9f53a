"""The user that an MLflow server with its own login (`mlflow server --app-name basic-auth`) lets in."""

from __future__ import annotations

import importlib
import os
from typing import Any


def user_of(uri: str | None) -> str | None:
    """The user, whose password the server has checked; None where it checks none.

    Raises:
        MlflowException: the server cannot be reached.
    """
    uri = uri or os.environ.get("MLFLOW_REGISTRY_URI") or os.environ.get("MLFLOW_TRACKING_URI") or ""
    if not uri.startswith("http"):
        return None
    host: Any = importlib.import_module("mlflow.utils.credentials").get_default_host_creds(uri)
    if not host.username or host.token:
        return None
    # It answers about oneself; a server without a login has no such path.
    asked = {"endpoint": "/api/2.0/mlflow/users/get", "params": {"username": host.username}}
    rest: Any = importlib.import_module("mlflow.utils.rest_utils")
    answer = rest.http_request(host, method="GET", raise_on_status=False, **asked)
    return str(host.username) if answer.status_code == 200 else None
