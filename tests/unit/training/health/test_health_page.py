"""docs/health.md: what its table says of each rule is what the rule's file says."""

from __future__ import annotations

import re
from pathlib import Path

from drivetrain.training import plugins
from drivetrain.training.health.rule import FAMILY
from tests.fixtures.faulty_recipe import FAULTS
from tests.health_table import BEGIN, END

PAGE = Path(__file__).parents[4] / "docs/health.md"


def test_the_table_has_every_rule_as_its_file_says() -> None:
    text = PAGE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]
    assert [row[0].strip("`") for row in rows] == plugins.names(FAMILY)
    for name, doc, window, action, planted in ([row[0].strip("`"), *row[1:]] for row in rows):
        module = plugins.load(FAMILY, name, kind="health rule")
        assert " ".join(str(module.__doc__).split()).startswith(doc), name
        assert (window, action.strip("`")) == (module.WINDOW, module.ACTION), name
        pattern = r"fired at step (\d+)" if name in FAULTS else r"fired (\d+) steps after it, in injected records"
        fired = re.fullmatch(pattern, planted)
        assert fired, (name, planted)
        assert name not in FAULTS or int(fired[1]) <= FAULTS[name][1], name
