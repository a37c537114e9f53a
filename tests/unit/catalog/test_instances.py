"""The table of instance types: plausible, sourced, and of types that SageMaker trains on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from drivetrain.base.errors import UserError
from drivetrain.catalog import instances
from drivetrain.catalog.instances import (
    GIB,
    find_instance,
    get_instance,
    instance_names,
    processing_instance_type,
    this_machine,
)
from drivetrain.targets.sagemaker.document import service
from drivetrain.targets.sagemaker.images import has_gpu

SHAPES = Path(service.__file__).with_name("shapes.json")
TABLE = json.loads(instances.TABLE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", instance_names())
def test_a_row_is_plausible(name: str) -> None:
    found = get_instance(name)
    row = TABLE["instances"][name]
    assert row["source"] in TABLE["sources"]
    assert found.vcpus >= 2 and found.vcpus % 2 == 0
    assert 2 * GIB <= found.memory <= 2048 * GIB
    assert 1 <= found.memory / GIB / found.vcpus <= 16  # GiB a processor
    assert 0.5e9 / 8 <= found.network_rate <= 3200e9 / 8
    assert (found.gpus > 0) == has_gpu(name) == bool(found.gpu)
    if found.gpus:
        assert found.gpus in (1, 4, 8) and found.gpu in TABLE["gpus"]
        assert 14 * GIB <= found.gpu_memory <= 192 * GIB
        assert found.link_rate > found.network_rate / found.gpus  # no network is faster than what joins the GPUs
        assert found.nvlink == name.startswith("ml.p")
    if found.efa:
        assert found.network_rate >= 25e9 / 8


@pytest.mark.parametrize("gpu", TABLE["gpus"].values(), ids=list(TABLE["gpus"]))
def test_a_gpu_is_plausible(gpu: dict) -> None:
    assert gpu["source"].startswith("https://")
    assert gpu["nvlink"] == gpu["link"].startswith("NV")
    # PCIe gives 32 or 64 GB/s in both directions together, NVLink more than 200.
    assert (gpu["link_gb_per_second"] > 64) == gpu["nvlink"]


def test_sources_are_addresses_and_used() -> None:
    used = {row["source"] for row in TABLE["instances"].values()} | {"network", "efa", "types"}
    assert used == set(TABLE["sources"])
    assert all("https://" in text or "botocore" in text for text in TABLE["sources"].values())
    assert TABLE["cpu"]["assumed"] is True
    assert TABLE["date"].startswith("2026-")


def test_larger_sizes_of_a_family_have_no_less() -> None:
    families: dict[str, list[str]] = {}
    for name in instance_names():
        families.setdefault(name.rpartition(".")[0], []).append(name)
    for names in families.values():
        rows = sorted((get_instance(name) for name in names), key=lambda row: row.vcpus)
        memory = [row.memory for row in rows]
        assert memory == sorted(memory)
        without_several = [row.network_rate for row in rows if row.gpus <= 1]
        assert without_several == sorted(without_several)


def test_every_type_is_one_that_the_service_trains_on() -> None:
    shapes = json.loads(SHAPES.read_text(encoding="utf-8"))
    known = shapes.get("shapes", shapes)["TrainingInstanceType"]["enum"]
    assert set(instance_names()) <= set(known)


def test_the_table_has_the_types_of_processing_jobs() -> None:
    shapes = json.loads(SHAPES.read_text(encoding="utf-8"))
    known = set(shapes.get("shapes", shapes)["ProcessingInstanceType"]["enum"])
    assert {name for name in instance_names() if get_instance(name).processing} == known & set(instance_names())


@pytest.mark.parametrize(
    ("trained", "other"),
    [
        ("ml.m5.xlarge", "ml.m5.xlarge"),
        ("ml.p5.4xlarge", "ml.p5.4xlarge"),
        ("ml.p4d.24xlarge", "ml.g6e.xlarge"),
        ("ml.p5.48xlarge", "ml.p5.4xlarge"),
        ("ml.p5en.48xlarge", "ml.p5.4xlarge"),
        ("ml.c5n.xlarge", "ml.m5.xlarge"),
        ("ml.own.xlarge", "ml.own.xlarge"),
    ],
)
def test_a_machine_for_a_processing_job(trained: str, other: str) -> None:
    assert processing_instance_type(trained) == other


def test_known_facts() -> None:
    assert get_instance("ml.g5.12xlarge").described() == (
        "4 x A10G of 22.35 GiB, PCIe 4 x16 32 GB/s, network 40 Gbit/s with EFA"
    )
    assert get_instance("ml.p4d.24xlarge").link_rate == 300e9  # one direction
    assert get_instance("ml.p3.8xlarge").link_rate < get_instance("ml.p3.16xlarge").link_rate
    assert get_instance("ml.m5.xlarge").described() == ("4 vCPU, 16 GiB, memory 4 GB/s (assumed), network 1.25 Gbit/s")


def test_memory_of_a_process_is_a_gpu_or_a_share_of_the_host() -> None:
    assert get_instance("ml.g5.12xlarge").memory_of_a_process(4) == round(22.35 * GIB)
    assert get_instance("ml.m5.xlarge").memory_of_a_process(4) == 4 * GIB


def test_this_machine_and_unknown_types() -> None:
    assert find_instance("local") == this_machine()
    assert this_machine().memory > GIB / 4
    assert find_instance("ml.r5.large") is None
    with pytest.raises(UserError, match=r"Did you mean 'ml.g5.12xlarge'"):
        get_instance("ml.g5.12xlage")
