"""An execution of a compiled pipeline on this machine, by kfp's own local runner."""

from __future__ import annotations

import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import UserError, at_place
from drivetrain.base.masking import Masking
from drivetrain.processes import TOKEN_VARIABLE, end_survivors, record_of
from drivetrain.processes.supervised import INHERITED
from drivetrain.run_store.durable import no_space
from drivetrain.run_store.events import ExecutionFinished, ExecutionStarted, ExecutionStatus, Observer, ignore
from drivetrain.run_store.home import Home, SavedRequest, forbid_resume, write_whole
from drivetrain.run_store.objects import ObjectStore, put_assets
from drivetrain.run_store.statuses import Facts
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.spec.binding import bind
from drivetrain.spec.pipeline import Graph
from drivetrain.spec.steps import NativeStep
from drivetrain.steps.start import unpack_code
from drivetrain.targets.fresh import is_fresh
from drivetrain.targets.kubeflow.compile.words import check_given
from drivetrain.targets.kubeflow.run import kfp_process
from drivetrain.targets.kubeflow.run.book import STOPPED, Book
from drivetrain.targets.kubeflow.run.recorded import lost_inputs
from drivetrain.targets.kubeflow.run.skeleton import TYPES, skeleton
from drivetrain.targets.kubeflow.settings import settings_of

if TYPE_CHECKING:
    from drivetrain.assets.assets import Code
    from drivetrain.targets.kubeflow.compile.compile import Compiled

PIPELINE, ARGUMENTS, LOG = "pipeline.yaml", "arguments.json", "kfp.log"
STOP_GRACE_S = 10.0
NO_RESUME = (
    "kfp's local runner begins anew each time. Start it again by `drivetrain run ... --target kubeflow`; a training "
    "goes on from its checkpoints."
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Runner:
    """Runs compiled pipelines in a home; events go to `observer` in the calling thread.

    SIGINT, SIGTERM and SIGHUP stop the run: its tasks get SIGTERM, a grace, and SIGKILL.
    """

    def __init__(self, home: Home, observer: Observer = ignore) -> None:
        self.home, self.observer = home, observer

    def start(self, compiled: Compiled, parameters: Mapping[str, Any]) -> ExecutionFinished:
        """Run a pipeline from its beginning to its end.

        Args:
            parameters: given values, also as texts; the rest are defaults.

        Raises:
            UserError: a task of the platform's own, kfp is not installed, wrong parameters, a full disk.
        """
        if find_spec("kfp") is None:
            raise UserError("kfp is not installed here. Install it: pip install 'drivetrain[kubeflow]'.")
        pipeline = compiled.pipeline
        if native := next((step for step in Graph(pipeline).steps if isinstance(step, NativeStep)), None):
            text = f"Step {native.name!r} is a task of Kubeflow Pipelines' own, and its container is not run here. "
            raise at_place(UserError(f"{text}Deploy it, or write it as script(...) or step(...)."), native.place)
        bound = bind(pipeline.parameters, parameters)
        check_given(bound, parameters)
        id = os.urandom(6).hex()
        folder = self.home.run(id)
        with no_space(str(self.home.root), "run it again"):
            self.home.create()
            store = ObjectStore(self.home.objects)
            with LedgerWriter(self.home) as ledger:
                put_assets(store, compiled.assets, ledger, verify=is_fresh(bound))
        if lost := lost_inputs(pipeline, bound, store):
            raise UserError("\n".join(lost))
        with (
            no_space(str(self.home.root), "run it again"),
            LedgerWriter(self.home) as ledger,
            self.home.lock(id),
        ):
            ledger.masking = Masking.of(bound, dict(compiled.ir))
            ledger.facts = Facts(id, pipeline.name)
            SavedRequest(skeleton(pipeline), bound, {"pipeline": pipeline.name, "target": "kubeflow"}).save(folder)
            forbid_resume(folder, NO_RESUME)
            write_whole(folder / PIPELINE, compiled.text)
            write_whole(folder / ARGUMENTS, json.dumps(bound))
            book = Book(pipeline, id, bound, ledger, self.observer, compiled.codes)
            steps = [(step.name, TYPES[step.kind], step.display_name or step.name) for step in book.outside_loops()]
            ledger.begin(
                id,
                pipeline.name,
                definition_hash=compiled.digest,
                request_hash=compiled.digest,
                parameters=bound,
                steps=steps,
            )
            self.observer(ExecutionStarted(id, pipeline.name, tuple(steps)))
            status, reason = self._run(compiled, id, folder, book)
            status, said = book.end(status)
            reason = said or reason
            ledger.finish(id, status, reason)
            seconds = ledger.execution(id).seconds or 0.0
        finished = ExecutionFinished(id, status, seconds, reason)
        self.observer(finished)
        return finished

    def _unpacked(self, code: Code, folder: Path) -> list[str]:
        """The folders from which all tasks with this code import, the user's source the second."""
        place = _made(folder / f"drivetrain-code-{code.sha256}")
        return unpack_code(str(self.home.objects / code.uri.removeprefix("s3://")), code.sha256, str(place))

    def _run(self, compiled: Compiled, id: str, folder: Path, book: Book) -> tuple[ExecutionStatus, str | None]:
        """Let kfp execute the pipeline, and enter what its tasks report. Gives how it ended, and why, where no task
        says it."""
        settings = settings_of(compiled.pipeline.deployment)
        outputs = self.home.objects / settings.root.removeprefix("s3://") / compiled.pipeline.name / "kubeflow" / id
        codes = {code.sha256: code for code in compiled.codes.values()}
        unpacked = {sha256: self._unpacked(code, folder / "tmp") for sha256, code in codes.items()}
        with _pipe(folder / "reports") as pipe, (folder / LOG).open("wb") as log, _stopping() as stop:
            environment = {
                # As the containers of other runs here: of what the user's shell has, nothing that may be secret.
                **{name: os.environ[name] for name in INHERITED if name in os.environ},
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
                "PYTHONHASHSEED": "0",
                TOKEN_VARIABLE: (token := secrets.token_hex(8)),
                "TMPDIR": str(_made(folder / "tmp")),
                kfp_process.UNPACKED: json.dumps(unpacked),
                "DRIVETRAIN_OBJECT_STORE": str(self.home.objects),
                "DRIVETRAIN_REGISTRY": f"local:{self.home.ledger}",
                "DRIVETRAIN_EXECUTION": id,
                "DRIVETRAIN_TASK_REPORTS": str(folder / "reports"),
                "DRIVETRAIN_TASK_LOGS": str(folder),
            }
            command = [sys.executable, "-m", kfp_process.__name__, str(folder / PIPELINE), str(folder / ARGUMENTS)]
            with subprocess.Popen(
                [*command, str(outputs)],
                # Not the user's: Python would import what lies there, and programs would write there.
                cwd=_made(folder / "tmp" / "work"),
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            ) as child:
                record = record_of(child.pid, token)
                try:
                    stopped = _follow(child, pipe, stop, book)
                finally:
                    child.kill()
                    end_survivors([record], grace_s=0.0)
            code = child.returncode
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        if stopped:
            return "Stopped", STOPPED
        if code == kfp_process.REFUSED:
            return "Failed", f"{_last_line(folder / LOG)} The YAML is {folder / PIPELINE}."
        if code == 0 and (lost := book.lost()):
            return "Failed", (
                f"kfp's local runner did not run {', '.join(lost)}, whose conditions hold. {folder / LOG} says how it "
                "read them."
            )
        if code and "Failed" not in book.status.values():
            return "Failed", f"kfp's local runner ended with {code}: {_last_line(folder / LOG)}"
        return ("Failed" if code else "Succeeded"), None


def _follow(child: subprocess.Popen[bytes], pipe: int, stop: int, book: Book) -> bool:
    """Enter reports until kfp has ended; whether it was stopped."""
    ended = os.pidfd_open(child.pid)
    stopped = False
    with selectors.DefaultSelector() as selector:
        for descriptor in (pipe, stop, ended):
            selector.register(descriptor, selectors.EVENT_READ)
        waiting = True
        while waiting:
            for key, _ in selector.select():
                if key.fd == stop:
                    asked = len(os.read(stop, 4096))  # a byte each time
                    _stop(child, book, at_once=stopped or asked > 1)
                    stopped = True
                elif key.fd == ended:
                    waiting = False
            _enter(pipe, book)
    os.close(ended)
    if stopped:
        _wait_for_tasks(book, stop)
        _enter(pipe, book)
    return stopped


def _enter(pipe: int, book: Book) -> None:
    """Enter what waits in the pipe."""
    try:
        for report in read_reports(pipe):
            book.told(report)
    except BlockingIOError:
        return


def _stop(child: subprocess.Popen[bytes], book: Book, *, at_once: bool) -> None:
    """No further task starts; those at work are asked to end, the second time made to."""
    book.stopping = True
    child.kill()
    _signal_tasks(book, signal.SIGKILL if at_once else signal.SIGTERM)


def _signal_tasks(book: Book, number: signal.Signals) -> None:
    for pid in book.running.values():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _wait_for_tasks(book: Book, stop: int) -> None:
    """Give the tasks at work their grace, which another signal to stop ends."""
    deadline = time.monotonic() + STOP_GRACE_S
    with selectors.DefaultSelector() as selector:
        selector.register(stop, selectors.EVENT_READ)
        for pid in book.running.values():
            try:
                selector.register(os.pidfd_open(pid), selectors.EVENT_READ)
            except ProcessLookupError:
                continue
        while len(selector.get_map()) > 1 and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.fd == stop:
                    os.read(stop, 4096)
                    _signal_tasks(book, signal.SIGKILL)
                    continue
                selector.unregister(key.fd)
                os.close(key.fd)
        selector.unregister(stop)
        for key in list(selector.get_map().values()):
            os.close(key.fd)


@contextmanager
def _pipe(path: Path) -> Generator[int]:
    """A named pipe that never seems closed, since this process has it open for writing, too."""
    os.mkfifo(path, 0o600)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield pipe
    finally:
        os.close(pipe)
        path.unlink()


@contextmanager
def _stopping() -> Generator[int]:
    """A descriptor that can be read once a signal has asked this process to stop."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def told(number: int, frame: FrameType | None) -> None:
        os.write(writing, b"!")

    before = {number: signal.signal(number, told) for number in _SIGNALS}
    try:
        yield reading
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing."


def read_reports(pipe: int) -> Iterator[dict[str, Any]]:
    """The reports that come through a pipe; empty where its other ends are closed, or nothing waits in it."""
    waiting = b""
    while chunk := os.read(pipe, 65_536):
        waiting += chunk
        *lines, waiting = waiting.split(b"\n")
        for line in lines:
            report = json.loads(line)
            if report["event"] == "file":
                path = Path(report["path"])
                report = json.loads(path.read_text(encoding="utf-8"))
                path.unlink()
            yield report
