"""Compare runs: settings, metrics with paired intervals, data, code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import InputError, UserError
from drivetrain.run_store.home import saved_options
from drivetrain.run_store.reader import Ledger
from drivetrain.telling.content import RunFacts
from drivetrain.telling.content.findings import folders_with
from drivetrain.telling.content.from_ledger import run_facts
from drivetrain.telling.content.given import Compared, differing, given_settings

if TYPE_CHECKING:
    from drivetrain.decision.differences import Difference
    from drivetrain.run_store.home import Home

CONFIDENCE = 0.95
COST = "not known: they ran on this machine, which is not billed"
"""The cost of runs of this machine; `drivetrain runs compare --on` says that of a deployed pipeline's."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two runs or more. A value that a run does not have is None; every tuple is in the order of `runs`."""

    runs: tuple[Compared, ...]
    paired: tuple[Mapping[str, Difference], ...] = ()
    """For each run but the first: metric -> its difference to the first run on the same test set, with its interval."""
    not_paired: str = ""
    """The reason that they are missing, as a sentence; may be empty."""

    @cached_property
    def settings(self) -> dict[str, tuple[Any, ...]]:
        """Those that are not the same in all runs."""
        return differing([run.settings for run in self.runs])

    @cached_property
    def metrics(self) -> dict[str, tuple[float | None, ...]]:
        """All of them."""
        every = [run.metrics for run in self.runs]
        return {name: tuple(each.get(name) for each in every) for name in dict.fromkeys(n for e in every for n in e)}

    @cached_property
    def of_decisions(self) -> frozenset[str]:
        """Metrics that only steps which decide returned: what they came to stands in the decisions."""
        deciding = {each.step for run in self.runs for each in run.facts.decisions}
        measured = [one for run in self.runs for one in run.facts.measured]
        others = {name for one in measured if one.step not in deciding for name in one.numbers}
        return frozenset(name for one in measured if one.step in deciding for name in one.numbers) - others

    @cached_property
    def data(self) -> dict[str, tuple[str | None, ...]]:
        """Inputs whose content is not the same in all runs; None in a run that has no such input."""
        return {
            name: tuple(None if one is None else one[1] for one in values)
            for name, values in self._inputs.items()
            if _differ(values)
        }

    @cached_property
    def data_not_comparable(self) -> tuple[str, ...]:
        """Inputs that cannot be compared: a run lacks it, or read an archive where another run read the files."""
        return tuple(name for name, values in self._inputs.items() if not _differ(values))

    @cached_property
    def _inputs(self) -> dict[str, tuple[tuple[bool, str] | None, ...]]:
        return differing([run.data for run in self.runs])

    @property
    def same_code(self) -> bool | None:
        """True where the steps that several runs have had the same code there; None where a run does not say what it
        had."""
        codes = [run.facts.codes for run in self.runs]
        steps = {step for each in codes for step in each}
        if any(len({each[step] for each in codes if step in each}) > 1 for step in steps):
            return False
        return True if all(codes) else None


def _differ(values: Iterable[tuple[bool, str] | None]) -> bool:
    """Return True if two of them are of one form, and of different content."""
    known = {value for value in values if value is not None}
    return any(len([one for one in known if one[0] is packed]) > 1 for packed in (True, False))


def compare(home: Home, executions: Iterable[str]) -> Comparison:
    """Read what differs between runs, each by its id, its name, the beginning of its id, or `latest`.

    Raises:
        UserError: there is no such run; one is given twice, or alone.
    """
    with Ledger(home) as ledger:
        every = [run_facts(ledger, execution) for execution in executions]
    if twice := [facts.id for place, facts in enumerate(every) if facts.id in {each.id for each in every[:place]}]:
        raise UserError(f"Run {twice[0]} is given twice. Give different runs.")
    if len(every) < 2:
        raise UserError("One run alone cannot be compared. Give two ids or more (drivetrain runs list has them).")
    runs = tuple(
        Compared(
            facts=facts,
            target=saved_options(home.run(facts.id)).get("target", ""),
            given=given_settings(home, facts.id),
        )
        for facts in every
    )
    try:
        paired = tuple(_paired(home, facts, every[0]) for facts in every[1:])
    except InputError as error:
        return Comparison(runs=runs, not_paired=f"Differences have no intervals: {error}")
    return Comparison(runs=runs, paired=paired)


def _paired(home: Home, facts: RunFacts, first: RunFacts) -> dict[str, Difference]:
    """Metric -> difference to the first run, of the last step of a name that evaluated in both.

    Raises:
        InputError: the two did not measure the same samples and replicates, or a report cannot be read.
    """
    from drivetrain.decision.differences import check_comparable, differences
    from drivetrain.decision.evaluation import EVALUATION_FILE, read_evaluation

    ours, theirs = (dict(folders_with(EVALUATION_FILE, home, each.artifacts)) for each in (facts, first))
    common = [step for step in ours if step in theirs]
    if not common:
        return {}
    candidate, other = read_evaluation(ours[common[-1]]), read_evaluation(theirs[common[-1]])
    check_comparable(candidate, other)
    return {each.metric: each for each in differences(candidate, other, CONFIDENCE) if not each.slice}
