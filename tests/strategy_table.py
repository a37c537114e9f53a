"""The table of strategies in docs/training.md, from the results of tests.

    make strategies                                             # runs the tests that show something, writes both
    python -m tests.strategy_table build/tests/*.xml            # writes strategy_results.json and docs/training.md
    python -m tests.strategy_table                              # the page anew from what is recorded: a new strategy
    python -m tests.strategy_table --check build/tests/*.xml    # .ci/run: the results must be the written ones, but for
                                                                # tests that were skipped: Horovod may not be built
A test says what it shows by `@pytest.mark.shows("resumes")`; of which strategy, its parameter does (`run.strategy`, or
`strategy` itself), or `strategies=[...]`. A cell is yes where such a test passed. The rows are the files of
strategies/: a new one appears by itself, and its cells as its tests come.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE, RECORD = ROOT / "docs" / "training.md", Path(__file__).with_name("strategy_results.json")
BEGIN, END = "<!-- strategies -->", "<!-- end of strategies -->"
COLUMNS = ("equals one process", "resumes", "exact evaluation", "several hosts")
PROPERTY = "shows"

Results = dict[str, dict[str, str]]
"""Strategy -> column -> the test that shows it."""


def strategy_names() -> list[str]:
    from drivetrain.catalog import strategies

    return strategies.strategy_names()


def is_over_a_stand_in(strategy: str) -> bool:
    """Whether its tests run over a stand-in: its library is its vendor's, and not to be had here."""
    from drivetrain.catalog.strategies import read_strategy

    return bool(read_strategy(strategy).library)


def is_asynchronous(strategy: str) -> bool:
    """Whether its processes have roles, of which several workers take steps of their own."""
    from drivetrain.catalog.strategies import read_strategy

    return bool(read_strategy(strategy).roles)


def shown_by(markers: Iterable[Any], parameters: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a test's `shows` say, as properties of its report.

    Raises:
        ValueError: a column that there is not, or nothing says of which strategy.
    """
    for marker in markers:
        named = [getattr(each, "strategy", None) for each in parameters.values()] + [parameters.get("strategy")]
        strategies = marker.kwargs.get("strategies") or [each for each in named if isinstance(each, str)]
        if not strategies or not marker.args or set(marker.args) - {*COLUMNS}:
            raise ValueError(f"shows{marker.args} of {strategies}: allowed are {', '.join(COLUMNS)}, of a strategy")
        for strategy in strategies:
            for column in marker.args:
                yield PROPERTY, f"{strategy}: {column}"


def read(reports: Iterable[Path]) -> Results:
    """What the tests of JUnit reports have shown: those that passed, and were not skipped."""
    found: dict[str, dict[str, set[str]]] = {}
    for case in _cases(reports):
        if any(case.find(outcome) is not None for outcome in ("failure", "error", "skipped")):
            continue
        test = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '')}"
        for cell in _cells(case):
            strategy, _, column = cell.partition(": ")
            found.setdefault(strategy, {}).setdefault(column, set()).add(test)
    return {
        strategy: {column: min(found[strategy][column]) for column in COLUMNS if column in found[strategy]}
        for strategy in sorted(found)
    }


def skipped(reports: Iterable[Path]) -> set[str]:
    """`strategy: column` of tests that were skipped."""
    return {cell for case in _cases(reports) if case.find("skipped") is not None for cell in _cells(case)}


def _cases(reports: Iterable[Path]) -> Iterator[ElementTree.Element]:
    for report in reports:
        yield from ElementTree.parse(report).getroot().iter("testcase")


def _cells(case: ElementTree.Element) -> Iterator[str]:
    for each in case.iter("property"):
        if each.get("name") == PROPERTY:
            yield each.get("value", "")


def recorded() -> Results:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def table(results: Results) -> str:
    lines = [f"| strategy | runs in CI | {' | '.join(COLUMNS)} |", f"|---|---|{'---|' * len(COLUMNS)}"]
    for name in strategy_names():
        cells = results.get(name, {})
        said = ["yes" if cells else "", *("yes" if column in cells else "" for column in COLUMNS)]
        called = f"`{name}`" + (", over a stand-in of its library" if is_over_a_stand_in(name) else "")
        called += ", asynchronous: equal with one worker" if is_asynchronous(name) else ""
        lines.append(f"| {called} | {' | '.join(said)} |".replace("|  ", "| "))
    return "\n".join(lines)


def with_table(text: str, results: Results) -> str:
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{table(results)}\n{END}{rest.partition(END)[2]}"


def differences(written: Results, shown: Results, skipped: Collection[str] = ()) -> list[str]:
    """What is written and was neither shown nor skipped, and what was shown and is not written."""
    pairs = {
        kind: {f"{strategy}: {column}" for strategy, columns in results.items() for column in columns}
        for kind, results in (("written", written), ("shown", shown))
    }
    return [
        *(
            f"{cell} is written, but no test that passed shows it"
            for cell in sorted(pairs["written"] - pairs["shown"] - {*skipped})
        ),
        *(f"{cell} was shown, but is not written" for cell in sorted(pairs["shown"] - pairs["written"])),
    ]


def main() -> None:
    words = sys.argv[1:]
    reports = [Path(word) for word in words if word != "--check"]
    results = read(reports) if words else recorded()
    if not results:
        sys.exit("No results: name JUnit reports of tests that show something, such as build/tests/test.xml.")
    if "--check" in words:
        if found := differences(recorded(), results, skipped(reports)):
            sys.exit("\n".join(["The table of strategies in docs/training.md is not that of these results:", *found]))
        return
    RECORD.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
