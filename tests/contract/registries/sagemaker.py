"""A place for SageMaker's registry: a region of its own on a server of this process."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.fixtures.failing_proxy import Plan, closed_port, failing_proxy
from tests.fixtures.sagemaker_server import new_region, sagemaker_server, sagemaker_variables


@contextmanager
def place(folder: Path) -> Generator[tuple[str, dict[str, str]]]:
    yield new_region(), sagemaker_variables(sagemaker_server())


@contextmanager
def behind(location: str, plan: Plan) -> Generator[tuple[str, dict[str, str]]]:
    with failing_proxy(sagemaker_server(), plan) as endpoint:
        yield location, {"AWS_ENDPOINT_URL_SAGEMAKER": endpoint}


def unreachable(location: str) -> tuple[str, dict[str, str]]:
    return location, {"AWS_ENDPOINT_URL_SAGEMAKER": f"http://127.0.0.1:{closed_port()}"}
