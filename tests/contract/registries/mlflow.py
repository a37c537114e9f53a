"""A place for MLflow's registry: its own server over an empty SQLite file."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.fixtures.failing_proxy import Plan, closed_port, failing_proxy
from tests.fixtures.mlflow_server import VARIABLES, mlflow_server, new_database


@contextmanager
def place(folder: Path) -> Generator[tuple[str, dict[str, str]]]:
    with mlflow_server(new_database(folder), folder / "artifacts") as address:
        yield address, VARIABLES


@contextmanager
def behind(location: str, plan: Plan) -> Generator[tuple[str, dict[str, str]]]:
    with failing_proxy(location, plan) as address:
        yield address, {}


def unreachable(location: str) -> tuple[str, dict[str, str]]:
    return f"http://127.0.0.1:{closed_port()}", {}
