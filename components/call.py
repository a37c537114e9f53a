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


def run(component: Component[..., Any], arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run the program, write its numbers; end the process on failure."""
    values = vars(parser(component).parse_args(arguments))
    metrics_folder: Path | None = values.pop(METRICS_OUTPUT, None) if component.metrics != () else None
    for name in (*component.outputs, *([component.checkpoints.name] if component.checkpoints else [])):
        if values[name] is not None:
            values[name].mkdir(parents=True, exist_ok=True)
    try:
        for name in component.inputs:
            if values[name] is not None and not values[name].exists():
                raise InputError(f"--{name.replace('_', '-')} {values[name]}: no such file or folder.")
        returned = component.function(**values)
        numbers = returned_numbers(component, returned)
        if numbers:
            text = json.dumps(numbers, indent=2, sort_keys=True, allow_nan=False) + "\n"
            print(text, end="", flush=True)
            if metrics_folder is not None:
                metrics_folder.mkdir(parents=True, exist_ok=True)
                (metrics_folder / METRICS_FILE).write_text(text, encoding="utf-8")
    except InputError as error:
        fail(f"error: {error}", code=2)
    except Exception as error:
        fail(short_traceback(error), code=1)


def parser(component: Component[..., Any]) -> argparse.ArgumentParser:
    """The command line that a declaration implies: one flag a folder and parameter."""
    built = argparse.ArgumentParser(
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
            metavar=declared.type.__name__.upper(),
            help=(declared.help + (f" [default: {declared.default}]" if not declared.required else ""))
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
    except (ValueError, KeyError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not {'true or false' if declared.type is bool else 'a ' + declared.type.__name__}"
        ) from None
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
    """The exception with the user's own frames, in at most MAX_TRACEBACK_LINES lines."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) != Path(__file__)]
    last = traceback.format_exception_only(error)
    text = "".join(["Traceback (most recent call last):\n", *traceback.format_list(own), *last])
    lines = text.rstrip().splitlines()
    if len(lines) > MAX_TRACEBACK_LINES:
        lines = [lines[0], "  ...", *lines[2 - MAX_TRACEBACK_LINES :]]
    return "\n".join(lines)


def fail(message: str, *, code: int) -> NoReturn:
    """Say why, where people and where the platform look, and end the process."""
    sys.stdout.flush()
    print(message, file=sys.stderr, flush=True)
    if path := os.environ.get(FAILURE_FILE):
        Path(path).write_text(message[-1024:] + "\n", encoding="utf-8")  # the service shows at most 1,024 characters
    sys.exit(code)


def find(target: str) -> Component[..., Any]:
    """The component named `module:function`.

    Raises:
        InputError: when there is no such module, function, or the function is not a component.
    """
    module_name, _, name = target.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + ".").startswith(error.name + "."):
            raise  # the module is there; something that it imports is not
        raise InputError(f"no module {module_name!r} for {target!r}; sys.path starts with {sys.path[:2]}.") from None
    found = getattr(module, name, None)
    if not isinstance(found, Component):
        raise InputError(f"{target!r} is not a component: decorate the function with @component.")
    return cast(Component[..., Any], found)


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
