"""torch as the loop, the checkpoints and the evaluation ask for it (drivetrain.training.framework)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.profiler import ProfilerActivity

from drivetrain.base.errors import InputError
from drivetrain.base.json_options import parse_options
from drivetrain.training.checkpointing.tensors.index import Sizes
from drivetrain.training.config import Config, Precision
from drivetrain.training.framework import Operator
from drivetrain.training.health.clock import Clock
from drivetrain.training.layout import Layout
from drivetrain.training.model_folder import write_folder
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, Recipe
from drivetrain.training.serving import code_folder
from drivetrain.training.strategy import WHOLE, load_strategy
from drivetrain.training.torch import gathering, generators, joining, recipes
from drivetrain.training.torch.checkpoints import memory, state
from drivetrain.training.torch.health.watcher import Watcher
from drivetrain.training.torch.models import loaded_model, weights
from drivetrain.training.torch.parallel.flat_slice import in_boxes
from drivetrain.training.torch.precision import precision_of
from drivetrain.training.torch.strategy import Strategy
from drivetrain.training.torch.values import Values

Forward = Callable[[Tensor], Tensor | None]


@contextmanager
def placed(
    recipe: Recipe, model: nn.Module, process: Process, *, strategy: str, strategy_options: str
) -> Generator[tuple[Forward, Layout]]:
    """The function that computes outputs in eval mode, and the layout of the ranks.

    Under a strategy that shares the model out every rank must take part in each forward pass, and the passes end
    with the block.

    Args:
        model: with its weights, on the CPU, the same on every rank.
        strategy: a file of strategies/.
        strategy_options: a JSON object.

    Raises:
        InputError: no such strategy or option, or one that these processes or this model cannot have.
    """
    options = parse_options(strategy_options, "strategy_options")
    precision: Precision = "fp64" if next(model.parameters()).dtype == torch.float64 else "fp32"
    is_whole = strategy in WHOLE
    if options or not is_whole:  # (the strategies themselves take their time to import)
        strategy_class, built = load_strategy(strategy, options)
        if not is_whole:
            # (An optimizer has no state before its first step, and there is none.)
            made = strategy_class(recipe, model, process, Config(recipe="", precision=precision), built)
            made.model.eval()
            with made.in_evaluation():
                yield made.forward, made.layout
            return
    # Options of these strategies are about gradients, which are not computed here.
    if strategy == "single" and process.world_size > 1:
        raise InputError(
            f"strategy 'single' is for one process, but {process.world_size} were started. Use strategy 'ddp', or "
            "one host with processes 1."
        )
    precision_of(precision).set_up()
    yield model.to(process.device).eval(), Layout(process, {"replicate": process.world_size})


class Profiler:
    """torch's: every operator, and every kernel of a GPU. See drivetrain.training.framework.Profiler."""

    def __init__(self, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self._own_time = "self_device_time_total" if on_gpu else "self_cpu_time_total"
        self._activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]

    def start(self) -> None:
        self._profiler = torch.profiler.profile(activities=self._activities)
        self._profiler.start()

    def stop(self) -> tuple[bytes, list[Operator]]:
        self._profiler.stop()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            self._profiler.export_chrome_trace(str(path))
            trace = path.read_bytes()
        averages = self._profiler.key_averages()
        return trace, [Operator(one.key, getattr(one, self._own_time) * 1e-6, one.count) for one in averages]


class Framework(Values):
    name = "torch"

    device = staticmethod(joining.device)
    join = staticmethod(joining.join)

    build_model = staticmethod(recipes.build_model)
    load_weights = staticmethod(weights.load_weights)
    load_model = staticmethod(loaded_model.load_model)
    code_of = staticmethod(code_folder.code_of)
    placed = staticmethod(placed)

    seed_everything = staticmethod(generators.seed_everything)
    step_seeds = staticmethod(generators.StepSeeds)
    generator_states = staticmethod(generators.generator_states)
    restore_generators = staticmethod(generators.restore_generators)
    kept_generators = staticmethod(generators.kept_generators)

    tensors_of = staticmethod(state.tensors_of)
    values_of = staticmethod(state.values_of)
    check_values = staticmethod(state.check_values)
    targets = staticmethod(state.targets)
    adopt = staticmethod(state.adopt)
    speaks_for_stage = staticmethod(state.speaks_for_stage)
    model_parts = staticmethod(state.model_parts)
    gather = staticmethod(gathering.gather_parts)
    gather_model = staticmethod(gathering.gather_model)

    parts = staticmethod(in_boxes)
    piece_of = staticmethod(memory.piece_of)
    pin_of = staticmethod(memory.pin_of)
    views = staticmethod(memory.views)
    copy_all = staticmethod(memory.copy_all)
    fill = staticmethod(memory.fill)

    profiler = staticmethod(Profiler)

    @staticmethod
    def watcher(strategy: Strategy, clock: Clock) -> Watcher | None:
        return Watcher(strategy, clock) if strategy.is_watched else None

    @classmethod
    def probed(cls, model: nn.Module, batch: Batch) -> tuple[Batch, Tensor]:
        batch, training = batch.to(torch.device("cpu"), cls.precision_of(model)), model.training
        model.eval()
        try:
            return batch, model(batch.inputs)
        finally:
            model.train(training)

    @staticmethod
    def save_model(folder: Path, weights: Mapping[str, Tensor], description: Mapping[str, Any]) -> None:
        whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
        write_folder(folder, save(whole), description)

    @staticmethod
    @contextmanager
    def computing_threads(number: int) -> Generator[None]:
        """By themselves they are as many as the host's cores, shared out among its processes: then the last bits would
        depend on where and on how many processes a batch went through the model."""
        before = torch.get_num_threads()
        torch.set_num_threads(number)
        try:
            yield
        finally:
            torch.set_num_threads(before)

    @staticmethod
    def versions() -> dict[str, str]:
        return {name: version(name) for name in ("torch", "safetensors")}

    @staticmethod
    def device_kind(device: torch.device) -> str:
        return device.type

    @staticmethod
    def empty(shape: Sizes, dtype: str) -> Tensor:
        return torch.empty(shape, dtype=getattr(torch, dtype))
