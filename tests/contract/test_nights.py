"""Nights of a pipeline that something starts by itself: it trains exactly when it should, whatever it reads, and
whoever runs it.

    night  what has happened since            trains
    1      nothing                            yes
    2      nothing                            no
    3      new data                           yes, but fails
    4      nothing: the third is made up      yes
    5      a setting was edited               yes
    6      nothing                            no
    7      new data                           yes
    8      nothing, but it is started fresh   yes
"""

from __future__ import annotations

import json
import os
import queue
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import pytest

from drivetrain.authoring.loading import load
from drivetrain.cli import main
from drivetrain.registry.registry import open_registry
from drivetrain.run_store.home import Home
from drivetrain.run_store.objects import ObjectStore, put_assets
from drivetrain.run_store.reader import Ledger
from drivetrain.run_store.writer import LedgerWriter
from drivetrain.serve.runs import Served, run_command
from drivetrain.serve.server import Server
from drivetrain.targets.sagemaker.compile.compile import compile_pipeline
from drivetrain.targets.sagemaker.run.execution import cache
from drivetrain.targets.target import find_target

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PIPELINE = """
from pathlib import Path

from drivetrain import Pipeline, Schedule, Settings, step
from drivetrain.components import Input, Output, component
from drivetrain.components.read_source import read_source


class Nightly(Settings):
    source: str = ""
    query: str = ""
    watermark: str = ""
    catalog: dict[str, str] = {}
    raw: str = ""
    rate: float = 0.1
    broken: str = ""


@component(job="training")
def fit(data: Input, model: Output, *, rate: float, broken: str) -> None:
    if Path(broken).exists():
        raise ValueError("a disk is full")
    with Path(f"{broken}.trainings").open("a") as trainings:
        trainings.write("trained\\n")
    files = sorted(path for path in data.rglob("*") if path.is_file())
    (model / "model.txt").write_text(f"{rate} {len(files)}")


def nightly(settings: Nightly) -> Pipeline:
    asked = {"source": settings.source, "query": settings.query, "watermark": settings.watermark}
    table = [step(read_source, **asked, environment=settings.catalog)] if settings.source else []
    trained = step(fit, data=table[0]["output"] if table else settings.raw, rate=settings.rate, broken=settings.broken)
    return Pipeline(
        name="nightly",
        steps=[*table, trained],
        triggers=[Schedule(name="night", rate="1 day")],
        deployment=settings.deployment,
    )
"""


class Place(Protocol):
    settings: dict[str, Any]

    def append(self) -> None: ...


class Prefix:
    """`s3://lake/raw/` as the folders of a home have it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder / "home" / "s3" / "lake" / "raw", 0
        self._folder.mkdir(parents=True)
        self.settings = {"raw": "s3://lake/raw/"}

    def append(self) -> None:
        self._count += 1
        (self._folder / f"{self._count}.csv").write_text(f"id\n{self._count}\n")


class Folder(Prefix):
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._count = folder / "raw", 0
        self._folder.mkdir()
        self.settings = {"raw": "raw"}


class Delta:
    def __init__(self, folder: Path) -> None:
        self._place, self._count = folder / "orders", 0
        self.settings = {"source": f"delta:{self._place}"}

    def append(self) -> None:
        import pyarrow as pa
        from deltalake import write_deltalake

        self._count += 1
        write_deltalake(self._place, pa.table({"id": pa.array([self._count], pa.int64())}), mode="append")


class Iceberg:
    """A table whose catalog the step's own environment names; so must that of the step that looks."""

    def __init__(self, folder: Path) -> None:
        from pyiceberg.catalog import load_catalog

        where = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
        self._catalog, self._count = load_catalog("shop", **where), 0
        self._catalog.create_namespace("sales")
        named = {f"PYICEBERG_CATALOG__SHOP__{name.upper()}": text for name, text in where.items()}
        self.settings = {"source": "iceberg:shop/sales.orders", "catalog": named}

    def append(self) -> None:
        import pyarrow as pa

        self._count += 1
        rows = pa.table({"id": pa.array([self._count], pa.int64())})
        self._catalog.create_table_if_not_exists("sales.orders", schema=rows.schema).append(rows)


class Query:
    """A query with a watermark."""

    def __init__(self, folder: Path) -> None:
        self._path, self._count = folder / "shop.db", 0
        self._run("create table orders (id integer)")
        self.settings = {"source": f"sqlite:{self._path}", "query": "select * from orders", "watermark": "id"}

    def append(self) -> None:
        self._count += 1
        self._run(f"insert into orders values ({self._count})")

    def _run(self, sql: str) -> None:
        with closing(sqlite3.connect(self._path)) as connection, connection:
            connection.execute(sql)


class Nights:
    """A pipeline beside its data, and the nights in which it is started: by `drivetrain serve`, whose clock goes on by
    a day each time."""

    def __init__(self, folder: Path, place: Place) -> None:
        self.folder, self.home = folder, Home(folder / "home")
        self.home.create()
        self.file = folder / "nightly.py"
        self.file.write_text(PIPELINE)
        self.broken = folder / "broken"
        self.words: tuple[str, ...] = ()
        self.settings: dict[str, Any] = {**place.settings, "broken": str(self.broken)}
        self.configure()

    def configure(self, **changed: Any) -> None:
        self.settings |= changed
        (self.folder / "nightly.yaml").write_text(json.dumps(self.settings))

    def trained(self) -> str:
        """What became of the training of a night."""
        self.start()
        with Ledger(self.home) as ledger:
            (last,) = ledger.executions(1, "nightly")
            return str(ledger.step(last.id, "fit").status)

    def start(self) -> None:
        main.run(["run", str(self.file), "--home", str(self.home.root), "--quiet", *self.words])


class Clock(datetime):
    """The time that APScheduler sees."""

    ahead = timedelta()

    @classmethod
    def now(cls, tz: Any = None) -> datetime:
        return datetime.now(tz) + cls.ahead


class Serving(Nights):
    def __init__(self, folder: Path, place: Place) -> None:
        super().__init__(folder, place)
        self.said: queue.Queue[str] = queue.Queue()
        served = [Served(load(str(self.file)).pipeline, (str(self.file), "--home", str(self.home.root)))]
        registry = open_registry(f"local:{self.home.ledger}")
        self.server = Server(
            served,
            registry,
            self.home,
            self.said.put,
            poll_s=0.02,
            command=lambda begun: [*run_command(begun), *self.words],
        )
        self.server.start()

    def start(self) -> None:
        Clock.ahead += timedelta(days=1, seconds=1)
        assert "starts" in self.said.get(timeout=60)
        self.last = self.said.get(timeout=60)


class Exported(Nights):
    """`run --definition` of the definition that was exported when the setting was last edited."""

    def configure(self, **changed: Any) -> None:
        super().configure(**changed)
        loaded = load(str(self.file))
        compiled = compile_pipeline(loaded.pipeline, loaded.source, loaded.base, here=True)
        (self.folder / "nightly.json").write_text(compiled.text)
        for asset in compiled.assets:
            target = self.home.objects / asset.uri.removeprefix("s3://")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(asset.content if isinstance(asset.content, bytes) else asset.content.read_bytes())

    def start(self) -> None:
        words = ["--home", str(self.home.root), "--quiet", *self.words]
        main.run(["run", "-d", str(self.folder / "nightly.json"), *words])


class OnKubeflow(Nights):
    """The IR by kfp's local runner, with kfp's own cache."""

    def configure(self, **changed: Any) -> None:
        super().configure(**changed)
        loaded = load(str(self.file))
        compiled = find_target("kubeflow").compile(loaded.pipeline, loaded.source, loaded.base, here=True)
        (self.folder / "nightly.ir.yaml").write_text(compiled.text)
        with LedgerWriter(self.home) as ledger:
            put_assets(ObjectStore(self.home.objects), compiled.assets, ledger)

    def trained(self) -> str:
        trainings = self.broken.with_name("broken.trainings")
        before = trainings.read_text() if trainings.exists() else ""
        script = Path(__file__).parents[1] / "fixtures" / "kfp_with_cache.py"
        outputs = self.home.objects / "outputs" / os.urandom(4).hex()
        outputs.mkdir(parents=True)
        done = subprocess.run(
            [sys.executable, script, self.folder / "nightly.ir.yaml", outputs, self.folder / "cache", *self.words],
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "DRIVETRAIN_OBJECT_STORE": str(self.home.objects),
            },
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            assert "a disk is full" in done.stdout + done.stderr, done.stdout + done.stderr
            return "Failed"
        return "Cached" if trainings.read_text() == before else "Succeeded"


def eight(nights: Nights, place: Place) -> list[str]:
    """What became of the trainings of the nights."""
    found = [nights.trained(), nights.trained()]
    place.append()
    nights.broken.touch()
    found.append(nights.trained())
    nights.broken.unlink()
    found.append(nights.trained())
    nights.configure(rate=0.2)
    found += [nights.trained(), nights.trained()]
    place.append()
    found.append(nights.trained())
    nights.words = ("--fresh",)
    return [*found, nights.trained()]


def three(nights: Nights, place: Place) -> list[str]:
    """Nights 1, 2 and 7, which are about the source alone."""
    found = [nights.trained(), nights.trained()]
    place.append()
    return [*found, nights.trained()]


EXPECTED = ["Succeeded", "Cached", "Failed", "Succeeded", "Succeeded", "Cached", "Succeeded", "Succeeded"]


@pytest.mark.nightly_cases(but=["Folder"])
@pytest.mark.parametrize("place", [Prefix, Delta, Iceberg, Query, Folder])
def test_nights_of_serve_end_early_without_new_data(
    tmp_path: Path, place: Callable[[Path], Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    import apscheduler.schedulers.base

    monkeypatch.setattr(apscheduler.schedulers.base, "datetime", Clock)
    monkeypatch.setattr(Clock, "ahead", timedelta())
    made = place(tmp_path)
    made.append()
    nights = Serving(tmp_path, made)
    try:
        assert eight(nights, made) == EXPECTED
        assert "succeeded" in nights.last
        nights.words = ()
        nights.start()
        with Ledger(nights.home) as ledger:
            _, _, seventh = ledger.executions(3, "nightly")
        assert f"found nothing new since {seventh.id}" in nights.last
    finally:
        nights.server.stop()


@pytest.mark.nightly_cases("Delta", "Iceberg")
@pytest.mark.parametrize("place", [Prefix, Delta, Iceberg, Query])
def test_nights_of_the_exported_definition(tmp_path: Path, place: Callable[[Path], Place]) -> None:
    made = place(tmp_path)
    made.append()
    assert eight(Exported(tmp_path, made), made) == EXPECTED


@pytest.mark.nightly_cases(but=["Prefix"])
@pytest.mark.parametrize("place", [Prefix, Delta, Iceberg, Query])
def test_nights_of_the_ir(tmp_path: Path, place: Callable[[Path], Place]) -> None:
    made = place(tmp_path)
    made.append()
    assert eight(OnKubeflow(tmp_path, made), made) == EXPECTED


@pytest.mark.parametrize(("started_by", "place"), [(Exported, Iceberg), (OnKubeflow, Query)])
def test_a_table_is_read_anew_when_it_has_grown(
    tmp_path: Path, started_by: Callable[[Path, Place], Nights], place: Callable[[Path], Place]
) -> None:
    made = place(tmp_path)
    made.append()
    assert three(started_by(tmp_path, made), made) == ["Succeeded", "Cached", "Succeeded"]


TWO = """
from drivetrain import CachePolicy, Pipeline, Schedule, step
from drivetrain.components import Input, Output, component


@component
def read(raw: Input, table: Output) -> None:
    (table / "rows.txt").write_text(" ".join(sorted(path.name for path in raw.iterdir())))


def two() -> Pipeline:
    one, other = (step(read, name=name, raw=f"s3://lake/{name}/") for name in ("one", "other"))
    return Pipeline(
        name="two",
        steps=[one, other],
        cache=CachePolicy(expire_after="7d"),
        triggers=[Schedule(name="night", rate="1 day")],
    )
"""


def test_only_the_new_source_is_read_and_expired_results_are_remade(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two.py").write_text(TWO)
    home = Home(tmp_path / "home")
    for name in ("one", "other"):
        (home.objects / "lake" / name).mkdir(parents=True)
        (home.objects / "lake" / name / "1.csv").touch()

    def night() -> dict[str, str | None]:
        assert main.run(["run", str(tmp_path / "two.py"), "--home", str(home.root), "--quiet"]) == 0
        with Ledger(home) as ledger:
            (last,) = ledger.executions(1, "two")
            return {name: ledger.step(last.id, name).status for name in ("one", "other")}

    assert night() == {"one": "Succeeded", "other": "Succeeded"}
    (home.objects / "lake" / "other" / "2.csv").touch()
    assert night() == {"one": "Cached", "other": "Succeeded"}
    assert night() == {"one": "Cached", "other": "Cached"}
    late = SimpleNamespace(time=lambda: time.time() + 8 * 86_400)
    monkeypatch.setattr(cache, "time", late)
    assert night() == {"one": "Succeeded", "other": "Succeeded"}
