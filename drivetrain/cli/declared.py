"""Commands from functions: a parameter `Annotated[type, Option(...)]` becomes an option of click, a parameter that is a
dataclass of such fields one for each of them.

The type says what is read: a text, a number, a path, one of a Literal, a list of these. The default is what an absent
one is. Each command's file has an `app`; it is imported and built when the command is asked for (`LazyGroup`), so that
help is quick to print.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin, get_type_hints

import click

from drivetrain.base.records import dataclass

Function = TypeVar("Function", bound=Callable[..., Any])
Written = tuple[str | None, type[click.Command], Callable[..., Any]]
Complete = Callable[[str, Mapping[str, Any]], list[str]]
"""From the beginning of a word, and what is given already, to the words that begin so."""

COMPLETE = "_DRIVETRAIN_COMPLETE"
"""The variable by which a shell asks for the words that may come next (completion.py)."""

SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class Option:
    """`--name VALUE`, or a flag where the type is bool. Without `names` it is called like the parameter."""

    def __init__(
        self,
        *names: str,
        help: str,
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        show_default: bool = True,
        complete: Complete | None = None,
        bare: str | None = None,
    ) -> None:
        self.names = names
        self.help = help
        self.metavar = metavar
        self.min = min
        self.max = max
        self.show_default = show_default
        self.complete = complete
        self.bare = bare
        """Its value where it stands without one; None: it needs one."""


@dataclass(frozen=True, kw_only=True)
class Argument:
    """A word by its place; a parameter with a default may be left out."""

    metavar: str
    help: str
    show_default: bool = True
    complete: Complete | None = None


class CommandGroup(click.Group):
    """A group in the order in which its commands were written. Without a command it prints its help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(CommandGroup):
    """A group whose commands live in files of their own: each has an `app` (or `command`)."""

    modules: ClassVar[Mapping[str, str]] = {}
    headings: ClassVar[Mapping[str, Collection[str]]] = {}
    """Heading of the help -> the commands below it; without headings they are listed as they are."""
    renamed: ClassVar[Mapping[str, str]] = {}
    """A command that there was -> the words that do its work now."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.headings:
            super().format_commands(ctx, formatter)
            return
        width = max(map(len, self.modules))
        for heading, names in self.headings.items():
            helps = {name: _app(self.modules[name]).summary(formatter.width - 6 - width) for name in names}
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), text) for name, text in helps.items()])

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.modules)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] in self.renamed and not ctx.resilient_parsing:  # a shell that completes words asks resiliently
            ctx.fail(f"`{ctx.command_path} {args[0]}` is now `{ctx.command_path} {self.renamed[args[0]]}`")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.modules:
            # The names suffice for "did you mean"; the files stay unread.
            self.commands = dict.fromkeys(self.modules)  # type: ignore[assignment]
            return None
        return self._built(cmd_name)

    def _built(self, name: str) -> click.Command:
        return _command(self.modules[name], name)


@functools.cache
def _command(module: str, name: str) -> click.Command:
    """A process that runs several command lines reads the signatures of a command once."""
    return _app(module).built(name)


def _app(module: str) -> App:
    app: App = importlib.import_module(f"drivetrain.cli.{module}").app
    return app


def help_without_command() -> None:
    """Print the help of a group that was called without a command."""
    context = click.get_current_context()
    if context.invoked_subcommand is None:
        print(context.get_help())


@dataclass
class App:
    """The command of a file, or, where there is a `help`, the group of its commands."""

    help: str | None = None
    _written: list[Written] = field(default_factory=list["Written"])

    def command(
        self, name: str | None = None, cls: type[click.Command] = click.Command
    ) -> Callable[[Function], Function]:
        """Declare a function a command; it is called like the function, or by `name`."""

        def declare(function: Function) -> Function:
            self._written.append((name, cls, function))
            return function

        return declare

    def summary(self, limit: int) -> str:
        """The first sentence of its help, in at most `limit` characters; its parameters stay unread."""
        text = self.help or self._written[0][2].__doc__
        return click.Command(None, help=text).get_short_help_str(limit)

    def built(self, name: str) -> click.Command:
        """The command or group, called `name`."""
        if self.help is None:
            ((_, kind, function),) = self._written
            return command_of(function, name, kind)
        commands = [command_of(function, own or function.__name__, kind) for own, kind, function in self._written]
        return CommandGroup(
            name,
            {str(command.name): command for command in commands},
            help=self.help,
            callback=help_without_command,
            invoke_without_command=True,
            context_settings=SETTINGS,
        )


def command_of(function: Callable[..., Any], name: str, kind: type[click.Command] = click.Command) -> click.Command:
    """The command that calls `function`; its docstring is the help."""
    groups: dict[str, Any] = {group: hint for group, hint in _hints(function).items() if is_dataclass(hint)}

    def call(**given: Any) -> Any:
        for group, made in groups.items():
            given[group] = made(**{field.name: given.pop(field.name) for field in fields(made)})
        return function(**given)

    return kind(name, callback=call, params=parameters_of(function), help=function.__doc__, context_settings=SETTINGS)


def parameters_of(function: Callable[..., Any]) -> list[click.Parameter]:
    """The click parameters of `function`, in their order; a dataclass gives one for each field."""
    import inspect

    hints = _hints(function)
    found: list[click.Parameter] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            found += parameters_of(hints[name])
        else:
            missing = parameter.default is parameter.empty
            found.append(_parameter(name, hints[name], parameter.default, required=missing))
    return found


@functools.cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(function, include_extras=True)


def _parameter(name: str, hint: Any, default: Any, *, required: bool) -> click.Parameter:
    assert get_origin(hint) is Annotated, name
    kind, declared = get_args(hint)
    if get_origin(kind) is UnionType:
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    many = get_origin(kind) is list
    if many:
        (kind,) = get_args(kind)
    given: dict[str, Any] = {"required": required, "help": declared.help, "callback": _listed if many else None}
    if not required and (default is not None or kind is bool):
        given["default"] = default
    if (complete := declared.complete) is not None:

        def words(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
            # What an option without its value ends is not read: the words by their place lie there as they were.
            return complete(incomplete, {"target": next(iter(context.args), None)} | _given(context.params))

        given["shell_complete"] = words
    if isinstance(declared, Argument):
        return _Argument(declared, name, type=_read_as(kind), nargs=-1 if many else 1, **given)
    names = [name, *(declared.names or [f"--{name.replace('_', '-')}"])]
    if kind is bool:
        given["is_flag"] = True
    else:
        given |= {"type": _read_as(kind, declared.min, declared.max), "multiple": many}
        given |= {"metavar": declared.metavar, "show_default": declared.show_default and default != ""}
        given |= {} if declared.bare is None else {"is_flag": False, "flag_value": declared.bare}
    return click.Option(names, **given)


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


class _Argument(click.Argument):
    """In the usage `[ID]` where it may be left out, elsewhere `ID`."""

    def __init__(self, declared: Argument, name: str, **given: Any) -> None:
        shown = declared.metavar if given["required"] else f"[{declared.metavar}]"
        super().__init__([name], metavar=shown, **given)
        self.declared = declared

    @property
    def human_readable_name(self) -> str:
        return self.declared.metavar

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        shown = self.declared.show_default and isinstance(self.default, str | int)
        return self.declared.metavar, self.declared.help + (f"  [default: {self.default}]" if shown else "")


def _read_as(kind: Any, least: float | None = None, most: float | None = None) -> Any:
    """The click type by which a word is read."""
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Path:
        return click.Path(path_type=Path)
    if (least, most) != (None, None):
        ranges: dict[Any, Any] = {int: click.IntRange, float: click.FloatRange}
        return ranges[kind](least, most)
    return {str: click.STRING, int: click.INT, float: click.FLOAT}[kind]


def _listed(context: click.Context, parameter: click.Parameter, value: tuple[Any, ...]) -> list[Any] | None:
    """Several values as a list; None where none is given and the parameter may be left out."""
    return list(value) or None
