"""pandera: the schema that infer_schema makes of the good nights, without ranges of the key and of the time.

(https://pandera.readthedocs.io/en/stable/schema_inference.html)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pandera.pandas as pandera


def prepared(good: list[Any]) -> Callable[[Any, Any], Iterator[str]]:
    schema = pandera.infer_schema(pd.concat(good, ignore_index=True))
    schema = schema.update_columns({"id": {"checks": [], "unique": True}, "ordered_at": {"checks": []}})

    def judge(_: Any, tonight: Any) -> Iterator[str]:
        try:
            schema.validate(tonight, lazy=True)
        except pandera.errors.SchemaErrors as errors:
            found = errors.failure_cases
            yield from sorted(
                {f"{column}: {check}" for column, check in zip(found["column"], found["check"], strict=True)}
            )

    return judge
