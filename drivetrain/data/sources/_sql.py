"""Read a query of a database by a driver of ADBC, which streams Arrow batches.

A database has no versions. With a `watermark`, a column that grows with each new row (an id, a time of insertion), the
version is its greatest value and the number of rows up to there. Only these rows are read, in the order of the
watermark and then of all columns. Without one nothing tells whether the rows are still the same: there is no version.

Where the database has a hash of a row, the sum over all rows that were read is kept with the version. It tells later
that rows were changed in place.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from drivetrain.base.errors import InputError, first_line, warn
from drivetrain.data.arrow import Batch, DataType, Schema, arrow, plain_schema
from drivetrain.data.increments import NotUsableError
from drivetrain.data.sources import Options, no_such_version
from drivetrain.data.sources._batches import plain_batches

_ORDER_HINT = " Rows are ordered by the watermark and then by all columns: cast this one in the query, such as to text."
# What the rows of the query are called in SQL.
ROWS = "rows_of_source"
_RANGE_EXAMPLE = "query='select id, price from orders' watermark=id"


@dataclass(frozen=True)
class Query:
    """A query, with the rows up to a watermark, or all of them."""

    address: str
    connect: Callable[[], Any]
    errors: tuple[type[Exception], ...]
    query: str
    watermark: str
    highest: str = ""
    """The greatest value of the watermark, as SQL."""
    rows: int = 0
    after: str = ""
    """Only rows beyond this value of the watermark, as SQL."""
    known: Schema = field(default=None, compare=False)
    row_hash: str = ""
    """A hash of a row as SQL, an integer; empty for a database that has none."""
    hashed_before: int = 0
    """The sum of the hashes of the rows up to `after`, as they were when they were read."""
    check: Callable[[Query, Schema], None] | None = field(default=None, compare=False)
    """Refuses what the driver would read otherwise than it stands there; is given the driver's columns."""

    @property
    def identity(self) -> Mapping[str, Any]:
        if not self.watermark:
            return {"version": "", "query": self.query}
        version = f"{self.highest}/{self.rows}"
        return {"version": version, "query": self.query, "watermark": self.watermark}

    @property
    def checks(self) -> Mapping[str, Any]:
        hashed = self._hashed(self.chosen) if self.watermark else None
        return {} if hashed is None else {"row_hashes": str(self.hashed_before + hashed)}

    @property
    def schema(self) -> Schema:
        return self._driver_schema if self.known is None else self.known

    @functools.cached_property
    def _driver_schema(self) -> Schema:
        """The driver's schema of these rows, checked."""
        with self._cursor(f"select * from {self._rows} where 1 = 0") as cursor:
            names = [column[0] for column in cursor.description]
        if self.watermark and self.watermark not in names:
            raise InputError(f"watermark: the query gives no column {self.watermark!r}. There are: {', '.join(names)}.")
        with self._cursor(self._ordered(len(names))) as cursor:
            found = cursor.fetch_record_batch().schema
        check_types(self.address, found)
        if self.check:
            self.check(self, found)
        return plain_schema(found)

    def batches(self) -> Iterator[Batch]:
        schema = self.schema
        if self.known is not None:
            self._check_types_are_known()
        with self._cursor(self._ordered(len(schema))) as cursor:
            for batch in plain_batches(cursor.fetch_record_batch(), schema, self.address, advice=""):
                check_dates(self.address, batch)
                yield batch

    def added_since(self, earlier: Mapping[str, Any], schema: Schema) -> Query:
        if not self.watermark or not earlier["version"]:
            raise NotUsableError("a query without a watermark does not tell which rows are new")
        if (earlier["query"], earlier["watermark"]) != (self.query, self.watermark):
            raise NotUsableError("the query is another one")
        highest, _, rows = earlier["version"].rpartition("/")
        if self.count(f"{self._quoted} <= {highest}") != int(rows):
            raise NotUsableError(f"rows up to {self.watermark} = {highest} were changed or removed")
        before = earlier.get("row_hashes")
        hashed = None if before is None else self._hashed(f"{self._rows} where {self._quoted} <= {highest}")
        if before is None or hashed is None:
            return replace(self, after=highest, known=schema, row_hash="")
        if hashed != int(before):
            warn(
                f"rows up to {self.watermark} = {highest} are no longer what was read of them: some were changed in "
                "place. They stay as they were read; leave out previous to read all anew"
            )
        return replace(self, after=highest, known=schema, hashed_before=int(before))

    def _hashed(self, rows: str) -> int | None:
        """The sum of the hashes of rows; None where the database has no such hash."""
        if not self.row_hash:
            return None
        try:
            return int(self.first(f"select cast(coalesce(sum({self.row_hash}), 0) as text) from {rows}")[0])
        except InputError:  # speaks the protocol, and lacks the function
            return None

    def _check_types_are_known(self) -> None:
        """
        Raises:
            NotUsableError: in a column, new rows have values of another type than those before.
        """
        for column in self._driver_schema:
            if column.name not in self.known.names or column.type == self.known.field(column.name).type:
                continue
            quoted = quoted_name(column.name)
            if self.first(f"select count({quoted}) from {self.chosen}")[0]:
                before = self.known.field(column.name).type
                raise NotUsableError(f"column {column.name!r} was of the type {before}, and is {column.type} now")

    def first(self, sql: str) -> Any:
        """The first row of what a query gives."""
        with self._cursor(sql) as cursor:
            return cursor.fetchone()

    def bounded(self, version: str) -> Query:
        """The same up to the greatest value of the watermark, or up to that of a version."""
        if not self.watermark:
            if version:
                raise InputError(f"{self.address}: a query without a watermark has no version. {_RANGE_EXAMPLE}")
            return self
        if version:
            highest, _, rows = version.rpartition("/")
            if highest and rows.isdecimal() and _is_literal(highest):
                found = self.count(f"{self._quoted} <= {highest}")
                if found == int(rows):
                    return replace(self, highest=highest, rows=found)
            raise no_such_version(version, self.bounded("").identity["version"], self.address)
        sql = f"select max({self._quoted}), count(*), count({self._quoted}) from {self._rows}"
        with self._cursor(sql) as cursor:
            try:
                value, rows, present = cursor.fetchone()
            except OverflowError:  # what Python makes of a date of infinity
                value, rows, present = math.inf, 1, 1
        if not rows:
            raise InputError(f"{self.address}: the query gives no row.")
        if present != rows:
            raise InputError(
                f"{self.address}: the watermark {self.watermark!r} is missing in {rows - present:,} of {rows:,} rows. "
                "Choose a column that every row has, or leave these rows out in the query."
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(
                f"{self.address}: the greatest value of the watermark {self.watermark!r} is infinity or NaN, and no "
                "row can come after it. Choose another column, or leave these rows out in the query."
            )
        return replace(self, highest=_literal(value), rows=rows)

    def count(self, condition: str) -> int:
        with self._cursor(f"select count(*) from {self._rows} where {condition}") as cursor:
            return cursor.fetchone()[0]

    @property
    def _rows(self) -> str:
        # The line ends so that a comment at the end of the query does.
        return f"({self.query}\n) as {ROWS}"

    @property
    def chosen(self) -> str:
        """The rows that are read, as what stands behind `from`."""
        if not self.watermark:
            return self._rows
        bounds = [f"{self._quoted} <= {self.highest}", *([f"{self._quoted} > {self.after}"] if self.after else [])]
        return f"{self._rows} where {' and '.join(bounds)}"

    @property
    def _quoted(self) -> str:
        return quoted_name(self.watermark)

    def _ordered(self, columns: int) -> str:
        sql = f"select * from {self.chosen}"
        order = ", ".join([self._quoted, *map(str, range(1, columns + 1))])
        return f"{sql} order by {order}" if self.watermark else sql

    @contextlib.contextmanager
    def _cursor(self, sql: str) -> Generator[Any]:
        try:
            connected = self.connect()
        except self.errors as error:
            raise InputError(f"{self.address} cannot be reached: {first_line(error)}.") from error
        try:
            with connected as connection, connection.cursor() as cursor:
                cursor.execute(sql)
                yield cursor
        except self.errors as error:
            hint = _ORDER_HINT if "ordering operator" in str(error) else ""
            raise InputError(f"{self.address} refuses the query: {first_line(error)}.{hint}") from error


def quoted_name(column: str) -> str:
    """The name of a column as SQL."""
    return '"' + column.replace('"', '""') + '"'


def opened(
    address: str,
    connect: Callable[[], Any],
    errors: tuple[type[Exception], ...],
    options: Options,
    check: Callable[[Query, Schema], None] | None = None,
    row_hash: str = "",
) -> Query:
    if not options.query.strip():
        raise InputError(f"{address} is a database: say what to read, for example {_RANGE_EXAMPLE}.")
    query = options.query.strip().rstrip(";")
    found = Query(address, connect, errors, query, options.watermark, check=check, row_hash=row_hash)
    return found.bounded(options.version)


def _literal(value: Any) -> str:
    """A value of a watermark as SQL that any database reads."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return repr(value)
    return "'" + str(value).replace("'", "''") + "'"


def _is_literal(text: str) -> bool:
    """Return True if a text has the form that `_literal` makes; it comes from a parameter."""
    if text[0] == text[-1] == "'" and len(text) > 1:
        return "'" not in text[1:-1].replace("''", "")
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii()


# In whole days and in microseconds since 1970: the years 1 to 9999. A driver makes other numbers of infinity.
_DAYS = (-719_162, 2_932_896)
_MICROSECONDS = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
_PER_MICROSECOND = {"s": 1e-6, "ms": 1e-3, "us": 1, "ns": 1e3}


def check_types(where: str, schema: Schema) -> None:
    """
    Args:
        where: the address of the database.
        schema: what the driver gives.

    Raises:
        InputError: two columns have one name, Parquet lacks a column's type, or the driver returns other values for it
            than the database shows (money as cents, uuid and inet as bytes).
    """
    names = schema.names
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{where}: two columns of the query are called {repeated!r}. Rename one: select x as y.")
    for each in schema:
        if kind := _refused(each):
            cast = "numeric" if kind == "money" else "text"
            raise InputError(
                f"{where}: column {each.name!r} is of the type {kind}, whose values are not read as they are. Cast it "
                f"in the query: cast({each.name} as {cast}) as {each.name}."
            )


def check_dates(where: str, batch: Batch) -> None:
    """
    Raises:
        InputError: a date or time stamp is not in the years 1 to 9999.
    """
    pa = arrow()
    for each, column in zip(batch.schema, batch.columns, strict=True):
        if (bounds := _bounds(each.type)) is None:
            continue
        integers = pa.int32() if pa.types.is_date32(each.type) else pa.int64()
        ends = pa.compute.min_max(column.cast(integers)).as_py()
        if ends["min"] is not None and not bounds[0] <= ends["min"] <= ends["max"] <= bounds[1]:
            raise InputError(
                f"{where}: column {each.name!r} has a date before the year 1 or after 9999, such as infinity. Make it "
                f"null in the query: nullif({each.name}, 'infinity'), or leave the row out."
            )


def _bounds(data_type: DataType) -> tuple[float, float] | None:
    pa = arrow()
    if pa.types.is_date32(data_type):
        return _DAYS
    if not pa.types.is_timestamp(data_type):
        return None
    least, greatest = (end * _PER_MICROSECOND[data_type.unit] for end in _MICROSECONDS)
    return least, greatest


def _refused(field: Any) -> str:
    """The database's name of a type that is refused; empty for others."""
    pa = arrow()
    metadata: dict[bytes, bytes] = field.metadata or {}
    named = metadata.get(b"POSTGRESQL:type", b"").decode()
    kind = field.type
    if pa.types.is_list(kind):
        kind = kind.value_type
    if named in ("money", "_money") or kind == pa.month_day_nano_interval():
        return named or "interval"
    if not isinstance(kind, pa.BaseExtensionType):
        return ""
    # Text keeps its value: numeric, json.
    return "" if pa.types.is_string(kind.storage_type) else named or kind.extension_name
