"""TensorFlow as the loop, the checkpoints and the evaluation ask for it (drivetrain.training.framework)."""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from typing import Any

# oneDNN's kernels add up in other orders on other machines.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
import numpy as np
import tensorflow as tf  # pyright: ignore[reportMissingImports, reportMissingModuleSource]
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training.checkpointing.store.manifest import DamagedError
from drivetrain.training.checkpointing.tensors import arrays, generators
from drivetrain.training.checkpointing.tensors.index import AVERAGE, BEST, ENTRY, MODEL, OPTIMIZER, Index, Sizes
from drivetrain.training.group import Group
from drivetrain.training.layout import Layout
from drivetrain.training.process import Process
from drivetrain.training.recipe import Recipe
from drivetrain.training.seeds import seed_generators
from drivetrain.training.serving import code_folder
from drivetrain.training.strategy import WHOLE, framework_of
from drivetrain.training.tensorflow import cluster, models, servers
from drivetrain.training.tensorflow.health.profiler import Profiler
from drivetrain.training.tensorflow.health.watcher import Watcher
from drivetrain.training.tensorflow.strategy import variables_of
from drivetrain.training.tensorflow.values import Values

Array = NDArray[Any]


class Framework(Values):
    name = "tensorflow"

    @staticmethod
    def versions() -> dict[str, str]:
        return {"tensorflow": tf.__version__, "keras": keras.__version__, "safetensors": version("safetensors")}

    # Processes.

    @staticmethod
    def device(local_rank: int) -> str:
        return "gpu" if tf.config.list_physical_devices("GPU") else "cpu"

    @staticmethod
    def device_kind(device: str) -> str:
        return device

    @staticmethod
    def join(process: Process, timeout: float) -> Group:
        if cluster.role() in ("worker", "ps"):
            servers.serve()
        return cluster.join(process, timeout)

    # Models.

    build_model = staticmethod(models.build_model)
    load_weights = staticmethod(models.load_weights)
    save_model = staticmethod(models.save_model)
    load_model = staticmethod(models.load_model)

    @staticmethod
    def code_of(recipe: Recipe, reader: str) -> dict[str, str]:
        return code_folder.code_of(recipe, reader, "saved_model")

    @classmethod
    @contextmanager
    def placed(
        cls, recipe: Recipe, model: Any, process: Process, *, strategy: str, strategy_options: str
    ) -> Generator[Any]:
        """Each process has the whole model: nothing travels in a forward pass, whatever trained it."""
        if strategy not in WHOLE and framework_of(strategy) != cls.name:
            raise InputError(
                f"the model is of tensorflow, and strategy {strategy!r} of {framework_of(strategy)}. Leave it out."
            )
        if json.loads(strategy_options):
            raise InputError(f"strategy_options {strategy_options}: nothing is shared out here. Leave them out.")
        yield lambda inputs: model(inputs, training=False), Layout(process, {"replicate": process.world_size})

    @staticmethod
    @contextmanager
    def computing_threads(number: int) -> Generator[None]:
        with suppress(RuntimeError):  # once it has computed, it keeps the threads that it has
            tf.config.threading.set_intra_op_parallelism_threads(number)
        yield

    @staticmethod
    def probed(model: Any, batch: Any) -> Any:
        return batch, model(batch.inputs, training=False)

    # Random numbers. (What a model draws while it trains comes from variables of its own, keras.random.SeedGenerator.)

    @staticmethod
    def seed_everything(*key: int) -> None:
        keras.utils.set_random_seed(seed_generators(*key) % 2**32)

    @staticmethod
    def step_seeds(device: str, *key: int) -> Any:
        return _NoSeeds()

    @staticmethod
    def generator_states(device: str) -> dict[str, Any]:
        return dict(generators.generator_states())

    @staticmethod
    def restore_generators(states: Mapping[str, Any], device: str) -> str:
        try:
            generators.restore_generators(states)
        except (KeyError, ValueError, TypeError, OverflowError, IndexError) as problem:
            raise InputError(f"the checkpoint's state of the random numbers cannot be set: {problem}") from problem
        return ""

    @staticmethod
    @contextmanager
    def kept_generators(device: str) -> Generator[None]:
        states = generators.generator_states()
        try:
            yield
        finally:
            generators.restore_generators(states)

    # The state of a strategy.

    @staticmethod
    def tensors_of(strategy: Any, best: Mapping[str, Array] | None = None) -> dict[str, Array]:
        return {
            **{MODEL + name: variable.numpy() for name, variable in variables_of(strategy.model).items()},
            **{OPTIMIZER + name: variable.numpy() for name, variable in _optimizer(strategy).items()},
            **{AVERAGE + name: variable.numpy() for name, variable in _averages(strategy).items()},
            **{BEST + name: value for name, value in (best or {}).items()},
        }

    @staticmethod
    def values_of(strategy: Any) -> dict[str, Any]:
        names = [name for name, variable in variables_of(strategy.model).items() if variable.trainable]
        return {
            "groups": [
                {"params": [names[place] for place in part.places], "optimizer": type(part.optimizer).__name__}
                for part in strategy.parts
            ]
        }

    @staticmethod
    def check_values(strategy: Any, values: Mapping[str, Any]) -> None:
        saved = [group.get("optimizer") for group in values["groups"]]
        own = [type(part.optimizer).__name__ for part in strategy.parts]
        if saved != own:
            was, now = (" and ".join(map(str, names)) for names in (saved, own))
            raise DamagedError(f"the optimizer was {was:.80}, and is {now}")

    @classmethod
    def targets(cls, strategy: Any, index: Index) -> dict[str, Array]:
        own = {n: np.empty_like(v) for n, v in cls.model_parts(strategy).items()}
        best = own if any(name.startswith(BEST) for name in index.tensors) else None
        found = {name: np.empty_like(value) for name, value in cls.tensors_of(strategy, best).items()}
        if not any(name.startswith(AVERAGE) for name in index.tensors):  # it begins with the parameters
            found = {name: value for name, value in found.items() if not name.startswith(AVERAGE)}
        index.check_targets({name: value.shape for name, value in found.items()})
        return found

    @staticmethod
    def adopt(strategy: Any, loaded: Mapping[str, Array], values: Mapping[str, Any]) -> dict[str, Array]:
        with strategy.distribution.scope():
            for prefix, own in ((MODEL, variables_of(strategy.model)), (OPTIMIZER, _optimizer(strategy))):
                for name, variable in own.items():
                    variable.assign(loaded[prefix + name])
            averages = {n: v for n, v in _averages(strategy).items() if AVERAGE + n in loaded}
            for name, variable in averages.items():
                variable.assign(loaded[AVERAGE + name])
        if strategy.average and not averages:
            strategy.average.begin()
        return {name.removeprefix(BEST): value for name, value in loaded.items() if name.startswith(BEST)}

    @staticmethod
    def speaks_for_stage(strategy: Any) -> bool:
        return strategy.process.is_main

    @staticmethod
    def model_parts(strategy: Any) -> dict[str, Array]:
        with strategy.in_evaluation():
            return {name: variable.numpy() for name, variable in variables_of(strategy.model).items()}

    @staticmethod
    def gather(strategy: Any, tensors: Mapping[str, Array]) -> dict[str, Array]:
        return dict(tensors) if strategy.process.is_main else {}

    @classmethod
    def gather_model(cls, strategy: Any) -> dict[str, Array]:
        return cls.gather(strategy, cls.model_parts(strategy))

    @staticmethod
    def watcher(strategy: Any, clock: Any) -> Watcher | None:
        """None where workers take steps of their own: rules of losses, validations, classes and machines remain."""
        return Watcher(strategy) if strategy.is_synchronous else None

    profiler = staticmethod(Profiler)

    # Tensors in the memory of a checkpoint's files: numpy's, which is the host's.

    parts = dict  # an array is held whole
    piece_of = staticmethod(arrays.piece_of)
    views = staticmethod(arrays.views)
    copy_all = staticmethod(arrays.copy_all)
    fill = staticmethod(arrays.fill)

    @staticmethod
    def empty(shape: Sizes, dtype: str) -> Array:
        return np.empty(shape, dtype)

    @staticmethod
    def pin_of(device: str) -> None:
        return None


class _NoSeeds:
    def start(self, step: int) -> None:
        return


def _optimizer(strategy: Any) -> dict[str, Any]:
    """By place, and by the last word of its name: before it stands the name of a layer."""
    listed = enumerate(variable for part in strategy.parts for variable in part.optimizer.variables)
    return {f"{number:03d}{ENTRY}{variable.name.rpartition('_')[2]}": variable for number, variable in listed}


def _averages(strategy: Any) -> dict[str, Any]:
    return strategy.average.values if strategy.average else {}
