"""A folder in which a user works, input that does harm, and what must hold of every command there."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.faults.harness.definitions import sound
from tests.faults.harness.exploits import Exploit
from tests.faults.harness.families import SLOWEST, Trial

if TYPE_CHECKING:
    from tests.faults.harness.command import Ended
    from tests.fixtures.sagemaker_service.server import Service, TestAccount

MOST_CPU_S = 1.0
MOST_MEMORY = 1 << 30
MOST_LINES = 3
VICTIM = '{"what": "nobody may read"}'
# What a command may write in the work folder, beside the home.
WRITTEN = ("written.json", "written.svg", "written.html", "retraining.studio.yaml")


class Shared:
    """The server of a process, for the commands that reach into an account."""

    def __init__(self) -> None:
        from tests.fixtures.sagemaker_service.server import sagemaker_service

        self.service: Service = sagemaker_service()


class Attack:
    """A trial's folders. `outside` is what nobody may write to; in it, deep below, the user works."""

    def __init__(self, given: Trial, shared: Shared, *, launched: bool = False) -> None:
        self.draw, self.launched = given.draw, launched
        self.outside = given.folder / "outside"
        self.work = self.outside / "a" / "b" / "work"
        self.temporary = given.folder / "tmp"
        self.control = given.folder / "control"
        for folder in (self.work, self.temporary, self.control):
            folder.mkdir(parents=True)
        (self.outside / "victim.json").write_text(VICTIM)
        self.canary = self.outside / "canary"
        self.account: TestAccount = shared.service.new_account()
        role = f"arn:aws:iam::{self.account.number}:role/pipelines"
        self.place = {"deployment": {"targets": {"sagemaker": {"bucket": self.account.make_bucket(), "role": role}}}}
        self.write("account.yaml", json.dumps(self.place).encode())
        self.write("good.json", json.dumps(sound()).encode())
        self.did: Counter[str] = Counter()
        self.violations: list[str] = []
        self.told = ""

    def write(self, name: str, content: bytes) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def content(self, exploit: Exploit, change: Callable[[bytes], bytes] = bytes) -> bytes:
        """The exploit, once its control has shown that it is one."""
        seed = self.draw.random()
        self.told = exploit.name
        if exploit.control is not None:
            self.believed(exploit.control, lambda canary: change(exploit.content(random.Random(seed), canary)))
        return change(exploit.content(random.Random(seed), self.canary))

    def believed(self, control: Callable[[bytes, Path], None], content: Callable[[Path], bytes]) -> None:
        """Let a careless reader have it."""
        from tests.faults.harness.command import forked

        canary = self.control / "canary"

        def read() -> int:
            control(content(canary), self.control)
            return 0

        ended = forked(read, self.control, {})
        self.did["exploits that work on a careless reader"] += canary.exists()
        if not canary.exists():
            self.violations.append(f"{self.told} is no exploit: {ended}")

    def drivetrain(self, command: str | Sequence[str], *, refused: bool = False, **more: str) -> Ended:
        """A command, and what must hold however it ended."""
        from tests.faults.harness.command import drivetrain, tree

        words = command.split() if isinstance(command, str) else list(command)
        before = tree(self.outside, but=self.work / "home")
        environment = {
            **self.account.variables,
            "HOME": str(self.work),
            "TMPDIR": str(self.temporary),
            "DRIVETRAIN_HOME": str(self.work / "home"),
            # Where hashes of our own code are kept: as much ours as the home.
            "XDG_CACHE_HOME": str(self.work / "home" / "cache"),
            **more,
        }
        ended = drivetrain(self.work, *words, environment=environment, launched=self.launched)
        self.did[words[0]] += 1
        self.did["launched commands"] += self.launched
        after = tree(self.outside, but=self.work / "home")
        written = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        written -= {f"a/b/work/{name}" for name in WRITTEN} | {
            "a/b/work/home/",
            "a/b/work/__pycache__/",
            "a/b/work-said/",
        }
        written = {name for name in written if not name.startswith(("a/b/work-said/", "a/b/work/__pycache__/"))}
        wrong = [f"{sorted(written)[:5]} changed"] if written else []
        wrong += ["it was executed"] if self.canary.exists() else []
        wrong += ["a trace is shown"] if "Traceback" in ended.out + ended.err else []
        wrong += ["a control character is shown"] if "\x1b" in ended.out + ended.err else []
        wrong += [f"it ended with {ended.code}"] if ended.code not in (0, 1, 2) else []
        if refused:
            wrong += ["it was not refused"] if ended.code != 2 or not ended.err.startswith("error: ") else []
            slowest = f"{SLOWEST} refusal{' of a launched command' * self.launched}, ms"
            self.did["refused"] += 1
            self.did[slowest] = max(self.did[slowest], round(1_000 * ended.cpu_s))
            wrong += [f"it took {ended.cpu_s:.2f} s"] if ended.cpu_s > MOST_CPU_S else []
            wrong += [f"it took {ended.memory >> 20} MiB"] if ended.memory > MOST_MEMORY else []
            wrong += ["many lines are said"] if len(ended.err.splitlines()) > MOST_LINES else []
        self.violations += [f"{self.told}: {' '.join(words)[:200]}: {text}\n{ended}" for text in wrong]
        return ended
