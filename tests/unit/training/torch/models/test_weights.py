"""Starting from a file of weights."""

from __future__ import annotations

import hashlib
import io
import pickle
import random
import tarfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training import weights_file
from drivetrain.training.process import Process
from drivetrain.training.torch.framework import Framework
from drivetrain.training.torch.models.weights import head_of, load_weights, read_weights


def network(classes: int, *, seed: int = 0, width: int = 4) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, width, 3), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten(), nn.Linear(width * 4, classes)
    )


@pytest.fixture
def pretrained() -> dict[str, Tensor]:
    model = network(10, seed=1)
    model(torch.randn(8, 1, 4, 4))  # statistics that are not those of a new model
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def save(tensors: Any, path: Path) -> Path:
    if path.suffix == ".safetensors":
        save_file(tensors, path)
    else:
        torch.save(tensors, path, _use_new_zipfile_serialization=path.suffix != ".old")
    return path


@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pth", "weights.old"])
def test_all_but_a_head_for_other_classes(name: str, pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    model, fresh = network(2), network(2).state_dict()
    lines = load_weights(model, save(pretrained, tmp_path / name))
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, (fresh if key.startswith("4.") else pretrained)[key]), key
    assert lines == [
        f"start from {tmp_path / name}: took 7 of 9 tensors",
        "left fresh: 4.weight, 4.bias (4.weight: [10, 16] in the file, [2, 16] in the model; "
        "4.bias: [10] in the file, [2] in the model)",
    ]


def test_a_head_that_fits_is_taken(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    model = network(10)
    (line,) = load_weights(model, save(pretrained, tmp_path / "weights.pth"))
    assert line.endswith("took 9 of 9 tensors")
    assert all(torch.equal(tensor, pretrained[key]) for key, tensor in model.state_dict().items())


def test_a_head_is_taken_as_a_whole_or_not_at_all(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    model, fresh = network(10), network(10).state_dict()
    del pretrained["4.bias"]
    lines = load_weights(model, save(pretrained, tmp_path / "weights.pth"))
    assert torch.equal(model.state_dict()["4.weight"], fresh["4.weight"])
    assert "4.bias: not in the file" in lines[1]
    assert "4.weight: the rest of its layer does not fit" in lines[1]


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_a_wrappers_prefix_is_taken_off_with_a_message(
    prefix: str, pretrained: dict[str, Tensor], tmp_path: Path
) -> None:
    model = network(10)
    wrapped = {f"{prefix}{name}": tensor for name, tensor in pretrained.items()}
    (line,) = load_weights(model, save(wrapped, tmp_path / "weights.pth"))
    assert line.endswith(f"took 9 of 9 tensors, without the prefix {prefix!r} of their names")
    assert torch.equal(model.state_dict()["0.weight"], pretrained["0.weight"])


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_a_state_dict_inside_a_training_programs_file(key: str, pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    path = save({key: pretrained, "epoch": 3, "optimizer": {"state": {}}}, tmp_path / "checkpoint.pt")
    assert read_weights(path).keys() == pretrained.keys()


def test_other_number_formats_and_older_files(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    half = {name: tensor.half() for name, tensor in pretrained.items() if "num_batches_tracked" not in name}
    model = network(10).double()
    (line,) = load_weights(model, save(half, tmp_path / "weights.safetensors"))
    assert line.endswith("took 8 of 9 tensors")
    assert model.state_dict()["0.weight"].dtype == torch.float64
    assert torch.equal(model.state_dict()["0.weight"], half["0.weight"].double())


def test_the_model_folder_of_an_earlier_training(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    Framework.save_model(tmp_path / "model", pretrained, {"recipe": "any"})
    model = network(10)
    (line,) = load_weights(model, tmp_path / "model")
    assert line.endswith("took 9 of 9 tensors")
    assert torch.equal(model.state_dict()["1.running_var"], pretrained["1.running_var"])


def test_unknown_weights_are_reported(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    more = pretrained | {f"9.{number}": torch.zeros(1) for number in range(7)}
    lines = load_weights(network(10), save(more, tmp_path / "weights.pth"))
    assert lines[1] == "not used of the file: 9.0, 9.1, 9.2, 9.3, 9.4 and 2 more"


def test_a_layer_before_the_head_must_fit(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    path = save(pretrained, tmp_path / "weights.pth")
    model = network(10, width=6)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(
        InputError, match=r"of another model: 0\.weight is \[4, 1, 3, 3\] in the file, \[6, 1, 3, 3\] in"
    ):
        load_weights(model, path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    del pretrained["1.running_mean"]
    with pytest.raises(InputError, match=r"1\.running_mean is not in the file; 1 of 9 tensors do not fit"):
        load_weights(network(10), save(pretrained, path))


def test_names_of_another_model(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    other = {f"backbone.{name}": tensor for name, tensor in pretrained.items()}
    with pytest.raises(InputError, match=r"'0\.weight'\. Did you mean 'backbone\.0\.weight'\?.* none of its names"):
        load_weights(network(10), save(other, tmp_path / "weights.pth"))


class Poison:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_file_that_would_run_code_runs_none(wrapped: bool, pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    ran = tmp_path / "it ran"
    path = tmp_path / "weights.pth"
    if wrapped:
        torch.save(pretrained | {"4.bias": Poison(ran)}, path)
    else:
        path.write_bytes(pickle.dumps(Poison(ran), protocol=2))
    with pytest.raises(InputError, match=r"weights\.pth' cannot be read .*objects that are no tensors.*Allowed are"):
        load_weights(network(10), path)
    assert not ran.exists()
    if not wrapped:  # it is poison indeed
        pickle.loads(path.read_bytes())
        assert ran.exists()


@pytest.mark.parametrize("content", [b"", b"weights", b"PK\x03\x04", b"\x80\x02", b"\xff" * 64, b"\x10" + b"\0" * 7])
def test_files_that_are_no_weights(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "weights.pth").write_bytes(content)
    with pytest.raises(InputError, match=r"weights\.pth' cannot be read as weights"):
        read_weights(tmp_path / "weights.pth")


@pytest.mark.parametrize("value", [[1, 2], {"a": 1}, torch.zeros(2), {3: torch.zeros(2)}])
def test_files_without_a_state_dict(value: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"holds no state dict"):
        read_weights(save(value, tmp_path / "weights.pth"))


@pytest.mark.slow_cases(but=["weights.safetensors"])
@pytest.mark.parametrize("name", ["weights.safetensors", "weights.pth", "weights.old"])
def test_damage_is_told_or_changes_values_only(name: str, pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    whole = save(pretrained, tmp_path / name).read_bytes()
    draw = random.Random(0)
    refused = 0
    for _ in range(200):
        place = draw.randrange(len(whole))
        damaged = whole[:place] if draw.random() < 0.3 else whole[:place] + draw.randbytes(1) + whole[place + 1 :]
        (tmp_path / name).write_bytes(damaged)
        try:
            load_weights(network(10), tmp_path / name)
        except InputError:
            refused += 1
    assert refused > 40


def test_no_file_and_a_folder_with_none_or_several(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.pth': no such file\. Give a file of weights, or"):
        read_weights(tmp_path / "nothing.pth")
    with pytest.raises(InputError, match=r"holds 0 files\. Give one file of weights, or a model folder"):
        read_weights(tmp_path)
    save(pretrained, tmp_path / "a.pth")
    assert read_weights(tmp_path).keys() == pretrained.keys()  # what a channel of a job is: a folder with the file
    save(pretrained, tmp_path / "b.pth")
    with pytest.raises(InputError, match=r"holds 2 files: a\.pth, b\.pth\. Give one"):
        read_weights(tmp_path)


def archive_of(name: str, content: bytes, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    with tarfile.open(folder / "model.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return folder


def test_the_archive_that_a_platform_makes_of_a_model(pretrained: dict[str, Tensor], tmp_path: Path) -> None:
    weights = save(pretrained, tmp_path / "model.safetensors").read_bytes()
    for name in ("model.safetensors", "./model.safetensors"):
        read = read_weights(archive_of(name, weights, tmp_path / "channel"))
        assert all(torch.equal(read[name], tensor) for name, tensor in pretrained.items())


def test_archives_that_are_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = archive_of("weights.bin", b"0123", tmp_path / "channel")
    with pytest.raises(InputError, match=r"model\.tar\.gz' holds no model\.safetensors"):
        read_weights(channel)
    archive_of("model.safetensors", b"0123", channel)
    with pytest.raises(InputError, match=r"model\.tar\.gz' cannot be read as weights"):
        read_weights(channel)
    whole = (channel / "model.tar.gz").read_bytes()
    (channel / "model.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"model\.tar\.gz' (are not a whole|holds no model)"):
        read_weights(channel)
    monkeypatch.setattr(weights_file, "MOST_BYTES_OF_SMALL_ARCHIVE", 1000)
    archive_of("model.safetensors", bytes(1_000_000), channel)
    with pytest.raises(InputError, match=r"unpack to more than [\d,]+ bytes: not a model"):
        read_weights(channel)


def test_the_hash_is_that_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "weights.pth").write_bytes(b"abc")
    alone = Process(0, 1, 0, 1, torch.device("cpu"))
    expected = hashlib.sha256(b"abc").hexdigest()
    assert weights_file.shared_hash(tmp_path, alone) == weights_file.shared_hash(tmp_path / "weights.pth", alone)
    assert weights_file.shared_hash(tmp_path, alone) == expected


def test_the_head_is_the_last_layer_with_parameters() -> None:
    assert head_of(network(3)) == {"4.weight", "4.bias"}
    assert head_of(nn.Sequential(nn.Linear(2, 2), nn.Softmax(dim=1))) == {"0.weight", "0.bias"}
    assert head_of(nn.Sequential(nn.ReLU())) == set()
