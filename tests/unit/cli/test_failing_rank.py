"""A script that fails on one of two ranks: every place of the terminal names the rank. Through the real launcher."""

from __future__ import annotations

import pytest

BEGINNING = """\
import datetime, os, sys, threading
import torch
import torch.distributed as dist

def work():
    {work}

dist.init_process_group("gloo")
# The ranks may take long until they meet, on a busy machine; from then on they are seldom apart.
group = dist.new_group(timeout=datetime.timedelta(seconds=2))
if dist.get_rank() == 1:
    work()
dist.all_reduce(torch.ones(1), group=group)
"""
HANG = "hangs: it did not come to all_reduce of float [1] (collective 1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "code", "said", "last"),
    [
        ("raise ValueError(os.environ['SM_CHANNEL_TRAIN'] + '/a.txt')", 1, "failed: ValueError: train/a.txt",
         "ValueError: train/a.txt"),
        ("sys.exit(3)", 1, "failed: it ended with exit code 3", "SystemExit: 3"),
        ("threading.Event().wait()", 1, HANG, '  File "work.py", line 12 in <module>'),
    ],
    ids=["crash", "exit code", "hang"],
)  # fmt: skip
def test_the_rank_is_named(
    drivetrain, work: str, code: int, said: str, last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")  # a table shortens its last column to the width
    drivetrain.write("work.py", BEGINNING.format(work=work))
    (drivetrain.folder / "data").mkdir()
    drivetrain.write("data/a.txt", "a")
    given = ("-s", "train=data", "-s", "script=work.py", "--processes", "2", "--source", ".")
    text = drivetrain("submit", "train-script", *given, "--home", drivetrain.home, code=code)
    line = f"rank 1 of 2 on 127.0.0.1 {said}"
    progress, table, block = (part for part in text.split("\n\n") if line in part)
    assert "train-script: failed in" in progress and table.startswith("STEP")
    assert block.splitlines()[1].startswith(line)
    assert block.splitlines()[-1] == last
    assert '  File "work.py", line 6' in block and "/code/" not in block
