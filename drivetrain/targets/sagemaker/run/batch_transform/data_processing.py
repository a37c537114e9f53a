"""The data processing of a batch transform around the model: InputFilter, JoinSource, OutputFilter.

A CSV line is a list of its cells; a joined one has the answer's cells after the input's. JSON gets the answer as a
member `SageMakerOutput`, and where the input is no object, it goes into `SageMakerInput`.
https://docs.aws.amazon.com/sagemaker/latest/dg/batch-transform-data-processing.html
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from drivetrain.targets.sagemaker.run.batch_transform.filters import Filter, FilterError

Kind = Literal["csv", "json"]
KINDS: dict[str, Kind] = {"text/csv": "csv", "application/json": "json", "application/jsonlines": "json"}
INPUT, OUTPUT = "SageMakerInput", "SageMakerOutput"
_ALL = Filter.of("$")


class ProcessingError(ValueError):
    """Data that cannot be filtered or joined."""


def kind_of(content_type: str | None) -> Kind | None:
    """The kind of data of a content type; None for one that is neither CSV nor JSON."""
    return KINDS.get((content_type or "").partition(";")[0].strip().lower())


@dataclass(frozen=True)
class DataProcessing:
    """The filters and the join of one job; `kind` is None where there are none, and data pass as they are."""

    kind: Kind | None = None
    input_filter: Filter = _ALL
    output_filter: Filter = _ALL
    join: bool = False

    @property
    def shapes_output(self) -> bool:
        """True if answers are read, to be joined or filtered."""
        return self.join or not self.output_filter.whole

    def payload(self, record: bytes) -> bytes:
        """Return what to send of a record.

        Raises:
            ProcessingError: it is no CSV or JSON, or lacks what the filter selects.
        """
        if self.input_filter.whole or self.kind is None:
            return record
        return self._write(self._filtered(self.input_filter, self._read(record, "the record")))

    def output(self, records: Sequence[bytes], answer: bytes) -> list[bytes]:
        """Return the pieces to write of the answer to one request: one a record, or the whole answer if it is not read.

        Raises:
            ProcessingError: the answer has another number of lines than the request; it is no CSV or JSON, or lacks
                what the filter selects.
        """
        if not self.shapes_output or self.kind is None:
            return [answer]
        answers = self._answers(records, answer)
        return [
            self._write(self._filtered(self.output_filter, self._joined(record, value)))
            for record, value in zip(records, answers, strict=True)
        ]

    def _joined(self, record: bytes, answer: Any) -> Any:
        if not self.join:
            return answer
        given = self._read(record, "the record")
        if self.kind == "csv":
            return [*given, *answer]
        if isinstance(given, dict):
            return {**cast("dict[str, Any]", given), OUTPUT: answer}
        return {INPUT: given, OUTPUT: answer}

    def _answers(self, records: Sequence[bytes], answer: bytes) -> list[Any]:
        if self.kind == "json" and len(records) == 1:
            return [self._read(answer, "the answer")]
        lines = [line for line in answer.split(b"\n") if line.strip()]
        if len(lines) != len(records):
            raise ProcessingError(
                f"the answer has {len(lines)} lines to a request of {len(records)} records, so they cannot be joined. "
                "The server must answer a line a record; or send one at a time (BatchStrategy SingleRecord)"
            )
        return [self._read(line, "the answer") for line in lines]

    def _read(self, text: bytes, what: str) -> Any:
        try:
            if self.kind == "json":
                return json.loads(text)
            rows = list(csv.reader([text.decode("utf-8")], strict=True))
        except (ValueError, csv.Error, RecursionError) as error:
            raise ProcessingError(f"{what} is no {str(self.kind).upper()}: {error} ({text[:60]!r})") from None
        return rows[0] if rows else []

    def _write(self, value: Any) -> bytes:
        if self.kind == "json":
            return json.dumps(value, ensure_ascii=False).encode()
        text = io.StringIO()
        csv.writer(text, lineterminator="").writerow(cast("list[Any]", value) if isinstance(value, list) else [value])
        return text.getvalue().encode()

    def _filtered(self, chosen: Filter, value: Any) -> Any:
        try:
            return chosen.apply(value)
        except FilterError as error:
            raise ProcessingError(str(error)) from None
