"""Records in a file that stays short; the last steps in a file that outlives its process; when what is recorded."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from drivetrain.base.errors import InputError
from drivetrain.training.health import recording
from drivetrain.training.health.cadence import FIRST_STEPS, Cadence
from drivetrain.training.health.clock import BACKWARD, COMMUNICATION, DATA, FORWARD, Clock
from drivetrain.training.health.flight import COLUMNS, STEPS, FlightRecorder, read_flights
from drivetrain.training.health.record import quantile
from drivetrain.training.health.recording import RECORDS_FILE, Recording
from drivetrain.training.launch.processes.failure import Failure, from_rank
from drivetrain.training.launch.processes.heartbeat import FOLDER
from drivetrain.training.launch.processes.last_word import speak_for
from tests.contract.health_rules import records
from tests.contract.health_rules.records import NAMES


def steps_in(folder: Path) -> list[int]:
    return [record.step for record in recording.read(folder / RECORDS_FILE)[1]]


def test_a_recording_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = list(records.healthy(0, 25))
    file = Recording(tmp_path, NAMES, 0)
    for record in written:
        file.add(record)
    file.close()
    names, read = recording.read(tmp_path / RECORDS_FILE)
    assert names == NAMES
    for before, after in zip(written, read, strict=True):
        assert (before.step, before.loss, before.validation) == (after.step, after.loss, after.validation)
        for table in ("ranks", "tensors", "layers"):
            one, other = getattr(before, table), getattr(after, table)
            assert (one is None) == (other is None)
            assert one is None or all((one[name] == other[name]).all() for name in one.columns)


def test_a_recording_stays_below_its_bound(tmp_path: Path) -> None:
    most = 100_000
    file = Recording(tmp_path, NAMES, 0, most_bytes=most)
    for record in records.healthy(0, 300):
        file.add(record)
        assert (tmp_path / RECORDS_FILE).stat().st_size <= most + 5_000
    file.close()
    kept = steps_in(tmp_path)
    assert kept == sorted(kept) and kept[-1] == 300 and kept[0] <= 20 and len(kept) < 100


def test_a_training_that_goes_on_keeps_what_was_recorded_until_there(tmp_path: Path) -> None:
    file = Recording(tmp_path, NAMES, 0)
    for record in records.healthy(0, 12):
        file.add(record)
    file.close()
    with (tmp_path / RECORDS_FILE).open("a") as broken:
        broken.write('{"step": 13, "ste')  # it was killed while it wrote
    Recording(tmp_path, NAMES, 7).close()
    assert steps_in(tmp_path) == list(range(1, 8))
    Recording(tmp_path, NAMES, 0).close()
    assert steps_in(tmp_path) == []


@pytest.mark.parametrize("text", ["", "{}\n", "[1]\n", '{"version": 9}\n', "\x00\n"])
def test_a_file_that_is_no_recording_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / RECORDS_FILE).write_text(text)
    with pytest.raises(InputError, match="is no recording of ours"):
        steps_in(tmp_path)


@pytest.mark.parametrize("line", ["{", "[]", '{"step": 1, "ranks": {"data": [1, 2]}}', '{"step": "x"}'])
def test_a_line_that_is_no_record_is_refused(line: str, tmp_path: Path) -> None:
    Recording(tmp_path, NAMES, 0).close()
    with (tmp_path / RECORDS_FILE).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(InputError, match="line 2 is no record"):
        steps_in(tmp_path)


def row(step: int) -> list[float]:
    """Steps get longer: each phase takes as many milliseconds as its step's number."""
    added_up = step * (step + 1) / 2 * 1e-3
    return [float(step), 8.0 * step, 1.7e9, 0.1, 2.0, 8.0, *([added_up] * (len(COLUMNS) - 6))]


def test_a_rank_that_is_killed_leaves_its_last_steps(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        recorder = FlightRecorder(tmp_path / "flight", 3)
        for step in range(1, STEPS + 11):
            recorder.add(*row(step))
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    (flight,) = read_flights(tmp_path)
    assert (flight.rank, flight.end) == (3, {})
    assert [step["step"] for step in flight.steps] == list(range(11, STEPS + 11))
    assert flight.steps[-1]["consumed"] == 8 * (STEPS + 10)
    for name in ("data", "other", "queued"):
        taken = [step[name] for step in flight.steps]
        assert taken == pytest.approx([step["step"] * 1e-3 for step in flight.steps])


@pytest.mark.parametrize("steps", [1, 2, STEPS, STEPS + 1, STEPS + 2, 3 * STEPS])
def test_the_last_steps_are_read_while_more_are_taken(steps: int) -> None:
    recorder = FlightRecorder(None, 0)
    for step in range(1, steps + 1):
        recorder.add(*row(step))
    kept = min(steps, STEPS)
    assert recorder.last(2 * STEPS)[:, 0].tolist() == list(range(steps - kept + 1, steps + 1))
    assert recorder.last(1)[:, -1].tolist() == pytest.approx([steps * 1e-3])


def test_a_rank_that_fails_says_why_and_a_new_start_forgets_it(tmp_path: Path) -> None:
    recorder = FlightRecorder(tmp_path / "flight", 0)
    recorder.add(*row(1))
    recorder.ends("ValueError: no")
    recorder.close()
    assert read_flights(tmp_path)[0].end["reason"] == "ValueError: no"
    FlightRecorder(tmp_path / "flight", 0).close()
    (flight,) = read_flights(tmp_path)
    assert (flight.steps, flight.end) == ([], {})


def test_a_launcher_speaks_for_a_rank_that_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And for none that has spoken, or that lost the killed one."""
    ranks, flights = tmp_path / "ranks", tmp_path / "flight"
    ranks.mkdir()
    monkeypatch.setenv(FOLDER, str(ranks))
    for local_rank in range(3):
        monkeypatch.setenv("LOCAL_RANK", str(local_rank))
        recorder = FlightRecorder(flights, 4 + local_rank)
        if local_rank == 1:
            recorder.ends("ValueError: no")
        recorder.close()
    killed = [from_rank(rank, -signal.SIGKILL, None) for rank in (4, 5)]
    speak_for([*killed, Failure(6, "peer", "it lost another")], ranks, 4)
    first, second, third = read_flights(tmp_path)
    assert first.end["reason"].startswith("SIGKILL (often the kernel's out-of-memory killer")
    assert (first.end["by"], second.end["reason"], third.end) == ("signal", "ValueError: no", {})


@pytest.mark.parametrize("data", [b"", b"DTFLIGHT", b"x" * 5_000])
def test_a_file_of_no_flight_recorder_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "flight").mkdir()
    (tmp_path / "flight/rank-00000.bin").write_bytes(data)
    with pytest.raises(ValueError, match="is no file of a flight recorder"):
        read_flights(tmp_path)


@pytest.mark.parametrize(("bound", "cost", "a_step"), [(0.01, 0.03, 0.1), (0.001, 0.005, 0.01), (0.1, 0.01, 0.5)])
def test_tensors_are_summed_up_as_often_as_the_bound_allows(bound: float, cost: float, a_step: float) -> None:
    """And the first steps, which come whatever they cost, are made up for."""
    cadence, full, steps = Cadence(bound), [], 20_000
    spent = elapsed = 0.0
    last, since = 0, 0.0
    for step in range(1, steps + 1):
        since += a_step
        assert not cadence.records(step) or step >= cadence.due
        if step < cadence.due or not cadence.records(step):
            continue
        sums = cadence.sums_tensors(step)
        cadence.begins(step, full=sums)
        if sums:
            full.append(step)
        costs = cost if sums else 1e-5
        spent, elapsed = spent + costs, elapsed + since
        cadence.recorded(step, step, steps=step - last, seconds=2 * since, worked=since, cost=costs, full=sums)
        last, since = step, 0.0
    assert set(FIRST_STEPS) <= set(full)
    assert 0.8 * bound < spent / elapsed <= 1.02 * bound or (spent / elapsed < bound and cost < bound * a_step)
    assert abs(cadence.share - spent / elapsed) < 1e-9


@pytest.mark.parametrize(("a_step", "most"), [(0.1, 0.01), (0.04, 0.01), (0.015, 0.0121), (0.004, 0.0251)])
def test_fixed_costs_per_step_count_for_the_bound(a_step: float, most: float) -> None:
    """80 us, on top of which records of steps that are too short for it get half of the bound."""
    cadence, idle, cost, steps = Cadence(0.01), 8e-5, 0.06, round(2000 / a_step)
    spent, full, last = 0.0, 0, 0
    for step in range(1, steps + 1):
        spent += idle
        if step >= cadence.due and cadence.records(step):
            sums, taken = cadence.sums_tensors(step), step - last
            cadence.begins(step, full=sums)
            costs = cost if sums else 2e-4
            spent, full, last, seconds = spent + costs, full + sums, step, a_step * taken
            cadence.recorded(step, step, steps=taken, seconds=seconds, worked=seconds, cost=costs, idle=idle, full=sums)
    elapsed = a_step * steps
    assert 0.8 * most < spent / elapsed <= most and full > 60
    assert cadence.share == pytest.approx(spent / elapsed, rel=0.01)


@pytest.mark.parametrize(("cost", "apart"), [(1e-5, 17), (5e-4, 33), (5e-2, 67)])
def test_where_ranks_wait_small_records_get_rarer_but_one_comes_each_second(cost: float, apart: int) -> None:
    """Steps of 15 ms, 3 of them worked: every 0.25 s where it costs nothing, else half of the bound."""
    cadence, recorded = Cadence(0.01), list[int]()
    last = 0
    for step in range(1, 4_000):
        if cadence.records(step):
            full, steps = cadence.sums_tensors(step), step - last
            cadence.begins(step, full=full)
            paid = 1e3 if full else cost  # so that none of these come among them
            cadence.recorded(step, step, steps=steps, seconds=0.015 * steps, worked=0.003 * steps, cost=paid, full=full)
            recorded.append(step)
            last = step
    gaps = [later - earlier for earlier, later in pairwise(recorded[20:])]
    assert max(gaps) == apart


def records_of_age(a_step: float, seconds: float) -> tuple[list[int], list[int]]:
    """The steps that are recorded in the last 100 s of a training that is so old, and those with tensors."""
    cadence, recorded, full, steps = Cadence(0.01), list[int](), list[int](), round(seconds / a_step)
    last = 0
    for step in range(1, steps):
        if cadence.records(step):
            sums, passed = cadence.sums_tensors(step), a_step * (step - last)
            cadence.begins(step, full=sums)
            cadence.recorded(step, step, steps=step - last, seconds=passed, worked=passed, cost=1e-6, full=sums)
            recorded.append(step)
            full += [step] * sums
            last = step
    late = steps - round(100 / a_step)
    return [step for step in recorded if step > late], [step for step in full if step > late]


@pytest.mark.parametrize(("a_step", "apart"), [(0.01, 1.0), (0.05, 1.0), (0.1, 0.25), (0.4, 0.4)])
def test_records_get_rarer_with_age_unless_they_are_of_few_steps(a_step: float, apart: float) -> None:
    """A slow rank is named within 20 steps by records of 3 at most: where steps are that long, they stay so."""
    for seconds, usual, tensors in ((100, 0.42, 0.84), (700, apart, 5.0)):
        recorded, full = records_of_age(a_step, seconds)
        gaps = [a_step * (later - earlier) for earlier, later in pairwise(recorded[len(recorded) // 2 :])]
        assert np.median(gaps) <= max(usual, a_step) + a_step
        assert max(gaps) <= max(3 * a_step, 1.0) + a_step
        if seconds == 700:
            assert 90 / max(apart, a_step) * 0.8 <= len(recorded) <= 100 / max(apart, a_step) * 1.5
            assert max(np.diff(full)) * a_step <= tensors + 1 and 18 <= len(full) <= 22


def test_a_bound_of_one_looks_at_every_step() -> None:
    assert all(Cadence(1.0).sums_tensors(step) for step in range(1, 50))


@pytest.mark.parametrize("bound", [0.01, 0.001, 1.0])
@pytest.mark.parametrize("late", [1, 2])
def test_records_come_together_later_and_none_is_missed(bound: float, late: int) -> None:
    """As on several ranks and on GPUs: a step or two have been taken since, which may have been recorded, too."""
    cadence, full, pending, last = Cadence(bound), list[int](), list[tuple[int, bool]](), 0
    for step in range(1, 10_000):
        assert not cadence.records(step) or step >= cadence.due
        if cadence.records(step) and not pending:
            pending.append((step, cadence.sums_tensors(step)))
            cadence.begins(step, full=pending[0][1])
        if pending and step - pending[0][0] == late:
            recorded, sums = pending.pop()
            full += [recorded] * sums
            cost, steps = 2e-3 if sums else 1e-5, recorded - last
            seconds = 0.01 * steps
            cadence.recorded(recorded, step, steps=steps, seconds=seconds, worked=seconds, cost=cost, full=sums)
            last = recorded
    assert len(full) > 10 and full[-1] > 5_000 and last > 9_800


def test_a_clock_gives_each_phase_its_time() -> None:
    times = iter([0.0, 1.0, 3.0, 7.0, 8.0, 9.0, 11.0])
    clock = Clock(lambda: next(times))
    clock.mark(DATA)
    clock.mark(FORWARD)
    clock.split(BACKWARD, 5.0, COMMUNICATION)  # asks for the time twice
    taken = clock.seconds
    assert (taken[DATA], taken[FORWARD], taken[BACKWARD], taken[COMMUNICATION]) == (1.0, 2.0, 2.0, 3.0)
    clock.restart()
    clock.mark(DATA)
    assert (sum(clock.seconds), clock.own) == (2.0, 2.0)


@pytest.mark.parametrize("share", [0.0, 0.15, 0.25, 0.5, 0.85, 1.0])
@pytest.mark.parametrize("number", [1, 2, 5, 8])
def test_quantiles_are_those_of_numpy(number: int, share: float) -> None:
    values = np.random.default_rng(number).normal(size=(number, 3))
    assert quantile(values, share) == pytest.approx(np.quantile(values, share, axis=0), abs=1e-15)
