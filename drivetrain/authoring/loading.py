"""Find a pipeline by name or file, give it its settings, and build it.

`retraining` is a ready pipeline of the package; `digits.py` is a file with a function that returns a Pipeline, and
`digits.py:nightly` names one of several.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from pydantic import Field, ValidationError, create_model
from pydantic.errors import PydanticUserError

import drivetrain
from drivetrain.authoring import Pipeline
from drivetrain.authoring.settings import Settings, build
from drivetrain.base.call_site import place_in, place_of_function, recording
from drivetrain.base.errors import SpecError, UserError, at_place, did_you_mean, nearest, said, shown
from drivetrain.base.records import dataclass
from drivetrain.spec.deployment import Deployment
from drivetrain.spec.steps import BaseStep, flatten
from drivetrain.steps import argument_help

READY = Path(drivetrain.__file__).parent / "pipelines"
_FOREIGN = frozenset(["site-packages", "dist-packages"])
_seen: dict[Path, dict[str, tuple[Path, bytes]]] = {}
"""Folder -> module -> its file, and the hash of the bytes that it was loaded from."""


@dataclass(frozen=True)
class Loaded:
    """A built pipeline with the folder of its file (None for a ready one) and where relative data paths start."""

    pipeline: Pipeline
    settings: Settings
    source: Path | None
    base: Path

    @property
    def edits(self) -> Path:
        """The file of edits made in Studio: beside the pipeline's, or in the current folder for a ready one."""
        return (self.source or Path.cwd()) / f"{self.pipeline.name}.studio.yaml"


def load(
    target: str, config: Path | None = None, overrides: Iterable[str] = (), given: Mapping[str, Any] | None = None
) -> Loaded:
    """Build the pipeline that `target` names; `given` are settings as Python values.

    Settings come from `config`; else from `<name>.yaml` in the current folder (a ready pipeline) or beside the
    pipeline's file.

    Raises:
        UserError: no such pipeline, file or function; a file that does not import; wrong settings.
    """
    author, source = _located(target)
    if config is None and (beside := settings_file(target)).exists():
        config = beside
    if config is not None:
        config = config.expanduser().resolve()
    built = _build(author, config, tuple(overrides), given)
    if source is not None:
        _remember(source)  # the function may have imported more
    return Loaded(*built, source, source or Path.cwd())


def load_function(
    author: Callable[..., Any], config: Path | None = None, given: Mapping[str, Any] | None = None
) -> Loaded:
    """Build the pipeline that a function returns. The folder of its file travels, and relative data paths start there;
    those of a function without a file start in the current folder.

    Raises:
        UserError: wrong settings, or a function that does not return a Pipeline.
    """
    file = Path(getattr(getattr(author, "__code__", None), "co_filename", ""))
    source = file.resolve().parent if file.is_file() else None
    return Loaded(*_build(author, config, (), given), source, source or Path.cwd())


def settings_file(target: str) -> Path:
    """The file with settings that is read for a pipeline where none is named."""
    path_text = target.partition(":")[0]
    if path_text.endswith(".py"):
        return Path(path_text).expanduser().resolve().with_suffix(".yaml")
    return Path.cwd() / f"{path_text}.yaml"


def settings_of(target: str) -> type[Settings]:
    """The class of the settings that the pipeline takes; `Settings` itself where its function takes none.

    Raises:
        UserError: no such pipeline, file or function; a file that does not import.
    """
    return _settings_class(_located(target)[0]) or Settings


def _located(target: str) -> tuple[Callable[..., Any], Path | None]:
    """The function that makes the pipeline, and the folder of its file."""
    path_text, _, function_name = target.partition(":")
    if path_text.endswith(".py"):
        path = Path(path_text).expanduser().resolve()
        module, source = import_file(path), path.parent
    else:
        if path_text not in (known := {p.stem for p in READY.glob("*.py")} - {"__init__"}):
            raise UserError(f"No pipeline {path_text!r}. {did_you_mean(path_text, known)} Or give a file: FILE.py.")
        module, source = importlib.import_module(f"drivetrain.pipelines.{path_text}"), None
    return _author(module, target, function_name or (path_text if source is None else "")), source


def _build(
    author: Callable[..., Any], config: Path | None, overrides: tuple[str, ...], given: Mapping[str, Any] | None
) -> tuple[Pipeline, Settings]:
    kind = _settings_class(author)
    try:
        settings = build(kind or Settings, config, overrides, given=given)
    except SpecError as error:  # a wrong default
        raise at_place(error, place_of_function(author)) from None
    except UserError as error:
        if kind is not None:
            raise
        raise UserError(
            f"{error} {author.__name__}() takes no settings of its own, only those of every pipeline. Give it "
            f"parameters: def {author.__name__}(epochs: int = 5) -> Pipeline."
        ) from None
    try:
        with recording() as written:
            built = _called(author, kind, settings)
    except SpecError as error:
        at_place(error, place_in(error.__traceback__))
        raise
    except (SystemExit, ValidationError) as error:
        from drivetrain.authoring.import_failures import explained_in

        raise explained_in(error, author) from None
    if not isinstance(built, Pipeline):
        text = f"{author.__name__}() returned {shown(built)}; it must return a Pipeline."
        raise at_place(SpecError(text), place_of_function(author))
    names = {step.name for step in flatten(built.steps)}
    if not names or any(isinstance(one, BaseStep) and one.name not in names for one in written):
        from drivetrain.authoring.left_out import refuse_left_out

        refuse_left_out(built, written, author)
    if "deployment" not in built.model_fields_set and settings.deployment != Deployment():
        # Every settings class has one: where the author hands it on to no pipeline, it would be given in vain.
        given = {name: getattr(built, name) for name in built.model_fields_set}
        built = Pipeline(**given, deployment=settings.deployment)
    return built, settings


def import_file(path: Path) -> ModuleType:
    """Import the user's file under its own name, with its folder first on sys.path, as a container does."""
    if not path.is_file():
        close = nearest(path.name, [file.name for file in path.parent.glob("*.py")])
        hint = f" Did you mean {close!r}?" if close else ""
        raise UserError(f"No pipeline file {path}.{hint} Give an existing .py file or one of the ready pipelines.")
    if not path.stem.isidentifier():
        raise UserError(f"{path.name}: a pipeline file is imported, so its name must be a Python name. Rename it.")
    _prepare(path.parent)
    loaded = sys.modules.get(path.stem)
    if loaded is not None:
        if Path(getattr(loaded, "__file__", None) or "").resolve() == path:
            return loaded
        raise UserError(f"{path.name} has the name of a module that is loaded already. Rename the file.")
    places, known = [each for each in sys.path if Path(each).name in _FOREIGN], sys.stdlib_module_names
    if names := [each for each in _names_in(path.parent) if each in known or PathFinder.find_spec(each, places)]:
        from drivetrain.authoring.hidden_modules import refuse_hidden

        refuse_hidden(path, names)
    try:
        return _executed(path)
    except BaseException:
        sys.modules.pop(path.stem, None)  # half of it is there
        raise
    finally:
        _remember(path.parent)


# A process may live for days, as a notebook does. Python keeps each module, so an edit of a pipeline's file, or of one
# beside it, would not be seen by the next run. Folders keep apart, too: two of them may each have a helper.py.


def _prepare(folder: Path) -> None:
    """Put a folder first on sys.path, and forget each module that an import for its pipelines must not find.

    Forgotten are all modules of the folder when one of them has changed, and those of other pipelines' folders whose
    names this folder has, too.
    """
    if sys.path[:1] != [str(folder)]:
        sys.path[:] = [str(folder), *(entry for entry in sys.path if entry != str(folder))]
    if any(_hash_of(file) != seen for file, seen in _seen.get(folder, {}).values()):
        _forget(folder)
    held = _names_in(folder)
    for other in [other for other in _seen if other != folder]:
        if any(name.partition(".")[0] in held for name in _seen[other]):
            _forget(other)
    importlib.invalidate_caches()


def _remember(folder: Path) -> None:
    """Note which bytes the modules of a folder were loaded from."""
    seen = _seen.setdefault(folder, {})
    for name, file in _modules(folder):
        if name not in seen and file is not None:
            seen[name] = file, _hash_of(file)


def _forget(folder: Path) -> None:
    for name, file in list(_modules(folder)):
        del sys.modules[name]
        if file is not None:
            # Python takes a compiled file by time and size alone, which an edit within a second may leave.
            with contextlib.suppress(OSError):  # a folder that is not writable
                Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
    _seen.pop(folder, None)


def _modules(folder: Path) -> Iterator[tuple[str, Path | None]]:
    """Imported modules of a folder with their files; None for a package without a file.

    Left out are Drivetrain itself, the running program, modules that are still being imported, and what an environment
    within the folder holds.
    """
    names, within = _names_in(folder) | {*_seen.get(folder, {})}, f"{folder}{os.sep}"
    for name, module in list(sys.modules.items()):
        fields = getattr(module, "__dict__", {})
        file = fields.get("__file__")
        place = file or next(iter(fields.get("__path__") or ()), None)
        if not isinstance(place, str):
            continue
        is_within, top = place.startswith(within), name.partition(".")[0]
        if not is_within and top not in names:  # nearly all
            continue
        if top in ("drivetrain", "__main__") or getattr(fields.get("__spec__"), "_initializing", False):
            continue
        # The way to the folder may have links. A link in the folder is the folder's, wherever it leads.
        found = Path(place) if is_within else Path(place).resolve()
        if not found.is_relative_to(folder):
            continue
        if not any(part in _FOREIGN or part.startswith(".") for part in found.relative_to(folder).parts):
            yield name, found if file else None


def _names_in(folder: Path) -> set[str]:
    """The names that an import may find in a folder."""
    return {entry.removesuffix(".py") for entry in os.listdir(folder)}


def _hash_of(file: Path) -> bytes:
    """SHA-256 of the file; empty where it is gone."""
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return b""


def _executed(path: Path) -> ModuleType:
    """The module of the user's file.

    Raises:
        UserError: it does not import.
    """
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except UserError as error:
        if isinstance(error, SpecError):
            at_place(error, place_in(error.__traceback__))
        raise
    except (Exception, SystemExit) as error:
        from drivetrain.authoring.import_failures import explained

        raise explained(error, path) from (error if isinstance(error, Exception) else None)
    return module


def _author(module: ModuleType, target: str, name: str) -> Callable[..., Any]:
    """The function that returns the pipeline: the one named, or the only one annotated `-> Pipeline`."""
    own = {
        key: value
        for key, value in vars(module).items()
        # Not by isinstance: a lazy object's __class__ may be a property that raises.
        if type(value) is FunctionType and value.__module__ == module.__name__
    }
    found = {key: value for key, value in own.items() if _returns_pipeline(value)}
    if name:
        if name not in found:
            raise UserError(f"{target}: no function {name}() -> Pipeline. {did_you_mean(name, found)}")
        return found[name]
    if len(found) == 1:
        return next(iter(found.values()))
    if not found:
        name = next((key for key in reversed(own) if not own[key].__name__.startswith("_")), "my_pipeline")
        raise UserError(f"{target}: no function is annotated `-> Pipeline`. Write: def {name}(...) -> Pipeline: ...")
    raise UserError(f"{target}: several pipelines ({', '.join(found)}). Name one: {target}:{next(iter(found))}")


def _returns_pipeline(function: Callable[..., Any]) -> bool:
    returned = function.__annotations__.get("return")
    if isinstance(returned, str):  # quoted, or all of the file's are (from __future__ import annotations)
        try:
            returned = eval(returned, function.__globals__)
        except Exception:  # a name that is there for type checkers alone
            return returned == "Pipeline" or returned.endswith(".Pipeline")
    return returned is Pipeline


class _Parameters(Settings):
    """Settings that are the parameters of the pipeline's function."""


def _called(author: Callable[..., Any], kind: type[Settings] | None, settings: Settings) -> Any:
    if kind is None:
        return author()
    if issubclass(kind, _Parameters):
        return author(**{name: getattr(settings, name) for name in kind.model_fields.keys() - Settings.model_fields})
    return author(settings)


def _settings_class(author: Callable[..., Any]) -> type[Settings] | None:
    parameters = list(inspect.signature(author).parameters.values())
    if not parameters:
        return None
    try:
        hints = typing.get_type_hints(author, include_extras=True)
    except Exception as error:  # a partial; a type under `if TYPE_CHECKING`; whatever an annotation raises
        has_line = isinstance(author, FunctionType)
        name = f"{author.__name__}()" if has_line else shown(author)
        text = f"{name}: the types of its parameters cannot be read: {said(error)}. Give types such as int."
        raise at_place(SpecError(text), place_of_function(author) if has_line else "") from None
    kind = hints.get(parameters[0].name)
    if len(parameters) == 1 and isinstance(kind, type) and issubclass(kind, Settings):
        return kind
    fields: dict[str, Any] = {}
    described = argument_help(author.__doc__ or "")
    for parameter in parameters:
        if problem := _no_setting(parameter, hints.get(parameter.name)):
            text = (
                f"{author.__name__}() must take no parameter, typed parameters that are its settings "
                f"(epochs: int = 5), or one annotated with a subclass of Settings; {problem}."
            )
            raise at_place(SpecError(text), place_of_function(author))
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], Field(default, description=described.get(parameter.name)))
    try:
        return create_model(author.__name__, __base__=_Parameters, __module__=author.__module__, **fields)
    except (PydanticUserError, KeyError, TypeError):  # what pydantic raises of what is no type to it
        name = next((name for name, field in fields.items() if not _can_be_field(field)), None)
        if name is None:
            raise
        text = (
            f"Parameter {name!r} of {author.__name__}() cannot be a setting: its type is {shown(hints[name])}. "
            "Allowed: str, int, float, bool, Literal[...], lists and dicts of them, and models of pydantic."
        )
        raise at_place(SpecError(text), place_of_function(author)) from None


def _can_be_field(field: tuple[Any, Any]) -> bool:
    try:
        create_model("Alone", field=field)
    except (PydanticUserError, KeyError, TypeError):
        return False
    return True


def _no_setting(parameter: inspect.Parameter, hint: Any) -> str:
    """Why a parameter cannot be a setting; empty where it can."""
    name = parameter.name
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return f"it takes {parameter}, which cannot be given by name"
    if isinstance(hint, type) and issubclass(hint, Settings):
        return f"it takes {name}: {hint.__name__} beside other parameters"
    if hint is None:
        return f"its parameter {name!r} has no type"
    if name.startswith("_") or hasattr(Settings, name) or name in Settings.model_fields:
        return f"its parameter cannot be called {name!r}, a name that every pipeline's settings have"
    return ""
