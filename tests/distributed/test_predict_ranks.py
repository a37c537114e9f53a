"""Predictions over a data set: the same bytes from any number of ranks and hosts, and a repeated run does what is
missing, whatever killed the one before."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from drivetrain.data.manifest import Manifest
from drivetrain.registry.content_hash import content_hash
from drivetrain.training.config import Config, Folders
from drivetrain.training.input_pipeline.dataset import Dataset
from drivetrain.training.outputs import answers_of, task_of
from drivetrain.training.prediction import asked
from drivetrain.training.prediction.identity import model_hash
from drivetrain.training.prediction.settings import Settings
from drivetrain.training.process import Process
from drivetrain.training.torch.models.loaded_model import load_model
from drivetrain.training.torch.values import Values
from drivetrain.training_scripts.predict import run
from drivetrain.training_scripts.train import train

Forked = Callable[..., list[Any]]
ALONE = Process(0, 1, 0, 1, torch.device("cpu"))
SETTINGS = Settings(batch_size=4, rows_per_shard=7, keep="label, p3")
ROWS, SHARDS = 50, 7  # of 8 rows: two whole batches; the last one has 2


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory, prepared_data: Any) -> Path:
    folder = tmp_path_factory.mktemp("model")
    data = prepared_data.write_prepared(folder / "train", prepared_data.digit_columns(32, seed=1))
    config = Config(recipe="digits_cnn", recipe_options='{"channels": 2, "hidden": 8}', max_steps=1)
    train(config, Folders(train=data, model=folder / "model"), ALONE)
    return folder / "model"


def predict(process: Process, *given: Any, **more: Any) -> dict[str, int]:
    return run(*given, process, **{"settings": SETTINGS, **more})


def rows_of(folder: Path) -> dict[str, Any]:
    return parquet.read_table(sorted(folder.glob("*.parquet"))).to_pydict()


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("several", [2, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (3, 9))])
def test_every_number_of_ranks_writes_the_same_bytes(
    several: int, pooled: Forked, model: Path, digits: Path, tmp_path: Path
) -> None:
    for ranks in (1, several):
        numbers = pooled(ranks, predict, model, digits, tmp_path / str(ranks))
        expected = {"rows": ROWS, "shards": SHARDS, "shards_there": 0, "shards_copied": 0, "shards_predicted": SHARDS}
        assert numbers == [expected] * ranks
    assert len(files(tmp_path / "1")) == 2 * SHARDS + 1
    assert files(tmp_path / str(several)) == files(tmp_path / "1")


@pytest.fixture
def threads_of_the_host() -> Iterator[Callable[[int], None]]:
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_the_number_of_host_threads_does_not_matter(
    model: Path,
    digits: Path,
    tmp_path: Path,
    threads_of_the_host: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many as the host has cores for the process, or as OMP_NUM_THREADS says; they are there again afterwards."""
    computing: set[int] = set()
    made = asked.predictions_of

    def watched(*given: Any) -> Any:
        computing.add(torch.get_num_threads())
        return made(*given)

    monkeypatch.setattr(asked, "predictions_of", watched)
    for threads in (1, 3):
        threads_of_the_host(threads)
        run(model, digits, tmp_path / str(threads), ALONE, settings=SETTINGS)
        assert (torch.get_num_threads(), computing) == (threads, {1})
    assert files(tmp_path / "1") == files(tmp_path / "3")
    run(model, digits, tmp_path / "two", ALONE, settings=replace(SETTINGS, threads=2))
    assert (torch.get_num_threads(), computing) == (3, {1, 2})


def test_predictions_are_in_the_order_of_rows(pooled: Forked, model: Path, digits: Path, tmp_path: Path) -> None:
    pooled(2, predict, model, digits, tmp_path / "out")
    found = rows_of(tmp_path / "out")
    of_classes = [f"{name}_{number}" for name in ("score", "margin") for number in range(10)]
    assert list(found) == ["row", "key", "label", "p3", "predicted", *of_classes]
    assert found["row"] == list(range(ROWS))
    assert found["key"] == [f"row-{row}" for row in range(ROWS)]
    recipe, network, _ = load_model(model)
    dataset = Dataset(digits, recipe, ALONE)
    assert found["label"] == dataset.labels().tolist()
    scores, predicted = [], []
    for start in range(0, ROWS, SETTINGS.batch_size):
        with torch.no_grad():
            outputs = network.eval()(dataset.batch(slice(start, min(ROWS, start + SETTINGS.batch_size))).inputs)
        answers = answers_of(Values(), recipe, task_of(recipe), outputs)
        scores.append(answers.scores)
        predicted.append(answers.predicted)
    assert found["predicted"] == np.concatenate(predicted).tolist()
    assert np.array_equal(np.array([found[f"score_{n}"] for n in range(10)]).T, np.concatenate(scores))


def test_the_output_can_be_read_as_prepared_data(pooled: Forked, model: Path, digits: Path, tmp_path: Path) -> None:
    pooled(2, predict, model, digits, tmp_path / "out")
    manifest = Manifest.read(tmp_path / "out")
    assert (manifest.rows, manifest.key, manifest.label, len(manifest.shards)) == (ROWS, "key", None, SHARDS)
    assert json.loads((tmp_path / "out" / "manifest.json").read_text())["predictions"]["model"] == content_hash(model)


def test_the_model_s_name_is_the_one_that_registries_know(model: Path) -> None:
    assert model_hash(model) == content_hash(model)


def test_data_without_a_label(model: Path, digits: Path, prepared_data: Any, tmp_path: Path) -> None:
    columns = {name: values for name, values in prepared_data.digit_columns(ROWS).items() if name != "label"}
    data = prepared_data.write_prepared(tmp_path / "unlabelled", columns, label=None)
    settings = replace(SETTINGS, keep="")
    run(model, data, tmp_path / "out", ALONE, settings=settings)
    run(model, digits, tmp_path / "labelled", ALONE, settings=settings)
    assert rows_of(tmp_path / "out") == rows_of(tmp_path / "labelled")


def test_a_repeated_run_predicts_only_missing_shards(
    pooled: Forked, model: Path, digits: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    pooled(2, predict, model, digits, out)
    whole, before = files(out), stamps(out)
    (numbers, _) = pooled(2, predict, model, digits, out)
    assert (numbers["shards_there"], numbers["shards_predicted"]) == (SHARDS, 0)
    assert (stamps(out), files(out)) == (before, whole)
    # One file gone, one record gone, one torn, one with a flipped bit, one record torn, no manifest.
    (out / "part-00000.parquet").unlink()
    (out / "_shards" / "part-00001.json").unlink()
    os.truncate(out / "part-00002.parquet", 100)
    content = bytearray((out / "part-00003.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (out / "part-00003.parquet").write_bytes(content)
    (out / "_shards" / "part-00004.json").write_text('{"file"')
    (out / "manifest.json").unlink()
    capfd.readouterr()
    (numbers, *_) = pooled(3, predict, model, digits, out)
    assert (numbers["shards_there"], numbers["shards_predicted"]) == (2, 5)
    assert "50 rows in 7 shards of 8: 2 of 7 shards were there\n" in capfd.readouterr().out
    assert files(out) == whole
    for name in ("part-00005.parquet", "part-00006.parquet", "_shards/part-00005.json"):
        assert stamps(out)[name] == before[name]


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {str(path.relative_to(folder)): (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


def predict_and_be_killed(process: Process, model: Path, data: Path, out: Path, rank: int, event: int) -> None:
    """Rank `rank` is killed at its `event`th write, before the file is renamed or just after."""
    if process.rank == rank:
        seen = iter(range(1_000))
        replace_file = Path.replace

        def counted(path: Path, target: Any) -> Any:
            number = next(seen)
            if number == event and event % 2 == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            result = replace_file(path, target)
            if number == event:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        Path.replace = counted  # type: ignore[method-assign]
        predict(process, model, data, out)
    else:
        with suppress(RuntimeError):  # a lost peer: the launcher ends such a rank
            predict(process, model, data, out)


@pytest.mark.slow_cases("1", "2", "5")
@pytest.mark.parametrize("event", [0, 1, 2, 3, 5, 14])
def test_killed_at_any_write_and_repeated(
    event: int, forked: Forked, model: Path, digits: Path, tmp_path: Path
) -> None:
    """One rank: a shard's file, its record, the next one's, ..., at last the manifest."""
    run(model, digits, tmp_path / "whole", ALONE, settings=SETTINGS)
    out = tmp_path / "out"
    forked(1, predict_and_be_killed, model, digits, out, 0, event, may_die={0})
    assert not (out / "manifest.json").exists()
    committed = sorted((out / "_shards").glob("part-*.json"))
    before = stamps(out)
    (numbers,) = forked(1, predict, model, digits, out)
    assert numbers["shards_there"] == len(committed) == (event + 1) // 2
    assert files(out) == files(tmp_path / "whole")
    for path in committed:
        for name in (f"_shards/{path.name}", f"{path.stem}.parquet"):
            assert stamps(out)[name] == before[name]


def test_one_rank_of_two_is_killed(forked: Forked, model: Path, digits: Path, tmp_path: Path) -> None:
    run(model, digits, tmp_path / "whole", ALONE, settings=SETTINGS)
    out = tmp_path / "out"
    forked(2, predict_and_be_killed, model, digits, out, 1, 2, may_die={0, 1})
    (numbers, *_) = forked(3, predict, model, digits, out)
    assert numbers["shards_there"] >= 1
    assert files(out) == files(tmp_path / "whole")


def on_hosts(
    process: Process, model: Path, data: Path, outputs: list[Path], previous: Path | None = None
) -> dict[str, int]:
    """As on hosts of one process each, with folders of their own."""
    host = replace(process, local_rank=0, local_world_size=1)
    return run(model, data, outputs[process.rank], host, settings=SETTINGS, previous=previous)


def test_hosts_write_their_shares_into_own_folders(pooled: Forked, model: Path, digits: Path, tmp_path: Path) -> None:
    """What is uploaded from several hosts is one folder: no name may come from two."""
    run(model, digits, tmp_path / "whole", ALONE, settings=SETTINGS)
    outputs = [tmp_path / "host-0", tmp_path / "host-1"]
    pooled(2, on_hosts, model, digits, outputs)
    first, second = (files(folder) for folder in outputs)
    assert not first.keys() & second.keys()
    assert first | second == files(tmp_path / "whole")
    assert "manifest.json" in first
    # Repeated where they are, and beside them from what was uploaded.
    (numbers, _) = pooled(2, on_hosts, model, digits, outputs)
    assert (numbers["shards_there"], numbers["shards_predicted"]) == (SHARDS, 0)
    (tmp_path / "whole" / "part-00003.parquet").unlink()
    fresh = [tmp_path / "new-0", tmp_path / "new-1"]
    (numbers, _) = pooled(2, on_hosts, model, digits, fresh, tmp_path / "whole")
    assert (numbers["shards_there"], numbers["shards_copied"], numbers["shards_predicted"]) == (0, SHARDS - 1, 1)
    found = [files(folder) for folder in fresh]
    assert not found[0].keys() & found[1].keys()
    assert found[0] | found[1] == first | second


def refused(process: Process, model: Path, data: Path, out: Path, settings: Settings, previous: Path | None) -> str:
    try:
        run(model, data, out, process, settings=settings, previous=previous)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.slow
def test_predictions_of_other_inputs_are_refused_or_replaced(
    pooled: Forked, model: Path, digits: Path, prepared_data: Any, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    pooled(2, predict, model, digits, out)
    whole = files(out)
    (out / "note.txt").write_text("mine")
    other = replace(SETTINGS, batch_size=2, keep="")
    data = prepared_data.write_prepared(tmp_path / "other", prepared_data.digit_columns(20, seed=3))
    for given, words in (
        ((digits, out, other, None), "batch_size 4 instead of 2"),
        ((digits, out, replace(SETTINGS, threads=2), None), "threads 1 instead of 2"),
        ((digits, tmp_path / "new", other, out), "keep"),
        ((data, out, SETTINGS, None), "rows 50 instead of 20"),
    ):
        said = pooled(2, refused, model, *given)
        assert said[0] == said[1] and f"{out} holds predictions of something else: " in said[0], said
        assert "on_change=fresh" in said[0] and words in said[0]
        assert files(out) == {**whole, "note.txt": b"mine"}
    fresh = replace(SETTINGS, on_change="fresh")
    assert pooled(2, refused, model, data, out, fresh, None) == ["", ""]
    assert Manifest.read(out).rows == 20
    assert not (out / "part-00006.parquet").exists() and (out / "note.txt").read_text() == "mine"


def test_files_that_are_no_predictions_are_not_replaced(model: Path, digits: Path, tmp_path: Path) -> None:
    said = refused(ALONE, model, digits, digits, replace(SETTINGS, on_change="fresh"), None)
    assert "holds manifest.json, which are no predictions; nothing there is replaced" in said
    assert (digits / "manifest.json").is_file()
    (tmp_path / "file").touch()
    assert "is a file" in refused(ALONE, model, digits, tmp_path / "file", SETTINGS, None)


def test_bad_settings_and_columns(model: Path, digits: Path, tmp_path: Path) -> None:
    for settings, words in (
        (replace(SETTINGS, keep="lable"), "no column 'lable'. Did you mean 'label'?"),
        (replace(SETTINGS, keep="key"), "keep names 'key', which a column of the predictions is called"),
        (replace(SETTINGS, strategy="dpp"), "no strategy 'dpp'. Did you mean"),
    ):
        assert words in refused(ALONE, model, digits, tmp_path / "out", settings, None)
    for given, words in (
        ({"batch_size": 0}, "batch_size=0; allowed are whole numbers from 1"),
        ({"threads": 0}, "threads=0; allowed are whole numbers from 1"),
        ({"on_change": "resume"}, "no on_change 'resume'"),
        ({"keep": "a,b,a"}, "names 'a' twice"),
    ):
        with pytest.raises(ValueError, match=words):
            Settings(**given)


def test_a_nonfinite_prediction_is_an_error(pooled: Forked, digits: Path, model: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from drivetrain.training.torch.framework import Framework

    weights = load_file(model / "model.safetensors")
    weights = {name: torch.full_like(tensor, float("nan")) for name, tensor in weights.items()}
    Framework.save_model(
        tmp_path / "broken", weights, {k: v for k, v in load_model(model)[2].items() if k not in ("format", "weights")}
    )
    said = refused(ALONE, tmp_path / "broken", digits, tmp_path / "out", SETTINGS, None)
    first = digits / "part-00000.parquet"
    # As evaluate says it: the file, the row in it from 1, and the input before the training.
    assert (
        said.startswith(f"the score of {first}, row 1 (id='row-") and "is nan (4 such in the batch): values of" in said
    )
    assert said.index("the model has numbers") < said.index("diverged in training")
    assert not list((tmp_path / "out").glob("part-*"))


def test_a_row_that_has_no_answer_is_named_by_its_file(model: Path, prepared_data: Any, tmp_path: Path) -> None:
    columns = prepared_data.digit_columns(ROWS)
    columns["p5"] = columns["p5"].astype(np.float64)
    columns["p5"][33] = np.nan  # of two files of 25 rows
    data = prepared_data.write_prepared(tmp_path / "data", columns)
    said = refused(ALONE, model, data, tmp_path / "out", SETTINGS, None)
    assert (
        said.startswith(f"the score of {data / 'part-00001.parquet'}, row 9 (id='row-")
        and ") is nan: values of" in said
    )


def by_strategy(process: Process, model: Path, data: Path, out: Path, strategy: str) -> dict[str, int]:
    return run(model, data, out, process, settings=replace(SETTINGS, strategy=strategy, keep=""))


@pytest.mark.slow_cases("tp")
@pytest.mark.parametrize("strategy", ["fsdp", "tp"])
def test_a_sharded_model_predicts(strategy: str, pooled: Forked, model: Path, digits: Path, tmp_path: Path) -> None:
    """Every rank takes part in each forward pass, also one whose shards are there."""
    run(model, digits, tmp_path / "whole", ALONE, settings=replace(SETTINGS, keep=""))
    out = tmp_path / "out"
    pooled(3 if strategy == "fsdp" else 2, by_strategy, model, digits, out, strategy)
    (out / "part-00004.parquet").unlink()
    (numbers, *_) = pooled(3 if strategy == "fsdp" else 2, by_strategy, model, digits, out, strategy)
    assert (numbers["shards_there"], numbers["shards_predicted"]) == (SHARDS - 1, 1)
    expected, found = rows_of(tmp_path / "whole"), rows_of(out)
    assert found["row"] == expected["row"]
    for name in expected:
        if name.startswith("score"):
            assert np.allclose(found[name], expected[name], rtol=0, atol=1e-6)


def test_hosts_with_different_data_are_reported(
    pooled: Forked, model: Path, digits: Path, prepared_data: Any, tmp_path: Path
) -> None:
    other = prepared_data.write_prepared(tmp_path / "other", prepared_data.digit_columns(ROWS, seed=9))
    for said in pooled(2, on_other_data, model, [digits, other], tmp_path / "out"):
        assert "are to predict different things: data " in said


def on_other_data(process: Process, model: Path, data: list[Path], out: Path) -> str:
    host = replace(process, local_rank=0, local_world_size=1)
    return refused(host, model, data[process.rank], out, SETTINGS, None)
