from __future__ import annotations

import json
from typing import Any

import pytest

from drivetrain.base.errors import InputError
from drivetrain.steps.distribution import Distribution, read, refuse_world


def smp(**parameters: Any) -> str:
    return json.dumps({"smdistributed": {"modelparallel": {"enabled": True, "parameters": parameters}}})


def test_none_is_given() -> None:
    assert read("{}") == Distribution()


@pytest.mark.parametrize(
    ("text", "launcher", "processes", "library", "framework"),
    [
        ('{"torch_distributed": {"enabled": true}}', "torchrun", 0, "", {"sagemaker_torch_distributed_enabled": True}),
        ('{"torch_distributed": {"enabled": false}}', "", 0, "", {}),
        (
            '{"mpi": {"enabled": true, "processes_per_host": 8, "custom_mpi_options": "-x A"}}',
            "mpirun",
            8,
            "",
            {"sagemaker_mpi_enabled": True, "sagemaker_mpi_custom_mpi_options": "-x A"},
        ),
        (
            '{"smdistributed": {"dataparallel": {"enabled": true}}}',
            "mpirun",
            0,
            "smddp",
            {
                "sagemaker_distributed_dataparallel_enabled": True,
                "sagemaker_distributed_dataparallel_custom_mpi_options": "",
            },
        ),
    ],
)
def test_what_the_sdk_would_write(
    text: str, launcher: str, processes: int, library: str, framework: dict[str, Any]
) -> None:
    found = read(text)
    assert (found.launcher, found.processes, found.library) == (launcher, processes, library)
    assert found.framework == framework


@pytest.mark.parametrize(
    ("parameters", "more", "library", "launcher"),
    [
        ('{"hybrid_shard_degree": 8}', '"torch_distributed": {"enabled": true}', "smp", "torchrun"),
        ("{}", '"torch_distributed": {"enabled": false}', "smp", "torchrun"),
        ('{"partitions": 2, "ddp": true}', '"mpi": {"enabled": true}', "smp_v1", "mpirun"),
    ],
)
def test_both_versions_of_the_model_parallel_library(parameters: str, more: str, library: str, launcher: str) -> None:
    found = read(f'{{"smdistributed": {{"modelparallel": {{"enabled": true, "parameters": {parameters}}}}}, {more}}}')
    assert (found.library, found.launcher) == (library, launcher)
    assert set(found.hyperparameters) == {"mp_parameters"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nothing", "is not JSON"),
        ("[]", "it is .*, not an object"),
        ('{"pytorchddp": {}}', "no 'pytorchddp' in it. Allowed: torch_distributed, mpi, smdistributed"),
        ('{"smdistributed": {"dataparallel": {"enabled": "yes"}}}', 'dataparallel.enabled is "yes". Allowed: true or'),
        ('{"mpi": {"enabled": true, "processes_per_host": -1}}', "processes_per_host is -1. Allowed: whole numbers"),
        (
            '{"torch_distributed": {"enabled": true}, "mpi": {"enabled": true}}',
            "enables torch_distributed and mpi, which exclude each other",
        ),
        (
            '{"smdistributed": {"dataparallel": {"enabled": true}, "modelparallel": {"enabled": true}}}',
            "enables smdistributed.dataparallel and smdistributed.modelparallel, which exclude",
        ),
        (
            '{"smdistributed": {"modelparallel": {"enabled": true}}, "mpi": {"enabled": true}}',
            "version 2 of that library is started by torchrun",
        ),
        ('{"smdistributed": {"modelparallel": {"enabled": true, "parameters": 3}}}', "parameters is 3, not an object"),
        (
            smp(tensor_parallel_degre=2),
            "parameters: no 'tensor_parallel_degre'. Allowed: hybrid_shard_degree, tensor_p",
        ),
        (smp(tensor_parallel_degree=0), "tensor_parallel_degree is 0. Allowed: whole numbers from 1"),
        (smp(sm_activation_offloading=1), "sm_activation_offloading is 1. Allowed: true or false"),
        (smp(tensor_parallel_degree=2, expert_parallel_degree=2), "does not have together. Give one of them"),
        (smp(context_parallel_degree=4, hybrid_shard_degree=2), "context_parallel_degree 4 is above hybrid_shard_deg"),
    ],
)
def test_invalid_distributions_are_refused(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read(text)


def test_degrees_must_divide_the_processes() -> None:
    parameters = read(smp(hybrid_shard_degree=4, context_parallel_degree=2, expert_parallel_degree=4)).hyperparameters
    assert parameters == {
        "mp_parameters": {"hybrid_shard_degree": 4, "context_parallel_degree": 2, "expert_parallel_degree": 4}
    }
    refuse_world(parameters["mp_parameters"], 16)
    with pytest.raises(
        InputError, match=r"hybrid_shard_degree 4 does not divide the job's 6 processes\. Change it, or"
    ):
        refuse_world(parameters["mp_parameters"], 6)
