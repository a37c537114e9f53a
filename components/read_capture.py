"""Make a table of what a SageMaker endpoint has captured: requests and answers, a row each.

    python -m drivetrain.components.read_capture --captured capture/ --columns "age, plan" --output build/served \
        --metrics build/metrics

prepare_data reads the table, with `event_id` as its key, and check_served its columns `predicted` and `score`.
"""

from __future__ import annotations

import csv
import json
from contextlib import ExitStack
from typing import Any, TypedDict

from drivetrain.base.errors import InputError
from drivetrain.steps import Input, Output
from drivetrain.steps.declaration import component

_CSV, _JSON_LINES = "rows.csv", "rows.jsonl"


class Read(TypedDict):
    """How much there was."""

    records: int
    rows: int


@component
def read_capture(captured: Input, output: Output, *, columns: str = "", answers: str = "") -> Read:
    """Make a table of what a SageMaker endpoint has captured.

    A row has `event_id` (the inference id that the caller gave, else the event's own id; of a request with several rows
    ID/0, ID/1, ...), `row`, `inference_time`, the columns of the request and those of the answer.

    Args:
        captured: a data capture file (JSON Lines), or a folder with some: the endpoint's DestinationS3Uri.
        output: gets rows.csv of requests in CSV, and rows.jsonl of those in JSON.
        columns: the model's inputs in their order, separated by commas, for requests that do not name them.
        answers: columns of an answer in CSV; unless given predicted, then score, or score_0, score_1, ...

    Raises:
        InputError: no such file; a line that cannot be read, with its file and number.
    """
    from drivetrain.data.capture import capture_files, read_records

    names, told = ([each.strip() for each in text.split(",") if each.strip()] for text in (columns, answers))
    files = capture_files(captured)
    output.mkdir(parents=True, exist_ok=True)
    for name in (_CSV, _JSON_LINES):
        (output / name).unlink(missing_ok=True)
    records = rows = 0
    with ExitStack() as stack:
        writer: Any = None
        lines: Any = None
        for file in files:
            for record in read_records(file, names, told):
                records, rows = records + 1, rows + len(record.rows)
                for row in record.rows:
                    if not record.is_text:
                        lines = lines or stack.enter_context((output / _JSON_LINES).open("w", encoding="utf-8"))
                        lines.write(json.dumps(row, ensure_ascii=False) + "\n")
                        continue
                    if writer is None:
                        table = stack.enter_context((output / _CSV).open("w", encoding="utf-8", newline=""))
                        writer = csv.DictWriter(table, list(row), lineterminator="\n")
                        writer.writeheader()
                    if row.keys() != set(writer.fieldnames):
                        raise InputError(
                            f"{file}: the record {row['event_id']} has the columns {', '.join(row)}, and those before "
                            f"it {', '.join(writer.fieldnames)}. Read them into tables of their own."
                        )
                    writer.writerow(row)
    if not rows:
        raise InputError(f"{captured} has no records. Give a folder of a time in which the endpoint was asked.")
    print(f"{rows:,} rows of {records:,} requests", flush=True)
    return {"records": records, "rows": rows}


if __name__ == "__main__":
    read_capture.main()
