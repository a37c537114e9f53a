"""`drivetrain infra`: what a target's cluster must have for a pipeline, as files for an administrator."""

from __future__ import annotations

import importlib
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from drivetrain.base.errors import UserError
from drivetrain.cli.declared import App, Argument, Option
from drivetrain.cli.options import Config, Json, Set
from drivetrain.telling.terminal import say, say_json, table

app = App()


WOULD_FAIL, FAILS = "would fail", 1


@app.command()
def infra(
    on: Annotated[str, Argument(metavar="TARGET", help="The target: kubeflow.")],
    target: Annotated[str, Argument(metavar="PIPELINE", help="A pipeline's name, or FILE.py[:FUNCTION].")],
    output: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FOLDER", help="Write the files there, for `kubectl apply -k`."),
    ] = None,
    config: Config = None,
    check: Annotated[
        bool, Option("--check", help="Write nothing: ask the server and the cluster whether the pipeline would run.")
    ] = False,
    set_: Set = None,
    as_json: Json = False,
) -> int:
    """Write what a cluster must have for a pipeline.

    Accounts and their rights, volumes, network policies, runtimes, TensorBoard: what an administrator reads and applies
    once. No cluster is asked. The folder can be written again after a change; files that were edited are left alone.

    With --check the server, the storage and (by kubectl) the cluster are asked what would fail, each with the line that
    mends it. Ends with 1 when something would.

    \b
    Examples:
      drivetrain infra kubeflow retraining
      drivetrain infra kubeflow retraining -o build/infra
      kubectl apply -k build/infra
      drivetrain infra kubeflow retraining -c kubeflow.yaml --check
    """
    from drivetrain.operations.deployment import options_of
    from drivetrain.operations.operands import load_for
    from drivetrain.targets.target import find_target, refuse

    chosen = find_target(on)
    manifests = _manifests(on)
    if check and output is not None:
        raise UserError("--check writes nothing, so it takes no -o. Leave out one of the two.")
    loaded, _ = load_for(target, config, set_, on)
    refuse(chosen.check(loaded.pipeline), chosen.TITLE)
    if check:
        command = shlex.join(["drivetrain", "infra", on, target, *options_of(config, set_)])
        return _check(manifests.check(loaded.pipeline, command), as_json=as_json)
    notes = manifests.notes(loaded.pipeline)
    if output is None:
        if as_json:
            say_json({"files": manifests.files(loaded.pipeline), "notes": notes})
            return 0
        sys.stdout.write(manifests.manifests(loaded.pipeline))
    else:
        names, commands = manifests.write(loaded.pipeline, output), manifests.commands(loaded.pipeline, output)
        if as_json:
            say_json({"folder": str(output), "files": names, "commands": commands, "notes": notes})
            return 0
        print(f"Wrote {output}: {', '.join(names)}. Read them, then:", file=sys.stderr)
        for command in commands:
            print(f"  {command}", file=sys.stderr)
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    return 0


def _check(found: Sequence[tuple[str, Any]], *, as_json: bool) -> int:
    """Say what was found (`state` is `ok`, `would fail` or `not asked`); 1 where something would fail."""
    failing = [(name, each) for name, each in found if each.state == WOULD_FAIL]
    if as_json:
        told = [{"check": name, "state": each.state, "said": each.said, "mend": each.mend} for name, each in found]
        say_json({"checks": told, "would_fail": len(failing)})
        return FAILS if failing else 0
    styles = {WOULD_FAIL: "Failed", "ok": "Succeeded"}
    rows = [(each.state, name, each.said) for name, each in found]
    say(table(("result", "check", "found"), rows, styles=[(styles.get(row[0], ""), "", "") for row in rows], room=9999))
    if failing:
        say("\nTo mend:")
    for name, each in failing:
        say(f"  {name}: {each.mend}")
    return FAILS if failing else 0


def _manifests(on: str) -> Any:
    """The module that writes the manifests for a target: `infra/TARGET/manifests.py`. Its functions take the pipeline:
    `manifests` gives all objects as one text, `files` each file's text by its name, `write` puts them into a folder,
    `commands` apply that, `notes` say what to do before, and `check` asks the cluster.

    Raises:
        UserError: nothing does.
    """
    from drivetrain.targets.target import target_names

    known = [name for name in target_names() if find_spec(f"drivetrain.infra.{name}") is not None]
    if on not in known:
        raise UserError(
            f"There are no manifests for {on!r}. Allowed: {', '.join(known)}. The stack for SageMaker is written by "
            "`make synth` (docs/infrastructure.md)."
        )
    return importlib.import_module(f"drivetrain.infra.{on}.manifests")
