from pathlib import Path

from drivetrain.run_store.home import Home
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.run_values import DECIDES, enter_values
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.telling.content.index import index
from tests.fixtures.many_runs import write_runs


def test_the_metric_by_which_runs_decide_leads_the_columns(tmp_path: Path) -> None:
    home = Home(tmp_path)
    write_runs(home, 2)
    with LedgerWriter(home) as ledger, ledger.transaction() as db:
        enter_values(db, f"{1:012d}", [("metric", "mae", 5.0), (DECIDES, "mae", 1)])
    with Ledger(home) as ledger:
        assert index(ledger).columns == ("mae", "accuracy")
        assert index(ledger, where="epochs < 9").columns[:2] == ("epochs", "mae")  # first what was asked for
