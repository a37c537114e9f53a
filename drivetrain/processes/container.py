"""A container without docker: supervised process trees that see a folder of the run as /opt/ml.

    running = start(job, record=ledger_writes_the_processes)
    result = running.wait()

Every host of a job runs under a supervisor of its own (supervision.py), which ends all that the job started when the
job stops, fails, exceeds its time, or when this process dies. What is kept apart are paths, variables and lifetimes,
not privileges: a job may do what the user may do.

The folder that it finds at /opt/ml is laid out as SageMaker does it: configuration and empty folders.

https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
https://docs.aws.amazon.com/sagemaker/latest/dg/build-your-own-processing-container.html

Every host has a tree of its own. The data come after: targets/sagemaker/run/jobs/job_data.py,
targets/sagemaker/run/jobs/checkpoints.py.
"""

from __future__ import annotations

import json
import marshal
import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from drivetrain.base.errors import UserError
from drivetrain.base.records import dataclass
from drivetrain.processes import ProcessRecord, mounts
from drivetrain.processes.mounts import BASE, DEBUG_HOOK, host_path
from drivetrain.processes.supervised import (
    PORT_VARIABLE,
    Host,
    HostResult,
    Job,
    JobResult,
    Spare,
    Supervised,
    TakeSpare,
    read_result,
    specification,
    supervise,
)

NETWORK_INTERFACE = "lo"
INSTANCE_GROUP = "homogeneousCluster"


@dataclass(frozen=True)
class Cluster:
    """The hosts of a job, by address in order, and the instance type that the definition asks for."""

    hosts: tuple[str, ...]
    instance_type: str


def loopback_hosts(count: int) -> tuple[str, ...]:
    """Addresses for the hosts of a job, at most 254 (programs.host_count): Linux answers on all of 127.0.0.0/8."""
    return tuple(f"127.0.0.{number}" for number in range(1, count + 1))


def lay_out_training(
    root: Path,
    cluster: Cluster,
    host: str,
    *,
    hyperparameters: Mapping[str, Any],
    input_data_config: Sequence[Mapping[str, Any]],
    checkpoint_path: str = f"{BASE}/checkpoints",
    debug_hook: Mapping[str, Any] | None = None,
) -> None:
    """Make the tree of one host of a training job.

    Args:
        root: the folder that becomes /opt/ml; made when it does not exist.
        hyperparameters: resolved values; they arrive as strings.
        input_data_config: the channels as in CreateTrainingJob, resolved.
        checkpoint_path: where the job keeps its checkpoints; the folder is made.
        debug_hook: the job's DebugHookConfig, from which smdebug makes a hook in the script. What that saves is part of
            the job's output, where the service would bring it to the hook's S3OutputPath.

    Raises:
        UserError: a path outside /opt/ml.
    """
    for folder in ("input/config", "input/data", "model", "output/data", "code"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _inside(checkpoint_path, root).mkdir(parents=True, exist_ok=True)
    config = root / "input" / "config"
    _write(config / "hyperparameters.json", {name: _string(value) for name, value in hyperparameters.items()})
    _write(config / "inputdataconfig.json", {str(c["ChannelName"]): _channel(c) for c in input_data_config})
    _write(config / "resourceconfig.json", _resources(cluster, host))
    if debug_hook:
        own = host if len(cluster.hosts) > 1 else ""
        _write(config / DEBUG_HOOK, {**debug_hook, "LocalPath": str(PurePosixPath(BASE, "output/data/tensors", own))})


def lay_out_processing(
    root: Path,
    cluster: Cluster,
    host: str,
    *,
    job: Mapping[str, Any],
    output_paths: Sequence[str],
) -> None:
    """Make the tree of one host of a processing job.

    Args:
        root: the folder that becomes /opt/ml; made when it does not exist.
        job: the resolved arguments of CreateProcessingJob with ProcessingJobName and ProcessingJobArn.
        output_paths: the LocalPath of every output; the folders are made.

    Raises:
        UserError: a path outside /opt/ml.
    """
    for folder in ("config", "output"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    _write(root / "config" / "resourceconfig.json", _resources(cluster, host))
    _write(root / "config" / "processingjobconfig.json", dict(job))
    for path in output_paths:
        _inside(path, root).mkdir(parents=True, exist_ok=True)


def _inside(path: str, root: Path) -> Path:
    found = host_path(path, root)
    if not found.is_relative_to(root) or found == root:
        raise UserError(f"Path {path!r} in a container. Allowed: a path below {BASE} without '..'.")
    return found


def _channel(channel: Mapping[str, Any]) -> dict[str, str]:
    """A channel's entry in inputdataconfig.json."""
    source: Mapping[str, Any] = channel.get("DataSource", {}).get("S3DataSource", {})
    return {
        "ContentType": str(channel.get("ContentType") or ""),
        "TrainingInputMode": str(channel.get("InputMode") or "File"),
        "S3DistributionType": str(source.get("S3DataDistributionType") or "FullyReplicated"),
        "RecordWrapperType": str(channel.get("RecordWrapperType") or "None"),
    }


def _resources(cluster: Cluster, host: str) -> dict[str, Any]:
    hosts = list(cluster.hosts)
    return {
        "current_host": host,
        "current_instance_type": cluster.instance_type,
        "current_group_name": INSTANCE_GROUP,
        "hosts": hosts,
        "instance_groups": [
            {"instance_group_name": INSTANCE_GROUP, "instance_type": cluster.instance_type, "hosts": hosts}
        ],
        "network_interface_name": NETWORK_INTERFACE,
    }


def _string(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content), encoding="utf-8")


__all__ = ["Host", "HostResult", "Job", "JobResult", "RunningJob", "start"]

# Seconds the other hosts get when one has failed: they can only wait for it.
PEER_GRACE_S = 10.0
LONGEST_POLL_S = 86_400.0  # poll(2) takes at most 24 days of milliseconds


class RunningJob:
    """A started job."""

    def __init__(self, job: Job, supervised: Sequence[Supervised], port: socket.socket | None) -> None:
        self._job = job
        self._supervised = tuple(supervised)
        self._port = port
        self._lock = threading.Lock()  # nobody writes to a pipe that is just being closed
        self._started = time.monotonic()
        self._stopped_by_user = self._interrupted = False
        self._peers_ended = False

    @property
    def processes(self) -> tuple[ProcessRecord, ...]:
        """The supervisors, for the ledger."""
        return tuple(one.record for one in self._supervised)

    def wait(self, timeout: float | None = None) -> JobResult | None:
        """Wait until nothing of the job lives; None when `timeout` (seconds) passed first. Call it again then.

        While it waits, the failure of one host ends the others. One thread waits; another may call `stop`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        poll = select.poll()
        running: dict[int, Supervised] = {}
        for one in self._supervised:
            if one.result is None:
                running[one.stdout] = one
                poll.register(one.stdout, select.POLLIN)
        while running:
            left = LONGEST_POLL_S if deadline is None else min(deadline - time.monotonic(), LONGEST_POLL_S)
            ready = poll.poll(max(0.0, left) * 1000)
            if not ready and deadline is not None and time.monotonic() >= deadline:
                return None
            for descriptor, _ in ready:  # the end of the supervisor's stdout: it, and all it guarded, is gone
                one = running[descriptor]
                one.process.wait()
                result = read_result(one, self._job)
                if not result.succeeded and len(running) > 1 and not self._peers_ended:
                    self._peers_ended = True
                    self._send_stop(min(self._job.grace_s, PEER_GRACE_S))
                one.result = result
                poll.unregister(descriptor)
                del running[descriptor]
        with self._lock:
            for one in self._supervised:
                _close(one.process)
            if self._port is not None:
                self._port.close()
        return self._result()

    def interrupt(self, notice_s: float) -> None:
        """Take the machines away: SIGTERM to the command of every host and SIGKILL to everything after the notice
        (seconds); with 0 nothing but SIGKILL, at once. `wait` gives the result."""
        self._interrupted = self._peers_ended = True  # no host ends another one: all of them are going
        self._send(b"interrupt %f\n" % notice_s)

    def stop(self, grace_s: float | None = None) -> None:
        """Ask every host to end (SIGTERM, then SIGKILL after the grace); returns at once, `wait` gives the result."""
        self._stopped_by_user = True
        self._send_stop(self._job.grace_s if grace_s is None else grace_s)

    def _send_stop(self, grace_s: float) -> None:
        self._send(b"stop %f\n" % grace_s)

    def _send(self, order: bytes) -> None:
        with self._lock:
            for one in self._supervised:
                if one.result is None and one.process.stdin is not None and not one.process.stdin.closed:
                    try:
                        os.write(one.process.stdin.fileno(), order)
                    except BrokenPipeError:
                        continue  # it has just ended by itself

    def _result(self) -> JobResult:
        results = [one.result for one in self._supervised if one.result is not None]
        failed = [one for one in self._supervised if one.result is not None and not one.result.succeeded]
        # A host that was stopped because another one failed is not the cause.
        failed.sort(key=lambda one: (one.result is not None and one.result.stopped, one.command_ended_at))
        first = failed[0].result if failed else None
        stopped = first is not None and first.stopped and self._stopped_by_user
        interrupted = first is not None and first.stopped and self._interrupted and not self._stopped_by_user
        several = len(self._supervised) > 1
        reason = first.failure_reason if first is not None else None
        return JobResult(
            exit_code=0 if first is None else first.exit_code,
            signal=None if first is None else first.signal,
            timed_out=first is not None and first.timed_out,
            stopped=stopped,
            failed_host=first.host if first is not None and not (stopped or interrupted or first.timed_out) else None,
            failure_reason=f"host {first.host}: {reason}" if first is not None and reason and several else reason,
            cpu_s=sum(result.cpu_s for result in results),
            wall_s=time.monotonic() - self._started,
            hosts=tuple(results),
            interrupted=interrupted,
        )


def start(
    job: Job,
    *,
    record: Callable[[Sequence[ProcessRecord]], None] | None = None,
    take_spare: TakeSpare = lambda: None,
) -> RunningJob:
    """Start every host of a job, in a spare supervisor where there is one for it.

    `record` is called with the supervisors before they start anything: what it writes is on disk before the program
    can do something, so that a runner killed at any instant leaves no process that its ledger does not know.

    Raises:
        UserError: a mode that this machine does not allow; in rewrite mode, a script with a literal /opt/ml.
    """
    isolation = mounts.resolve(job.mode)
    if isolation == "none":
        for host in job.hosts:
            mounts.refuse_literals(job.command, {**job.environment, **host.environment}, job.code, host.root)
            mounts.rewrite_configuration(host.root)
    job.log_folder.mkdir(parents=True, exist_ok=True)
    port: socket.socket | None = None
    if len(job.hosts) > 1 and PORT_VARIABLE not in job.environment:
        from drivetrain.base.ports import held_port

        port = held_port()
    supervised: list[Supervised] = []
    try:
        for host in job.hosts:
            supervised.append(supervise(host, job, take_spare))
        if record is not None:
            record([one.record for one in supervised])
        for one in supervised:
            spec = specification(one, job, isolation, None if port is None else port.getsockname()[1])
            assert one.process.stdin is not None
            told = marshal.dumps(spec)
            one.process.stdin.write(b"%d\n" % len(told) + told)
            one.process.stdin.flush()
    except BaseException:
        for one in supervised:  # without its line, or at the end of stdin, a supervisor ends by itself
            _close(one.process)
            one.process.wait()
        if port is not None:
            port.close()
        raise
    return RunningJob(job, supervised, port)


def _close(process: subprocess.Popen[bytes] | Spare) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue
