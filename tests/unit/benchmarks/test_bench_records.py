"""The benchmark's rows: ratio, verdict, table, JSON, the families found by file name, the count of lines of code."""

import fcntl
import json
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

with pytest.MonkeyPatch.context() as patch:
    # `make bench` runs from the top folder; the test suite keeps that folder off the path.
    patch.setattr(sys, "path", [str(ROOT), *sys.path])
    from tests.benchmarks.__main__ import main
    from tests.benchmarks.harness import environments, families
    from tests.benchmarks.harness.bench import Bench
    from tests.benchmarks.harness.records import Record, summary, table, write_json
    from tests.benchmarks.harness.timing import CommandError, in_turn, run
    from tests.benchmarks.harness.tool import lines_of_code


def record(**changed: object) -> Record:
    given = {"name": "compile: digits", "unit": "ms", "ours": 12.0, "target": 50, **changed}
    return Record(**given)  # type: ignore[arg-type]


def test_ratio_is_to_the_limit_where_there_is_one() -> None:
    made = record(limit=6.0, peers={"kfp": 3.0})
    assert (made.ratio, made.ratio_to) == (2.0, "limit")


def test_ratio_is_to_the_best_peer_without_a_limit() -> None:
    lower = record(peers={"kfp": 24.0, "sagemaker": 6000.0})
    assert (lower.ratio, lower.ratio_to) == (0.5, "kfp")
    higher = record(peers={"kfp": 24.0, "sagemaker": 6.0}, better="higher")
    assert (higher.ratio, higher.ratio_to) == (0.5, "kfp")


def test_nothing_to_compare_with_gives_no_ratio() -> None:
    assert record().ratio is None
    assert record(peers={"kfp": 0.0}).ratio is None
    assert record(ours=None, limit=3.0).ratio is None
    assert record(unit="bool", ours=True, target=True, peers={"kfp": True}).ratio is None


@pytest.mark.parametrize(
    ("changed", "met"),
    [
        ({"ours": 50.0}, True),
        ({"ours": 50.1}, False),
        ({"ours": 49.0, "better": "higher"}, False),
        ({"ours": 51.0, "better": "higher"}, True),
        ({"ours": True, "target": True}, True),
        ({"ours": False, "target": True}, False),
        ({"ours": 0, "target": 0}, True),
        ({"ours": None}, None),
        ({"target": None}, None),
    ],
)
def test_met(changed: dict[str, object], met: bool | None) -> None:
    assert record(**changed).met is met


def test_a_figure_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"compile: digits: kfp is inf\. Allowed: finite numbers"):
        record(peers={"kfp": float("inf")})


def test_table_has_a_line_a_row_and_the_notes_below() -> None:
    text = table([record(limit=6.0, peers={"sagemaker": 3600.4, "kfp": 3.25}, note="kfp left out"), record(ours=None)])
    lines = text.splitlines()
    assert lines[0].split() == ["what", "unit", "ours", "peers", "limit", "ratio", "target", "met"]
    assert "12    kfp 3.25, sagemaker 3600  6      2 limit  <= 50   yes" in lines[2]
    assert lines[3].split()[-3:] == ["<=", "50", "-"]
    assert lines[-1] == "  compile: digits: kfp left out"
    assert len({line.index("ms") for line in lines[2:4]}) == 1


def test_summary_names_what_is_not_met_and_what_is_not_measured() -> None:
    rows = [record(), record(name="slow", ours=51.0), record(name="absent", ours=None), record(target=None)]
    assert summary(rows) == "1 of 2 targets met; not met: slow; not measured: absent"


def test_json_has_the_fields_that_readers_know(tmp_path: Path) -> None:
    file = tmp_path / "build" / "bench.json"
    write_json([record(limit=6.0, peers={"kfp": 3.0})], file)
    (read,) = json.loads(file.read_text(encoding="utf-8"))
    assert read == {
        "name": "compile: digits",
        "unit": "ms",
        "ours": 12.0,
        "peers": {"kfp": 3.0},
        "limit": 6.0,
        "ratio": 2.0,
        "ratio_to": "limit",
        "target": 50,
        "better": "lower",
        "met": True,
        "note": "",
    }
    assert list(file.parent.iterdir()) == [file]


def test_every_family_has_a_headline_and_rows() -> None:
    found = families.available()
    assert {"compile", "first_hour", "local_overhead"} <= set(found)
    for name, headline in found.items():
        assert headline.endswith("."), name
        source = (families.FOLDER / f"{name}.py").read_text(encoding="utf-8")
        assert "def records(bench: Bench) -> Iterator[Record]:" in source, name


def test_a_new_file_is_a_new_family(tmp_path: Path) -> None:
    (tmp_path / "goodput.py").write_text('"""Goodput."""\n', encoding="utf-8")
    (tmp_path / "__main__.py").write_text("", encoding="utf-8")
    assert families.available(tmp_path) == {"goodput": "Goodput."}


def test_a_wrong_family_is_refused_with_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "compil"]) == 2
    assert "no family of benchmarks 'compil'. Did you mean 'compile'? Available: " in capsys.readouterr().err


def test_rivals_take_turns_and_the_median_counts() -> None:
    order: list[str] = []
    given = {"ours": iter([1.0, 9.0, 2.0]), "peer": iter([5.0, 3.0, 4.0])}

    def measure(name: str) -> float:
        order.append(name)
        return next(given[name])

    medians = in_turn({name: lambda name=name: measure(name) for name in given}, rounds=3)
    assert medians == {"ours": 2.0, "peer": 4.0}
    assert order == ["ours", "peer"] * 3


def test_a_peer_that_fails_is_left_out_and_ours_is_not() -> None:
    def fails() -> float:
        raise CommandError("kfp compile ended with 1:\nNo module named kfp")

    failed: dict[str, str] = {}
    assert in_turn({"drivetrain": lambda: 1.0, "kfp": fails}, rounds=2, failed=failed) == {"drivetrain": 1.0}
    assert failed == {"kfp": "No module named kfp"}
    with pytest.raises(CommandError):
        in_turn({"drivetrain": fails, "kfp": lambda: 1.0}, rounds=1, failed=failed)
    with pytest.raises(CommandError):
        in_turn({"kfp": fails}, rounds=1)


@pytest.mark.slow
def test_a_peer_that_cannot_be_installed_is_told_in_the_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conductor").mkdir()
    (tmp_path / "conductor" / "requirements.txt").write_text("conductor=1\n", encoding="utf-8")
    monkeypatch.setattr(environments, "PEERS", tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    bench = Bench(scratch=tmp_path)
    assert bench.peers("conductor") == {}
    assert "Invalid requirement" in bench.unavailable["conductor"]
    assert bench.note("conductor", "kfp", more="seconds") == "seconds; conductor could not be installed"


def test_cpu_counts_the_children_that_were_waited_for(tmp_path: Path) -> None:
    burn = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True); print('done')"
    ran = run([sys.executable, "-c", parent], cwd=tmp_path, environment={})
    assert ran.output == "done\n"
    assert ran.cpu >= 0.2
    assert ran.wall >= 0.2


def test_a_command_that_fails_says_nothing_of_its_time(tmp_path: Path) -> None:
    ran = run([sys.executable, "-c", "raise SystemExit('no such flow')"], cwd=tmp_path, environment={})
    with pytest.raises(CommandError, match=r"ended with 1:\nno such flow"):
        ran.checked()


@pytest.mark.slow
def test_a_command_past_its_limit_is_killed_with_its_children(tmp_path: Path) -> None:
    # The child holds a lock for as long as it lives, at most 30 s.
    child = (
        "import fcntl, signal; signal.alarm(30); f = open('lock', 'w'); fcntl.flock(f, fcntl.LOCK_EX); signal.pause()"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    begun = time.monotonic()
    assert run([sys.executable, "-c", parent], cwd=tmp_path, environment={}, limit=1.0).code == -9
    with open(tmp_path / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
    assert time.monotonic() - begun < 25


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ('"""One line."""\n\nimport os\n', 1),
        ('"""Two\n\nlines."""\n# why\nimport os\n\n\ndef f():\n    return os  # kept\n', 3),
        ("import os\n", 1),
        ('text = """\nkept\n"""\n', 3),
    ],
)
def test_lines_of_code(text: str, count: int) -> None:
    assert lines_of_code(text) == count
