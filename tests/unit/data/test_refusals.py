"""What Spark 4 and 3.5 say of values that do not fit comes to the words that are said on Polars."""

import pytest

from drivetrain.data.engines._told import Refused, told
from drivetrain.data.engines.spark.refusals import understood
from drivetrain.data.transform.expressions import col, op
from drivetrain.data.transform.plan import Plan


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        (
            "java: [ARITHMETIC_OVERFLOW] long overflow. Use 'try_add'. If necessary set \"spark.sql.ansi.enabled\"",
            Refused("", None),
        ),
        (
            '[CAST_OVERFLOW] The value -7L of the type "BIGINT" cannot be cast to "TINYINT" due to an overflow. Use',
            Refused("-7", "int8"),
        ),
        (
            '[CAST_OVERFLOW] The value -Infinity of the type "DOUBLE" cannot be cast to "BIGINT" due to an overflow.',
            Refused("-inf", "int64"),
        ),
        (
            '[CAST_OVERFLOW] The value 18000000000000000000BD of the type "DECIMAL(38,0)" cannot be cast to "BIGINT"',
            Refused("18000000000000000000", None),
        ),
        (
            '[CAST_INVALID_INPUT] The value \'2024-02-30\' of the type "STRING" cannot be cast to "DATE" because it is',
            Refused("'2024-02-30'", "date32"),
        ),
        (
            "[NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION]  99.99 cannot be represented as Decimal(3, 2). If necessary",
            Refused("99.99", "decimal(3, 2)"),
        ),
        (
            '[USER_RAISED_EXCEPTION] "a\nb" is not of the type timestamp[us] SQLSTATE: P0001',
            Refused('"a\nb"', "timestamp[us]"),
        ),
        ("java.lang.RuntimeException: NaN is not of the type uint8", Refused("NaN", "uint8")),
        (
            "[USER_RAISED_EXCEPTION] 9007199254740993 is not of the type float64, without loss SQLSTATE: P0001",
            Refused("9007199254740993", "float64", loses_digits=True),
        ),
        ("[OUT_OF_MEMORY] Java heap space", None),
    ],
)
def test_spark_errors_are_translated(message: str, refused: Refused | None) -> None:
    assert understood(f"An error occurred while calling o1.parquet.\n: {message}\n\tat org.apache.spark.X") == refused


def test_a_spark_error_names_the_possible_verbs() -> None:
    plan = Plan().cast({"n": "int32"}).derive(m=col("n") * 2, x=op("cast", "n", "float32"))

    def said(*refused: object) -> str:
        return told(Refused(*refused), plan, {"n": "int64"}, {})  # type: ignore[arg-type]

    assert said("300000000000", "int32").startswith("verb 1, cast of 'n': 300000000000 is not cast to int32. Correct")
    assert said("", None).startswith("verb 2, derive of 'm': a value is beyond int64, in which integers are calculated")
    assert said("16777217", "float32", True) == (
        "verb 2, derive of 'x': 16777217 is not cast to float32, which does not hold all of its digits. "
        "Take nearest_float of it where the last digits may change"
    )
    assert said('"a\nb' + "c" * 99 + '"', "bool").startswith('the plan: "a b' + "c" * 53 + "... is not cast to bool")
    assert said("x", "bool").startswith("the plan: x is not cast to bool")
