"""Why a pipeline's file did not import, in words for its author."""

from __future__ import annotations

import inspect
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import drivetrain
from drivetrain import components
from drivetrain.authoring.called_now import by_name
from drivetrain.base.call_site import place_in, place_of_function
from drivetrain.base.errors import SpecError, UserError, at_place, nearest, said
from drivetrain.spec.validation_errors import explain_validation

_NOT_OURS = re.compile(r"cannot import name '(\w+)' from 'drivetrain(?:\.components)?'")


def explained(error: Exception | SystemExit, path: Path) -> UserError:
    """The error for people.

    Args:
        path: the file that was imported.
    """
    if isinstance(error, SyntaxError):
        file = Path(error.filename or path).name  # perhaps one that it imports
        # An annotation that is a text has no line of its own.
        where = place_in(error.__traceback__) if error.lineno is None else f"{file}, line {error.lineno}"
        written = f" in `{error.text.strip()}`" if error.text and error.text.strip() else ""
        return UserError(f"{where or file}: {error.msg}{written}.")
    if isinstance(error, SystemExit):
        return UserError(
            f"{path.name} ended the program ({ended(error)}) when it was imported. Keep what it does as a script under "
            'if __name__ == "__main__".'
        )
    if isinstance(error, ValidationError):
        return at_place(SpecError(explain_validation(error)), place_in(error.__traceback__))
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    line = next((frame.lineno for frame in reversed(frames) if frame.filename == str(path)), "?")
    return UserError(f"{path.name}, line {line}: {said(error)}{advice(error)}")


def explained_in(error: SystemExit | ValidationError, author: Callable[..., Any]) -> UserError:
    """The error for people, of a pipeline's function that was called."""
    if isinstance(error, ValidationError):
        return explained(error, Path())
    text = f"{author.__name__}() ended the program ({ended(error)}); it must return a Pipeline."
    return at_place(UserError(text), place_in(error.__traceback__) or place_of_function(author))


def ended(error: SystemExit) -> str:
    """How a program ended itself."""
    return "sys.exit()" if error.code is None else f"sys.exit({error.code!r:.60})"


def advice(error: BaseException) -> str:
    """Advice, where the kind of the error gives one."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        top = error.name.partition(".")[0]
        return f". Install what brings {top} (python -m pip install ...); what a step alone needs it imports itself."
    if isinstance(error, NameError):
        frame = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][-1]
        close = nearest(error.name or "", {*frame.f_locals, *frame.f_globals})
        return f". Did you mean {close!r}?" if close else ""
    if isinstance(error, TypeError) and str(error).startswith("step() takes 1 positional"):
        named = by_name(*[*traceback.walk_tb(error.__traceback__)][-1])
        return f". {named}" if named else ""
    if not isinstance(error, ImportError):
        return ""
    if missed := _NOT_OURS.match(str(error)):
        name = missed[1]
        if name in components.__all__:
            return f". Write: from drivetrain.components import {name}"
        close = nearest(name, {*drivetrain.__all__, *components.__all__})
        return f". Did you mean {close!r}?" if close else ""
    if "no known parent package" not in str(error):
        return ""
    # A file of a package, which is imported alone here.
    return (
        ". A pipeline file is imported by its own name, not as a part of its package. Import what lies beside it "
        "without the dot (from other import name), or call dt.run(FUNCTION) in Python, the function imported from its "
        "package."
    )
