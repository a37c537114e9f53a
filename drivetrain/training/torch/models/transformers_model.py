"""Models of transformers from a local folder: loaded, given adapters, split, and written so that others load them.

transformers and peft are imported by the functions here, and not before.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn

from drivetrain.base.errors import InputError
from drivetrain.training.input_pipeline.pretrained_tokenizer import load_tokenizer, padding_of
from drivetrain.training.pretrained_folder import TOKENIZER_FILES, PretrainedFolder

BASE = "base"
"""The folder of the base model in a model folder, for adapters that are kept apart."""
_CLASSES = {
    "sequence_classification": "AutoModelForSequenceClassification",
    "token_classification": "AutoModelForTokenClassification",
    "causal_lm": "AutoModelForCausalLM",
}
_TASKS = {"sequence_classification": "SEQ_CLS", "token_classification": "TOKEN_CLS", "causal_lm": "CAUSAL_LM"}
# What transformers calls the ways in which it splits layers, and what tensor_plan() does.
_STYLES = {
    "colwise": "colwise",
    "rowwise": "rowwise",
    "colwise_gather_output": "colwise_gather",
    "colwise_rep": "colwise_gather",
    "embedding_rowwise": "rowwise",
}
_ADAPTER_NAME = "default"
_PREFIX = "base_model.model."
_BESIDES = ("generation_config.json",)
_POOLER = ".pooler."
_UNPACKED: list[tempfile.TemporaryDirectory[str]] = []


def load(folder: PretrainedFolder, head: str, num_labels: int) -> tuple[nn.Module, list[str]]:
    """The model of a folder in fp32, and the names of its layers that the folder does not have: a new head, drawn from
    torch's generator.

    Raises:
        InputError: transformers is not installed, the model has no such head, or the weights are not the model's.
    """
    library, kind = _library("transformers"), _CLASSES[head]
    owner, path = folder.owner, folder.folder
    try:
        with _quiet(library):
            model, found = getattr(library, kind).from_pretrained(
                path,
                config=config_of(folder, head, num_labels),
                dtype=torch.float32,
                ignore_mismatched_sizes=True,
                output_loading_info=True,
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
            )
    except ValueError as error:
        raise _no_head(folder, head, error) from error
    except Exception as error:  # whatever a damaged file makes the library say
        raise InputError(f"{owner}: the model in {path} cannot be loaded ({_line(error)}).") from error
    prefix = f"{model.base_model_prefix}."
    mismatched = {each[0] if isinstance(each, tuple) else each for each in found["mismatched_keys"]}
    wrong = [n for n in {*found["missing_keys"], *mismatched} if n.startswith(prefix) and _POOLER not in n]
    if wrong:
        raise InputError(
            f"{owner}: the weights in {path} are not those of its config.json: {min(wrong)} is missing or of another "
            f"shape; {len(wrong)} such tensors. Copy the folder again."
        )
    return model, sorted({name.rpartition(".")[0] for name in {*found["missing_keys"], *mismatched}})


def unpacked(archive: Path) -> Path:
    """A folder with what is in the archive of a model folder; it is there until this process ends.

    Raises:
        InputError: a damaged archive, or one that cannot be trusted.
    """
    from drivetrain.registry.model_folder import unpack

    folder = tempfile.TemporaryDirectory(prefix="drivetrain-weights-")
    _UNPACKED.append(folder)
    unpack(archive, Path(folder.name))
    return Path(folder.name)


def empty(folder: PretrainedFolder, head: str, num_labels: int) -> nn.Module:
    """The model without its numbers: for its names and layers."""
    kind = getattr(_library("transformers"), _CLASSES[head])
    config = config_of(folder, head, num_labels)
    try:
        with torch.device("meta"):
            return kind.from_config(config, trust_remote_code=False)
    except ValueError as error:
        raise _no_head(folder, head, error) from None


def config_of(folder: PretrainedFolder, head: str, num_labels: int) -> Any:
    """The configuration for a task."""
    library = _library("transformers")
    try:
        config = library.AutoConfig.from_pretrained(folder.folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise InputError(f"{folder.owner}: {folder.folder} is not read by transformers ({_line(error)}).") from error
    if head != "causal_lm":
        config.num_labels = num_labels
        if getattr(config, "pad_token_id", None) is None:  # by which some find the last token of a text
            config.pad_token_id = padding_of(load_tokenizer(folder.folder))
    config.use_cache = False
    return config


def with_adapters(
    model: nn.Module,
    head: str,
    *,
    fresh: Sequence[str],
    rank: int,
    alpha: float,
    dropout: float,
    targets: Sequence[str],
) -> nn.Module:
    """The model in peft's wrapper; its adapters, and the layers that are `fresh`, alone are learnt.

    Raises:
        InputError: peft is not installed, or the layers are not there.
    """
    library = _library("peft")
    config = library.LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=list(targets) or None,
        modules_to_save=list(fresh) or None,
        task_type=_TASKS[head],
    )
    try:
        with warnings.catch_warnings(category=FutureWarning, action="ignore"):  # transformers' about peft
            return library.get_peft_model(model, config)
    except ValueError as error:
        raise InputError(
            f"recipe 'huggingface': lora_targets={list(targets)}: {_line(error)} Name layers of the model, such as "
            f"{', '.join(sorted(linear_names(model) - {name.rpartition('.')[2] for name in fresh})[:6])}."
        ) from None


def linear_names(model: nn.Module) -> set[str]:
    """Last words of the names of the layers that adapters fit."""
    return {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear)}


def is_adapter(name: str) -> bool:
    """Return True for a learnt tensor of a model with adapters."""
    return ".lora_" in name or f".modules_to_save.{_ADAPTER_NAME}." in name


def taking_trees(model: nn.Module) -> nn.Module:
    """The same model, called with a dict of its inputs; it gives the logits."""
    model.forward = partial(_logits, model.forward)
    return model


def _logits(forward: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    return forward(**inputs).logits


@torch.no_grad()
def check_packing(model: nn.Module, owner: str, kind: str) -> None:
    """
    Raises:
        InputError: a text that is packed behind another sees it: the model does not look at where positions begin anew.
    """
    places, is_training = torch.tensor([[0, 1, 0, 1]]), model.training
    model.eval()
    try:
        one, other = (
            model({"input_ids": torch.tensor([row]), "position_ids": places}) for row in ([1, 2, 3, 2], [2, 3, 3, 2])
        )
    except TypeError as error:
        raise InputError(
            f"{owner}: packed=True, and models of type {kind} take no positions ({_line(error)}). Leave packed out."
        ) from None
    finally:
        model.train(is_training)
    if not torch.equal(one[:, 2:], other[:, 2:]):
        raise InputError(
            f"{owner}: packed=True, but in models of type {kind} a text attends to the text packed before it. Leave "
            "packed out."
        )


def tensor_plan(model: nn.Module, owner: str) -> dict[str, str]:
    """How tensor parallelism splits it: transformers' own plan, by the full name of each layer.

    Raises:
        InputError: the model has no plan, or one with ways of splitting that are not known here.
    """
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # pyright: ignore[reportCallIssue]
    prefix = _PREFIX if inner is not model else ""
    given: Mapping[str, str] = getattr(inner, "_tp_plan", None) or {}
    kind = getattr(inner.config, "model_type", type(inner).__name__)
    advice = "Use strategy 'fsdp' or 'ddp'."
    if not given:
        raise InputError(f"{owner}: transformers has no plan of tensor parallelism for models of type {kind}. {advice}")
    tied = _tied(inner)
    plan: dict[str, str] = {}
    for name, module in inner.named_modules():
        style = given.get(".".join("*" if word.isdigit() else word for word in name.split(".")))
        if style is None or not isinstance(module, nn.Module):
            continue
        if style not in _STYLES:
            raise InputError(
                f"{owner}: transformers splits {name!r} of {kind} as {style!r}, which is not known here. {advice}"
            )
        if name in tied:
            continue  # one matrix in two places stays whole
        plan |= _of_layer(f"{prefix}{name}", module, _STYLES[style])
    return plan


def _tied(model: nn.Module) -> set[str]:
    """Names of the layers that share a matrix."""
    holders: dict[nn.Parameter, list[str]] = {}
    for name, module in model.named_modules():
        for parameter in module._parameters.values():
            if parameter is not None:
                holders.setdefault(parameter, []).append(name)
    return {name for names in holders.values() if len(names) > 1 for name in names}


def _of_layer(name: str, module: nn.Module, style: str) -> dict[str, str]:
    """The style of a layer; of one with adapters that of its parts: the narrow side is whole on each rank."""
    if not hasattr(module, "base_layer"):
        return {name: style}
    by_columns = style.startswith("colwise")
    plan = {f"{name}.base_layer": style}
    for part, there in (("lora_A", not by_columns), ("lora_B", by_columns)):
        plan[f"{name}.{part}.{_ADAPTER_NAME}"] = style if there else "replicate"
    dropouts: Any = module.lora_dropout
    if isinstance(dropout := dropouts[_ADAPTER_NAME], nn.Dropout) and dropout.p:
        plan[f"{name}.lora_dropout.{_ADAPTER_NAME}"] = "replicate" if by_columns else "colwise"
    return plan


# What is handed on.


def merged(model: nn.Module, adapters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of the base model with the adapters added to them, under transformers' names."""
    model.load_state_dict(dict(adapters), strict=False)
    whole: nn.Module = model.merge_and_unload()  # pyright: ignore[reportCallIssue]
    return {name: tensor.detach() for name, tensor in whole.state_dict().items()}


def save_description(folder: Path, start: PretrainedFolder, head: str, num_labels: int) -> None:
    """config.json and the tokenizer, beside the weights of a model."""
    config = config_of(start, head, num_labels)
    library = _library("transformers")
    mapping = getattr(library, _CLASSES[head])._model_mapping
    config.architectures = [mapping[type(config)].__name__]
    config.dtype = "float32"
    config.use_cache = True
    config.save_pretrained(folder)
    _copy([start.folder / name for name in (*TOKENIZER_FILES, *_BESIDES)], folder)


def save_apart(folder: Path, start: PretrainedFolder, model: nn.Module, adapters: Mapping[str, Tensor]) -> None:
    """The adapter as peft keeps it, the tokenizer, and the base model in a folder of its own."""
    configs: Any = model.peft_config
    config = configs[_ADAPTER_NAME]
    config.inference_mode = True
    config.base_model_name_or_path = BASE
    config.save_pretrained(folder)
    # Not by `save_file`, whose files nobody else may read, whatever the umask.
    named = {_peft_name(name): tensor.contiguous() for name, tensor in adapters.items()}
    (folder / "adapter_model.safetensors").write_bytes(save(named))
    _copy([start.folder / name for name in TOKENIZER_FILES], folder)
    (folder / BASE).mkdir(exist_ok=True)
    _copy([*start.files, *(start.folder / name for name in _BESIDES)], folder / BASE)


def _peft_name(name: str) -> str:
    return name.replace(f".modules_to_save.{_ADAPTER_NAME}.", ".").replace(f".{_ADAPTER_NAME}.", ".")


def _copy(files: Sequence[Path], folder: Path) -> None:
    for file in files:
        if file.is_file() and file.parent.resolve() != folder.resolve():
            shutil.copyfile(file, folder / file.name)


@contextmanager
def _quiet(library: Any) -> Generator[None]:
    """Without bars and reports of what was loaded: what matters of them is looked at."""
    logging = library.utils.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def _library(name: str) -> Any:
    """
    Raises:
        InputError: it is not installed.
    """
    try:
        return __import__(name)
    except ImportError:
        raise InputError(
            f"recipe 'huggingface' needs {name}, which is not installed: pip install 'drivetrain[huggingface]'."
        ) from None


def _no_head(folder: PretrainedFolder, head: str, error: ValueError) -> InputError:
    if "Unrecognized configuration class" not in str(error):
        return InputError(f"{folder.owner}: the model in {folder.folder} cannot be loaded ({_line(error)}).")
    return InputError(
        f"{folder.owner}: head={head!r}, and transformers has none for models of type {folder.model_type} "
        f"({folder.folder}). Choose another of {', '.join(_CLASSES)}, or another model."
    )


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
