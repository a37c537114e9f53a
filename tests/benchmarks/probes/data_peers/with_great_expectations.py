"""Great Expectations: a suite written by hand from the good nights, as version 1 suggests none.

Columns, types, empty cells, the key, ranges, values of texts that have few, and number of rows and means within three
standard deviations of the good nights. (https://docs.greatexpectations.io/docs/core/introduction/gx_overview)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import great_expectations as gx
import pandas as pd
from great_expectations import expectations as gxe


def prepared(good: list[Any]) -> Callable[[Any, Any], Iterator[str]]:
    everything = pd.concat(good, ignore_index=True)
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    source = context.data_sources.add_pandas("nights")
    batch = source.add_dataframe_asset("orders").add_batch_definition_whole_dataframe("night")
    suite = context.suites.add(gx.ExpectationSuite("orders"))
    for each in _expectations(good, everything):
        suite.add_expectation(each)
    checked = context.validation_definitions.add(gx.ValidationDefinition(data=batch, suite=suite, name="orders"))

    def judge(_: Any, tonight: Any) -> Iterator[str]:
        for result in checked.run(batch_parameters={"dataframe": tonight}).results:
            if not result.success:
                config = result.expectation_config
                yield f"{config.kwargs.get('column', 'table')}: {config.type}"

    return judge


def _expectations(good: list[Any], everything: Any) -> Iterator[Any]:
    yield gxe.ExpectTableColumnsToMatchSet(column_set=list(everything.columns), exact_match=True)
    yield gxe.ExpectTableRowCountToBeBetween(**_within([len(night) for night in good]))
    yield gxe.ExpectColumnValuesToBeUnique(column="id")
    for name, values in everything.items():
        yield gxe.ExpectColumnValuesToBeOfType(column=name, type_=str(values.dtype))
        share = 1 - 2 * values.isna().mean()
        yield gxe.ExpectColumnValuesToNotBeNull(column=name, mostly=float(share))
        if values.dtype.kind in "if" and name != "id":
            yield gxe.ExpectColumnValuesToBeBetween(column=name, min_value=values.min(), max_value=values.max())
            yield gxe.ExpectColumnMeanToBeBetween(column=name, **_within([night[name].mean() for night in good]))
        elif values.nunique() <= 20:
            yield gxe.ExpectColumnValuesToBeInSet(column=name, value_set=sorted(values.dropna().unique()))


def _within(values: list[Any]) -> dict[str, float]:
    found = pd.Series(values, dtype=float)
    return {"min_value": found.mean() - 3 * found.std(), "max_value": found.mean() + 3 * found.std()}
