"""A command that goes on in its supervisor's interpreter sees and does what it would after an exec."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from drivetrain.processes import become, mounts, process_table, supervised
from drivetrain.processes.container import Host, Job, JobResult, start
from drivetrain.processes.supervised import Spare
from drivetrain.steps import START_COMMAND
from drivetrain.steps import start as start_file
from drivetrain.targets.sagemaker.run.spares import Spares

START = """
import os, sys
base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
code = base + "/code"
variables = {**os.environ, "PYTHONPATH": code}
os.execve(sys.executable, [sys.executable, "-m", "drivetrain.steps.call", *sys.argv[1:]], variables)
"""
CALL = """
import atexit, ctypes, json, os, random, signal, sys, tempfile, threading
import drivetrain
if "twice" in sys.argv and "TWICE" not in os.environ:
    os.environ["TWICE"] = "yes"
    os.execve(sys.executable, [sys.executable, "-m", "drivetrain.steps.call", *sys.argv[1:]], os.environ)
base = os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml")
kept = open(base + "/output/kept.txt", "w")  # closed by the interpreter as it ends
kept.write("all of it")
seen = {
    "argv": sys.argv, "path": sys.path, "executable": os.path.realpath(sys.executable),
    "words": sys.orig_argv[1:], "folder": os.getcwd(), "variables": dict(os.environ), "flags": repr(sys.flags),
    "handlers": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD,
                 signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)],
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    "files": sorted(os.listdir("/proc/self/fd"))[:-1],
    "main": [__name__, __spec__.name, __file__, __package__], "package": drivetrain.__file__,
    "strangers": sorted(name for name in sys.modules if name in ("manager", "supervision", "become", "scribe")),
    "temporary": tempfile.gettempdir(), "session": os.getsid(0) == os.getpid(), "threads": threading.active_count(),
    "output": [sys.stdout.encoding, sys.stdout.line_buffering, sys.stdout.write_through, sys.stdin.read()],
}
atexit.register(lambda: open(base + "/output/exit.txt", "w").write("was here"))
threading.Timer(0.1, lambda: open(base + "/output/thread.txt", "w").write("waited for")).start()
with open(base + "/output/seen.json", "w") as file:
    json.dump(seen, file)
print("said", random.random() != 2)
class Last:
    def __del__(self, os=os): os.open(base + "/output/deleted.txt", os.O_CREAT)
last = Last()
ctypes.CDLL(None).printf(b"native\\n")
if "daemon" in sys.argv: threading.Thread(target=threading.Event().wait, daemon=True).start()
if "shut" in sys.argv: sys.stdout.close()
if "large" in sys.argv: sys.exit(256 + 7)
if "negative" in sys.argv: sys.exit(-1)
if "true" in sys.argv: sys.exit(True)
if "raise" in sys.argv: raise KeyError("price")
if "exit" in sys.argv: sys.exit(7)
if "text" in sys.argv: sys.exit("no price")
if "kill" in sys.argv: os.kill(os.getpid(), signal.SIGTERM)
if "again" in sys.argv: os.execv(sys.executable, [sys.executable, "-c", "import sys; print('executed', len(sys.argv))"])
"""

WORDS = ["", "raise", "exit", "text", "kill", "again", "twice", "daemon", "shut", "large", "negative", "true"]


@pytest.fixture(params=["pid", "none"])
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if mounts.isolation() != "pid":
        pytest.skip("this machine allows no namespaces")
    monkeypatch.setattr(mounts, "isolation", lambda: request.param)


@pytest.fixture
def spares() -> Iterator[Spares]:
    found = Spares()
    yield found
    found.close()


@pytest.fixture(scope="module")
def spares_of_a_run() -> Iterator[Spares]:
    """For one job after another, as a run has them."""
    found = Spares()
    yield found
    found.close()


def job(folder: Path, *words: str, environment: dict[str, str] | None = None) -> Job:
    """The same folder for every start, so that what is seen can be compared."""
    root = folder / "host"
    for name in ("output", "code/drivetrain/steps"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "start.py").write_text(START)
    (root / "code/drivetrain/__init__.py").write_text("")
    (root / "code/drivetrain/steps/__init__.py").write_text("")
    (root / "code/drivetrain/steps/call.py").write_text(CALL)
    return Job(
        command=(*START_COMMAND, hashlib.sha256(START.encode()).hexdigest(), "/opt/ml/start.py", *words),
        environment={"DRIVETRAIN_THIS": "that", **(environment or {})},
        hosts=(Host("127.0.0.1", root),),
        log_folder=folder / "logs",
    )


def ran(folder: Path, spares: Spares | None, *words: str) -> tuple[JobResult, dict[str, Any], str]:
    """How it ended, the files that it wrote, its log."""
    if spares is not None:
        spares.prepare("step")
    log = folder / "logs" / "127.0.0.1.log"
    log.unlink(missing_ok=True)
    given = job(folder, *words)
    running = start(given, take_spare=(lambda: None) if spares is None else (lambda: spares.take("step")))
    result = running.wait(60)
    assert result is not None
    output = folder / "host" / "output"
    files: dict[str, Any] = {path.name: path.read_text() for path in output.iterdir()}
    for path in output.iterdir():
        path.unlink()
    return result, files, log.read_text()


def plain(result: JobResult, files: dict[str, Any], log: str) -> tuple[object, ...]:
    """What must not depend on where it ran; the job's token and folder are new each time."""
    seen = json.loads(files.pop("seen.json")) if "seen.json" in files else {}
    token = seen["variables"].pop("DRIVETRAIN_JOB")
    text = json.dumps(seen, sort_keys=True).replace(token, "TOKEN")
    return result.exit_code, result.signal, result.failure_reason, text, files, log


@pytest.mark.slow_cases(
    "pid-words1",
    "pid-words2",
    "pid-words3",
    "pid-words4",
    "pid-words5",
    "pid-words6",
    "pid-words7",
    "pid-words8",
    "pid-words9",
    "pid-words10",
    "pid-words11",
)
@pytest.mark.parametrize("words", [(word,) if word else () for word in WORDS])
def test_a_command_in_a_warm_interpreter_sees_no_difference(
    words: tuple[str, ...], tmp_path: Path, spares_of_a_run: Spares, isolation: None
) -> None:
    executed = plain(*ran(tmp_path, None, *words))
    went_on = plain(*ran(tmp_path, spares_of_a_run, *words))
    assert went_on == executed
    if words in ((), ("exit",), ("twice",)):
        assert executed[4] == {
            "kept.txt": "all of it",
            "exit.txt": "was here",
            "thread.txt": "waited for",
            "deleted.txt": "",
        }


def test_a_job_runs_in_the_waiting_interpreter(tmp_path: Path, spares: Spares) -> None:
    spares.prepare("step")
    taken: list[Spare] = []

    def take() -> Spare | None:
        spare = spares.take("step")
        assert spare is not None
        taken.append(spare)
        return spare

    running = start(job(tmp_path), take_spare=take)
    assert [record.pid for record in running.processes] == [taken[0].pid]
    result = running.wait(60)
    assert result is not None
    assert result.exit_code == 0
    other = spares.take("step")
    assert other is not None
    assert other.pid != taken[0].pid, "a spare serves one job"
    other.close()


@pytest.mark.parametrize(
    ("command", "environment"),
    [
        (("python3", "-I", "-S", "-c", "print()"), {}),
        (("sh", "-c", "true"), {}),
        (None, {"OMP_NUM_THREADS": "1"}),
        (None, {"PYTHONHASHSEED": "0"}),
        (None, {"LD_PRELOAD": "x.so"}),
    ],
)
def test_startup_variables_need_a_new_interpreter(
    command: tuple[str, ...] | None, environment: dict[str, str], tmp_path: Path
) -> None:
    given = job(tmp_path, environment=environment)
    host = given.hosts[0]
    if command is not None:
        given = Job(command=command, environment={}, hosts=given.hosts, log_folder=given.log_folder)
    assert not supervised.can_go_on(given, host)
    assert supervised.can_go_on(job(tmp_path), host)


def test_a_dead_spare_interpreter_is_not_used(spares: Spares) -> None:
    spares.prepare("a")
    spares.prepare("b")
    first = spares._waiting["a"]  # pyright: ignore[reportPrivateUsage]
    assert first.is_alive()
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert spares.take("a") is None
    other = spares.take("b")
    assert other is not None
    other.close()


def test_a_server_that_died_is_replaced(spares: Spares, tmp_path: Path) -> None:
    spares.prepare("step")
    waiting = spares.take("step")
    assert waiting is not None
    server = parent_of(waiting.pid)
    assert parent_of(server) == os.getpid()
    os.kill(server, signal.SIGKILL)
    os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    running = start(job(tmp_path), take_spare=lambda: waiting)
    result = running.wait(60)
    assert result is not None
    assert result.exit_code == 0, "what was forked before serves its job"
    assert spares.take("step") is None
    spares.prepare("step")
    other = spares.take("step")
    assert other is not None
    assert parent_of(parent_of(other.pid)) == os.getpid()
    other.close()


def parent_of(pid: int) -> int:
    fields = process_table.stat(pid)
    assert fields is not None
    return int(fields[1])


def test_steps_share_preloaded_modules_but_see_only_their_own(spares: Spares) -> None:
    spares.prepare("plain")
    spares.prepare("large", ["unittest.mock", "wave"])
    spares.prepare("small", ["wave"])
    spares.prepare("other", ["turtledemo"])
    parents: dict[str, int] = {}
    for step in ("plain", "large", "small", "other", "not prepared"):
        spare = spares.take(step)
        assert spare is not None
        parents[step] = parent_of(spare.pid)
        spare.close()
    assert parents["small"] == parents["large"]
    assert parents["not prepared"] == parents["plain"]
    assert len(set(parents.values())) == 3


def test_waiting_interpreters_end_with_the_run() -> None:
    spares = Spares()
    spares.prepare("waits")
    waiting = spares._waiting["waits"]  # pyright: ignore[reportPrivateUsage]
    assert waiting.is_alive()
    spares.prepare("loads", ["torch"])
    waits, loads = (server._process for server in spares._servers)  # pyright: ignore[reportPrivateUsage]
    spares.close()
    assert waits.returncode == 0, "when what it has forked was gone"
    assert loads.returncode == -signal.SIGTERM
    assert not os.path.exists(f"/proc/{waiting.pid}")


@pytest.mark.parametrize(
    ("more", "ends", "code"),
    [
        ("", "at once\n", 0),
        ("raise SystemExit(3)", "at once\n", 3),
        # Where only the interpreter's own end is sure to be the same:
        ("import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()", "", 0),
        ("raise SystemExit('no price')", "", 1),
    ],
)
def test_a_job_exits_at_once_without_freeing_preloaded_modules(more: str, ends: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os\n"
        "def at_once(code, write=os.write, leave=os._exit):\n"
        "    write(1, b'at once\\n')\n"
        "    leave(code)\n"
        f"os._exit = at_once\nprint('said')\n{more}\n"
    )
    ahead = "import become, sys; become.load(['json']); become.run(become.Become([sys.executable, '-m', 'program']))"
    variables = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(mounts.SUPERVISOR.parent)])}
    done = subprocess.run([sys.executable, "-c", ahead], env=variables, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"said\n{ends}", code)


def test_jobs_from_one_preloaded_interpreter_have_different_randomness(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import numpy; print(numpy.random.random())")
    known = "import numpy; numpy.random.seed(1); "
    goes_on = "import become, sys; become.run(become.Become([sys.executable, '-m', 'program']))"
    variables = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(mounts.SUPERVISOR.parent)])}
    drawn = [
        subprocess.run([sys.executable, "-c", known + words], env=variables, capture_output=True, text=True, check=True)
        for words in (goes_on, goes_on, "print(numpy.random.random())")
    ]
    assert len({one.stdout for one in drawn}) == 3


def test_the_start_file_is_compiled_before_a_job_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    become.load([])
    compiled = getattr(become, "_compile")  # noqa: B009
    content = Path(start_file.__file__).read_bytes()
    assert compiled(content, "/opt/ml/start.py", "exec") is compiled(content, "/opt/ml/start.py", "exec")
    assert compiled(content + b"\n", "/opt/ml/start.py", "exec").co_filename == "/opt/ml/start.py"


def test_component_imports_are_precompiled_under_the_paths_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(gc, "freeze", lambda: None)
    become.load([])
    compiled = getattr(become, "_source_to_code")  # noqa: B009
    path = tmp_path / "signature.py"
    loader = SourceFileLoader("signature", str(path))
    content = Path(start_file.__file__).with_name("signature.py").read_bytes()
    code = compiled(loader, content, str(path))
    assert code is compiled(loader, content, str(path))
    functions = [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    assert functions and {each.co_filename for each in (code, *functions)} == {str(path)}
    another = compiled(loader, content + b"\n", str(path))
    assert another is not code and another.co_filename == str(path)


def test_a_component_without_imports_loads_only_these_files(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from drivetrain.components import component\n@component\ndef nothing() -> None:\n    return None\n"
    )
    (tmp_path / "seen.py").write_text(
        "import atexit, sys\n"
        "@atexit.register\n"
        "def show():\n"
        "    print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('drivetrain.')))\n"
        "from drivetrain.steps.call import main\n"
        "sys.argv = ['call', 'mine:nothing']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "seen.py"], cwd=tmp_path, capture_output=True, text=True, check=True)
    package = Path(start_file.__file__).parents[1]
    begun = {Path(name).relative_to(package).as_posix() for name in done.stdout.split()}
    assert begun - {"base/__init__.py"} == {*become.FIRST_FILES} - {"steps/start.py"}
