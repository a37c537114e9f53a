"""The table of strategies in docs/training.md is that of the recorded results, which are of tests that there are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import strategy_table
from tests.strategy_table import (
    COLUMNS,
    ROOT,
    differences,
    read,
    recorded,
    shown_by,
    skipped,
    strategy_names,
    table,
    with_table,
)

REPORT = """<testsuites><testsuite>
<testcase classname="tests.distributed.test_a" name="test_x[ddp-2]"><properties>
<property name="shows" value="ddp: resumes"/><property name="shows" value="ddp: several hosts"/></properties></testcase>
<testcase classname="tests.distributed.test_a" name="test_x[tp-2]"><properties>
<property name="shows" value="tp: resumes"/></properties><failure message="no"/></testcase>
<testcase classname="tests.distributed.test_a" name="test_x[pp-2]"><properties>
<property name="shows" value="pp: resumes"/></properties><skipped/></testcase>
</testsuite></testsuites>"""


def test_the_page_has_the_table_of_the_recorded_results() -> None:
    text = strategy_table.PAGE.read_text(encoding="utf-8")
    assert with_table(text, recorded()) == text, "run `make strategies`"


def test_every_strategy_has_a_row_and_every_result_one() -> None:
    rows = [line.split("`")[1] for line in table(recorded()).splitlines()[2:]]
    assert rows == strategy_names()
    assert recorded().keys() <= set(rows)


def test_strategies_over_a_stand_in_are_marked() -> None:
    said = [line.split("`")[1] for line in table({}).splitlines() if "over a stand-in" in line]
    assert said == ["smddp", "smddp_fsdp", "smp"]
    said = [line.split("`")[1] for line in table({}).splitlines() if "asynchronous" in line]
    assert said == ["tf_parameter_server"]


def test_recorded_tests_exist_and_have_the_mark() -> None:
    for strategy, columns in recorded().items():
        for column, test in columns.items():
            path, _, name = test.partition("::")
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            marks = [
                ast.unparse(mark)
                for node in tree.body
                if isinstance(node, ast.FunctionDef) and node.name == name.partition("[")[0]
                for mark in node.decorator_list
            ]
            assert any(".shows(" in mark and repr(column) in mark for mark in marks), (strategy, column, test)


def test_only_passed_tests_are_shown(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(REPORT)
    test = "tests/distributed/test_a.py::test_x[ddp-2]"
    assert read([tmp_path / "a.xml"]) == {"ddp": {"resumes": test, "several hosts": test}}
    assert skipped([tmp_path / "a.xml"]) == {"pp: resumes"}


def test_the_table_matches_the_passed_tests_exactly() -> None:
    shown = {"ddp": {"resumes": "a"}, "tp": {"resumes": "b"}}
    assert differences(shown, shown) == []
    assert differences({"ddp": {"resumes": "other"}, "pp": {"resumes": "c"}}, shown) == [
        "pp: resumes is written, but no test that passed shows it",
        "tp: resumes was shown, but is not written",
    ]
    assert differences({**shown, "pp": {"resumes": "c"}}, shown, {"pp: resumes"}) == []


def test_a_mark_names_columns_and_a_strategy() -> None:
    class Run:
        strategy = "ddp"

    assert list(shown_by([pytest.mark.shows("resumes").mark], {"run": Run()})) == [("shows", "ddp: resumes")]
    assert list(shown_by([pytest.mark.shows("resumes", strategies=["a", "b"]).mark], {})) == [
        ("shows", "a: resumes"),
        ("shows", "b: resumes"),
    ]
    for mark, parameters in ((pytest.mark.shows("speed"), {"strategy": "ddp"}), (pytest.mark.shows(COLUMNS[0]), {})):
        with pytest.raises(ValueError, match="allowed are equals one process"):
            list(shown_by([mark.mark], parameters))
