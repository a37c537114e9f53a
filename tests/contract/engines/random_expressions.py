"""Random expressions over columns of hostile values, the same for a seed."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from drivetrain.data.transform.expressions import Expression, col, lit, op
from drivetrain.data.transform.operations import UNITS

NAN, INF = math.nan, math.inf
BIG = (1 << 63) - 1
ZONES = ("Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu",
         "America/Havana", "America/St_Johns", "UTC")  # fmt: skip
# Around changes of the clocks, by one hour, by half an hour, at midnight; beyond what tables of zones hold.
INSTANTS = ["2026-03-29 00:59:59.999999", "2026-03-29 01:00:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00",
            "2026-04-04 14:45:00", "2026-04-04 15:15:00", "2026-10-03 15:31:00", "2018-11-04 03:20:00",
            "2018-02-18 01:30:00", "2018-02-18 02:30:00", "2026-03-08 05:10:00", "2026-11-01 04:30:00",
            "2026-11-01 05:30:00", "2010-03-14 03:40:00", "2010-11-07 02:45:00", "1969-12-31 23:59:59.5",
            "1900-01-01 00:00:00", "1880-06-01 12:34:56.789012", "2150-07-01 12:00:00", "2150-03-29 01:30:00",
            "2399-12-31 23:30:00", "9998-12-30 21:00:00", "0002-01-03 04:05:06"]  # fmt: skip
FLOATS = [0.0, -0.0, 1.0,
          -1.0, 0.5, -2.5, 2.0, 3.0, 0.1, 0.285, 0.575, 1e-9, -1e-300, 5e-324, 1e16, 1e22, 709.7, -745.0,
          1e300, -1e300, 1.7976931348623157e308, INF, -INF, NAN, 9007199254740992.0, 9.223372036854775807e18,
          262143.0**2, 134217729.0, 6381956970095103 * 2.0**797]  # fmt: skip
INTEGERS = [0, 1, -1, 2, 3, -7, 10, 100, 2**24 + 1, 2**53 + 1, -(2**53) - 1, BIG, -BIG - 1, 2**62, 86400, 10**15]
TEXTS = ["", "a", "Abc",
         " é\t", "a.c.a", "ΑΣ", "straße", "1", "-5", "007", "1e3", " 1", "nan", "Infinity", "true", "FALSE",
         "2024-02-29", "2023-02-29", "2024-01-02 03:04:05", "2024-01-02T03:04:05.1234567", "x\x1f", "🙂🙃", "0.125",
         "-.5", "1.", "+7", "1e400", "1_0", "٣", "a\x00b", "\n"]  # fmt: skip


def columns(seed: int, rows: int) -> dict[str, tuple[str, list[Any]]]:
    """Name -> type and values."""
    draw = random.Random(seed)

    def some(values: list[Any], other: Any = None) -> list[Any]:
        made = [draw.choice(values) if other is None or draw.random() < 0.6 else other() for _ in range(rows)]
        return [None if draw.random() < 0.1 else each for each in made]

    def small(bits: int, signed: bool = True) -> list[int]:
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        return [low, high, 0, 1, 3, high // 2]

    def at(zone: bool) -> list[dt.datetime]:
        made = [dt.datetime.fromisoformat(each) for each in INSTANTS]
        return [each.replace(tzinfo=dt.UTC) for each in made] if zone else made

    days = [each.date() for each in at(False)] + [dt.date(2024, 2, 29), dt.date(1582, 10, 10), dt.date(1900, 3, 1)]
    numbers = ["0.00", "-0.01", "1.10", "99999999.99", "-99999999.99", "2.50"]
    found: dict[str, tuple[str, list[Any]]] = {
        **{f"int{bits}": (f"int{bits}", some(small(bits))) for bits in (8, 16, 32)},
        **{f"uint{bits}": (f"uint{bits}", some(small(bits, False))) for bits in (8, 32, 64)},
        "i": ("int64", some(INTEGERS, lambda: draw.randrange(-1000, 1000))),
        "j": ("int64", some([0, 1, 2, 3, -2, 5, 60], lambda: draw.randrange(-9, 9))),
        "x": ("float64", some(FLOATS, lambda: draw.uniform(-10, 10))),
        "y": ("float64", some([1.0, 2.0, 0.5, -3.0, 1.5, 0.0], lambda: draw.gauss(0, 100))),
        "f": ("float32", some([0.5, -0.0, NAN, INF, 16777216.0, 0.10000000149011612, 3.4028234663852886e38, 1.25])),
        "b": ("bool", some([True, False])),
        "c": ("bool", some([True, False])),
        "s": ("string", some(TEXTS)),
        "t": ("string", some(["a", "b", "x", "", "Abc"])),
        "d": ("date32", some(days)),
        "e": ("date32", some(days)),
        "when": ("timestamp[us]", some(at(False))),
        "m": ("decimal(10, 2)", some([Decimal(each) for each in numbers])),
        "k": ("decimal(12, 4)", some([Decimal(each + "00") for each in numbers])),
    }
    for number, zone in enumerate(ZONES):
        found[f"z{number}"] = (f"timestamp[us, tz={zone}]", some(at(True)))
    return found


class Expressions:
    """Draws expressions; what they are made of is by the kind of the result."""

    def __init__(self, seed: int, kinds: Mapping[str, str]) -> None:
        self._draw = random.Random(seed)
        self._of: dict[str, list[str]] = {}
        for name, kind in kinds.items():
            self._of.setdefault(kind.partition("(")[0].partition(",")[0], []).append(name)

    def _some(self, *values: Any) -> Any:
        return self._draw.choice(values)

    def any(self, depth: int) -> Expression:
        return self.make(self._some("integer", "float", "float", "bool", "text", "date", "time", "chosen"), depth)

    def make(self, kind: str, depth: int) -> Expression:
        draw = self._draw
        if kind != "chosen" and (depth == 0 or (depth < 3 and draw.random() < 0.15)):
            return self._leaf(kind)
        return getattr(self, f"_{kind}")(max(0, depth - 1))

    def _leaf(self, kind: str) -> Expression:
        draw = self._draw
        if kind in ("integer", "float", "text", "bool") and draw.random() < 0.2:
            values: dict[str, list[Any]] = {"integer": [0, 1, 2, -3, 7], "float": [0.0, -0.0, 0.5, 2.0, NAN, INF, 1e-3],
                                            "text": ["a", "", "é", "1"], "bool": [True, False]}  # fmt: skip
            return lit(draw.choice(values[kind]))
        names = {"integer": ("int64", "int64", "int8", "int16", "int32", "uint8", "uint32"),
                 "float": ("float64", "float32"),
                 "text": ("string",), "bool": ("bool",), "date": ("date32",), "time": ("timestamp[us]", "timestamp[us"),
                 "zoned": ("timestamp[us",), "naive": ("timestamp[us]",), "decimal": ("decimal",)}[kind]  # fmt: skip
        return col(draw.choice(self._of[draw.choice(names)]))

    def _number(self, depth: int) -> Expression:
        return self.make(self._some("integer", "float"), depth)

    def _integer(self, depth: int) -> Expression:
        draw, make, some = self._draw, self.make, self._some
        return draw.choice(
            (
                lambda: op(
                    some("add", "subtract", "floor_divide", "modulo"),
                    make("integer", depth),
                    make("integer", depth),
                ),
                lambda: op("multiply", col("j"), make("integer", depth)),
                lambda: op(some("negate", "absolute", "sign"), make("integer", depth)),
                lambda: op("clip", make("integer", depth), draw.randrange(-9, 3), draw.randrange(0, 50)),
                lambda: op("length", make("text", depth)),
                lambda: op(
                    some("year", "month", "day", "weekday", "day_of_year"),
                    make(some("date", "time"), depth),
                ),
                lambda: op(some("hour", "minute", "second"), make("time", depth)),
                lambda: op("bucket", make(some("integer", "text"), depth), 10, "s"),
                lambda: op("cast", make(some("bool", "integer"), depth), some("int64", "int32")),
                lambda: op(
                    "cast",
                    op("clip", op("fill_nan", col(draw.choice("xy")), 0.5), -100.0, 100.0),
                    some("int16", "int64"),
                ),
                lambda: op("cast", col(some("s", "x", "i", "uint64")), some("int64", "int8", "int32")),
                lambda: op("if_else", make("bool", depth), make("integer", depth), make("integer", depth)),
                lambda: op(some("fill_null", "coalesce", "null_if"), make("integer", depth), make("integer", depth)),
            )
        )()

    def _float(self, depth: int) -> Expression:
        draw, make, some = self._draw, self.make, self._some
        return draw.choice(
            (
                lambda: op(some("add", "subtract", "multiply"), make("float", depth), self._number(depth)),
                lambda: op("divide", self._number(depth), self._number(depth)),
                lambda: op("divide", self._number(depth), lit(some(3, 10, 0.1, 0.0, -0.0, 7.5))),
                lambda: op("power", self._number(depth), self._number(depth)),
                lambda: op("power", col(draw.choice("xyj")), lit(some(2, 3, 0.5, 1.5, -1, 0.1, NAN, INF))),
                lambda: op(some("exp", "log", "sin", "cos", "square_root"), self._number(depth)),
                lambda: op(some("negate", "absolute", "sign", "floor", "ceiling"), make("float", depth)),
                lambda: op("round", make("float", depth), some(0, 0, 1, 2, 5, 17, 30)),
                lambda: op("clip", self._number(depth), some(-1.5, -0.0, 0), some(0.0, 2, 7.5)),
                lambda: op("nearest_float", make("integer", depth)),
                lambda: op("seconds_between", *(col(draw.choice(self._of["timestamp[us"])) for _ in range(2))),
                lambda: op("epoch_seconds", make("time", depth)),
                lambda: op("cast", make(some("float", "decimal", "bool"), depth), "float64"),
                lambda: op("cast", col(some("s", "i", "j", "uint64", "x", "m")), some("float64", "float32")),
                lambda: op("if_else", make("bool", depth), make("float", depth), self._number(depth)),
                lambda: op(some("fill_null", "coalesce"), make("float", depth), self._number(depth)),
                lambda: op(some("fill_nan", "null_if"), make("float", depth), self._number(depth)),
            )
        )()  # fmt: skip

    def _bool(self, depth: int) -> Expression:
        draw, make, some = self._draw, self.make, self._some
        order = some("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
        kind = some("integer", "float", "text", "date", "bool", "zoned", "naive")
        return draw.choice(
            (
                lambda: op(order, self._number(depth), self._number(depth)),
                lambda: op(order, make(kind, depth), make(kind, depth)),
                lambda: op(order, col(draw.choice("mk")), col(draw.choice("mk"))),
                lambda: op("between", self._number(depth), self._number(depth), self._number(depth)),
                lambda: op("between", make("float", depth), some(None, -1.5), some(None, 2, INF)),
                lambda: op("is_in", self._number(depth), *draw.sample([0, 1, 2.5, -0.0, NAN, 2**53 + 1, None], 3)),
                lambda: op("is_in", make("text", depth), "a", "", "x"),
                lambda: op(some("and", "or", "xor"), make("bool", depth), make("bool", depth)),
                lambda: op("not", make("bool", depth)),
                lambda: op("is_null", self.any(depth)),
                lambda: op("is_nan", make("float", depth)),
                lambda: op(some("contains", "starts_with", "ends_with"), make("text", depth), some("a", ".", "é", "")),
                lambda: op("if_else", make("bool", depth), make("bool", depth), make("bool", depth)),
                lambda: op("cast", op("if_else", make("bool", depth), lit("True"), lit("fALSE")), "bool"),
            )
        )()  # fmt: skip

    def _text(self, depth: int) -> Expression:
        draw, make, some = self._draw, self.make, self._some
        return draw.choice(
            (
                lambda: op(some("lower", "upper", "strip"), make("text", depth)),
                lambda: op("concat", make("text", depth), make("text", depth)),
                lambda: op(
                    "replace",
                    make("text", depth),
                    some("a", ".", "é", "aa"),
                    some("", "$1", "\\", "aa"),
                ),
                lambda: op("slice", make("text", depth), draw.randrange(4), draw.randrange(5)),
                lambda: op("cast", make(some("integer", "date"), depth), "string"),
                lambda: op("if_else", make("bool", depth), make("text", depth), make("text", depth)),
                lambda: op(some("fill_null", "coalesce", "null_if"), make("text", depth), make("text", depth)),
            )
        )()

    def _date(self, depth: int) -> Expression:
        draw, make, some = self._draw, self.make, self._some
        return draw.choice(
            (
                lambda: op("to_date", make(some("time", "zoned", "date"), depth)),
                lambda: op("cast", make("time", depth), "date32"),
                lambda: op("cast", op("cast", make("date", depth), "string"), "date32"),
                lambda: op("cast", col("s"), "date32"),
                lambda: op("if_else", make("bool", depth), make("date", depth), make("date", depth)),
            )
        )()

    def _naive(self, depth: int) -> Expression:
        draw, make, some = self._draw, self.make, self._some
        return draw.choice(
            (
                lambda: op("truncate", make("naive", depth), draw.choice(UNITS)),
                lambda: op("add_seconds", col("when"), some(1, -3600, 86400 * 365)),
                lambda: op("cast", make("date", depth), "timestamp[us]"),
                lambda: op("cast", col("s"), "timestamp[us]"),
                lambda: op("fill_null", make("naive", depth), make("naive", depth)),
            )
        )()

    def _zoned(self, depth: int) -> Expression:
        draw, make, some = self._draw, self.make, self._some
        return draw.choice(
            (
                lambda: op("truncate", make("zoned", depth), draw.choice(UNITS)),
                lambda: op("truncate", make("zoned", depth), draw.choice(UNITS)),
                lambda: op("add_seconds", make("zoned", depth), some(1, -3600, 5400, 86400 * 180)),
                lambda: op("to_zone", make(some("zoned", "naive"), depth), draw.choice(ZONES)),
            )
        )()

    def _time(self, depth: int) -> Expression:
        return self.make(self._some("zoned", "zoned", "naive"), depth)

    def _decimal(self, depth: int) -> Expression:
        draw = self._draw
        kind = self._some("decimal(12, 1)", "decimal(6, 3)", "decimal(38, 4)")
        return op("cast", col(draw.choice("mkmks")), kind)

    def _chosen(self, depth: int) -> Expression:
        """What has few operations."""
        draw, make, some = self._draw, self.make, self._some
        return draw.choice(
            (
                lambda: make("decimal", depth + 1),
                lambda: op("key_hash", make(some("integer", "text"), depth), some("", "salt")),
                lambda: op("if_else", make("bool", depth), col("m"), col("m")),
                lambda: op("null_if", col("m"), col("k")),
                lambda: op("null_if", col("i"), make("float", depth)),
                lambda: op("cast", col(some("i", "j", "x", "y", "s", "uint32")), some("uint64", "uint8", "uint16")),
                lambda: op("cast", col("t"), "binary"),
                lambda: op("round", col("f"), some(0, 1, 3)),
                lambda: op(some("floor", "ceiling"), col("f")),
                lambda: op("null_if", col("f"), make("float", depth)),
            )
        )()  # fmt: skip
