"""A folder in which secrets are hidden, what is said there, and the search for them afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.harness.families import Trial
from tests.faults.harness.leaks import Canaries

if TYPE_CHECKING:
    from tests.faults.harness.command import Ended
    from tests.fixtures.sagemaker_service.server import Service, TestAccount

SECRET_NAMES = (
    "API_TOKEN",
    "DB_PASSWORD",
    "client_secret",
    "AwsSecretAccessKey",
    "githubToken",
    "credentials",
    "apiKey",
)


class Shared:
    """A server, and the data of a training."""

    def __init__(self, folder: Path) -> None:
        from tests.faults.harness import training
        from tests.fixtures.sagemaker_service.server import sagemaker_service

        self.service: Service = sagemaker_service()
        self.data = training.write_data(folder / "data")


class Place:
    """A trial's folder, what was said in it, and what was hidden there."""

    def __init__(self, given: Trial, shared: Shared, *, launched: bool = False) -> None:
        self.launched = launched
        self.draw, self.shared = given.draw, shared
        self.canaries = Canaries(given.draw)
        self.work = given.folder / "work"
        self.work.mkdir()
        self.home = self.work / "home"
        self.account: TestAccount = shared.service.new_account()
        self.did: Counter[str] = Counter()
        self.violations: list[str] = []
        self.own: set[str] = set()  # files that hold what the user wrote into them
        role = f"arn:aws:iam::{self.account.number}:role/pipelines"
        queue = f"arn:aws:sqs:us-east-1:{self.account.number}:events"
        queues = {"event_queue": queue, "dead_letter_queue": queue}
        self.place = {
            "deployment": {
                "targets": {
                    "sagemaker": {"bucket": self.account.make_bucket(), "role": role, "image": "image:1", **queues}
                }
            }
        }
        self.write("account.yaml", self.place)

    def write(self, name: str, content: Any) -> None:
        (self.work / name).write_text(content if isinstance(content, str) else json.dumps(content))
        self.own.add(name)

    def secret_name(self) -> str:
        return self.draw.choice(SECRET_NAMES)

    def drivetrain(self, command: str | list[str], *, codes: tuple[int, ...] = (0,), **more: str) -> Ended:
        from tests.faults.harness.command import drivetrain

        words = command.split() if isinstance(command, str) else command
        variables = {**self.account.variables, "HOME": str(self.work), "DRIVETRAIN_HOME": str(self.home), **more}
        ended = drivetrain(self.work, *words, environment=variables, launched=self.launched)
        self.did["launched commands"] += self.launched
        self.did["outputs searched"] += 1
        self.did[" ".join(words[:2]) if words[0] in ("runs", "triggers") else words[0]] += 1
        if ended.code not in codes:
            self.violations.append(f"{words} ended otherwise than it should: {ended}")
        if leaked := self.canaries.in_data((ended.out + ended.err).encode()):
            self.violations.append(f"{words} says the secrets of {sorted(leaked)}: {ended}")
        return ended

    def search(self, *folders: Path, allowed: Callable[[str], bool] = lambda name: False) -> None:
        """Every file of the trial but those in which the user wrote a secret down."""
        found = self.canaries.in_files(folders or (self.work,))
        self.did["files searched"] += len(found)
        for path, leaked in found.items():
            name = str(path.relative_to(self.work)) if path.is_relative_to(self.work) else str(path)
            if leaked and name not in self.own and not allowed(name):
                self.violations.append(f"{name} holds the secrets of {sorted(leaked)}")
