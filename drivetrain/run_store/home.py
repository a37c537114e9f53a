"""The home of local runs: one folder, by default `.drivetrain` beside the user's work.

ledger.db                                    executions, steps, artifacts, models (SQLite)
s3/<bucket>/<key>                            what on SageMaker would lie in S3
runs/<execution>/<step>/attempt-<n>/...      the folders and logs of one attempt
runs/<execution>/.lock                       held by the process that runs the execution
decoded/<hash>.safetensors                   decoded data, for the next training of it; may be removed at any time
.drivetrain-home                             says that nothing here travels with a pipeline
locks/<hash>                                 held by the process whose training keeps its checkpoints at one place
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.run_store.durable import NO_SPACE, make_durable, make_folders_durable

VARIABLE = "DRIVETRAIN_HOME"
HOME_MARK = ".drivetrain-home"
DEFAULT = ".drivetrain"
# The default ACL of a folder: all for its owner, nothing for its group and for others (linux/posix_acl_xattr.h).
_DEFAULT_ACL = "system.posix_acl_default"
_FOR_ITS_OWNER = bytes.fromhex("02000000 0100 0700 ffffffff 0400 0000 ffffffff 2000 0000 ffffffff")
# A reader that asks whether a runner lives holds the lock for microseconds; a starting runner waits that out.
_LOCK_PATIENCE_S = 1.0


def local_home(given: Path | None) -> Home:
    """The home that was named, `$DRIVETRAIN_HOME` or `.drivetrain`.

    Raises:
        UserError: it is no folder.
    """
    home = Home(given)
    if home.root.exists() and not home.root.is_dir():
        raise UserError(f"{home.root} is a file. Give a folder by --home or ${VARIABLE}.")
    return home


class Home:
    """The folder of the local target; `$DRIVETRAIN_HOME`, else `.drivetrain` in the working folder.

    Nothing is created until something is run.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.root = Path(path or os.environ.get(VARIABLE) or DEFAULT).expanduser().absolute()

    @property
    def ledger(self) -> Path:
        return self.root / "ledger.db"

    @property
    def objects(self) -> Path:
        """The folder that stands for S3: below it `<bucket>/<key>`."""
        return self.root / "s3"

    @property
    def s3_inputs(self) -> Path:
        """The cache of what was read from S3 (targets/sagemaker/run/jobs/s3_inputs.py)."""
        return self.root / "s3_inputs"

    @property
    def decoded(self) -> Path:
        """The folder of decoded data (drivetrain/training/input_pipeline/decoded.py)."""
        return self.root / "decoded"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    def run(self, execution: str) -> Path:
        """The folder of one execution."""
        return self.runs / execution

    def trackers(self, execution: str) -> Path:
        """The folder of what trackers were told of an execution: a file for each, with a log of the program that told
        it."""
        return self.run(execution) / ".trackers"

    def refuse_removed(self, place: Path) -> None:
        """
        Args:
            place: in this home, which is there as long as a run goes on.

        Raises:
            UserError: it was removed.
        """
        if not place.exists():
            gone = place if self.root.exists() else self.root
            raise UserError(f"{gone} was removed while the run went on; what it made there is lost. Run it again.")

    def nothing_run(self) -> str:
        """That nothing has been run here; a mistyped folder is told from one that waits for its first run."""
        if self.root.exists():
            return f"Nothing has been run in {self.root} yet."
        return f"Nothing has been run yet. There is no folder {self.root}."

    def attempt(self, execution: str, step: str, number: int) -> Path:
        """The folder of one attempt at a step, counted from 1."""
        return self.run(execution) / step / f"attempt-{number}"

    def logs(self, execution: str, step: str, number: int) -> Path:
        """The folder with one `<host>.log` a host of the attempt."""
        return self.attempt(execution, step, number) / "logs"

    def create(self) -> None:
        """Make the folders. They are for their owner's eyes: they hold values of runs and what programs write. So is
        what is made in them later."""
        if self.root.exists() and not self.root.is_dir():
            raise UserError(f"{self.root} is a file. Give another folder by --home or ${VARIABLE}.")
        fresh = not self.root.exists()
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.objects.mkdir(mode=0o700, exist_ok=True)
            self.runs.mkdir(mode=0o700, exist_ok=True)
            for folder in (self.root, self.objects, self.runs):
                _keep_for_owner(folder)
            (self.root / HOME_MARK).touch()
            if fresh:  # like a virtual environment's, so that nobody commits runs by accident
                (self.root / ".gitignore").write_text("*\n", encoding="utf-8")
                make_folders_durable(self.root, self.root.parent)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise
            raise UserError(
                f"{self.root} cannot be used: {error.strerror} ({error.filename}). Give another folder by --home or "
                f"${VARIABLE}."
            ) from error

    def lock_file(self, execution: str) -> Path:
        """The file that the process which runs an execution holds; it says its number."""
        return self.run(execution) / ".lock"

    @contextmanager
    def lock(self, execution: str) -> Generator[None]:
        """Hold the execution for this process. The kernel frees the lock when the process ends, however it ends.

        Raises:
            UserError: another process holds it.
        """
        with _held(self.root, self.lock_file(execution), str(os.getpid())) as holder:
            if holder is not None:
                raise UserError(
                    f"Execution {execution} is being run by another process (pid {holder}). Wait until it ends, or "
                    f"stop it: drivetrain runs stop {execution}"
                )
            yield

    @contextmanager
    def checkpoint_lock(self, uri: str, execution: str, step: str) -> Generator[None]:
        """Hold the place of a training's checkpoints while its job is at work. The kernel frees it when this process
        ends, however it ends.

        Raises:
            UserError: another training is at work there.
        """
        name = hashlib.sha256("/".join(filter(None, uri.split("/"))).encode()).hexdigest()[:32]
        by = f"Run {execution} (step {step!r}, pid {os.getpid()})"
        with _held(self.root, self.root / "locks" / name, by) as holder:
            if holder is not None:
                raise UserError(
                    f"{holder or 'Another run'} is training with its checkpoints in {uri}, and two would write over "
                    "each other's. Wait until it ends, or stop it (Ctrl-C there)."
                )
            yield

    def is_running(self, execution: str) -> bool:
        """Return True if a living process holds the execution."""
        import fcntl

        try:
            file = open(self.lock_file(execution), "rb")  # noqa: SIM115
        except FileNotFoundError:
            return False
        with file:
            try:
                hold(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB, self.root)
            except BlockingIOError:
                return True
        return False


def _keep_for_owner(folder: Path) -> None:
    """Let all that is made below a folder be for its owner only, whatever the umask of the process that makes it; what
    the process makes elsewhere is not touched. A folder that is open to others stays as it is, and so does one that has
    a default ACL already, or lies on a file system without them."""
    if folder.stat().st_mode & 0o077:
        return
    try:
        os.setxattr(folder, _DEFAULT_ACL, _FOR_ITS_OWNER, os.XATTR_CREATE)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.EOPNOTSUPP, errno.EPERM):
            raise


@contextmanager
def _held(home: Path, path: Path, holder: str) -> Generator[str | None]:
    """Hold a lock file, and None; or, where another holds it for longer than the patience, what that wrote there."""
    import fcntl

    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a+", encoding="utf-8") as file:
        deadline = time.monotonic() + _LOCK_PATIENCE_S
        while True:
            try:
                hold(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB, home)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    file.seek(0)
                    yield file.read().strip()
                    return
                time.sleep(0.01)
        file.truncate(0)
        file.write(holder)
        file.flush()
        yield None


def hold(descriptor: int, how: int, home: Path) -> None:
    """Lock an open file of a home, whose runs only locks keep apart; BlockingIOError where it cannot be had at once.

    Raises:
        UserError: the file system has no locks.
    """
    import fcntl

    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        from drivetrain.base.file_locks import NO_LOCKS

        if error.errno not in NO_LOCKS:
            raise
        raise UserError(
            f"{home} lies on a file system without locks (flock), which keep runs apart. Give a home on another "
            "one, such as a local disk, by --home or $DRIVETRAIN_HOME."
        ) from None


def write_whole(path: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all, also where the power goes."""
    beside = path.with_name(f"{path.name}.part")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    make_durable(path.parent)


_DEFINITION, _REQUEST, _NO_RESUME = "definition.json", "request.json", "no-resume.txt"


@dataclass(frozen=True)
class SavedRequest:
    """A saved request: a definition's text, the typed value of every parameter, and the options of the runner.

    It lies in the run's folder, which only its owner may read, and not in the ledger: parameters may hold what nobody
    else should see.
    """

    text: str
    parameters: Mapping[str, Any]
    options: Mapping[str, Any]

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / _DEFINITION, self.text)
        given = {"parameters": dict(self.parameters), "options": self.options}
        write_whole(folder / _REQUEST, json.dumps(given, indent=1))
        make_folders_durable(folder.parent, folder.parents[1])

    @staticmethod
    def is_kept(folder: Path) -> bool:
        """True where `load` finds something."""
        return (folder / _DEFINITION).is_file() and (folder / _REQUEST).is_file()

    @staticmethod
    def load(folder: Path) -> SavedRequest:
        """The request of an execution.

        Raises:
            UserError: the run's folder was removed.
        """
        try:
            text = (folder / _DEFINITION).read_text(encoding="utf-8")
            given = json.loads((folder / _REQUEST).read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserError(
                f"{folder} no longer holds what was run, so it cannot be resumed. Start a new run; finished steps "
                "that have a cache are taken from it."
            ) from None
        return SavedRequest(text, given["parameters"], given["options"])


def saved_options(folder: Path) -> Mapping[str, Any]:
    """The options that a run was started with; empty where its folder was removed."""
    try:
        return SavedRequest.load(folder).options
    except UserError:
        return {}


def forbid_resume(folder: Path, reason: str) -> None:
    """Say of a run that it cannot go on, and what to do instead."""
    write_whole(folder / _NO_RESUME, reason)


def why_not_resumed(folder: Path) -> str | None:
    """The reason given to `forbid_resume`; None for a run that can go on."""
    file = folder / _NO_RESUME
    return file.read_text(encoding="utf-8") if file.is_file() else None
