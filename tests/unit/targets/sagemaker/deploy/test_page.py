"""docs/deploying.md, to which refusals send people, against what the code asks of AWS; the list of the room's files."""

from __future__ import annotations

import re
from pathlib import Path

from drivetrain.targets.sagemaker import deploy
from tests.unit.targets.sagemaker.permissions.test_deployer import INDIRECT, calls

PAGE = Path(__file__).parents[5] / "docs" / "deploying.md"
PRICES = "pricing:GetProducts"
_ACTION = re.compile(r"(?:\b(?P<service>[a-z0-9]+):)?\b(?P<name>[A-Z][A-Za-z0-9]+)\b")


def named() -> dict[str, set[str]]:
    """Command -> the actions of its row; `sagemaker:DescribePipeline, ListTags` are two of one service."""
    section = PAGE.read_text(encoding="utf-8").partition("## What AWS must allow")[2].partition("\n## ")[0]
    found: dict[str, set[str]] = {}
    for row in re.findall(r"^\| (?!command )(.+?) \| (.+) \|$", section, re.MULTILINE):
        service = ""
        for action in _ACTION.finditer(row[1]):
            service = action["service"] or service
            found.setdefault(row[0], set()).add(f"{service}:{action['name']}")
    return found


def test_the_table_names_every_action_and_no_other() -> None:
    rows = named()
    assert {"plan, pull", "apply", "destroy", "logs"} <= rows.keys()
    assert set().union(*rows.values()) == {*calls(), *INDIRECT, PRICES}


def test_reading_changes_nothing() -> None:
    """Whoever may plan need not be allowed to write."""
    writing = re.compile(r":(Create|Update|Delete|Put|Add|Remove|Tag|Start|Stop|PassRole|GenerateDataKey)")
    rows = named()
    for command in ("plan, pull", "list --deployed", "logs", "prices update"):
        assert not [action for action in rows[command] if writing.search(action)], command
    assert rows["prices update"] == {PRICES}


def test_the_list_of_files_is_whole() -> None:
    files = [path.name for path in Path(deploy.__file__ or "").parent.rglob("*.py") if path.name != "__init__.py"]
    assert sorted(re.findall(r"(?<!/)\b[a-z_]+\.py", deploy.__doc__ or "")) == sorted(files)
