"""Run a component as a command:

    python -m drivetrain.steps.call digits:evaluate --model build/model --data build/test --max-digits 3

One process, in any container or shell; `--help` lists the folders and parameters. A shipped component also runs as
`python -m drivetrain.components.prepare_data`. Returned numbers and texts are printed and, with `--metrics FOLDER`,
written to FOLDER/metrics.json. Exit codes: 0 done, 1 the program raised, 2 bad input, 75 a service is away, such as
S3: a retry may help.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, cast

from drivetrain.base.errors import BAD_INPUT, RETRY, InputError
from drivetrain.base.stopping import AwayError
from drivetrain.steps import METRICS_FILE, METRICS_OUTPUT, RETURNED, Declaration, command_line

# Set by the start file where the platform reads a failure reason from a file.
FAILURE_FILE = "DRIVETRAIN_FAILURE_FILE"
# A pipeline passes texts on as values of parameters; this is the service's limit in characters.
MOST_CHARACTERS = 1024
_SHIPPED = "drivetrain.components."


class ReturnedError(InputError, TypeError):
    """A program returned what a pipeline cannot decide on, or not what it declares."""


def run(component: Declaration[..., Any], arguments: Sequence[str] | None = None) -> None:
    """Parse the command line, run the program, write its numbers; end the process on failure."""
    given = sys.argv[1:] if arguments is None else arguments
    if command_line.asks_for_help(component, given):
        print(command_line.usage(component), end="")
        sys.exit(0)
    try:
        values = command_line.read(component, given)
        metrics_folder: Path | None = values.pop(METRICS_OUTPUT) if component.metrics != () else None
        for name in (*component.outputs, *([component.checkpoints.name] if component.checkpoints else [])):
            if isinstance(values[name], Path):
                _make_folder(name, values[name])
        for name, folder in component.inputs.items():
            if values[name] is not None and not values[name].exists():
                raise InputError(f"{folder.flag} {values[name]}: no such file or folder.")
        returns_value = RETURNED in component.outputs and component.outputs[RETURNED].value
        value_folder: Path | None = values.pop(RETURNED) if returns_value else None
        own = _own_training(component, values)
        returned = component.function(**_with_values(component, values))
        if own is not None:
            from drivetrain.steps.trainings import end

            end(own)
        if value_folder is not None:
            from drivetrain.steps.values import save

            with _our_file():
                save(returned, value_folder, component.name)
        elif component.metrics == () and returned is not None:
            print(
                f"warning: {component.name} returned a {type(returned).__name__}, which is dropped. To keep numbers, "
                "declare them: -> dict[str, float].",
                file=sys.stderr,
            )
        found = returned_values(component, returned)
        if found:
            import json

            text = json.dumps(found, indent=2, sort_keys=True, allow_nan=False) + "\n"
            print(text, end="", flush=True)
            if metrics_folder is not None:
                _make_folder(METRICS_OUTPUT, metrics_folder)
                with _our_file():
                    (metrics_folder / METRICS_FILE).write_text(text, encoding="utf-8")
    except InputError as error:
        fail(f"error: {error}", code=BAD_INPUT)
    except AwayError as error:
        fail(f"error: {error}", code=RETRY)
    except Exception as error:
        # A file that a step of the user's opens itself is told with their line.
        shipped = component.target.startswith(_SHIPPED)
        if isinstance(error, OSError) and shipped and (refused := _refused(error) or _vanished(error)):
            fail(f"error: {refused}", code=BAD_INPUT)
        _fail_by(error)


@contextmanager
def _our_file() -> Generator[None]:
    """Tell in one line what the machine refuses us: a traceback of the user's step has no line of theirs then."""
    try:
        yield
    except OSError as error:
        if (refused := _refused(error)) is None:
            raise
        raise InputError(refused) from None


def _refused(error: OSError) -> str | None:
    from drivetrain.base.os_refusals import refusal

    return refusal(error)


def _vanished(error: OSError) -> str | None:
    if not isinstance(error, FileNotFoundError) or not error.filename:
        return None
    return f"{error.filename}: it is gone. Run the step again when nobody changes its inputs and outputs."


def _own_training(component: Declaration[..., Any], values: dict[str, Any]) -> Path | None:
    """A training's own folder for checkpoints, which is written into `values`. None if it keeps no checkpoints, keeps
    its trainings apart itself, or only the program can reach the folder."""
    if component.checkpoints is None or component.checkpoints.shared:
        return None
    from drivetrain.steps import trainings

    name = component.checkpoints.name
    parts = trainings.parts_of(component, values) | trainings.component_code(component)
    values[name] = trainings.begin(values[name], parts, may_change=component.resumable)
    return values[name] if isinstance(values[name], Path) else None


def _with_values(component: Declaration[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with the Python value of each folder that the function takes as a value."""
    wanted = [name for name, folder in component.inputs.items() if folder.value and given[name] is not None]
    if not wanted:
        return dict(given)
    from drivetrain.steps.values import load

    with _our_file():
        return {**given, **{name: load(given[name], component.inputs[name].flag) for name in wanted}}


def returned_values(component: Declaration[..., Any], returned: Any) -> dict[str, float | str]:
    """The program's result as a flat dict of finite numbers and, where it declares them, texts.

    Raises:
        ReturnedError: the program returned something other than it declares, a number that is not finite (a decision
            cannot be taken on NaN), or a text that a pipeline cannot hand on.
    """
    if component.metrics == ():
        return {}
    found: dict[str, float | str] = {}
    for name, given in _named(returned).items():
        value: Any = given.item() if hasattr(given, "item") else given  # numpy and torch scalars
        if name in component.texts:
            if not isinstance(value, str) or len(value) > MOST_CHARACTERS or not value.isprintable():
                raise ReturnedError(
                    f"{component.name} returned {name}={given!r:.80}. Allowed: a text of one line, at most "
                    f"{MOST_CHARACTERS:,} characters."
                )
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            why = "Leave the name out if there is no value; a text needs a TypedDict with a str field."
            if isinstance(value, float):
                why = "It is usually 0 / 0, or the mean of an empty list. Leave the name out if there is no number."
            raise ReturnedError(
                f"{_at(component)}{component.name} returned {name}={given!r:.80}. Allowed: finite numbers. {why}"
            )
        found[str(name)] = value
    missing = [name for name in component.metrics or () if name not in found]
    if missing:
        raise ReturnedError(
            f"{_at(component)}{component.name} did not return {missing[0]!r}, which its declaration promises."
        )
    return found


def _at(component: Declaration[..., Any]) -> str:
    """`pipeline.py, line 12: `, where a function of the user's begins."""
    code = getattr(component.function, "__code__", None)
    if code is None or component.target.startswith(_SHIPPED):
        return ""
    return f"{os.path.basename(code.co_filename)}, line {code.co_firstlineno}: "


def _named(returned: Any) -> Mapping[str, Any]:
    """A dict, dataclass, named tuple or single number as name -> value."""
    if isinstance(returned, Mapping):
        return cast(Mapping[str, Any], returned)
    if hasattr(returned, "__dataclass_fields__"):
        import dataclasses

        return {field.name: getattr(returned, field.name) for field in dataclasses.fields(returned)}
    as_dict = getattr(returned, "_asdict", None)
    return as_dict() if as_dict else {"value": returned}


def _fail_by(error: Exception) -> NoReturn:
    from drivetrain.steps.short_traceback import short_traceback

    fail(short_traceback(error, without=__file__) + _advice(error), code=1)


def _advice(error: Exception) -> str:
    """Advice where the cause is how code travels, and not the code."""
    library = os.path.dirname(os.__file__)
    for name in sys.stdlib_module_names if isinstance(error, ImportError | AttributeError) else ():
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and not file.startswith(library):
            return f". Rename {os.path.basename(file)}: it hides Python's own module {name}."
    if isinstance(error, ModuleNotFoundError) and error.name:
        top = error.name.partition(".")[0]
        if top == "drivetrain":
            return f". This step's code has no such folder: import {error.name} at the head of the step's file."
        return f". Install the package that has {top}, and name it in @component(needs=[...]) so that it travels."
    path = error.filename if isinstance(error, FileNotFoundError) else None
    if isinstance(path, str | Path) and any(entry and Path(path).is_relative_to(entry) for entry in sys.path):
        return ". Only Python files travel with the code. Give the step this file as an Input."
    return ""


def fail(message: str, *, code: int) -> NoReturn:
    """Say why, where people and where the platform look, without secrets, and end the process."""
    from drivetrain.base.masking import without_secrets

    message = without_secrets(message)
    sys.stdout.flush()
    print(message, file=sys.stderr, flush=True)
    if path := os.environ.get(FAILURE_FILE):
        try:
            Path(path).write_text(message[-1024:] + "\n", encoding="utf-8")  # the service shows 1,024 characters
        except OSError as error:  # a full disk, perhaps the very failure to tell
            print(f"The reason could not be written to {path}: {error}", file=sys.stderr, flush=True)
    sys.exit(code)


def find(target: str) -> Declaration[..., Any]:
    """The component named `module:function`.

    Raises:
        InputError: when there is no such module, function, the function is not a component, or the module ends the
            program.
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
    except SystemExit as error:  # its top level parses arguments, perhaps, which here are the step's
        raise InputError(
            f"module {module_name!r} ended the program (code {error.code!r:.60}) when the step imported it. Keep what "
            'it does as a script under if __name__ == "__main__".'
        ) from None
    found = getattr(module, name, None)
    if not isinstance(found, Declaration):
        if found is not None:
            raise InputError(f"{target!r} is not a component: decorate the function with @component.")
        there = ", ".join(other for other, value in vars(module).items() if isinstance(value, Declaration))
        raise InputError(f"{module_name!r} has no component {name!r}. There are: {there or 'none'}.")
    return cast(Declaration[..., Any], found)


def _make_folder(name: str, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"--{name.replace('_', '-')} {folder} cannot be made: a file is in its place.") from None
    except OSError as error:
        raise InputError(f"--{name.replace('_', '-')} {_refused(error) or error}") from None


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    try:
        found = find(sys.argv[1])
    except InputError as error:
        fail(f"error: {error}", code=BAD_INPUT)
    except Exception as error:
        _fail_by(error)
    run(found, sys.argv[2:])


if __name__ == "__main__":
    main()
