"""prepare_data from end to end: what it writes, and that the same rows give the same bytes."""

import contextlib
import csv
import gzip
import hashlib
import io
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drivetrain.base.errors import InputError
from drivetrain.components.prepare_data import prepare_data
from drivetrain.data import shard_files as tabular_shard_files
from drivetrain.data import version_folder
from drivetrain.data.formats import csv as tabular_csv
from drivetrain.data.formats import ipc as tabular_ipc
from drivetrain.data.formats import jsonl as tabular_jsonl
from drivetrain.data.formats import parquet as tabular_parquet
from drivetrain.data.manifest import Manifest

SIDES = ("train", "validation", "test")
HEADER = ["id", "label", "size", "city"]


def rows(count: int, seed: int = 0) -> list[list[Any]]:
    choose = random.Random(seed)
    return [
        [index, choose.randrange(3), round(choose.gauss(0, 10), 3), choose.choice(["Bern", "São Paulo", 'a "b", c\nd'])]
        for index in range(count)
    ]


def csv_text(table: Sequence[Sequence[Any]], header: Sequence[str] = HEADER) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *table])
    return text.getvalue()


def split(raw: Path, out: Path, **parameters: Any) -> dict[str, list[dict[str, Any]]]:
    """Run prepare_data; the rows of each side as its shards hold them."""
    parameters = {"key": "id", "label": "label", **parameters}
    prepare_data(raw, *(out / side for side in SIDES), **parameters)
    return {side: read(out / side) for side in SIDES}


def read(folder: Path) -> list[dict[str, Any]]:
    tables = [pq.read_table(folder / shard.file) for shard in Manifest.read(folder).shards]
    return [row for table in tables for row in table.to_pylist()]


def content(out: Path) -> dict[str, Any]:
    """All files; of a manifest what it says but where the rows come from."""
    found: dict[str, Any] = {}
    for path in sorted(out.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(out))] = path.read_bytes()
            if path.name == "manifest.json":
                found[str(path.relative_to(out))] = {**json.loads(path.read_bytes()), "lineage": None}
    return found


def shard(folder: Path, number: int = 0) -> Path:
    return folder / Manifest.read(folder).shards[number].file


def test_every_row_is_on_one_side_in_its_order(tmp_path: Path) -> None:
    table = rows(1000)
    (tmp_path / "raw.csv").write_text(csv_text(table))
    sides = split(tmp_path / "raw.csv", tmp_path / "out")
    expected = [dict(zip(HEADER, row, strict=True)) for row in table]
    assert sorted((row for side in sides.values() for row in side), key=lambda row: row["id"]) == expected
    for side in sides.values():
        assert [row["id"] for row in side] == sorted(row["id"] for row in side)
    assert 50 < len(sides["test"]) < 150 and 50 < len(sides["validation"]) < 150


def test_the_manifest_describes_the_shards(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(csv_text(rows(1000)))
    sides = split(tmp_path / "raw.csv", tmp_path / "out", rows_per_shard=300)
    train = tmp_path / "out" / "train"
    manifest = json.loads((train / "manifest.json").read_bytes())
    names = [f"part-{index:05d}.parquet" for index in range(len(manifest["shards"]))]
    version = manifest["content_hash"][:12]
    assert {path.name for path in train.iterdir()} == {"manifest.json", version}
    assert {path.name for path in (train / version).iterdir()} == {"manifest.json", "profile.npz", *names}
    assert [shard["file"] for shard in manifest["shards"]] == [f"{version}/{name}" for name in names]
    plain = [{**shard, "file": name} for name, shard in zip(names, manifest["shards"], strict=True)]
    assert json.loads((train / version / "manifest.json").read_bytes()) == {**manifest, "shards": plain}
    assert [shard["rows"] for shard in manifest["shards"]] == [300, 300, len(sides["train"]) - 600]
    for shard in manifest["shards"]:
        data = (train / shard["file"]).read_bytes()
        assert (shard["bytes"], shard["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert list(manifest) == [
        *("format", "rows", "bytes", "key", "label", "schema", "shards"),
        *("engine", "lineage", "keys", "content_hash", "statistics"),
    ]
    assert manifest["format"] == 2
    assert manifest["engine"] == f"pyarrow {pa.__version__}"
    assert manifest["rows"] == len(sides["train"])
    assert manifest["bytes"] == sum(shard["bytes"] for shard in manifest["shards"])
    assert (manifest["key"], manifest["label"]) == ("id", "label")
    types = ["int64", "int64", "double", "string"]
    assert manifest["schema"] == [{"name": n, "type": t} for n, t in zip(HEADER, types, strict=True)]
    classes = {entry["value"]: entry["rows"] for entry in manifest["statistics"]["label"]["classes"]}
    assert classes == {value: sum(row["label"] == value for row in sides["train"]) for value in (0, 1, 2)}
    aside = ("statistics", "engine", "lineage", "keys", "content_hash")
    identity = {name: value for name, value in {**manifest, "format": 1, "shards": plain}.items() if name not in aside}
    canonical = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert manifest["content_hash"] == hashlib.sha256(canonical).hexdigest()


def test_equal_rows_give_equal_bytes_for_any_sharding_of_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tabular_shard_files, "ROW_GROUP_ROWS", 128)
    table = rows(1000)
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "all.csv").write_text(csv_text(table))
    split(tmp_path / "one", tmp_path / "out_one", rows_per_shard=300)
    expected = content(tmp_path / "out_one")
    assert pq.ParquetFile(shard(tmp_path / "out_one" / "train")).num_row_groups == 3

    monkeypatch.setattr(tabular_csv, "BLOCK_BYTES", 2000)
    split(tmp_path / "one", tmp_path / "out_blocks", rows_per_shard=300)
    assert content(tmp_path / "out_blocks") == expected

    (tmp_path / "many" / "sub").mkdir(parents=True)
    for name, start, stop in (("sub/c.csv", 700, 1000), ("a.csv", 0, 100), ("b.csv", 100, 700)):
        (tmp_path / "many" / name).write_text(csv_text(table[start:stop]))
    split(tmp_path / "many", tmp_path / "out_many", rows_per_shard=300)
    assert content(tmp_path / "out_many") == expected


def test_the_formats_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_jsonl, "BLOCK_BYTES", 3000)
    monkeypatch.setattr(tabular_parquet, "BATCH_ROWS", 77)
    monkeypatch.setattr(tabular_ipc, "BATCH_ROWS", 77)
    table = rows(500)
    objects = [dict(zip(HEADER, row, strict=True)) for row in table]
    lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in objects).encode()
    categories = pa.Table.from_pylist(objects).set_column(
        3, "city", pa.array([row[3] for row in table]).dictionary_encode()
    )
    files: dict[str, Any] = {
        "a.csv": csv_text(table).encode(),
        "b.csv.gz": gzip.compress(csv_text(table).encode()),
        "c.jsonl": lines,
        "d.ndjson": b"\xef\xbb\xbf" + lines.replace(b"\n", b"\r\n\n"),
        "E.NDJSON.GZ": gzip.compress(lines),
        "f.CSV.GZ": gzip.compress(
            b"\xef\xbb\xbf" + csv_text(table).replace("\n", "\r\n").replace("c\r\nd", "c\nd").encode()
        ),
    }
    contents: dict[str, dict[str, bytes]] = {}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    pq.write_table(categories, tmp_path / "g.parquet", row_group_size=100)
    for name, writer in (("h.arrow", pa.ipc.new_file), ("i.arrow", pa.ipc.new_stream), ("j.feather", pa.ipc.new_file)):
        with writer(str(tmp_path / name), categories.schema) as opened:
            opened.write_table(categories.slice(0, 300))
            opened.write_table(categories.slice(300))
    for name in (*files, "g.parquet", "h.arrow", "i.arrow", "j.feather"):
        split(tmp_path / name, tmp_path / "out" / name)
        contents[name] = content(tmp_path / "out" / name)
    for name, found in contents.items():
        assert found == contents["a.csv"], name


def test_files_of_several_formats_are_one_table(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "1.csv").write_text("id,label,size\n0,a,1\n1,b,2\n")
    (raw / "2.jsonl").write_text('{"size": 2.5, "id": 2, "label": "a"}\n{"id": 3, "label": "b"}\n')
    pq.write_table(
        pa.table({"label": ["a", "b"], "id": pa.array([4, 5], pa.int32()), "size": [1, None]}), raw / "3.parquet"
    )
    sides = split(raw, tmp_path / "out", validation_percent=0, test_percent=0)
    assert sides["train"] == [
        {"id": index, "label": "ab"[index % 2], "size": size}
        for index, size in enumerate([1.0, 2.0, 2.5, None, 1.0, None])
    ]
    assert Manifest.read(tmp_path / "out" / "train").schema[2].type == "double"


def test_percent_zero_gives_an_empty_valid_side(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(csv_text(rows(50)))
    sides = split(tmp_path / "raw.csv", tmp_path / "out", validation_percent=0, test_percent=20)
    assert sides["validation"] == []
    manifest = Manifest.read(tmp_path / "out" / "validation")
    assert (manifest.rows, manifest.bytes, manifest.shards) == (0, 0, ())
    assert manifest.statistics["size"] == {
        **{"nulls": 0, "min": None, "max": None, "mean": None, "std": None, "sum": None, "not_finite": 0},
        **{"distinct": 0, "quantiles": {}, "histogram": {"edges": [], "rows": []}},
    }


def test_an_earlier_run_leaves_nothing_behind_and_other_files_stay(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(csv_text(rows(200)))
    split(tmp_path / "raw.csv", tmp_path / "out", rows_per_shard=20)
    train = tmp_path / "out" / "train"
    (train / "notes.txt").write_text("mine")
    (train / ".part-00003.parquet.partial").write_text("left by an older version that was killed")
    (train / version_folder.STAGING).mkdir()
    (train / version_folder.STAGING / "part-00003.parquet").write_text("left by a run that was killed")
    split(tmp_path / "raw.csv", tmp_path / "out", keep_versions=0)
    version = Manifest.read(train).version
    assert {path.name for path in train.iterdir()} == {"manifest.json", "notes.txt", version}
    split(tmp_path / "raw.csv", tmp_path / "fresh")
    (train / "notes.txt").unlink()
    assert content(tmp_path / "out") == content(tmp_path / "fresh")


def test_a_failed_run_leaves_the_earlier_result_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(csv_text(rows(200)))
    split(tmp_path / "raw.csv", tmp_path / "out", rows_per_shard=20)
    before = content(tmp_path / "out")
    (tmp_path / "raw.csv").write_text(csv_text([*rows(300, seed=1), [7, 0, 1.5, "Bern"]]))
    with pytest.raises(InputError, match="the key 'id' is 7"):
        split(tmp_path / "raw.csv", tmp_path / "out")
    assert content(tmp_path / "out") == before


@pytest.mark.slow_cases(but=["0", "9", "21"])
@pytest.mark.parametrize("survived", range(0, 24, 3))
def test_a_run_killed_while_replacing_leaves_each_set_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survived: int
) -> None:
    """Killed after any number of changes in the outputs: what readers find is whole, and never of both."""
    for name, seed in (("old", 0), ("new", 1)):
        (tmp_path / f"{name}.csv").write_text(csv_text(rows(200, seed=seed)))
        split(tmp_path / f"{name}.csv", tmp_path / name, rows_per_shard=100)
    whole = {side: [Manifest.read(tmp_path / name / side) for name in ("old", "new")] for side in SIDES}
    split(tmp_path / "old.csv", tmp_path / "out", rows_per_shard=100)
    changes = 0

    def counted(real: Any) -> Any:
        def change(path: Path, *arguments: Any, **options: Any) -> Any:
            nonlocal changes
            changes += 1
            if changes > survived:
                raise KeyboardInterrupt
            return real(path, *arguments, **options)

        return change

    real_publish = version_folder.publish

    def publish(writers: Any, keep: int) -> None:
        for name in ("unlink", "replace", "rename"):
            monkeypatch.setattr(Path, name, counted(getattr(Path, name)))
        real_publish(writers, keep)

    monkeypatch.setattr(version_folder, "publish", publish)
    with contextlib.suppress(KeyboardInterrupt):
        split(tmp_path / "new.csv", tmp_path / "out", rows_per_shard=100, keep_versions=0)
    monkeypatch.undo()
    assert changes > survived or survived > 8
    for side in SIDES:
        found = Manifest.read(tmp_path / "out" / side)
        assert found.content_hash in [each.content_hash for each in whole[side]]
    split(tmp_path / "new.csv", tmp_path / "out", rows_per_shard=100, keep_versions=0)
    assert content(tmp_path / "out") == content(tmp_path / "new")


def test_a_second_run_on_the_same_folders_is_refused_and_disturbs_nothing(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(csv_text(rows(300)))
    (tmp_path / "other.csv").write_text(csv_text(rows(200)))
    real, refusals = version_folder.publish, list[str]()

    def publish(*given: Any) -> None:
        """All is staged: now another run comes."""
        with pytest.raises(InputError) as caught:
            prepare_data(tmp_path / "other.csv", *(tmp_path / "out" / side for side in SIDES), key="id")
        refusals.append(str(caught.value))
        real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(version_folder, "publish", publish)
        sides = split(tmp_path / "raw.csv", tmp_path / "out")
    assert len(refusals) == 1 and "another run is writing into " in refusals[0]
    assert sum(map(len, sides.values())) == 300
    split(tmp_path / "other.csv", tmp_path / "out")


def test_versions_are_kept_by_rule(tmp_path: Path) -> None:
    versions: list[str] = []
    for seed, keep, kept in ((0, 1, 1), (1, 1, 2), (2, 1, 2), (3, 2, 3), (0, 0, 1)):
        (tmp_path / "raw.csv").write_text(csv_text(rows(60, seed=seed)))
        before = Manifest.read(tmp_path / "out" / "train") if versions else None
        split(tmp_path / "raw.csv", tmp_path / "out", keep_versions=keep)
        versions.append(Manifest.read(tmp_path / "out" / "train").version)
        there = {path.name for path in (tmp_path / "out" / "train").iterdir()}
        assert there == {"manifest.json", *versions[-kept:]}
        if before and keep:  # whoever began to read the replaced set can go on, and it can be named
            assert all((tmp_path / "out" / "train" / each.file).is_file() for each in before.shards)
            assert Manifest.read(tmp_path / "out" / "train" / before.version).rows == before.rows


def test_a_set_of_format_1_is_replaced_and_stays_for_its_readers(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(csv_text(rows(60)))
    split(tmp_path / "raw.csv", tmp_path / "out")
    train = tmp_path / "out" / "train"
    manifest = Manifest.read(train)
    written = json.loads((train / manifest.version / "manifest.json").read_bytes())
    for name in ("engine", "lineage"):
        del written[name]
    (train / manifest.version / "profile.npz").unlink()  # which format 1 did not have
    for path in (train / manifest.version).iterdir():
        path.rename(train / path.name)
    (train / manifest.version).rmdir()
    (train / "manifest.json").write_text(json.dumps({**written, "format": 1}))
    assert Manifest.read(train).content_hash == manifest.content_hash
    split(tmp_path / "raw.csv", tmp_path / "out")
    assert (train / "part-00000.parquet").is_file() and Manifest.read(train).version == manifest.version
    split(tmp_path / "raw.csv", tmp_path / "out")
    assert {path.name for path in train.iterdir()} == {"manifest.json", manifest.version}


def test_wide_rows_are_written_in_smaller_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular_shard_files, "ROW_GROUP_BYTES", 100_000)
    monkeypatch.setattr(tabular_parquet, "BATCH_BYTES", 50_000)
    table = pa.table({"id": range(100), "image": [bytes([index]) * 10_000 for index in range(100)]})
    pq.write_table(table, tmp_path / "raw.parquet")
    sides = split(tmp_path / "raw.parquet", tmp_path / "out", label=None, validation_percent=0, test_percent=0)
    assert sides["train"] == table.to_pylist()
    assert pq.ParquetFile(shard(tmp_path / "out" / "train")).num_row_groups >= 8


def test_columns_that_repeat_have_a_dictionary(tmp_path: Path) -> None:
    """By the first rows of each shard; of other columns it would take time and room."""
    table = pa.table(
        {
            **{
                "id": range(4000),
                "few": [f"w{row % 9}" for row in range(4000)],
                "many": [f"w{row}" for row in range(4000)],
            },
            **{"list": [[row % 3] for row in range(4000)]},
        }
    )
    pq.write_table(table, tmp_path / "raw.parquet")
    assert split(tmp_path / "raw.parquet", tmp_path / "out", label=None, validation_percent=0, test_percent=0)["train"]
    group = pq.ParquetFile(shard(tmp_path / "out" / "train")).metadata.row_group(0)
    columns = [group.column(place) for place in range(group.num_columns)]
    assert [column.path_in_schema for column in columns if column.has_dictionary_page] == ["few"]


def test_prepare_data_needs_only_numpy_and_pyarrow(tmp_path: Path) -> None:
    (tmp_path / "raw.csv").write_text(csv_text(rows(100)))
    folders = [argument for side in SIDES for argument in (f"--{side}", str(tmp_path / side))]
    program = (
        "import sys; sys.modules['polars'] = None\n"
        "from drivetrain.components.prepare_data import prepare_data\n"
        f"prepare_data.main({['--raw', str(tmp_path / 'raw.csv'), *folders, '--key', 'id', '--label', 'label']!r})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(SIDES)


def test_importing_the_declaration_imports_no_pyarrow() -> None:
    program = "import sys, drivetrain.components.prepare_data; print(sorted(m for m in sys.modules if 'arrow' in m))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_declaration_fits_a_processing_job() -> None:
    assert list(prepare_data.inputs) == ["raw", "previous", "tables"]
    assert list(prepare_data.outputs) == [*SIDES, "calibration", "quarantine"]
    assert prepare_data.needs == ("numpy", "pyarrow")
    assert [name for name, parameter in prepare_data.parameters.items() if parameter.required] == ["key"]
    undocumented = [
        each.name
        for each in (
            *prepare_data.inputs.values(),
            *prepare_data.outputs.values(),
            *prepare_data.parameters.values(),
        )
        if not each.help
    ]
    assert undocumented == []


@pytest.mark.nightly
def test_memory_does_not_grow_with_the_data_but_for_the_keys(tmp_path: Path) -> None:
    def peak(count: int) -> int:
        with (tmp_path / "raw.csv").open("w") as file:
            file.write("id,label,a,b,c,d\n")
            file.writelines(f"{index},{index % 5},{index}.25,0.5,{index * 7},some words\n" for index in range(count))
        folders = [str(tmp_path / side) for side in SIDES]
        program = (
            "import resource; from pathlib import Path\n"
            "from drivetrain.components.prepare_data import prepare_data\n"
            f"prepare_data(Path({str(tmp_path / 'raw.csv')!r}), *map(Path, {folders!r}), key='id', label='label')\n"
            "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return int(done.stdout.splitlines()[-1]) * 1024

    small, large = peak(2_000_000), peak(5_000_000)
    # Per row a hash of 8 bytes, and as much again twice while a part of them is sorted; its text is 40 bytes.
    assert large - small < 3_000_000 * 24 + 30_000_000
