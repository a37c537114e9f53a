from pathlib import Path

from drivetrain.report.content.index import index
from drivetrain.targets.local.home import Home
from drivetrain.targets.local.ledger.reader import Ledger
from drivetrain.targets.local.ledger.run_values import DECIDES, enter_values
from drivetrain.targets.local.ledger.writer import LedgerWriter
from tests.fixtures.many_runs import write_runs


def test_the_metric_by_which_runs_decide_leads_the_columns(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_runs(home, 2)
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        enter_values(db, f"{1:012d}", [("metric", "mae", 5.0), (DECIDES, "mae", 1)])
    with Ledger(home) as ledger:
        assert index(ledger).columns == ("mae", "accuracy")
        assert index(ledger, where="epochs < 9").columns[:2] == ("epochs", "mae")  # first what was asked for
