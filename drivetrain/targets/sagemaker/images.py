"""Stock deep-learning images: their URIs, and what they are documented to hold.

    image = stock_image("eu-west-1", gpu=False)
    image.uri                                    # 763104351884.dkr.ecr.eu-west-1.amazonaws.com/pytorch:2.13.0-cpu-...

Tags, accounts and packages stand in images.json with their sources. The default is the PyTorch that drivetrain is
tested with (constraints.txt), in a line that is still patched; models are served by the image that is patched the
longest. What AWS patches no longer is said with its age (`unpatched`), where there is a clock: not in what is compiled.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

from drivetrain.assets.image import Image
from drivetrain.base.errors import UserError, did_you_mean

# Families of instance types (names begin `ml.<family>.`): those with NVIDIA GPUs, and those that these x86-64 images do
# not run on.
GPU_FAMILIES = frozenset((
    "p2", "p3", "p3dn", "p4d", "p4de", "p5", "p5e", "p5en", "p6-b200", "p6-b300",
    "g4dn", "g5", "g6", "g6e", "g7", "g7e", "gr6",
))  # fmt: skip
NEURON_FAMILIES = ("trn1", "trn1n", "trn2", "trn3", "inf1", "inf2")
# Graviton processors: an m, c, r, t or x, a digit, and a g (m7g, c8gd); the others are spelt out.
ARM_FAMILIES = ("p6e-gb200", "g5g", "a1")

# Images have a name of their own for what strategies and recipes call torch.
STOCK = {"torch": "pytorch"}

# `cu133` in a tag: CUDA 13.3.
_CUDA = re.compile(r"[:-]cu([0-9]+)[0-9](?![0-9])")
# The settings by which a user gives an image of their own.
JOB_IMAGE, SERVING_IMAGE = "deployment.targets.sagemaker.image", "deployment.targets.sagemaker.serving_image"


def stock_image(region: str, gpu: bool, framework: str = "pytorch", version: str | None = None) -> Image:
    """The stock image of a framework's version (default: the version that drivetrain is tested with) in a region.

    Raises:
        UserError: no such framework, version or region is documented.
    """
    table = _table()
    versions = {entry["version"]: entry for entry in table["images"] if entry["framework"] == framework}
    if not versions:
        frameworks = {entry["framework"] for entry in table["images"]}
        raise UserError(
            f"No stock image of {framework!r}. {did_you_mean(framework, frameworks)} For another one, give its URI: "
            f"{JOB_IMAGE}."
        )
    wanted = version or table["default"][framework]
    short = ".".join(wanted.split(".")[:2])
    processor = "gpu" if gpu else "cpu"
    entry = versions.get(short)
    if entry is None or not entry["tags"][processor].startswith(wanted):
        known = sorted((each["tags"][processor].partition("-")[0] for each in versions.values()), key=_numbers)
        raise UserError(
            f"No stock image of {framework} {wanted} is known. Allowed: {', '.join(known)}. For another one, give its "
            f"URI: {JOB_IMAGE}."
        )
    held = {**entry["packages"]["both"], **entry["packages"][processor]}
    uri = _uri(region, entry["repository"], entry["tags"][processor])
    return Image.of(uri, {**entry, "packages": held}, gpu=gpu)


def inference_image(region: str, gpu: bool, framework: str = "pytorch") -> str:
    """The URI of the stock image that serves a framework's models and is patched the longest, in a region.

    Raises:
        UserError: no such framework or region is documented.
    """
    entry = inference_entry(framework)
    tag = entry["tags"].get("gpu" if gpu else "cpu")
    if tag is None:
        raise UserError(
            f"The stock image that serves models of {framework!r} uses no GPU. Name instance types without one "
            f"(register(instance_types=...)), or give an image's URI: {SERVING_IMAGE}."
        )
    accounts = None if entry in _table()["inference"] else _table()["accounts_of_libraries"]
    return _uri(region, entry["repository"], tag, setting=SERVING_IMAGE, accounts=accounts)


def inference_entry(framework: str) -> dict[str, Any]:
    """The entry of the stock image that serves a framework's models: `repository`, `version`, and what is documented
    of it: `python`, `packages` (normal name -> line of versions, such as 3.2).

    Raises:
        UserError: no such framework is documented.
    """
    # Of those of libraries no day is documented on which patches end.
    serving = [*_table()["inference"], *_table()["inference_of_libraries"]]
    images = [each for each in serving if each["framework"] == framework]
    if not images:
        known = {each["framework"] for each in serving}
        raise UserError(f"No stock image serves models of {framework!r}. {did_you_mean(framework, known)}")
    return max(images, key=lambda each: each.get("patched_until", ""))


def unpatched(definition: Any, today: datetime.date) -> tuple[str, ...]:
    """A sentence for each stock image of a definition (or any part of one) that AWS patches no longer."""
    table = _table()
    known = {
        f"{entry['repository']}:{tag}": (entry, kind)
        for kind in ("images", "inference")
        for entry in table[kind]
        for tag in entry["tags"].values()
    }
    found = dict.fromkeys(text.rpartition("/")[2] for text in _texts(definition))
    return tuple(
        _no_longer_patched(name, *known[name], today)
        for name in found
        if name in known and today.isoformat() > known[name][0]["patched_until"]
    )


def _no_longer_patched(name: str, entry: Mapping[str, Any], kind: str, today: datetime.date) -> str:
    end = entry["patched_until"]
    days = (today - datetime.date.fromisoformat(end)).days
    alike = [each for each in _table()[kind] if each["framework"] == entry["framework"]]
    patched = [each for each in alike if each["patched_until"] >= today.isoformat()]
    setting = SERVING_IMAGE if kind == "inference" else JOB_IMAGE
    if patched:
        newest = max(patched, key=lambda each: each["patched_until"])
        advice = f"Take a newer one ({newest['repository']} {newest['version']} until {newest['patched_until']})"
    else:
        advice = f"No newer stock image {'serves models' if kind == 'inference' else 'is known'}: give one of your own"
    return (
        f"The image {name} gets no security patches since {end} ({days:,} day{'' if days == 1 else 's'}). "
        f"{advice}, {setting}."
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in cast("Mapping[str, Any]", value).values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in cast("list[Any]", value):
            yield from _texts(each)


def _uri(
    region: str, repository: str, tag: str, setting: str = JOB_IMAGE, accounts: Mapping[str, str] | None = None
) -> str:
    """`accounts`: region -> account, of an image that has accounts of its own."""
    known = accounts or _table()["accounts"]
    account = known.get(region)
    if account is None and accounts is None and (host := _registry_of_sdk(region)) is not None:
        return f"{host}/{repository}:{tag}"
    if account is None:
        raise UserError(
            f"No account for stock images is documented for region {region!r}. "
            f"{did_you_mean(region, known)} For another one, give an image's URI: {setting}."
        )
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{account}.dkr.ecr.{region}.{suffix}/{repository}:{tag}"


def image_uri(framework: str, version: str | None, region: str, instance_type: str) -> str:
    """The URI of the stock image for an instance type; see `stock_image` and `has_gpu` for what is raised.

    A framework or version that is not in images.json is looked up in the SageMaker SDK, where that is installed.
    """
    gpu = has_gpu(instance_type)
    try:
        uri = stock_image(region, gpu, framework, version).uri
    except UserError as unknown:
        from drivetrain.targets.sagemaker.sdk.modules import installed

        if version is None or not installed():
            raise
        from drivetrain.targets.sagemaker.sdk.modules import sdk_image_uri

        try:
            return sdk_image_uri(framework, version, region, instance_type)
        except UserError:
            raise unknown from None
    if problem := machine_problem(uri, instance_type):
        raise UserError(problem)
    return uri


def _registry_of_sdk(region: str) -> str | None:
    """The host that the SageMaker SDK names for a region; None where it is not installed, or does not know it."""
    from drivetrain.targets.sagemaker.sdk.modules import installed

    if not installed():
        return None
    from drivetrain.targets.sagemaker.sdk.modules import registry

    try:
        return registry(region)
    except UserError:
        return None


def has_gpu(instance_type: str, setting: str = JOB_IMAGE) -> bool:
    """Return True if an instance type (`ml.g5.xlarge`) has NVIDIA GPUs; `setting` is where to give an image if no
    stock one runs on it.

    Raises:
        UserError: its processor runs none of the stock images of PyTorch.
    """
    family = _family(instance_type)
    arm = family in ARM_FAMILIES or (family[:1] in "mcrtx" and family[1:2].isdigit() and family[2:3] == "g")
    if arm or family in NEURON_FAMILIES:
        kind = "an ARM" if arm else "a Neuron"
        raise UserError(
            f"{instance_type!r} has {kind} processor, which no stock image here runs on. Choose an x86-64 machine, "
            f"such as ml.m5.large or ml.g5.xlarge, or give an image of your own: {setting}."
        )
    return family in GPU_FAMILIES


def machine_problem(uri: str, instance_type: str) -> str | None:
    """Why an image has no code for the GPUs of an instance type; None where it has, or its tag names no CUDA."""
    old = _table()["gpus_without_code"]["families"].get(_family(instance_type))
    cuda = _CUDA.search(uri.rpartition("/")[2])
    if old is None or cuda is None or int(cuda[1]) < old["cuda"]:
        return None
    registry, _, name = uri.rpartition("/")
    problem = (
        f"{instance_type} has GPUs of the generation {old['gpu']}, for which the image {name} has no code: CUDA "
        f"{old['cuda']} dropped it. Choose a newer machine, such as ml.g5.xlarge"
    )
    if "-inference:" in name:
        return f"{problem}."
    place = f"{registry}/" if registry.partition(".")[0] in _table()["accounts"].values() else ""
    note = f" ({old['note']})" if "note" in old else ""
    return f"{problem}, or the last stock image with that code: {JOB_IMAGE}={place}{old['last']}{note}"


def _family(instance_type: str) -> str:
    return instance_type.removeprefix("ml.").partition(".")[0]


@cache
def _table() -> dict[str, Any]:
    return json.loads(Path(__file__).with_name("images.json").read_bytes())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
