"""BLEU: how many runs of one to four words two texts have in common.

K. Papineni and others, "BLEU: a Method for Automatic Evaluation of Machine Translation", ACL 2002; counted by sacrebleu
(M. Post, "A Call for Clarity in Reporting BLEU Scores", WMT 2018), with its tokenizer 13a.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from drivetrain.training.metric import Ints, Range, Tally, UndefinedError, Value
from drivetrain.training.metric_states.texts import BleuCounts, library
from drivetrain.training.task import Kind, Task


@dataclass(frozen=True)
class Metric:
    """sacrebleu's corpus_bleu, 0 to 100: counts of all samples are added up, and compared once."""

    kinds: ClassVar[tuple[Kind, ...]] = ("tokens", "values")
    higher_is_better: ClassVar[bool | None] = True
    value_range: ClassVar[Range] = (0.0, 100.0)

    def tallies(self, task: Task) -> Mapping[str, Tally]:
        return {"counts": BleuCounts()}

    def compute(self, task: Task, counted: Mapping[str, Ints]) -> Mapping[str, Value]:
        predicted, right, *counts = counted["counts"].tolist()
        if not right:
            raise UndefinedError("there is no text to compare with")
        order = len(counts) // 2
        bleu = library("sacrebleu.metrics").BLEU
        score = bleu.compute_bleu(counts[:order], counts[order:], predicted, right, smooth_method="exp")
        return {"": Value(min(float(score.score), 100.0))}  # sacrebleu's logarithms make 100.00000000000004 of 100
