"""A folder for TensorBoard, read back by its own reader of event files."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from drivetrain.run_store.told import Told
from tests.contract.trackers.seen import Seen

WRONG = ({"folders": "x"}, "Fields: max_artifact_mb, folder.")


@contextmanager
def place(folder: Path) -> Generator[Mapping[str, Any]]:
    yield {"folder": str(folder / "boards")}


def away(folder: Path) -> Mapping[str, Any]:
    (folder / "file").write_text("no folder")
    return {"folder": str(folder / "file" / "below")}


def read(settings: Mapping[str, Any], told: Told) -> Seen:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.plugins.hparams import metadata

    assert told.id is not None and Path(told.url) == Path(settings["folder"]) / told.id
    board = EventAccumulator(told.url).Reload()
    scalars = {tag: [(one.step, one.value) for one in board.Scalars(tag)] for tag in board.Tags()["scalars"]}
    texts = {
        tag: board.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
        for tag in board.Tags()["tensors"]
        if tag.startswith(("drivetrain/", "artifacts/"))
    }
    found: dict[str, str] = {}
    for event in _events(Path(told.url)):
        for value in event.summary.value:
            if value.tag == metadata.SESSION_START_INFO_TAG:
                start = metadata.parse_session_start_info_plugin_data(value.metadata.plugin_data.content)
                found |= {name: one.string_value for name, one in start.hparams.items()}
    names = {tag.removeprefix("artifacts/"): Path(text) for tag, text in texts.items() if tag.startswith("artifacts/")}
    status = texts.get("drivetrain/status")
    page = texts["drivetrain/page"]
    return Seen(
        parameters=found,
        metrics={tag: values for tag, values in scalars.items() if "/" in tag},
        results={tag: values[-1][1] for tag, values in scalars.items() if "/" not in tag},
        artifacts=frozenset(
            f"{name}/{file.name}" if path.is_dir() else name
            for name, path in names.items()
            for file in (path.iterdir() if path.is_dir() else [path])
        ),
        run=Path(page).parent.name,
        page=page,
        succeeded=None if status is None else status == "Succeeded",
    )


def _events(folder: Path) -> Generator[Any]:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    for file in sorted(folder.glob("events.*")):
        yield from EventFileLoader(str(file)).Load()
