"""Run a component as a command:

    python -m drivetrain.components.call digits:evaluate --model build/model --data build/test --max-digits 3

One process, in any container or shell; `--help` lists the folders and parameters. A shipped component also runs as
`python -m drivetrain.components.prepare_data`. Returned numbers are printed and, with `--metrics FOLDER`, written to
FOLDER/metrics.json. Exit codes: 0 done, 1 the program raised, 2 bad input.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import math
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, cast

from drivetrain.components.declaration import METRICS_FILE, METRICS_OUTPUT, Component, ComponentParameter, Scalar
from drivetrain.components.errors import InputError

# Set by the start file where the platform reads a failure reason from a file.
FAILURE_FILE = "DRIVETRAIN_FAILURE_FILE"
# What people see of a failed step: the last lines of the traceback, their own frames and the exception.
MAX_TRACEBACK_LINES = 15
_MAX_EXCEPTION_LINES = 8


def run(component: Component[..., Any], arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run the program, write its numbers; end the process on failure."""
    given = sys.argv[1:] if arguments is None else arguments
    values = vars(parser(component).parse_args(_joined(component, given)))
    metrics_folder: Path | None = values.pop(METRICS_OUTPUT, None) if component.metrics != () else None
    try:
        for name in (*component.outputs, *([component.checkpoints.name] if component.checkpoints else [])):
            if values[name] is not None:
                _make_folder(name, values[name])
        for name in component.inputs:
            if values[name] is not None and not values[name].exists():
                raise InputError(f"--{name.replace('_', '-')} {values[name]}: no such file or folder.")
        returned = component.function(**values)
        if component.metrics == () and returned is not None:
            print(
                f"warning: {component.name} returned a {type(returned).__name__}, which is dropped. To keep numbers, "
                "declare them: -> dict[str, float].",
                file=sys.stderr,
            )
        numbers = returned_numbers(component, returned)
        if numbers:
            text = json.dumps(numbers, indent=2, sort_keys=True, allow_nan=False) + "\n"
            print(text, end="", flush=True)
            if metrics_folder is not None:
                _make_folder(METRICS_OUTPUT, metrics_folder)
                (metrics_folder / METRICS_FILE).write_text(text, encoding="utf-8")
    except InputError as error:
        fail(f"error: {error}", code=2)
    except Exception as error:
        fail(short_traceback(error), code=1)


def parser(component: Component[..., Any]) -> argparse.ArgumentParser:
    """The command line that a declaration implies: one flag a folder and parameter."""
    built = _Parser(
        prog=f"python -m drivetrain.components.call {component.target}",
        description=component.summary or None,
        allow_abbrev=False,
    )
    folders = built.add_argument_group("folders")
    for folder in component.inputs.values():
        _add_folder(folders, folder.name, folder.flag, required=not folder.optional, text=f"(input) {folder.help}")
    for folder in component.outputs.values():
        _add_folder(folders, folder.name, folder.flag, required=not folder.optional, text=f"(output) {folder.help}")
    if component.checkpoints is not None:
        folder = component.checkpoints
        _add_folder(folders, folder.name, folder.flag, required=not folder.optional, text=f"(kept) {folder.help}")
    if component.metrics != ():
        _add_folder(
            folders, METRICS_OUTPUT, "--" + METRICS_OUTPUT, required=False, text=f"(output) gets {METRICS_FILE}"
        )
    parameters = built.add_argument_group("parameters")
    for declared in component.parameters.values():
        parameters.add_argument(
            declared.flag,
            dest=declared.name,
            type=lambda text, declared=declared: parse(declared, text),
            required=declared.required,
            default=declared.default,
            metavar="|".join(map(str, declared.choices)) or declared.type.__name__.upper(),
            help=(declared.help + (f" [default: {declared.default!r}]" if declared.default is not None else ""))
            .strip()
            .replace("%", "%%"),
        )
    return built


def parse(declared: ComponentParameter, text: str) -> Scalar:
    """One parameter's value from its text; platforms pass every value as a string."""
    try:
        if declared.type is bool:
            value: Scalar = {"true": True, "1": True, "false": False, "0": False}[text.strip().lower()]
        else:
            value = declared.type(text)
            if value != value:  # every comparison with NaN is false, so no check downstream would notice it
                raise ValueError(text)
    except (ValueError, KeyError):
        allowed = {"bool": "true or false", "int": "a whole number"}.get(declared.type.__name__, "a number")
        raise argparse.ArgumentTypeError(f"{text!r} is not {allowed}") from None
    if declared.choices and value not in declared.choices:
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(map(str, declared.choices))}")
    return value


def returned_numbers(component: Component[..., Any], returned: Any) -> dict[str, float]:
    """The program's result as a flat dict of finite numbers.

    Raises:
        TypeError: where the program returned something other than it declares, or a number that is not finite (a
            decision cannot be taken on NaN).
    """
    if component.metrics == ():
        return {}
    numbers: dict[str, float] = {}
    for name, given in _named(returned).items():
        value: Any = given.item() if hasattr(given, "item") else given  # numpy and torch scalars
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise TypeError(f"{component.name} returned {name}={given!r}. Allowed: finite numbers.")
        numbers[str(name)] = value
    missing = [name for name in component.metrics or () if name not in numbers]
    if missing:
        raise TypeError(f"{component.name} did not return {missing[0]!r}, which its declaration promises.")
    return numbers


def _named(returned: Any) -> Mapping[str, Any]:
    """A dict, dataclass, named tuple or single number as name -> value."""
    if isinstance(returned, Mapping):
        return cast(Mapping[str, Any], returned)
    if dataclasses.is_dataclass(returned):
        return {field.name: getattr(returned, field.name) for field in dataclasses.fields(returned)}
    as_dict = getattr(returned, "_asdict", None)
    return as_dict() if as_dict else {"value": returned}


def short_traceback(error: BaseException) -> str:
    """The exception with the user's own frames, in at most MAX_TRACEBACK_LINES lines.

    Frames of libraries fill what room is left, the innermost first; where frames are left out stands `...`.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    last = "".join(traceback.format_exception_only(error)).rstrip().splitlines()
    if len(last) > _MAX_EXCEPTION_LINES:
        last = [*last[: _MAX_EXCEPTION_LINES - 1], "..."]

    def shown(chosen: set[int]) -> list[str]:
        lines = ["Traceback (most recent call last):"]
        for index, frame in enumerate(frames):
            if index in chosen:
                lines.append(f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}')
                lines += [f"    {frame.line}"] if frame.line else []
            elif lines[-1] != "  ...":
                lines.append("  ...")
        return [*lines, *last]

    own = [index for index, frame in enumerate(frames) if not _is_of_library(frame.filename)]
    others = [index for index in range(len(frames)) if index not in own]
    chosen: set[int] = set()
    for index in (*reversed(own), *reversed(others)):
        if len(shown(chosen | {index})) > MAX_TRACEBACK_LINES:
            break
        chosen.add(index)
    return "\n".join(shown(chosen))


def _is_of_library(filename: str) -> bool:
    import sysconfig

    paths = sysconfig.get_paths()
    return filename.startswith(("<frozen", *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))))


def fail(message: str, *, code: int) -> NoReturn:
    """Say why, where people and where the platform look, and end the process."""
    sys.stdout.flush()
    print(message, file=sys.stderr, flush=True)
    if path := os.environ.get(FAILURE_FILE):
        try:
            Path(path).write_text(message[-1024:] + "\n", encoding="utf-8")  # the service shows 1,024 characters
        except OSError as error:  # a full disk, perhaps the very failure to tell
            print(f"The reason could not be written to {path}: {error}", file=sys.stderr, flush=True)
    sys.exit(code)


def find(target: str) -> Component[..., Any]:
    """The component named `module:function`.

    Raises:
        InputError: when there is no such module, function, or the function is not a component.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name or module_name.startswith("."):
        raise InputError(f"{target!r} does not name a component. Allowed: module:function.")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # the module is there; something that it imports is not
        raise InputError(f"no module {module_name!r} for {target!r}; sys.path starts with {sys.path[:2]}.") from None
    found = getattr(module, name, None)
    if not isinstance(found, Component):
        if found is not None:
            raise InputError(f"{target!r} is not a component: decorate the function with @component.")
        there = ", ".join(other for other, value in vars(module).items() if isinstance(value, Component))
        raise InputError(f"{module_name!r} has no component {name!r}. There are: {there or 'none'}.")
    return cast(Component[..., Any], found)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong where the platform looks for it, too."""

    def error(self, message: str) -> NoReturn:
        fail(f"error: {message}. With --help it lists the folders and parameters.", code=2)


def _joined(component: Component[..., Any], arguments: Sequence[str]) -> list[str]:
    """`--rate -1e-3` as `--rate=-1e-3`: argparse takes a value that begins with a dash for a flag."""
    declared = (*component.inputs.values(), *component.outputs.values(), *component.parameters.values())
    flags = {each.flag for each in declared} | {"--" + METRICS_OUTPUT}
    if component.checkpoints is not None:
        flags.add(component.checkpoints.flag)
    joined: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        value = next(remaining, None) if argument in flags else None
        if value is None:
            joined.append(argument)
        elif value == "--":  # argparse before Python 3.13 drops it
            fail(f"error: argument {argument}: the value '--' cannot be passed on a command line.", code=2)
        elif value in flags:  # the value was forgotten; argparse says so
            joined += [argument, value]
        else:
            joined.append(f"{argument}={value}")
    return joined


def _make_folder(name: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"--{name.replace('_', '-')} {folder} cannot be made: a file is in its place.") from None


def _add_folder(group: Any, name: str, flag: str, *, required: bool, text: str) -> None:
    group.add_argument(flag, dest=name, type=Path, required=required, metavar="PATH", help=text.strip())


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    try:
        found = find(sys.argv[1])
    except InputError as error:
        fail(f"error: {error}", code=2)
    except Exception as error:
        fail(short_traceback(error), code=1)
    run(found, sys.argv[2:])


if __name__ == "__main__":
    main()
