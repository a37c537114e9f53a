"""Compares two sets of arguments, field by field and in few words; also the code and the data behind them.

Versions of data that looks found are nothing that anybody can read: the source is named. Files of code are those of
the archives in the home.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from drivetrain.assets.assets import WHOLE_FOLDER
from drivetrain.base.errors import and_more
from drivetrain.base.json_text import as_object, list_in, object_in, text_in
from drivetrain.base.masking import MASK
from drivetrain.run_store.objects import ObjectStore
from drivetrain.spec.resources import READ_SOURCE, SOURCES_VARIABLE
from drivetrain.steps import gather
from drivetrain.steps.start import plain_files
from drivetrain.targets.sagemaker.document.document import StepNode
from drivetrain.targets.sagemaker.document.looks import runs_program, source_of, steps_told_in
from drivetrain.targets.sagemaker.run.jobs.job_data import PROGRAMS, input_uris
from drivetrain.targets.sagemaker.run.spares import archive_of

_SHOWN, _BEFORE = 48, 12
# Lists whose entries are known by a name, so that a new one in the middle does not shift the others.
_NAMES = ("InputName", "ChannelName", "OutputName", "Name", "Key")
_INPUTS = ("ProcessingInputs", "InputDataConfig")
# Differ in every execution (they hold its id) or have no effect on the result.
_NO_EFFECT = ("ExperimentConfig", "Tags", "ProcessingJobName", "TrainingJobName", "RoleArn")
_OUTPUTS = ("ProcessingOutputConfig", "OutputDataConfig")
# The variable that compile makes of a cluster's `processes`, which is what the user wrote.
_PROCESSES = "DRIVETRAIN_PROCESSES"
_NOT_GIVEN = "(not given)"
_SOURCE, _PACKAGE, _MOST = "source/", "drivetrain/", 3


class Difference(NamedTuple):
    """One field that differs: its path, and both values (None: not there)."""

    path: tuple[str, ...]
    old: Any
    new: Any

    @property
    def attribute(self) -> str:
        return ".".join(self.path)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Difference, ...]:
    """The leaves in which two arguments differ; the words of ContainerArguments are compared flag by flag."""
    return tuple(_differences((), _with_flags(old), _with_flags(new)))


CODE = "code changed"


def reasons(
    found: Sequence[Difference],
    ran_again: Callable[[str], str | None],
    changed_code: Callable[[], str] = lambda: CODE,
    new_data: Callable[[Difference], str | None] = lambda _: None,
) -> tuple[str, ...]:
    """The differences as people would say them: `max_digits 4 -> 3`, `input data: upstream prepare re-ran`.

    `ran_again` gives the step that wrote a URI in this execution. If a difference is of that kind, `changed_code` says
    what changed in the code, and `new_data` names the source with new data.
    """
    told: dict[str, None] = {}
    for difference in found:
        told[new_data(difference) or _reason(difference, ran_again)] = None
    if CODE in told:
        told = {changed_code() if text == CODE else text: None for text in told}
    # The checkpoints' folder is named after the configuration: it only repeats what the others say.
    others = [text for text in told if not text.startswith("CheckpointConfig")]
    return tuple(others or told)


def overlooked(key: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[str, ...]:
    """Differences that the cache ignores but a user may care about; `key` holds the attributes of the cache key."""
    ignored = {*key, *_NO_EFFECT, *_OUTPUTS}
    rest_old = {name: value for name, value in old.items() if name not in ignored}
    rest_new = {name: value for name, value in new.items() if name not in ignored}
    found = [
        f"{d.path[-1]} {_both(d.old, d.new)}, which the cache does not look at"
        for d in _differences((), rest_old, rest_new)
    ]
    for name in _output_names(new):
        if name not in _output_names(old):
            found.append(f"output {name} is new: the cached result does not have it")
    return tuple(found)


def _reason(difference: Difference, ran_again: Callable[[str], str | None]) -> str:
    path, old, new = difference
    root, last = path[0], path[-1]
    if "ContainerArguments" in path:
        if last == "code":
            return CODE
        name = last.replace("-", "_") if last != "ContainerArguments" else "arguments"
        return _change(name, old, new)
    if last == "ContainerEntrypoint" or "ContainerEntrypoint" in path:
        return _change("entry point", old, new)
    if last in ("ImageUri", "TrainingImage"):
        return _change("image", old, new)
    if path == ("Environment", _PROCESSES):
        return f"processes {_both(old or _NOT_GIVEN, new or _NOT_GIVEN)}"
    if root in ("Environment", "HyperParameters"):
        return _change(last, old, new)
    if root in _INPUTS:
        name = path[1] if len(path) > 1 else root
        if name == "code":
            return CODE
        if last == "S3Uri" and isinstance(new, str):
            writer = ran_again(new)
            if writer is not None:
                return f"input {name}: upstream {writer} re-ran"
            return f"input {name}: {_both(old, new)}"
        return _change(f"input {name}" if len(path) <= 2 else f"input {name}: {last}", old, new)
    return _change(difference.attribute, old, new)


def _change(name: str, old: Any, new: Any) -> str:
    if old is None:
        return f"{name} is new" if isinstance(new, dict | list) else f"{name} is new: {_shown(new)}"
    if new is None:
        return f"{name} is gone"
    return f"{name} {_both(old, new)}"


def _both(old: Any, new: Any) -> str:
    """Both values by their ends; where these are alike, from shortly before the first letter that differs."""
    if (left := _shown(old)) == (right := _shown(new)):
        texts = _text(old), _text(new)
        alike = next((n for n, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
        start = max(0, alike - _BEFORE)
        left, right = (("..." if start else "") + _beginning(text[start:]) for text in texts)
    return f"{left} -> {right}"


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _shown(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= _SHOWN or text == MASK else "..." + text[-_SHOWN + 3 :]


def _text(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if text.startswith('"') and text.endswith('"') and len(text) > 1:  # hyperparameters are JSON in strings
        text = text[1:-1]
    return text


def _differences(path: tuple[str, ...], old: Any, new: Any) -> list[Difference]:
    if old == new:
        return []
    if path in (("Environment",), ("HyperParameters",)):  # not to have any is to have none of each
        old, new = old or {}, new or {}
    left, right = _keyed(old), _keyed(new)
    if left is None or right is None:
        return [Difference(path, old, new)]
    found: list[Difference] = []
    for key in {**left, **right}:
        found += _differences((*path, key), left.get(key), right.get(key))
    # Equal parts in another order: the key differs all the same.
    return found or [Difference(path, old, new)]


def _keyed(value: Any) -> dict[str, Any] | None:
    """A value as a mapping, where its parts have names."""
    if isinstance(value, dict):
        return cast("dict[str, Any]", value)
    if isinstance(value, list) and value:
        named: dict[str, Any] = {}
        for item in cast("list[Any]", value):
            name = _name(item)
            if name is None or name in named:
                return None
            named[name] = item
        return named
    return None


def _name(item: Any) -> str | None:
    names = (text_in(as_object(item), key) for key in _NAMES)
    return next((name for name in names if name is not None), None)


def _with_flags(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields with ContainerArguments as a mapping from flag to value."""
    changed = dict(fields)
    for name in PROGRAMS:
        program = object_in(fields, name)
        if isinstance(words := program.get("ContainerArguments"), list):
            changed[name] = {**program, "ContainerArguments": _flags(cast("list[Any]", words))}
    return changed


def _flags(words: list[Any]) -> dict[str, Any]:
    """`["--code", "ab12", "module:run", "--epochs", "3", "--fast"]` by flag; words that belong to none by position."""
    words = gather(words)
    found: dict[str, Any] = {}
    position = 0
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if isinstance(word, str) and word.startswith("--") and len(word) > 2:
            flag, equals, value = word[2:].partition("=")
            if not equals and index < len(words) and not str(words[index]).startswith("--"):
                value = words[index]
                index += 1
            while flag in found:
                flag += "+"
            found[flag] = value
        else:
            position += 1
            found[f"argument {position}"] = word
    return found


def _output_names(arguments: Mapping[str, Any]) -> list[str]:
    outputs = list_in(object_in(arguments, "ProcessingOutputConfig"), "Outputs")
    return [name for name in map(_name, outputs) if name is not None]


def new_data(
    step: StepNode, fields: Mapping[str, Any], difference: Difference, arguments: Callable[[str], Mapping[str, Any]]
) -> str | None:
    """`new data in rows`, or `new data of s3://lake/rows/` where no input has the source; None where the difference is
    no look's.

    Args:
        arguments: those of a step of this execution.
    """
    path, old, new = difference
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    if path[0] == "Environment" and path[-1].startswith(SOURCES_VARIABLE):
        looks = steps_told_in(step, "Environment", path[-1])
    elif path == ("AppSpecification", "ContainerArguments", "version") and runs_program(fields, READ_SOURCE):
        looks = steps_told_in(step, "AppSpecification", "ContainerArguments")
    else:
        return None
    inputs = {uri: name for name, uri in input_uris(fields).items()}
    told = [(inputs.get(source), source) for look in looks if (source := source_of(arguments(look)))]
    named = [f"in {name}" if name else f"of {source}" for name, source in told]
    return f"new data {' and '.join(named)}" if named else None


def changed_code(old: Mapping[str, Any], new: Mapping[str, Any], store: ObjectStore) -> str:
    """Describe how code changed: `code: helper.py edited`.

    Args:
        old: the key attributes of the earlier execution.
        new: those of the present one.
    """
    archives = [archive_of(arguments, store) for arguments in (old, new)]
    try:
        found = [_files(archive) for archive in archives if archive is not None]
    except (OSError, tarfile.TarError):  # one is gone, or damaged
        found = []
    if len(found) < len(archives):
        return CODE
    before, after = found
    said = list(_file_differences(before, after))
    why = after.get(WHOLE_FOLDER, b"").decode().strip()
    whole = f" (every file of the folder counts, since {why})" if why else ""
    return f"code: {and_more(said, _MOST)}{whole}" if said else CODE


def _file_differences(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> Iterator[str]:
    names = sorted({*before, *after})
    package = [name for name in names if name.startswith(_PACKAGE)]
    is_edited = any(before[name] != after[name] for name in package if name in before and name in after)
    if is_edited:
        yield "drivetrain itself changed"
    for name in names:
        if name.startswith(_SOURCE) and before.get(name) != after.get(name):
            kind = "edited" if name in before and name in after else "is new" if name in after else "no longer used"
            yield f"{name.removeprefix(_SOURCE)} {kind}"
    if before.get("wheels.sha256") != after.get("wheels.sha256"):
        yield "other wheels"
    if not is_edited and any((name in before) != (name in after) for name in package):
        yield "it uses other folders of drivetrain"


def _files(archive: Path) -> dict[str, bytes]:
    """The files of an archive: name -> content."""
    content = archive.read_bytes()
    files = plain_files(content)
    if files is not None:
        return {name: content[begin:end] for name, begin, end in files}
    with tarfile.open(archive) as tar:
        opened = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in opened.items() if file is not None}
