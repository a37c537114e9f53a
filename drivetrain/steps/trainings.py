"""The trainings that keep their checkpoints in one place, each in a folder of its own.

    PLACE/IDENTITY/.drivetrain/training.json  {"parts": {...}, "execution": "p4jn9", "started": 1763.5, ...}
    PLACE/IDENTITY/...                        what the program keeps there

What makes a training what it is are its `parts`: the content of its inputs, its code, each parameter by the value that
it has when the step runs. A start works in the folder of its own parts, so that nothing of another training is found
there; an interrupted one goes on. One that has ended is used again by its own execution alone (it was killed before its
model was taken away); a later execution starts anew in `IDENTITY-2/`, since what a sync agent has brought to an object
store comes back with each start.

At each start what is of no use goes: trainings that have ended, but for the last one, and unfinished ones of others
that nobody has started for 30 days, two more than the longest job of the service. An agent deletes nothing in the
object store, but takes changes there: files are emptied, and go with the next start or the bucket's own rule.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from drivetrain.base.errors import InputError
from drivetrain.steps import Declaration, fresh_token, script_mode

RECORD = ".drivetrain/training.json"
KEPT = "what this training has kept"
EXECUTION, JOB = "DRIVETRAIN_EXECUTION", "TRAINING_JOB_NAME"
KEPT_S = 30 * 86_400.0
# A pipeline's job is called `pipelines-<execution>-<step>-<random>`.
_OF_A_PIPELINE = re.compile(r"pipelines-([A-Za-z0-9]+)-")
# What no host sees the whole of before it is used up, by inputdataconfig.json.
_STREAMED, _SHARDED = ("Pipe", "FastFile"), "ShardedByS3Key"
_DIGITS = 16
_EMPTIED = -1.0


class Kept(NamedTuple):
    """A training of the place; `started` in seconds since the epoch, 0 if unknown."""

    folder: str
    parts: Mapping[str, Any]
    execution: str = ""
    started: float = 0.0
    ended: bool = False
    changed: tuple[str, ...] = ()  # with what its run went on; from then on it is that run's alone

    @property
    def record(self) -> bytes:
        return json.dumps({name: getattr(self, name) for name in self._fields if name != "folder"}).encode()


class Choice(NamedTuple):
    """The folder to work in, whether it is new, what to say of the others, which of them go, `changed` as in Kept."""

    folder: str
    is_new: bool
    lines: tuple[str, ...] = ()
    going: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def execution_of(environment: Mapping[str, str]) -> str:
    """The execution of the pipeline that this process works for, which no cache key holds; else the job, or ""."""
    job = environment.get(JOB, "")
    found = _OF_A_PIPELINE.match(job)
    return environment.get(EXECUTION) or (found[1] if found else job)


def read_kept(folder: str, content: bytes | None) -> Kept | None:
    """Read a folder's record; None if it is missing or incomplete."""
    if content == b"":
        return Kept(folder, {}, started=_EMPTIED, ended=True)
    try:
        given = json.loads(content or b"")
        parts, changed = dict(given["parts"]), tuple(map(str, given.get("changed", ())))
        return Kept(folder, parts, str(given["execution"]), float(given["started"]), given["ended"] is True, changed)
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def choose(
    found: Mapping[str, Kept | None],
    name: str,
    parts: Mapping[str, Any],
    execution: str,
    *,
    may_change: Collection[str] = (),
    now: float,
) -> Choice:
    """Choose the folder of a training.

    Args:
        found: the folders of the place, and what their records say, if that is known.
        name: the identity's own.
        may_change: parts that a resumed execution may have changed.
    """
    parts = json.loads(json.dumps(parts))
    known = [each for each in found.values() if each is not None]
    # A machine that went may have left checkpoints and no record.
    numbered = re.compile(rf"{re.escape(name)}(-\d+)?")
    known += [Kept(folder, parts) for folder, each in found.items() if each is None and numbered.fullmatch(folder)]
    kept = [each for each in known if each.started != _EMPTIED]
    in_run = [each for each in kept if execution and each.execution == execution]
    same = [each for each in kept if each.parts == parts and (not each.changed or each in in_run)]
    own = _latest(each for each in same if not each.ended or each in in_run)
    if own is None:
        own = _latest(each for each in in_run if _differing(each.parts, parts) <= set(may_change))
    unfinished = [each for each in kept if each is not own and not each.ended]
    old = [each for each in unfinished if 0 < each.started < now - KEPT_S]
    ended = sorted((each for each in known if each is not own and each.ended), key=lambda each: each.started)
    going = tuple(each.folder for each in (*old, *ended[:-1], *(each for each in ended[-1:] if each not in kept)))
    if own is not None:
        return Choice(own.folder, False, (), going, (*own.changed, *differences(own.parts, parts)))
    names = [name, *(f"{name}-{number}" for number in range(2, len(found) + 2))]
    folder = next(each for each in names if each not in found)
    return Choice(folder, True, _about_others(parts, same, [each for each in unfinished if each not in old]), going)


def _latest(kept: Iterable[Kept]) -> Kept | None:
    return max(kept, key=lambda each: (each.started, each.folder), default=None)


def _about_others(parts: Mapping[str, Any], same: list[Kept], unfinished: list[Kept]) -> tuple[str, ...]:
    lines: list[str] = []
    if same:
        by = max(same, key=lambda each: each.started).execution
        lines.append(f"the same training has ended before{f' in run {by}' if by else ''}: this one starts anew")
    if unfinished:
        nearest = min(unfinished, key=lambda each: (len(_differing(each.parts, parts)), -each.started))
        more = f", and {len(unfinished) - 1} more" if unfinished[1:] else ""
        said = ", ".join([*differences(nearest.parts, parts), *(f"{each} on its way" for each in nearest.changed)])
        lines.append(
            f"an unfinished training stays beside this one, in {nearest.folder[:16]}{more}. It differs in: {said}"
        )
    return tuple(lines)


def _differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> set[str]:
    return {name for name in {*was, *now} if was.get(name) != now.get(name)}


def differences(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """For people: `learning_rate 0.003 -> 0.5`, `code of faces (edited)`, `data`."""
    lines: list[str] = []
    for name in sorted(_differing(was, now)):
        if name.startswith("code of "):
            lines.append(f"{name} ({'new' if name not in was else 'gone' if name not in now else 'edited'})")
        elif _is_hash(was.get(name)) or _is_hash(now.get(name)):
            lines.append(name)
        else:
            lines.append(f"{name} {was.get(name)!r} -> {now.get(name)!r}")
    return lines


def _is_hash(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[0-9a-f]{16,64}", value) is not None


def identity_name(parts: Mapping[str, Any]) -> str:
    """The name of a training's folder."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[: 2 * _DIGITS]


def begin(
    place: Path | str,
    parts: Mapping[str, Any],
    *,
    may_change: Collection[str] = (),
    is_first: bool = True,
    goes_on: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Path | str:
    """The folder of this start, for a program that finds its own way in it; of a URI, which only the program can look
    into, one of this execution's own.

    Args:
        is_first: whether this host is the first one, which tells people.
        goes_on: whether others tell what it starts from, since it goes on from an earlier model.
    """
    execution = execution_of(environment)
    if isinstance(place, str):
        return f"{place.rstrip('/')}/{identity_name({**parts, 'execution': execution})}"
    found = {
        each.name: read_kept(each.name, _content(each / RECORD))
        for each in sorted(place.iterdir() if place.is_dir() else ())
        if each.is_dir() and not each.name.startswith(".")
    }
    choice = choose(found, identity_name(parts), parts, execution, may_change=may_change, now=time.time())
    clear(place, choice.going, environment)
    folder = place / choice.folder
    starts_anew = choice.is_new or is_empty(folder)
    changed = () if starts_anew else choice.changed
    write(folder, Kept(choice.folder, parts, execution, time.time(), False, changed))
    if is_first:
        for line in (*choice.lines, *about_removed(choice.going)):
            print(line, flush=True)
        if not goes_on:
            print(f"starts from: {nothing(environment) if starts_anew else _kept(found, choice)}", flush=True)
    _link(folder, Path(environment.get(script_mode.BASE_VARIABLE, script_mode.BASE)))
    return folder


def _kept(found: Mapping[str, Kept | None], choice: Choice) -> str:
    last = found[choice.folder]
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(last.started)) if last else "a start that nobody noted"
    run = f", run {last.execution}" if last and last.execution else ""
    return ", ".join([f"{KEPT} (last start: {when}{run})", *choice.changed])


def is_empty(folder: Path) -> bool:
    """True where a program has kept nothing yet in its training's folder."""
    return all(each.name == ".drivetrain" for each in folder.iterdir())


def end(folder: Path) -> None:
    """Note that the training of a folder has ended well; without a record nobody asks."""
    if (kept := read_kept(folder.name, _content(folder / RECORD))) is not None:
        write(folder, kept._replace(ended=True))


def write(folder: Path, kept: Kept) -> None:
    """Write a folder's record, at once."""
    path = folder / RECORD
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
    aside.write_bytes(kept.record)
    os.replace(aside, path)


def clear(place: Path, folders: Iterable[str], environment: Mapping[str, str] = os.environ) -> None:
    """Remove folders of trainings. Files that an agent has uploaded are emptied first, since it uploads changes
    only."""
    for folder in folders:
        record = place / folder / RECORD
        goes_later = JOB in environment and record.is_file() and record.stat().st_size > 0
        if goes_later:  # first: a start that dies in between leaves a training that is marked as removed
            record.write_bytes(b"")
        for path in sorted((place / folder).rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                if not any(path.iterdir()):
                    path.rmdir()
            elif JOB in environment and path.stat().st_size:
                path.write_bytes(b"")
            elif path != record or not goes_later:
                path.unlink()
        if not any((place / folder).iterdir()):
            (place / folder).rmdir()


def nothing(environment: Mapping[str, str]) -> str:
    """A training that starts anew, for people."""
    return "nothing (--fresh)" if fresh_token(environment) else "nothing (a new training)"


def about_removed(going: Collection[str]) -> list[str]:
    """A line for people."""
    return [f"removed what {len(going)} earlier training{'s' * (len(going) > 1)} kept here"] if going else []


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _link(folder: Path, base: Path) -> None:
    """Programs that name /opt/ml/checkpoints find the folder there, where the platform keeps the place beside it."""
    link = base / "checkpoints"
    if not folder.is_relative_to(base) or folder.is_relative_to(link):
        return
    try:
        if link.is_symlink():
            link.unlink()
        elif link.is_dir():
            link.rmdir()
        link.symlink_to(folder)
    except OSError as error:
        raise InputError(f"{link} cannot become a link to {folder}: {error.strerror}. Leave that folder out.") from None


def component_code(component: Declaration[..., Any]) -> dict[str, Any]:
    """The parts of a component's module and of what it imports from its own folder."""
    module = component.target.partition(":")[0]
    root = component.file.parents[module.count(".") + (component.file.name == "__init__.py")]
    return _code([module], root)


def parts_of(
    component: Declaration[..., Any], values: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> dict[str, Any]:
    """The inputs and parameters that identify a training. A parameter that came later counts where it
    differs from what its absence meant."""
    execution = execution_of(environment)
    found: dict[str, Any] = {
        f"data of {name}": f"only in run {execution}" if _is_streamed(name, environment) else content_hash(values[name])
        for name in component.inputs
        if values[name] is not None
    }
    for name, declared in component.parameters.items():
        if declared.since is None or values[name] != declared.since.before:
            found[name] = values[name]
    token = fresh_token(environment)
    return {**found, **({"fresh": token} if token else {})}


def _is_streamed(channel: str, environment: Mapping[str, str]) -> bool:
    base = environment.get(script_mode.BASE_VARIABLE, script_mode.BASE)
    content = _content(Path(base, "input/config/inputdataconfig.json"))
    given: Any = json.loads(content).get(channel, {}) if content else {}
    return given.get("TrainingInputMode") in _STREAMED or given.get("S3DistributionType") == _SHARDED


def content_hash(path: Path) -> str:
    """A SHA-256 of a file, or of the names, sizes and bytes in a folder."""
    files = sorted(each for each in path.rglob("*") if each.is_file()) if path.is_dir() else [path]

    def one(file: Path) -> str:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()

    if len(files) > 1:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
            hashes = list(threads.map(one, files))
    else:
        hashes = [one(file) for file in files]
    named = [(file.relative_to(path).as_posix(), digest) for file, digest in zip(files, hashes, strict=True)]
    return hashlib.sha256(json.dumps(named).encode()).hexdigest()


def code_hashes(names: Iterable[str], file_of: Callable[[str], Path | None]) -> dict[str, str]:
    """Hashes of modules and of what they import, and that in turn, as far as `file_of` knows a file: module ->
    SHA-256, its first 16 digits.

    Imports are read from the files: a module that is only imported by a computed name is not seen.
    """
    found: dict[str, str] = {}
    ahead = list(names)
    while ahead:
        name = ahead.pop()
        path = None if name in found else file_of(name)
        if path is not None:
            source = path.read_bytes()
            found[name] = hashlib.sha256(source).hexdigest()[:_DIGITS]
            ahead += imports_of(name if path.name == "__init__.py" else name.rpartition(".")[0], source)
    return dict(sorted(found.items()))


def module_file(name: str, *roots: Path) -> Path | None:
    """The file of a module below the first of the folders that has one."""
    parts = name.split(".")
    names = ("/".join([*parts, "__init__.py"]), "/".join(parts) + ".py")
    return next((path for root in roots for each in names if (path := root / each).is_file()), None)


def script_code(script: str, folder: Path) -> dict[str, str]:
    """The parts of a script and of what it imports from its own folder and from that of the code."""
    path = folder / script
    if not script.endswith(".py"):
        return {f"code of {script}": hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGITS]}
    return _code([path.stem], path.parent, folder)


def _code(names: Iterable[str], *roots: Path) -> dict[str, str]:
    return {
        f"code of {name}": each for name, each in code_hashes(names, lambda name: module_file(name, *roots)).items()
    }


@cache  # by what the files say: a process that trains again need not parse them again
def imports_of(package: str, source: bytes) -> tuple[str, ...]:
    """The names that a module of `package` imports, with the packages around them; some may be no modules."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # the process that imports it reports the error
        return ()
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            wanted = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            wanted = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for each in wanted:
            parts = each.split(".")
            found.update((".".join(parts[: number + 1]), None) for number in range(len(parts)))
    return tuple(found)
