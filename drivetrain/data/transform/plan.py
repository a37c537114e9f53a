"""A transformation: verbs one after the other, declared in Python or as JSON.

    plan = (
        Plan()
        .filter(col("price") > 0)
        .join("users", on="user", how="left")
        .derive(revenue=col("price") * col("count"), day=op("to_date", "when"))
        .deduplicate(by="id", order_by="when")
    )
    plan.output(columns, tables)        # the columns that come of it, or one error before anything runs

As JSON: [{"filter": {"greater": ["price", 0]}}, {"join": {"table": "users", "on": ["user"], "how": "left"}}, ...]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, cast

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.transform import verbs
from drivetrain.data.transform.expressions import Call, Expression, as_json, expression, from_json
from drivetrain.data.transform.forms import check_form, check_verb
from drivetrain.data.transform.types import type_named
from drivetrain.data.transform.verbs import Columns, How, Verb, names_of


@dataclass(frozen=True)
class Plan:
    """Verbs in the order in which they are applied. Each method gives a longer plan; none changes this one."""

    verbs: tuple[Verb, ...] = ()

    def select(self, *names: str) -> Plan:
        return self._then(verbs.Select(names))

    def rename(self, names: Mapping[str, str]) -> Plan:
        return self._then(verbs.Rename(tuple(names.items())))

    def cast(self, types: Mapping[str, str]) -> Plan:
        return self._then(verbs.Cast(tuple((name, type_named(kind)) for name, kind in types.items())))

    def filter(self, condition: Expression | str) -> Plan:
        return self._then(verbs.Filter(expression(condition)))

    def derive(self, values: Mapping[str, Any] | None = None, **more: Any) -> Plan:
        """Each value is an expression, the name of a column, or a number."""
        given = {**(values or {}), **more}
        return self._then(verbs.Derive(tuple((name, expression(value)) for name, value in given.items())))

    def join(self, table: str, *, on: Iterable[str] | str, how: How = "inner") -> Plan:
        return self._then(verbs.Join(table, names_of(on), how))

    def aggregate(self, values: Mapping[str, Call], *, by: Iterable[str] | str = ()) -> Plan:
        return self._then(verbs.Aggregate(names_of(by), _checked_calls(values, "aggregate")))

    def window(
        self, values: Mapping[str, Call], *, by: Iterable[str] | str, order_by: Iterable[str] | str = ()
    ) -> Plan:
        return self._then(verbs.Window(names_of(by), names_of(order_by), _checked_calls(values, "window")))

    def deduplicate(self, *, by: Iterable[str] | str, order_by: Iterable[str] | str = ()) -> Plan:
        return self._then(verbs.Deduplicate(names_of(by), names_of(order_by)))

    def sort(self, *by: str) -> Plan:
        return self._then(verbs.Sort(by))

    def sample(self, key: str, *, percent: int, salt: str = "") -> Plan:
        return self._then(verbs.Sample(key, percent, salt))

    def shuffle(self, key: str, *, seed: int = 0) -> Plan:
        given = cast("object", seed)  # as JSON has it
        if not isinstance(given, int) or isinstance(given, bool):
            raise InputError(f"shuffle: the seed is {given!r}. Allowed: whole numbers.")
        return self._then(verbs.Shuffle(key, seed))

    def map_batches(self, function: Callable[[Any], Any] | str, columns: Mapping[str, str]) -> Plan:
        """`function` is one, or "package.module:name" of one that travels with the code."""
        return self._then(verbs.MapBatches(function, tuple((name, type_named(kind)) for name, kind in columns.items())))

    def output(self, columns: Columns, tables: Mapping[str, Columns] | None = None) -> Columns:
        """The columns that come of a table with these columns.

        Args:
            columns: name -> type of the table.
            tables: the same of each table that is joined, by name.

        Raises:
            InputError: a verb does not go with the columns before it.
        """
        for verb in self.verbs:
            columns = verb.output(columns, tables or {})
        return columns

    def to_json(self) -> str:
        """The plan as a step's parameter.

        Raises:
            InputError: it has a function that no name leads to.
        """
        return json.dumps([_entry(verb) for verb in self.verbs], ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """
        Raises:
            InputError: the text is not a list of verbs, or names an operation that is not on the list.
        """
        try:
            content: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise InputError(f"plan is not JSON ({error}).") from None
        if not isinstance(content, list):
            raise InputError('plan is not a list of verbs. Example: [{"filter": {"greater": ["price", 0]}}].')
        plan = cls()
        for number, entry in enumerate(cast("list[object]", content), start=1):
            where = f"plan, verb {number}"
            item = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
            if len(item) != 1:
                raise InputError(f'{where} is {entry!r}. A verb is an object of one entry: {{"select": ["a", "b"]}}.')
            ((name, given),) = item.items()
            check_verb(name, where)
            check_form(name, given, f"{where}, {name}")
            try:
                plan = _with_verb(plan, name, given, f"{where}, {name}")
            except InputError as error:
                text = str(error)
                raise InputError(text if text.startswith(where) else f"{where}, {text}") from None
        return plan

    def _then(self, verb: Verb) -> Plan:
        return Plan((*self.verbs, verb))


def _values(given: Any, where: str) -> dict[str, Expression]:
    return {name: from_json(value, f"{where}: {name!r}") for name, value in given.items()}


def _checked_calls(values: Mapping[str, Any], where: str) -> tuple[tuple[str, Call], ...]:
    """Names with their operations.

    Raises:
        InputError: a value is no operation.
    """
    for name, value in values.items():
        if not isinstance(value, Call):
            raise InputError(f'{where}: {name!r} is not an operation, such as op("mean", "price").')
    return tuple(values.items())


def _with_verb(plan: Plan, name: str, given: Any, where: str) -> Plan:
    """The plan with one more verb; its JSON holds the arguments of the plan's method of this name."""
    add: Callable[..., Plan] = getattr(plan, name)
    if name in ("select", "sort"):
        return add(*names_of(given))
    if name in ("rename", "cast"):
        return add(given)
    if name == "filter":
        return add(from_json(given, where))
    if name == "derive":
        return add(_values(given, where))
    options, parameters = dict(given), signature(add).parameters
    for option in options:
        if option not in parameters:
            raise InputError(f"{where}: there is no option {option!r}. {did_you_mean(option, parameters)}")
    needed = {each.name for each in parameters.values() if each.default is each.empty}
    if missing := sorted(needed - options.keys()):
        raise InputError(f"{where}: {missing[0]} is missing.")
    if "values" in options:
        options["values"] = _values(options["values"], where)
    return add(**options)


def _entry(verb: Verb) -> Mapping[str, object]:
    def written(values: Sequence[tuple[str, Expression]]) -> dict[str, object]:
        return {name: as_json(value) for name, value in values}

    match verb:
        case verbs.Select():
            return {"select": verb.names}
        case verbs.Rename():
            return {"rename": dict(verb.names)}
        case verbs.Cast():
            return {"cast": dict(verb.types)}
        case verbs.Filter():
            return {"filter": as_json(verb.condition)}
        case verbs.Derive():
            return {"derive": written(verb.values)}
        case verbs.Join():
            return {"join": {"table": verb.table, "on": verb.on, "how": verb.how}}
        case verbs.Aggregate():
            return {"aggregate": {"values": written(verb.values), "by": verb.by}}
        case verbs.Window():
            return {"window": {"values": written(verb.values), "by": verb.by, "order_by": verb.order_by}}
        case verbs.Deduplicate():
            return {"deduplicate": {"by": verb.by, "order_by": verb.order_by}}
        case verbs.Sort():
            return {"sort": verb.by}
        case verbs.Sample():
            return {"sample": {"key": verb.key, "percent": verb.percent, "salt": verb.salt}}
        case verbs.Shuffle():
            return {"shuffle": {"key": verb.key, "seed": verb.seed}}
        case verbs.MapBatches():
            if not isinstance(verb.function, str):
                raise InputError(
                    'map_batches: a function in a step\'s parameters is named, as in "my_package.features:add".'
                )
            return {"map_batches": {"function": verb.function, "columns": dict(verb.columns)}}
