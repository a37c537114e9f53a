"""The starter's program: it looks at the model registry every so often, and starts the deployed pipeline.

    python -m drivetrain.infra.kubeflow.starter --pipeline FILE [--every SECONDS] [--heartbeat FILE]

The file has the pipeline as `pipeline_text` writes it: name, parameters, triggers and settings. The heartbeat is
touched after each look, also after one that failed and is repeated: a new process would not mend that.
Exit codes: 0 after SIGTERM, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import queue
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from drivetrain.base.errors import BAD_INPUT, UserError
from drivetrain.spec.pipeline import GroupTrigger, Pipeline
from drivetrain.targets.kubeflow.settings import NAME

if TYPE_CHECKING:
    from drivetrain.targets.deployer import Starter


def pipeline_text(pipeline: Pipeline) -> str:
    """The part of a pipeline that the starter needs, as JSON: no steps, and only the triggers about model groups."""
    given = pipeline.deployment.targets.get(NAME, {})
    # A file of the machine that deploys; a pod has a token of its own.
    settings = {name: value for name, value in given.items() if name != "token_file"}
    told = {
        "name": pipeline.name,
        "parameters": [each.model_dump(mode="json") for each in pipeline.parameters],
        "triggers": [each.model_dump(mode="json") for each in pipeline.triggers if isinstance(each, GroupTrigger)],
        "deployment": {"target": NAME, "targets": {NAME: settings}},
    }
    return json.dumps(told, sort_keys=True)


def serve(starter: Starter, ends: queue.SimpleQueue[int], every: float, heartbeat: Path | None) -> None:
    """Look until there is something in `ends`."""
    while True:
        try:
            starter.poll()
        except UserError as error:
            _say(f"failed, and is tried again in {every:g} s: {error}")
        if heartbeat is not None:
            heartbeat.touch()
        try:
            ends.get(timeout=every)
            return
        except queue.Empty:
            continue


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    given = parser().parse_args(arguments)
    ends: queue.SimpleQueue[int] = queue.SimpleQueue()  # a signal handler may put into it, which it may not an Event
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: ends.put(number))
    try:
        try:
            pipeline = Pipeline.model_validate_json(given.pipeline.read_bytes())
        except (OSError, ValueError) as error:
            raise UserError(f"{given.pipeline}: {' '.join(str(error).split())}") from None
        from drivetrain.targets.deployer import find_deploying

        deployer = find_deploying(NAME).connect(pipeline.deployment, region=None, options="")
        starter = deployer.starter(pipeline, _say)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT
    _say(f"serving {pipeline.name} in {deployer.where}")
    serve(starter, ends, given.every, given.heartbeat)
    _say("ending")
    return 0


def _say(text: str) -> None:
    print(text, flush=True)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m drivetrain.infra.kubeflow.starter", description=(__doc__ or "").partition("\n")[0]
    )
    made.add_argument("--pipeline", type=Path, required=True, metavar="FILE", help="the pipeline, as JSON")
    made.add_argument("--every", type=float, default=60.0, metavar="SECONDS", help="between two looks")
    made.add_argument("--heartbeat", type=Path, metavar="FILE", help="touched after each look")
    return made


if __name__ == "__main__":
    sys.exit(main())
