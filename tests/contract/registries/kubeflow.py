"""A place for Kubeflow's registry: a server of its own."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from drivetrain.registry.backends import _kubeflow_rest
from tests.fixtures.failing_proxy import Plan, closed_port, failing_proxy
from tests.fixtures.kubeflow_server import kubeflow_server


@contextmanager
def place(folder: Path) -> Generator[tuple[str, dict[str, str]]]:
    with kubeflow_server() as (address, _), mock.patch.object(_kubeflow_rest, "FIRST_PAUSE", 0.001):
        yield address, {}


@contextmanager
def behind(location: str, plan: Plan) -> Generator[tuple[str, dict[str, str]]]:
    with failing_proxy(location, plan) as address:
        yield address, {}


def unreachable(location: str) -> tuple[str, dict[str, str]]:
    return f"http://127.0.0.1:{closed_port()}", {}
