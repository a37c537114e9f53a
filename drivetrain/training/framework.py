"""The contract of a framework: what the loop, the checkpoints and the evaluation ask of PyTorch, or of another.

A folder `drivetrain/training/<name>/` has `framework.py` with a class `Framework` that has the members below. A
strategy and a recipe say which one they are of by a literal, `FRAMEWORK = "torch"`, which is read without importing
anything.

A tensor, a model, a device and a number format are the framework's own; nobody else looks into them. `Strategy` is what
a file of strategies/ makes with that framework (drivetrain.training.strategy).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from drivetrain.training.checkpointing.tensors.host_buffer import HostBuffer, Pin
from drivetrain.training.checkpointing.tensors.index import Index, Sizes
from drivetrain.training.checkpointing.tensors.pieces import Piece, Read
from drivetrain.training.checkpointing.tensors.rank_file import Place
from drivetrain.training.group import Group
from drivetrain.training.health.clock import Clock
from drivetrain.training.layout import Layout
from drivetrain.training.process import Process
from drivetrain.training.recipe import Batch, Recipe

Tensors = Mapping[str, Any]
Forward = Callable[[Any], Any]


class StepSeeds(Protocol):
    """Seeds the framework's generators before each step."""

    def start(self, step: int) -> None: ...


class Values(Protocol):
    """Tensors as numbers, and batches on their way to a device."""

    def precision_of(self, model: Any) -> Any:
        """The number format of its parameters."""
        ...

    def is_tensor(self, value: object) -> bool: ...

    def array(self, tensor: Any) -> NDArray[Any]:
        """Its numbers on the host, as numpy has them; what numpy cannot hold in a wider format."""
        ...

    def on_host(self, outputs: Any) -> Any:
        """The same numbers as a tensor (or a tree of them) on the host, without gradients."""
        ...

    def softmax(self, outputs: Any) -> NDArray[Any]:
        """Over dimension 1, float64."""
        ...

    def sigmoid(self, outputs: Any) -> NDArray[Any]:
        """Float64."""
        ...

    def rows(self, batch: Batch, places: NDArray[Any]) -> Batch:
        """The samples of a batch at `places`."""
        ...

    def on_device(self, batch: Batch, device: Any, precision: Any) -> Batch:
        """The batch where it is computed, floating-point inputs and targets in `precision`."""
        ...

    def without_gradients(self) -> AbstractContextManager[Any]: ...


class Watcher(Protocol):
    """The watcher of a strategy's steps for the health rules (drivetrain.training.health).

    Attributes:
        tensors, matrices: names of the tensors that are trained here, and whether each has two dimensions or more.
        layers: names of the layers whose outputs are summed up.
        is_scaled: whether steps whose gradient is not finite are skipped.
        tells_phases: whether it marks the clock when a phase of a step ends.
        computes_alone: whether the forward pass waits for no other rank.
        nonfinite: what was found when the loss was not finite for the first time; "" as long as it is.
        seconds: what it has taken since `begin`.
    """

    tensors: tuple[str, ...]
    matrices: tuple[bool, ...]
    layers: tuple[str, ...]
    is_scaled: bool
    tells_phases: bool
    computes_alone: bool
    nonfinite: str
    seconds: float

    def begin(self) -> None:
        """The tensors of the next step are to be summed up. Nothing of the training changes by that."""
        ...

    def end(self) -> Callable[[], tuple[NDArray[Any], NDArray[Any]]]:
        """The step is taken. What is returned waits for this rank's part of the sums over all ranks: of the tensors,
        float64 [tensors, TENSOR_COLUMNS], and of the layers, float64 [layers, LAYER_COLUMNS]
        (drivetrain.training.health.record)."""
        ...


class Operator(NamedTuple):
    """An operator's own time [s], without the operators that it calls, and its number of calls."""

    name: str
    seconds: float
    calls: int


class Profiler(Protocol):
    """The framework's profiler (drivetrain.training.loop.profiling)."""

    def start(self) -> None:
        """Record from here on what this process does."""
        ...

    def stop(self) -> tuple[bytes, list[Operator]]:
        """The profile since `start`, as JSON: Chrome's trace events, in microseconds since `baseTimeNanoseconds` (of
        the time of day); and the operators of it: of a GPU where there is one."""
        ...


class Framework(Values, Protocol):
    """See the module."""

    @property
    def name(self) -> str:
        """The folder's name."""
        ...

    def versions(self) -> dict[str, str]:
        """Versions that model.json names besides numpy and pyarrow; first the library that decides how numbers
        round."""
        ...

    # Processes.

    def device(self, local_rank: int) -> Any:
        """The device of the process `local_rank` of a host."""
        ...

    def device_kind(self, device: Any) -> str:
        """`cpu` or `cuda`: the two round differently."""
        ...

    def join(self, process: Process, timeout: float) -> Group:
        """The group of all processes, by the variables of the launcher; it waits `timeout` seconds for others.

        A framework that has strategies with a `BACKEND` takes that, too, as `backend`.

        Raises:
            InputError: the library of that backend is not installed.
        """
        ...

    # Models, as the recipe has them.

    def build_model(self, recipe: Recipe) -> Any:
        """A fresh model of the recipe.

        Raises:
            InputError: it returned none, or one without parameters.
        """
        ...

    def load_weights(self, model: Any, path: Path) -> list[str]:
        """Start the model from a file of weights; returns lines for people.

        Raises:
            InputError: an invalid file, or one of another model.
        """
        ...

    def save_model(self, folder: Path, weights: Tensors, description: Mapping[str, Any]) -> None:
        """Write the model folder (on rank 0); `description` is what model.json says, plain JSON."""
        ...

    def code_of(self, recipe: Recipe, reader: str) -> dict[str, str]:
        """The modules with which a model folder can be served: name -> text; {} where nothing of ours is needed."""
        ...

    def load_model(self, folder: Path) -> tuple[Recipe, Any, dict[str, Any]]:
        """The recipe, the model with its weights on the host, and the description.

        Raises:
            InputError: not a model folder of this framework, or one that is damaged.
        """
        ...

    def placed(
        self, recipe: Recipe, model: Any, process: Process, *, strategy: str, strategy_options: str
    ) -> AbstractContextManager[tuple[Forward, Layout]]:
        """A loaded model ready to evaluate: what computes outputs, and how the ranks share the work.

        Raises:
            InputError: no such strategy or option, or one that these processes or this model cannot have.
        """
        ...

    def computing_threads(self, number: int) -> AbstractContextManager[None]:
        """Compute with so many threads inside, whatever OMP_NUM_THREADS says."""
        ...

    def probed(self, model: Any, batch: Batch) -> tuple[Batch, Any]:
        """A batch on the host, as a model takes it that is not distributed yet, and its outputs in eval mode."""
        ...

    # Random numbers.

    def seed_everything(self, *key: int) -> None:
        """Seed the generators of Python, NumPy and the framework from `key`."""
        ...

    def step_seeds(self, device: Any, *key: int) -> StepSeeds:
        """Seed each step, so that a model's draws (dropout) are a function of the key and the step alone."""
        ...

    def generator_states(self, device: Any) -> dict[str, Any]:
        """The generator states of Python, NumPy and the framework, as tensors of fixed size."""
        ...

    def restore_generators(self, states: Tensors, device: Any) -> str:
        """Set them to what `generator_states` gave; what there is to say of it.

        Raises:
            InputError: a state that cannot be set.
        """
        ...

    def kept_generators(self, device: Any) -> AbstractContextManager[None]:
        """Restore all generators at the end, whatever was drawn inside."""
        ...

    # The state of a strategy, for checkpoints and for the model that is handed on.

    def tensors_of(self, strategy: Any, best: Tensors | None = None) -> dict[str, Any]:
        """This rank's part of everything, by name, the very tensors that training works on:

        model/<name>                      what the model has
        optimizer/<parameter>//<entry>    the optimizer's state
        average/<parameter>               the moving average
        best/<name>                       `best`: the model of the best validation so far
        """
        ...

    def values_of(self, strategy: Any) -> dict[str, Any]:
        """The values that are no tensors, as plain JSON: `groups`, each with the names of its parameters in `params`,
        and more.

        Raises:
            InputError: the optimizer has something that could not be kept.
        """
        ...

    def check_values(self, strategy: Any, values: Mapping[str, Any]) -> None:
        """
        Raises:
            DamagedError: they do not come from `values_of`.
        """
        ...

    def targets(self, strategy: Any, index: Index) -> dict[str, Any]:
        """The tensors to load a checkpoint into, by name, as far as the index has them.

        Raises:
            InputError: the checkpoint is of another model.
        """
        ...

    def adopt(self, strategy: Any, loaded: Tensors, values: Mapping[str, Any]) -> dict[str, Any]:
        """Go on with what was loaded into `targets`, and with the `values_of`; returns the best model's parts."""
        ...

    def speaks_for_stage(self, strategy: Any) -> bool:
        """Return True if this rank is the first of all that hold the same layers."""
        ...

    def model_parts(self, strategy: Any) -> dict[str, Any]:
        """A copy of this rank's part of the model as it is evaluated. Every rank must call it."""
        ...

    def gather(self, strategy: Any, tensors: Tensors) -> dict[str, Any]:
        """Copies of whole tensors on rank 0, {} on others. Every rank must call it."""
        ...

    def gather_model(self, strategy: Any) -> dict[str, Any]:
        """As `gather`, of the model as it is evaluated."""
        ...

    # What the health rules are told.

    def watcher(self, strategy: Any, clock: Clock) -> Watcher | None:
        """The watcher that sums up the tensors of its steps and marks the clock; None if the framework has none."""
        ...

    def profiler(self, device: Any) -> Profiler | None:
        """The profiler that records some steps for `profile`; None if the framework has none."""
        ...

    # Tensors in the memory of a checkpoint's files.

    def parts(self, tensors: dict[str, Any]) -> dict[str, Any]:
        """The parts that a checkpoint keeps of each: the tensor, or if this rank's slice of it is no box, the boxes
        that it is made of, under names of their own. They share their memory with `tensors`."""
        ...

    def piece_of(self, name: str, tensor: Any) -> Piece:
        """This rank's piece of a tensor.

        Raises:
            InputError: checkpoints have no such numbers.
        """
        ...

    def empty(self, shape: Sizes, dtype: str) -> Any:
        """A tensor on the host, to be filled."""
        ...

    def pin_of(self, device: Any) -> Pin | None:
        """The function that registers memory with the device; None if that gains nothing."""
        ...

    def views(self, buffer: HostBuffer, places: Sequence[Place]) -> Any:
        """The places of a file's pieces, for `copy_all`."""
        ...

    def copy_all(self, views: Any, sources: Sequence[Any]) -> None:
        """Copy this rank's part of `sources` into `views`; the sources may change after the return."""
        ...

    def fill(self, reads: Sequence[Read], tensors: dict[str, Any], buffers: Mapping[str, HostBuffer]) -> None:
        """Bring what is read into `tensors`; one may be replaced by another that has the numbers."""
        ...
