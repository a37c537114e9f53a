"""Containers without docker: what the command sees, how it ends, and that nothing of it lives longer."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from drivetrain import processes as containers
from drivetrain.base.ports import held_port
from drivetrain.processes import mounts, process_table, supervised
from drivetrain.processes.container import Host, Job, JobResult, RunningJob, start
from drivetrain.processes.supervised import failure_reason

PYTHON = ("python3", "-I", "-S", "-c")
# Each rank of torchrun, each daemon: a session of its own. They ignore SIGTERM, and say that they are there.
TREE = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def stay(name):
    if os.getsid(0) != os.getpid(): os.setsid()
    open(f"/opt/ml/output/{name}".replace("/opt/ml", sys.argv[1]), "w").close()
    while True:
        time.sleep(60)
if os.fork() == 0:
    stay("rank")
if os.fork() == 0:      # a daemon: its parent is gone at once
    if os.fork() == 0:
        stay("daemon")
    os._exit(0)
os.wait()
"""
STAY = TREE + "stay('main')\n"
LEAVE = TREE + "\nwhile len(os.listdir(sys.argv[1] + '/output')) < 2: time.sleep(0.01)\n"


@pytest.fixture(params=["pid", "none"])
def isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The two ends: all namespaces, and none."""
    return pretend(request.param, monkeypatch)


@pytest.fixture(params=["pid", pytest.param("mounts", marks=pytest.mark.slow), "none"])
def every_isolation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every kind of machine, on this one: pid and mount namespaces, mounts alone, nothing."""
    return pretend(request.param, monkeypatch)


def pretend(wanted: str, monkeypatch: pytest.MonkeyPatch) -> str:
    allowed = mounts.isolation()
    if wanted not in {"pid": ("pid", "mounts", "none"), "mounts": ("mounts", "none"), "none": ("none",)}[allowed]:
        pytest.skip(f"this machine allows {allowed} isolation, not {wanted}")
    monkeypatch.setattr(mounts, "isolation", lambda: wanted)
    return wanted


def job(folder: Path, *command: str, hosts: int = 1, **settings: object) -> Job:
    names = [f"127.0.0.{number + 1}" for number in range(hosts)]
    for name in names:
        (folder / name / "output").mkdir(parents=True, exist_ok=True)
    given: dict[str, object] = {"environment": {}, "grace_s": 30.0, **settings}
    return Job(
        command=command,
        hosts=tuple(Host(name, folder / name) for name in names),
        log_folder=folder / "logs",
        **given,  # type: ignore[arg-type]
    )


def finish(running: RunningJob, timeout: float = 60) -> JobResult:
    result = running.wait(timeout)
    assert result is not None, "the job did not end"
    assert [pid for record in running.processes for pid in containers.with_token(record.token)] == []
    return result


def run(folder: Path, *command: str, **settings: object) -> JobResult:
    return finish(start(job(folder, *command, **settings)))


def log(folder: Path, host: str = "127.0.0.1") -> str:
    return (folder / "logs" / f"{host}.log").read_text()


def until(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "127.0.0.1" / "output").iterdir())


# What the command sees


def test_the_command_finds_its_folder_at_opt_ml(tmp_path: Path, every_isolation: str) -> None:
    (tmp_path / "127.0.0.1" / "input").mkdir(parents=True)
    (tmp_path / "127.0.0.1" / "input" / "a.txt").write_text("hello")
    program = "import os, sys; open(sys.argv[1] + '/b.txt', 'w').write(open(os.environ['DATA'] + '/a.txt').read())"
    environment = {"DATA": "/opt/ml/input"}
    before = sorted(os.listdir("/opt")) if os.path.isdir("/opt") else []
    result = run(tmp_path, *PYTHON, program, "/opt/ml/output", environment=environment)
    assert (result.exit_code, result.succeeded, result.failure_reason) == (0, True, None), log(tmp_path)
    assert (tmp_path / "127.0.0.1" / "output" / "b.txt").read_text() == "hello"
    assert (sorted(os.listdir("/opt")) if os.path.isdir("/opt") else []) == before


def test_the_rest_of_opt_stays_visible(tmp_path: Path, every_isolation: str) -> None:
    expected = [name for name in sorted(os.listdir("/opt")) if name != "ml"]
    program = """
import json, os
print(json.dumps({n: os.path.isdir('/opt/' + n) and os.listdir('/opt/' + n) for n in os.listdir('/opt')}))
"""
    assert run(tmp_path, *PYTHON, program).exit_code == 0
    seen = json.loads(log(tmp_path))
    seen.pop("ml", None)
    assert sorted(seen) == expected
    for name in expected:
        if os.path.isdir(f"/opt/{name}"):
            assert sorted(seen[name]) == sorted(os.listdir(f"/opt/{name}"))


def test_arguments_arrive_as_given_and_meet_no_shell(tmp_path: Path, isolation: str) -> None:
    words = ["$(touch /tmp/x)", "`id`", "a;b", "*", "", "é ✓", "x" * 100_000, "'\"\n"]
    program = "import sys, json; json.dump(sys.argv[1:], open('output/words', 'w'))"
    assert run(tmp_path, *PYTHON, program, *words).exit_code == 0
    assert json.loads((tmp_path / "127.0.0.1" / "output" / "words").read_text()) == words


def test_secrets_of_the_runner_stay_outside(tmp_path: Path, isolation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    monkeypatch.setenv("MY_TOKEN", "canary")
    result = run(tmp_path, *PYTHON, "import os; print(dict(os.environ))", environment={"MINE": "1", "HOME": "/mine"})
    assert result.exit_code == 0
    text = log(tmp_path)
    assert "canary" not in text and "'MINE': '1'" in text and "'HOME': '/mine'" in text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"canary" in path.read_bytes() for path in files)


def test_output_and_errors_are_logged_in_order(tmp_path: Path) -> None:
    program = "import os, sys; print(1); print(2, file=sys.stderr); print(3); os._exit(0)"
    assert run(tmp_path, "python3", "-S", "-c", program).exit_code == 0
    assert log(tmp_path).split() == ["1", "2", "3"]


def test_python3_is_this_python(tmp_path: Path) -> None:
    assert run(tmp_path, "python3", "-c", "import sys; print(sys.prefix)").exit_code == 0
    assert log(tmp_path).strip() == sys.prefix


def test_temporary_files_are_removed(tmp_path: Path, isolation: str) -> None:
    program = """
import os
t = os.environ['TMPDIR']
os.makedirs(t + '/a/b'); open(t + '/a/f', 'w'); os.symlink('/', t + '/l')
print(t)
"""
    assert run(tmp_path, *PYTHON, program).exit_code == 0
    folder = log(tmp_path).strip()
    assert len(folder) < 60 and not os.path.exists(folder)


def test_shared_memory_of_a_job_goes_with_it(tmp_path: Path, isolation: str) -> None:
    if isolation == "none":
        pytest.skip("it needs a mount namespace")
    name = f"drivetrain-test-{os.getpid()}"
    assert run(tmp_path, *PYTHON, f"open('/dev/shm/{name}', 'w').write('x')").exit_code == 0
    assert not os.path.exists(f"/dev/shm/{name}")


# How it ends


@pytest.mark.parametrize(
    ("command", "exit_code", "ended_by", "reason"),
    [
        ((*PYTHON, "raise SystemExit(3)"), 3, None, "exit code 3"),
        ((*PYTHON, "import os; os.kill(os.getpid(), 9)"), None, 9, "ended by signal 9 (SIGKILL"),
        ((*PYTHON, "import signal, os; os.kill(os.getpid(), signal.SIGSEGV)"), None, 11, "ended by signal 11"),
        (("no-such-program",), 127, None, "cannot start 'no-such-program': No such file or directory on PATH"),
        (("/opt/ml/no-such-program",), 127, None, "No such file or directory"),
        (("/",), 126, None, "Permission denied"),
        (("a\0b",), 126, None, "embedded null"),
    ],
)  # fmt: skip
def test_the_end_of_a_job_is_reported(
    tmp_path: Path, isolation: str, command: Sequence[str], exit_code: int | None, ended_by: int | None, reason: str
) -> None:
    if ended_by == 9 and isolation == "pid":
        command = ("sh", "-c", "kill -9 $$")  # the same, from a process that is not the first of its namespace
    result = run(tmp_path, *command)
    assert (result.exit_code, result.signal) == (exit_code, ended_by)
    assert not result.succeeded and result.failed_host == "127.0.0.1" and not result.timed_out
    assert reason in (result.failure_reason or "")


def test_a_missing_working_folder_is_named(tmp_path: Path, isolation: str) -> None:
    result = run(tmp_path, "true", working_folder="/opt/ml/nowhere")
    assert result.exit_code == 126 and "nowhere" in (result.failure_reason or "")


def test_the_failure_file_gives_the_reason(tmp_path: Path, isolation: str) -> None:
    program = "import sys; print('noise'); open('output/failure', 'w').write('no rows' + 'x' * 2000); sys.exit(1)"
    result = run(tmp_path, *PYTHON, program)
    assert result.failure_reason == ("no rows" + "x" * 2000)[:1024]
    program = "import sys; open('output/message', 'wb').write(b'caf\\xe9'); sys.exit(1)"
    assert run(tmp_path, *PYTHON, program).failure_reason == "caf\N{REPLACEMENT CHARACTER}"
    assert (run(tmp_path, "false").failure_reason or "").startswith("exit code 1"), "an old file does not count"


def test_without_a_failure_file_the_log_end_is_the_reason(tmp_path: Path, isolation: str) -> None:
    assert run(tmp_path, *PYTHON, "print('first attempt'); raise SystemExit(1)").exit_code == 1
    program = "[print('line', n) for n in range(100)]; raise ValueError('bad')"
    reason = run(tmp_path, "python3", "-S", "-c", program).failure_reason
    assert reason is not None
    lines = reason.splitlines()
    assert lines[0] == "exit code 1" and lines[-1] == "ValueError: bad" and len(lines) == 15
    silent = run(tmp_path, "false").failure_reason
    assert silent == "exit code 1", "the log of an earlier attempt is not this one's"
    assert "first attempt" in log(tmp_path)


def test_resources_are_counted(tmp_path: Path, isolation: str) -> None:
    program = "import os\nx = b'x' * (64 << 20)\nif os.fork() == 0:\n  sum(range(3_000_000)); os._exit(0)\nos.wait()"
    result = run(tmp_path, *PYTHON, program)
    assert result.exit_code == 0, log(tmp_path)
    assert result.hosts[0].max_rss_bytes > 64 << 20
    assert 0.01 < result.cpu_s <= result.wall_s * (os.cpu_count() or 1)
    assert result.hosts[0].started_at <= result.hosts[0].ended_at


GRACEFUL = """
import signal, sys, time
def end(*_):
    open('output/saved', 'w').close()
    sys.exit(CODE)
signal.signal(signal.SIGTERM, end)
open('output/ready', 'w').close()
while True: time.sleep(60)
"""


def test_a_stop_lets_the_command_save_and_end(tmp_path: Path, isolation: str) -> None:
    running = start(job(tmp_path, *PYTHON, GRACEFUL.replace("CODE", "0")))
    until(lambda: "ready" in names(tmp_path))
    assert running.wait(0.05) is None
    running.stop()
    result = finish(running)
    assert names(tmp_path) == ["ready", "saved"]
    assert result.stopped and not result.succeeded and result.failed_host is None
    running.stop()  # of what has ended: nothing


def test_a_stop_before_the_command_runs_still_ends_it(tmp_path: Path, isolation: str) -> None:
    running = start(job(tmp_path, "sleep", "600"))
    running.stop()
    assert finish(running, 20).stopped


@pytest.mark.slow_cases("none")
def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path, isolation: str) -> None:
    running = start(job(tmp_path, *PYTHON, STAY, "/opt/ml"))
    until(lambda: names(tmp_path) == ["daemon", "main", "rank"])
    started = time.monotonic()
    running.stop(0.2)
    result = finish(running)
    assert result.stopped and result.signal == 9
    assert 0.2 < time.monotonic() - started < 10


@pytest.mark.slow
def test_the_time_limit_stops_the_command(tmp_path: Path, isolation: str) -> None:
    result = run(tmp_path, *PYTHON, GRACEFUL.replace("CODE", "5"), time_limit_s=1.0)
    assert names(tmp_path) == ["ready", "saved"]
    assert result.timed_out and not result.stopped and not result.succeeded and result.exit_code == 5
    assert result.failure_reason == "exceeded its time limit of 1 s"


def test_a_limit_of_28_days_is_possible(tmp_path: Path) -> None:
    assert run(tmp_path, "true", time_limit_s=28 * 86_400.0).succeeded


def test_leftover_processes_of_a_command_are_ended(tmp_path: Path, every_isolation: str) -> None:
    result = run(tmp_path, *PYTHON, LEAVE, "/opt/ml")
    assert result.exit_code == 0, log(tmp_path)
    assert names(tmp_path) == ["daemon", "rank"]


# That nothing lives longer

RUNNER = """
import json, os, sys
from pathlib import Path
from drivetrain.processes import container, mounts
isolation, folder, program, how = sys.argv[1:]
mounts.isolation = lambda: isolation
root = Path(folder) / "127.0.0.1"
job = container.Job(
    command=("python3", "-I", "-S", "-c", program, "/opt/ml"), environment={}, grace_s=120.0,
    hosts=(container.Host("127.0.0.1", root),), log_folder=Path(folder) / "logs",
)
def record(processes):
    text = json.dumps([vars(process) for process in processes])
    Path(folder, "processes.unfinished").write_text(text)
    os.rename(Path(folder, "processes.unfinished"), Path(folder, "processes"))
    if how == "die":
        os.kill(os.getpid(), 9)
container.start(job, record=record).wait()
"""


def runner(folder: Path, isolation: str, program: str, how: str = "") -> subprocess.Popen[bytes]:
    (folder / "127.0.0.1" / "output").mkdir(parents=True)
    return subprocess.Popen([sys.executable, "-c", RUNNER, isolation, str(folder), program, how])


def recorded(folder: Path) -> containers.ProcessRecord:
    return containers.ProcessRecord(**json.loads((folder / "processes").read_text())[0])


def all_of(record: containers.ProcessRecord) -> list[int]:
    """The supervisor's two processes and the job's."""
    below = process_table.descendants(record.pid)
    alive = [record.pid] if containers.alive(record) else []
    return sorted({*alive, *below, *containers.with_token(record.token)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "every_isolation",
    ["pid", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("mounts", "none"))],
    indirect=True,
)
def test_a_killed_runner_leaves_nothing_within_five_seconds(tmp_path: Path, every_isolation: str) -> None:
    process = runner(tmp_path, every_isolation, STAY)
    until(lambda: names(tmp_path) == ["daemon", "main", "rank"])
    record = recorded(tmp_path)
    everything = all_of(record)
    assert len(everything) == 5
    process.kill()
    process.wait()
    until(lambda: not all_of(record), 5)
    assert [pid for pid in everything if (process_table.stat(pid) or "Z")[0] != "Z"] == []
    assert not os.path.exists(containers.temporary_folder(record.token))


def test_a_runner_killed_before_it_has_recorded_starts_nothing(tmp_path: Path, every_isolation: str) -> None:
    process = runner(tmp_path, every_isolation, STAY, "die")
    assert process.wait() == -9
    record = recorded(tmp_path)
    until(lambda: not containers.alive(record), 5)
    assert names(tmp_path) == []


def test_a_failing_record_starts_nothing(tmp_path: Path) -> None:
    def record(_: object) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        start(job(tmp_path, *PYTHON, "open('output/started', 'w')"), record=record)
    assert names(tmp_path) == []


@pytest.mark.parametrize("victim", [pytest.param("guard", marks=pytest.mark.slow), "manager"])
def test_a_killed_supervisor_ends_its_job(tmp_path: Path, every_isolation: str, victim: str) -> None:
    running = start(job(tmp_path, *PYTHON, STAY, "/opt/ml"))
    until(lambda: names(tmp_path) == ["daemon", "main", "rank"])
    guard = running.processes[0].pid
    manager = next(
        pid for pid in process_table.descendants(guard) if (process_table.stat(pid) or ["", ""])[1] == str(guard)
    )
    os.kill(guard if victim == "guard" else manager, signal.SIGKILL)
    result = finish(running, 10)
    assert not result.succeeded and "supervisor was killed" in (result.failure_reason or "")
    assert not os.path.exists(containers.temporary_folder(running.processes[0].token))


def test_a_job_outlives_the_thread_that_started_it(tmp_path: Path, isolation: str) -> None:
    """The parent-death signal is the thread's, not the process's: a pool's worker that ends must end nothing."""
    started: list[RunningJob] = []
    program = GRACEFUL.replace("CODE", "0")
    thread = threading.Thread(target=lambda: started.append(start(job(tmp_path, *PYTHON, program))))
    thread.start()
    thread.join()
    until(lambda: "ready" in names(tmp_path))
    assert started[0].wait(0.5) is None
    started[0].stop()
    assert finish(started[0]).exit_code == 0


def test_a_process_that_flees_by_forking_is_caught(tmp_path: Path, isolation: str) -> None:
    program = """
import os, time
open('output/ready', 'w').close()
if os.fork(): time.sleep(60)
while True:                      # a new pid every few milliseconds, an orphan every time
    if os.fork(): os._exit(0)
    os.setsid()
    time.sleep(0.003)
"""
    running = start(job(tmp_path, *PYTHON, program))
    until(lambda: "ready" in names(tmp_path))
    running.stop(0.1)
    assert finish(running, 30).stopped


# Several hosts

PAIR = """
import json, os, socket, sys
config = json.load(open('input.json'))
port = int(os.environ['DRIVETRAIN_PORT'])
if config['host'] == '127.0.0.1':
    server = socket.create_server(('127.0.0.1', port))
    peer = server.accept()[0]
    print(peer.recv(100).decode())
else:
    while True:
        try:
            peer = socket.create_connection(('127.0.0.1', port))
            break
        except ConnectionRefusedError:
            continue
    peer.sendall(b'hello from ' + config['host'].encode())
END
"""


def pair(folder: Path, end: str) -> Job:
    made = job(folder, *PYTHON, PAIR.replace("END", end), hosts=2)
    for host in made.hosts:
        (host.root / "input.json").write_text(json.dumps({"host": host.name}))
    return made


def test_two_hosts_reach_each_other_and_have_folders_of_their_own(tmp_path: Path, isolation: str) -> None:
    running = start(pair(tmp_path, ""))
    assert len(running.processes) == 2
    result = finish(running)
    assert result.succeeded and [host.host for host in result.hosts] == ["127.0.0.1", "127.0.0.2"]
    assert log(tmp_path) == "hello from 127.0.0.2\n"
    assert log(tmp_path, "127.0.0.2") == ""


def test_a_host_has_variables_of_its_own(tmp_path: Path, isolation: str) -> None:
    made = job(tmp_path, *PYTHON, "import os; print(os.environ['A'], os.environ['B'])", hosts=2, environment={"A": "a"})
    hosts = tuple(replace(host, environment={"B": f"/opt/ml/{host.name}"}) for host in made.hosts)
    assert finish(start(replace(made, hosts=hosts))).succeeded
    for host in hosts:
        base = "/opt/ml" if isolation == "pid" else host.root
        assert log(tmp_path, host.name) == f"a {base}/{host.name}\n"


def test_the_failure_of_one_host_ends_the_others_and_names_it(tmp_path: Path, isolation: str) -> None:
    end = "\nimport time\nif config['host'] == '127.0.0.2': raise SystemExit('no memory')\ntime.sleep(600)"
    result = finish(start(pair(tmp_path, end)), 30)
    assert not result.succeeded and not result.stopped
    assert result.failed_host == "127.0.0.2" and result.exit_code == 1
    assert (result.failure_reason or "").startswith("host 127.0.0.2: exit code 1")
    assert (result.failure_reason or "").endswith("no memory")


def test_a_reserved_port_is_only_for_its_job() -> None:
    held = held_port()
    port = held.getsockname()[1]
    with held, socket.socket() as stranger, pytest.raises(OSError, match="in use"):
        stranger.bind(("127.0.0.1", port))
    with held_port() as held:
        port = held.getsockname()[1]
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0")):
            with socket.socket(family) as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind((address, port))
                server.listen()
                assert socket.create_connection(("127.0.0.1", port), 5).close() is None
        others = [held_port() for _ in range(200)]
        assert port not in {other.getsockname()[1] for other in others}
        for other in others:
            other.close()


def test_concurrent_jobs_are_isolated(tmp_path: Path, isolation: str) -> None:
    """Pipes of one must not stay open in another: its end would be seen by nobody."""
    results: list[JobResult] = []

    def one(number: int) -> None:
        results.append(run(tmp_path / str(number), *PYTHON, f"raise SystemExit({number})"))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(result.exit_code or 0 for result in results) == list(range(8))


def test_the_environment_is_a_short_list() -> None:
    assert not {name for name in supervised.INHERITED if "KEY" in name or "TOKEN" in name or "AWS" in name}
    assert supervised.clean_environment("")["GOMP_SPINCOUNT"] == "10000"  # or threads spin, on cores that are shared


def test_a_programs_reason_is_masked_before_it_is_cut(tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    (tmp_path / "output/failure").write_text("x" * 1010 + " token ghp_" + "a1" * 20 + " and correct-horse")
    reason = failure_reason(tmp_path, tmp_path / "log", 0, 1, None, ["correct-horse"])
    assert reason == "x" * 1010 + " token *** and"
    assert len(reason) == 1024


def test_a_long_error_keeps_its_first_line(tmp_path: Path) -> None:
    """Of a program that Python ended: the log's last lines are the end of the exception's message alone."""
    said = ["ValueError: 40 columns are missing:", *(f"  column {number}" for number in range(40))]
    trace = ["Traceback (most recent call last):", '  File "x.py", line 1, in <module>', "    check()", *said]
    (tmp_path / "log").write_text("\n".join(["epoch 1", *trace, ""]))
    how, first, left_out, *last = failure_reason(tmp_path, tmp_path / "log", 0, 1, None).splitlines()
    assert (how, first, left_out) == ("exit code 1", "ValueError: 40 columns are missing:", "...")
    assert last == [f"  column {number}" for number in range(28, 40)]
