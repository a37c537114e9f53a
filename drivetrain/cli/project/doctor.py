"""`drivetrain doctor`: what this machine has of what pipelines need, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from drivetrain.cli import local_home
from drivetrain.cli.declared import App
from drivetrain.cli.options import Home, Json
from drivetrain.telling.terminal import paint, say, say_json, table

app = App()
State = Literal["ok", "note", "wrong"]
# Distribution -> what it is for, and the extra that brings it.
_EXTRAS = {
    "torch": ("the components train and evaluate", "torch"),
    "pyarrow": ("the component prepare_data", "data"),
    "boto3": ("SageMaker, and checkpoints on S3", "s3"),
    "kfp": ("runs of Kubeflow pipelines on this machine", "kubeflow"),
    "apscheduler": ("drivetrain serve", "serve"),
    "optuna": ("Bayesian search of a tuning", "tuning"),
}
_LEAST_FREE = 5 * 1024**3
_GIB = 1024**3


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `wrong` hinders every run, a `note` some of them; `advice` says what to do."""

    name: str
    state: State
    found: str
    advice: str = ""


@app.command()
def doctor(home: Home = None, as_json: Json = False) -> int:
    """Check what this machine has, and what pipelines would lack.

    It looks at versions, packages, disk, isolation, GPUs and credentials.

    It changes nothing and asks no service. The exit code is 1 when something hinders every run.

    \b
    Examples:
      drivetrain doctor
      drivetrain doctor --json
    """
    found = list(findings(home))
    if as_json:
        say_json([asdict(each) for each in found])
    else:
        signs = {"ok": ("✓", "Succeeded"), "note": ("–", "dim"), "wrong": ("✗", "Failed")}
        rows = [[f"{signs[each.state][0]} {each.name}", each.found] for each in found]
        say(table(("what", "found"), rows, styles=[[signs[each.state][1], ""] for each in found]))
        for each in found:
            if each.advice:
                say(f"\n{paint(each.name, 'bold')}: {each.advice}")
    return 1 if any(each.state == "wrong" for each in found) else 0


def findings(home: Path | None) -> Iterator[Finding]:
    """Everything that is looked at, in the order in which it is shown."""
    looks: tuple[Callable[[], Finding], ...] = (_python, lambda: _disk(home), _isolation, _gpus, _credentials)
    for look in looks:
        yield look()
    for package, (purpose, extra) in _EXTRAS.items():
        yield _package(package, purpose, extra)


def _python() -> Finding:
    from drivetrain.cli.version import installed_version

    found = f"{installed_version()} on Python {platform.python_version()} ({sys.executable})"
    return Finding("drivetrain", "ok", found)


def _disk(home: Path | None) -> Finding:
    root = local_home(home).root
    place = next(each for each in (root, *root.parents) if each.exists())
    free = shutil.disk_usage(place).free
    found = f"{root}: {free / _GIB:,.1f} GiB free"
    if not os.access(place, os.W_OK):
        advice = f"{place} cannot be written. Give another folder: --home, $DRIVETRAIN_HOME."
        return Finding("home", "wrong", found, advice)
    if free < _LEAST_FREE:
        return Finding("home", "note", found, "Models and checkpoints need room. Free some, or give another --home.")
    return Finding("home", "ok", found)


def _isolation() -> Finding:
    from drivetrain.processes.mounts import isolation

    allowed = isolation()
    if allowed == "pid":
        return Finding("isolation", "ok", "each step has its own /opt/ml and its own processes, by namespaces")
    if allowed == "mounts":
        return Finding("isolation", "ok", "each step has its own /opt/ml, by a mount namespace")
    return Finding(
        "isolation",
        "note",
        "no namespaces: paths below /opt/ml are rewritten in the arguments and variables of steps",
        "Programs that name /opt/ml in their code find nothing there. Allow user namespaces "
        "(sysctl kernel.unprivileged_userns_clone=1), or read the folders from arguments and SM_ variables.",
    )


def _gpus() -> Finding:
    program = shutil.which("nvidia-smi")
    if program is None:
        return Finding("GPU", "note", "none: no nvidia-smi")
    asked = [program, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return Finding("GPU", "note", "nvidia-smi does not answer", "The driver hangs. Restart the machine.")
    names = done.stdout.split("\n")[:-1]
    if done.returncode or not names:
        said = (done.stderr or done.stdout).strip().partition("\n")[0]
        return Finding("GPU", "note", f"nvidia-smi fails: {said}", "Reinstall the driver that fits the kernel.")
    return Finding("GPU", "ok", f"{len(names)} x {names[0]}")


def _credentials() -> Finding:
    """By variables and files alone: asking the machine's own service can take seconds."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    folder = Path("~/.aws").expanduser()
    places = [name for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN") if os.environ.get(name)]
    places += [f"~/.aws/{name}" for name in ("credentials", "config") if (folder / name).is_file()]
    if not places:
        return Finding("AWS", "note", "no credentials in variables or ~/.aws: only needed to deploy to SageMaker")
    return Finding("AWS", "ok", f"credentials by {places[0]}" + (f", region {region}" if region else ""))


def _package(package: str, purpose: str, extra: str) -> Finding:
    try:
        return Finding(package, "ok", f"{importlib.metadata.version(package)}, for {purpose}")
    except importlib.metadata.PackageNotFoundError:
        advice = f"pip install 'drivetrain[{extra}]'"
        return Finding(package, "note", f"not installed; for {purpose}", advice)
