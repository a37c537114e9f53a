"""Train with a script of one's own, unchanged: what runs in SageMaker's script mode runs here.

    python -m drivetrain.components.train_script --train data/train --model build/model --output build/output \\
        --checkpoints build/checkpoints --script train.py --processes 2 --hyperparameters '{"epochs": 3}'

The script gets its hyperparameters as `--name value`, its folders in SM_MODEL_DIR, SM_OUTPUT_DATA_DIR and
SM_CHANNEL_<NAME>, all other SM_* variables of sagemaker-training 5.1.4 (drivetrain/steps/script_mode.py) or, with
contract=model_trainer, of ModelTrainer of the SageMaker SDK v3 (trainer_mode.py), and starts in the folder of its code.
SM_CHECKPOINT_DIR is the one more that it gets: SageMaker has none, and scripts name /opt/ml/checkpoints, which is the
same folder wherever a platform runs the step. With launcher=python MASTER_ADDR and MASTER_PORT say where processes of
its own may meet, as in AWS's PyTorch container.

Every host runs this command; it becomes the launcher (drivetrain.training_scripts.launch), which starts the processes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

from drivetrain.base.errors import WARNING, InputError
from drivetrain.steps import CheckpointsOfAll, Input, Output, Since, fresh_token, programs, script_mode, trainings
from drivetrain.steps.declaration import component
from drivetrain.steps.distribution import read
from drivetrain.steps.user_code import bool_warnings, check_script, code_folder

# Where processes meet in AWS's PyTorch container (sagemaker-pytorch-training 3.0.0, training.py).
_PORT, _PORT_VARIABLE = 7777, "DRIVETRAIN_PORT"
# How inputdataconfig.json describes a channel of plain files.
_PLAIN_CHANNEL = {
    "ContentType": "",
    "RecordWrapperType": "None",
    "S3DistributionType": "FullyReplicated",
    "TrainingInputMode": "File",
}


@component(job="training")
def train_script(
    train: Input,
    validation: Input | None,
    test: Input | None,
    source: Input | None,
    continue_from: Input | None,
    model: Output,
    output: Output,
    checkpoints: CheckpointsOfAll,
    *,
    script: str,
    launcher: Literal["torchrun", "mpirun", "horovodrun", "deepspeed", "tf_config", "python"] = "torchrun",
    roles: Annotated[str, Since(before="")] = "",
    distribution: Annotated[str, Since(before="{}")] = "{}",
    contract: Annotated[Literal["toolkit", "model_trainer"], Since(before="toolkit")] = "toolkit",
    hyperparameters: str = "{}",
    channels: str = "{}",
    processes: int = 0,
) -> None:
    """Train with a script of one's own, unchanged.

    Args:
        train: the channel `train`.
        validation: the channel `validation`.
        test: the channel `test`.
        source: the script's folder with all that lies in it; else the Python files that travel with the pipeline.
        continue_from: an earlier model whose training goes on, as fetch_previous writes it: what its script left in
            its folder of checkpoints lies in this one's before its first start.
        model: what the script writes to SM_MODEL_DIR; with continue_from also training/, for a later one.
        output: what the script writes to SM_OUTPUT_DATA_DIR.
        checkpoints: kept between attempts, a folder for each training, which is the one at /opt/ml/checkpoints and in
            SM_CHECKPOINT_DIR.
        script: the script's path in its folder, such as train.py or bin/train.sh.
        launcher: torchrun, mpirun, horovodrun, deepspeed and tf_config start its processes; python starts it once on
            each host, as it is.
        roles: with tf_config, what the processes of all hosts are, such as chief=1,worker=2,ps=1; else workers.
        distribution: how the SageMaker SDK is told of its library, a JSON object; it then says the launcher, too.
        contract: how the script is told its arguments and SM_* variables: as by the training toolkit, which estimators
            of the SageMaker SDK v2 start, or as by ModelTrainer of SDK v3.
        hyperparameters: the script's arguments, a JSON object.
        channels: the script's own names for the channels, a JSON object such as {"train": "training"}.
        processes: processes a host; 0 for what the cluster says, else one a GPU, else one.
    """
    parts = trainings.parts_of(train_script, locals())
    folder = code_folder(source)
    check_script(script, folder)
    inputs = {"train": train, "validation": validation, "test": test}
    named = _channels({name: path for name, path in inputs.items() if path is not None}, channels)
    values, told = _hyperparameters(hyperparameters), read(distribution)
    values |= told.hyperparameters
    parts |= trainings.script_code(script, folder) if source is None else {}
    from drivetrain.training.launch.cluster import read_cluster

    cluster = read_cluster(os.environ, processes=processes or told.processes or 0)
    if not cluster.is_elastic:  # files may be cut by rank
        parts["processes"] = cluster.world_size
    goes_on = continue_from is not None
    kept = Path(trainings.begin(checkpoints.resolve(), parts, is_first=cluster.host_index == 0, goes_on=goes_on))
    if continue_from is not None:
        _continue(continue_from, kept, model)
    job = _job(script, folder, named, values, model=model, output=output)._replace(framework=told.framework)
    if contract == "toolkit":
        words, found = (
            script_mode.arguments(values),
            {
                **script_mode.variables(job, os.environ),
                "SAGEMAKER_JOB_NAME": os.environ.get("TRAINING_JOB_NAME", ""),
                "SAGEMAKER_REGION": os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", ""),
            },
        )
    else:
        from drivetrain.steps import trainer_mode

        distributed = {} if (told.launcher or launcher) == "python" else {"process_count_per_node": cluster.processes}
        words, found = trainer_mode.arguments(values), trainer_mode.variables(job, os.environ, distributed)
    if cluster.host_index == 0:
        for warning in bool_warnings(folder / script):
            print(f"{WARNING}{warning}", flush=True)
    environment = {
        **os.environ,
        **found,
        "SM_CHECKPOINT_DIR": str(kept),
        "PYTHONPATH": _importable(folder, os.environ.get("PYTHONPATH", "")),
    }
    command = [
        *(sys.executable, "-m", "drivetrain.training_scripts.launch"),
        *(f"--launcher={told.launcher or launcher}", f"--processes={processes or told.processes}"),
        f"--checkpoints={kept}",
        *([f"--publish={model.resolve()}"] if continue_from is not None else []),
        *(
            [f"--port={_port(job.resources['hosts'])}"]
            if launcher == "python" and not told.launcher and _PORT_VARIABLE not in os.environ
            else []
        ),
        *([f"--roles={roles}"] if roles else []),
        f"--script={script}",
        *words,
    ]
    hand_over = programs.become if programs.is_the_step("drivetrain.components.train_script") else programs.run
    hand_over(command, folder=folder, environment=environment)


def _continue(given: Path, checkpoints: Path, model: Path) -> None:
    """Put the earlier training's checkpoints where the script looks for them, and say with the model what it was."""
    from drivetrain.registry.model_package import CONTINUES_FILE
    from drivetrain.training.continuation import read_continuation, restore_state

    continuation = read_continuation(given)
    if continuation.state is None:
        anew = "--fresh" if fresh_token(os.environ) else "there is no earlier model"
        why = f"{continuation.name} has no training state" if continuation.model else anew
        print(f"starts from: {f'nothing ({why})' if trainings.is_empty(checkpoints) else trainings.KEPT}", flush=True)
        return
    restored = restore_state(continuation, checkpoints)
    print(f"starts from: {f'the checkpoints of {continuation.name}' if restored else trainings.KEPT}", flush=True)
    model.mkdir(parents=True, exist_ok=True)
    (model / CONTINUES_FILE).write_text(json.dumps(dict(continuation.about), sort_keys=True) + "\n", encoding="utf-8")


def _port(hosts: Sequence[str]) -> int:
    """The same on all hosts; free where the only host is this machine, which others may use, too."""
    if len(hosts) > 1 or not hosts[0].startswith("127."):
        return _PORT
    import socket

    with socket.socket() as probe:
        probe.bind((hosts[0], 0))
        return probe.getsockname()[1]


class _Channel(NamedTuple):
    """An input under the name that the component declares and under the script's own."""

    declared: str
    name: str
    folder: Path


def _channels(inputs: Mapping[str, Path], names: str) -> list[_Channel]:
    renamed = _json_object("channels", names, '{"train": "training"}')
    for declared, name in renamed.items():
        if declared not in inputs:
            raise InputError(f"channels names {declared!r}, which is not given. There are: {', '.join(inputs)}.")
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError(f"channels calls {declared!r} {name!r}. Allowed: a name of letters, digits and _.")
    found = [_Channel(declared, renamed.get(declared, declared), folder) for declared, folder in inputs.items()]
    if len({channel.name for channel in found}) < len(found):
        raise InputError(f"channels {names} gives two channels one name.")
    return found


def _hyperparameters(text: str) -> dict[str, Any]:
    values = _json_object("hyperparameters", text, '{"epochs": 3}')
    for name in values:
        if not name or name.startswith("sagemaker_"):
            raise InputError(f"hyperparameters has the name {name!r}. Leave it out: sagemaker_* are the toolkit's own.")
    return values


def _job(
    script: str, folder: Path, channels: list[_Channel], values: Mapping[str, Any], *, model: Path, output: Path
) -> script_mode.ScriptJob:
    """The job as the platform's files describe it; in a plain shell, without such files, as they would."""
    base = os.environ.get(script_mode.BASE_VARIABLE, script_mode.BASE)
    described = _platform_file(f"{base}/input/config/inputdataconfig.json") or {}
    return script_mode.ScriptJob(
        resources=_platform_file(f"{base}/input/config/resourceconfig.json") or _resources(),
        channels={channel.name: described.get(channel.declared, _PLAIN_CHANNEL) for channel in channels},
        hyperparameters=values,
        folders=script_mode.Folders(
            input=f"{base}/input",
            output=f"{base}/output",
            output_data=str(output.resolve()),
            model=str(model.resolve()),
            channels={channel.name: str(channel.folder.resolve()) for channel in channels},
        ),
        program=script,
        module_dir=str(folder),
    )


def _resources() -> dict[str, Any]:
    """resourceconfig.json of a plain shell, from the variables that the launcher reads."""
    hosts = [host.strip() for host in os.environ.get("DRIVETRAIN_HOSTS", "127.0.0.1").split(",")]
    group = {"instance_group_name": script_mode.INSTANCE_GROUP, "instance_type": "local", "hosts": hosts}
    return {
        "current_host": os.environ.get("DRIVETRAIN_HOST", hosts[0]),
        "current_instance_type": "local",
        "current_group_name": script_mode.INSTANCE_GROUP,
        "hosts": hosts,
        "instance_groups": [group],
        "network_interface_name": os.environ.get("DRIVETRAIN_NETWORK_INTERFACE", "lo" if len(hosts) == 1 else "eth0"),
    }


def _platform_file(path: str) -> dict[str, Any] | None:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None


def _json_object(name: str, text: str, example: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} {text!r} is not JSON ({error}). Example: {example}") from None
    if not isinstance(value, dict):
        raise InputError(f"{name} {text!r} is not a JSON object. Example: {example}")
    return cast("dict[str, Any]", value)


def _importable(folder: Path, python_path: str) -> str:
    """The script's folder comes first, unless a start file has put it in its place already."""
    entries = [entry for entry in python_path.split(os.pathsep) if entry]
    return os.pathsep.join(entries if str(folder) in entries else [str(folder), *entries])


if __name__ == "__main__":
    train_script.main()
