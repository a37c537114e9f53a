"""The operations that a transformation may use: name, what they take, the type of what they give.

An operation is on this list when its values are defined for nulls, NaN, overflow and time zones; the suite
`tests/contract/engines` holds every engine to that, value by value. Anything else is refused by name when the
transformation is declared.

What holds for all of them: a null argument gives null unless the summary says otherwise. NaN equals NaN and is larger
than any number. Integer arithmetic is exact: it gives int64 or an error, never a wrapped value. Floats are those of
IEEE 754; exp, log, sin, cos and power give the float nearest to the exact value. Zeros of aggregates are 0.0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from drivetrain.base.errors import InputError, did_you_mean
from drivetrain.data.transform import types

Place = Literal["row", "aggregate", "window"]
Result = Callable[[Sequence[str]], str | None]

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


@dataclass(frozen=True)
class Operation:
    """One entry of the list.

    `takes` has a kind of `types.is_kind` for each argument; `=` before it means a constant, a last `*` any number more
    of the kind before it. `gives` is the type of the result, or a rule over the types of the arguments (None: these
    types do not go together). A `row` operation works row by row, an `aggregate` makes one value of a group, a
    `window` needs the order of the rows around.
    """

    name: str
    place: Place
    takes: tuple[str, ...]
    gives: str | Result
    summary: str

    def is_constant(self, place: int) -> bool:
        """Return True if the argument at this place is a constant, so that a bare text there is not a column."""
        return self._kind(place).startswith("=")

    def check_count(self, count: int) -> None:
        """
        Raises:
            InputError: it takes another number of arguments.
        """
        many = self.takes[-1:] == ("*",)
        least = len(self.takes) - many
        if count < least or (count > least and not many):
            takes = f"{least} or more" if many else str(least)
            raise InputError(f"{self.name} takes {takes} arguments; {count} are given. It gives {self.summary}.")

    def check_kinds(self, given: Sequence[str], where: str) -> None:
        """
        Args:
            given: the types of the arguments; for a constant, the type of its value.
            where: begins a message.

        Raises:
            InputError: an argument of a type that it does not take.
        """
        for place, name in enumerate(given):
            kind = self._kind(place).removeprefix("=")
            if not types.is_kind(name, kind) or (name == "null" and kind != "any" and self.is_constant(place)):
                raise InputError(
                    f"{where}: argument {place + 1} of {self.name} is of the type {name}; it takes {_KINDS[kind]}. "
                    "Cast it first, or use another operation."
                )

    def result(self, given: Sequence[str], where: str) -> str:
        """The type of the result.

        Raises:
            InputError: the types do not go together.
        """
        found = self.gives if isinstance(self.gives, str) else self.gives(given)
        if found is None:
            raise InputError(
                f"{where}: {self.name} cannot be made of {', '.join(given)}. Cast the arguments to one type first."
            )
        return found

    def _kind(self, place: int) -> str:
        if place < len(self.takes) and self.takes[place] != "*":
            return self.takes[place]
        return self.takes[-2] if self.takes[-1:] == ("*",) else "any"


_KINDS = {
    "any": "any type",
    "number": "integers and floats",
    "integer": "integers",
    "float": "floats",
    "text": "text",
    "bool": "bools",
    "date": "dates and time stamps",
    "time": "time stamps",
    "ordered": "numbers, decimals, text, bools, dates and time stamps",
}


def operation(name: str) -> Operation:
    """The operation of this name.

    Raises:
        InputError: it is not on the list; the message says what to use instead.
    """
    found = OPERATIONS.get(name)
    if found is None:
        instead = _INSTEAD.get(name)
        advice = f"Use {instead}." if instead else did_you_mean(name, OPERATIONS)
        raise InputError(
            f"there is no operation {name!r}. {advice} What no operation does, `map_batches` does: a function of your "
            "own on Arrow batches."
        )
    return found


def _first(given: Sequence[str]) -> str | None:
    return given[0]


def _arithmetic(given: Sequence[str]) -> str | None:
    return "float64" if any(types.is_float(name) for name in given) else "int64"


def _comparable(given: Sequence[str]) -> str | None:
    return "bool" if _comparison_type(given) else None


def _comparison_type(given: Sequence[str]) -> str | None:
    if all(types.is_decimal(name) or name == "null" for name in given):
        return "null" if all(name == "null" for name in given) else "decimal"
    return types.common_type(given)


def _chosen(given: Sequence[str]) -> str | None:
    """The result type of if_else: the common type of its two values."""
    return types.common_type(given[1:])


def _sum(given: Sequence[str]) -> str | None:
    if types.is_decimal(given[0]):
        return types.decimal_type(types.MAX_DECIMAL_DIGITS, types.scale_of(given[0]))
    return _arithmetic(given) if types.is_kind(given[0], "number") else None


def _cast(given: Sequence[str]) -> str | None:
    return given[1]  # the type that the constant names; `plan.typed` puts it there


def _between(given: Sequence[str]) -> str | None:
    """Both time stamps have a zone, or none has."""
    return "float64" if len({types.zone_of(name) is None for name in given if name != "null"}) < 2 else None


def _zoned(given: Sequence[str]) -> str | None:
    return given[1]


_ROW: tuple[tuple[str, str, str | Result, str], ...] = (
    # Arithmetic
    ("add", "number number", _arithmetic, "the sum"),
    ("subtract", "number number", _arithmetic, "the difference"),
    ("multiply", "number number", _arithmetic, "the product"),
    ("divide", "number number", "float64", "the quotient as a float; by zero inf, -inf or NaN"),
    ("floor_divide", "integer integer", "int64", "the quotient rounded down; by zero null"),
    ("modulo", "integer integer", "int64", "the rest with the sign of the divisor; by zero null"),
    ("negate", "number", _arithmetic, "the number with the other sign"),
    ("absolute", "number", _arithmetic, "the number without its sign"),
    ("power", "number number", "float64", "the first to the power of the second; 1 of 1, and to the power of 0"),
    ("square_root", "number", "float64", "the root; NaN below zero"),
    ("exp", "number", "float64", "e to this power"),
    ("log", "number", "float64", "the natural logarithm; -inf of zero, NaN below"),
    ("sin", "number", "float64", "the sine of radians"),
    ("cos", "number", "float64", "the cosine of radians"),
    ("nearest_float", "integer", "float64", "the float that is nearest; the last of more than 15 digits may change"),
    ("floor", "float", _first, "the whole number below"),
    ("ceiling", "float", _first, "the whole number above"),
    ("round", "float =integer", _first, "rounded to so many digits, exact halves to the even digit"),
    ("sign", "number", _arithmetic, "-1, 0 or 1; of NaN NaN"),
    ("clip", "number =number =number", _arithmetic, "held between two numbers; NaN stays"),
    # Comparison
    ("equal", "any any", _comparable, "whether they are equal"),
    ("not_equal", "any any", _comparable, "whether they differ"),
    ("less", "ordered ordered", _comparable, "whether the first is less"),
    ("less_equal", "ordered ordered", _comparable, "whether the first is not greater"),
    ("greater", "ordered ordered", _comparable, "whether the first is greater"),
    ("greater_equal", "ordered ordered", _comparable, "whether the first is not less"),
    ("between", "ordered ordered ordered", _comparable, "whether it lies between two values, both included"),
    ("is_in", "any =any *", _comparable, "whether it is one of the constants; true beats null"),
    # Logic, of three values as in SQL
    ("and", "bool bool", "bool", "true where both are; null and false is false"),
    ("or", "bool bool", "bool", "true where one is; null or true is true"),
    ("xor", "bool bool", "bool", "true where exactly one is"),
    ("not", "bool", "bool", "the opposite"),
    # Missing values
    ("is_null", "any", "bool", "whether it is null, which NaN is not"),
    ("is_nan", "float", "bool", "whether it is NaN"),
    ("fill_null", "any any", types.common_type, "the second where the first is null"),
    ("fill_nan", "float any", types.common_type, "the second where the first is NaN"),
    ("coalesce", "any any *", types.common_type, "the first that is not null"),
    ("null_if", "any any", lambda given: given[0] if _comparison_type(given) else None, "null where both are equal"),
    ("if_else", "bool any any", _chosen, "the second where the first is true, else the third (also where it is null)"),
    ("cast", "any =any", _cast, "as another type; an error where a value does not fit, or loses digits as a float"),
    # Text
    ("lower", "text", "string", "in small letters"),
    ("upper", "text", "string", "in capitals"),
    ("strip", "text", "string", "without blanks at both ends"),
    ("length", "text", "int64", "the number of characters"),
    ("concat", "text text *", "string", "one after the other"),
    ("contains", "text =text", "bool", "whether the text is in it, letter by letter"),
    ("starts_with", "text =text", "bool", "whether it begins so"),
    ("ends_with", "text =text", "bool", "whether it ends so"),
    ("replace", "text =text =text", "string", "each occurrence replaced, letter by letter"),
    ("slice", "text =integer =integer", "string", "so many characters (third) from a place (second, from 0)"),
    # Dates and time stamps; parts are those of the column's own zone
    ("year", "date", "int64", "the year"),
    ("month", "date", "int64", "the month, 1 to 12"),
    ("day", "date", "int64", "the day of the month"),
    ("weekday", "date", "int64", "1 for Monday to 7 for Sunday"),
    ("day_of_year", "date", "int64", "1 to 366"),
    ("hour", "time", "int64", "the hour, 0 to 23"),
    ("minute", "time", "int64", "the minute"),
    ("second", "time", "int64", "the whole second"),
    ("truncate", "time =text", _first, f"the beginning of its {', '.join(UNITS)}"),
    ("to_date", "date", "date32", "the day"),
    ("to_zone", "time =any", _zoned, "the same instant in another zone; one without a zone counts as UTC"),
    ("add_seconds", "time integer", _first, "later by so many seconds"),
    ("seconds_between", "time time", _between, "seconds from the second to the first"),
    ("epoch_seconds", "time", "float64", "seconds since 1970 in UTC; one without a zone counts as UTC"),
    # Keys
    ("key_hash", "any =text", lambda given: "uint64" if _is_key(given[0]) else None, "BLAKE2b of salt and key"),
    ("bucket", "any =integer =text", lambda given: "int64" if _is_key(given[0]) else None,
     "a number below the second argument, by the key's hash"),
)  # fmt: skip
_AGGREGATE: tuple[tuple[str, str, str | Result, str], ...] = (
    ("sum", "any", _sum, "the sum, exact for integers; null without a value"),
    ("mean", "number", "float64", "the mean; null without a value"),
    ("variance", "number", "float64", "the sample variance; null below two values"),
    ("standard_deviation", "number", "float64", "the sample standard deviation; null below two values"),
    ("min", "ordered", _first, "the least; NaN only where all are"),
    ("max", "ordered", _first, "the greatest; NaN only where all are"),
    ("count", "any", "int64", "the number of values that are not null"),
    ("rows", "", "int64", "the number of rows"),
    ("distinct", "any", "int64", "the number of different values, null left out; NaN is one"),
    ("quantile", "number =number", "float64", "the quantile of a fraction, (1 - p) a + p b between two values"),
    ("any", "bool", "bool", "whether one is true; null without a value"),
    ("all", "bool", "bool", "whether all are true; null without a value"),
)
_WINDOW: tuple[tuple[str, str, str | Result, str], ...] = (
    ("row_number", "", "int64", "1 for the first row of a partition, and so on"),
    ("rank", "", "int64", "the row number of the first row that is equal in the order"),
    ("lag", "any =integer", _first, "the value so many rows before"),
    ("lead", "any =integer", _first, "the value so many rows after"),
    ("cumulative_sum", "number", _arithmetic, "the sum up to this row; nulls are passed over"),
)

_PLACES: tuple[tuple[Place, tuple[tuple[str, str, str | Result, str], ...]], ...] = (
    ("row", _ROW),
    ("aggregate", _AGGREGATE),
    ("window", _WINDOW),
)
OPERATIONS: dict[str, Operation] = {
    name: Operation(name, place, tuple(takes.split()), gives, summary)
    for place, rows in _PLACES
    for name, takes, gives, summary in rows
}
# What people look for under another name, or what engines disagree about.
_INSTEAD = {
    "apply": "`map_batches`, a function of your own on Arrow batches",
    "map": "`map_batches`, a function of your own on Arrow batches",
    "median": "quantile with the fraction 0.5",
    "std": "standard_deviation",
    "var": "variance",
    "abs": "absolute",
    "sqrt": "square_root",
    "ceil": "ceiling",
    "len": "rows for a group, length for a text",
    "len_chars": "length",
    "n_unique": "distinct",
    "nunique": "distinct",
    "when": "if_else",
    "where": "if_else",
    "if": "if_else",
    "iif": "if_else",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "isnull": "is_null",
    "stddev": "standard_deviation",
    "avg": "mean",
    "average": "mean",
    "like": "contains, starts_with or ends_with",
    "least": "if_else with less, or clip between constants",
    "greatest": "if_else with greater, or clip between constants",
    "substr": "slice, whose places count from 0",
    "substring": "slice, whose places count from 0",
    "cumsum": "cumulative_sum in a window",
    "md5": "key_hash, which is of 64 bits",
    "sha256": "key_hash, which is of 64 bits",
    "uuid": "key_hash of a column: a transformation gives the same rows on each run",
    "pow": "power",
    "mod": "modulo",
    "count_distinct": "distinct",
    "current_date": "a parameter of the step: a transformation gives the same rows on each run",
    "current_timestamp": "a parameter of the step: a transformation gives the same rows on each run",
    "trim": "strip",
    "strip_chars": "strip",
    "shift": "lag or lead in a window",
    "cum_sum": "cumulative_sum in a window",
    "dayofweek": "weekday: 1 for Monday to 7 for Sunday",
    "dropna": "`filter` with is_null and is_nan: engines disagree whether NaN is missing",
    "drop_nulls": "`filter` with is_null",
    "unique": "`deduplicate`",
    "first": "`deduplicate` with order_by, or row_number in a window and `filter`",
    "last": "`deduplicate` with order_by, or row_number in a window and `filter`",
    "sample": "`sample`, which is by the key's hash",
    "rand": "bucket: the hash of a key is the same on each run",
    "random": "bucket: the hash of a key is the same on each run",
    "regexp": "contains, starts_with, ends_with or replace: engines have different regular expressions",
    "regexp_replace": "replace: engines have different regular expressions",
    "extract": "slice, or `map_batches`: engines have different regular expressions",
    "hash": "key_hash",
    "now": "a parameter of the step: a transformation gives the same rows on each run",
    "strptime": "cast of ISO 8601 text to date32 or timestamp[us]",
    "to_datetime": "cast of ISO 8601 text to timestamp[us]",
    "convert_time_zone": "to_zone",
}


def _is_key(name: str) -> bool:
    return types.is_integer(name) or types.is_kind(name, "text")
