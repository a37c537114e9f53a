"""The contract of a recipe: one file that says what is learnt, and nothing of how it is distributed.

A file `recipes/<name>.py`, or a module of the user's own, has a class `Recipe`: a frozen dataclass whose fields are
the recipe's options (plain values with defaults), with the members below. Everything is stated a sample, never as a
mean, so that uneven batches and any number of processes give exactly what one process would.

What a recipe may also have is optional: `reader` (the format that its data comes in, of readers/, where the user names
none), `reader_options` (that reader's options, where the user gives none), which way its own metrics are better
(`HasDirections`), schedules for several optimizers (`HasSchedules`), and the methods of `HasTruth`, `HasAugment`,
`HasExample`, `HasTensorPlan`, `HasContextPlan`, `HasLossParts`, `HasLossWeights` and `HasFolder`.

A model that is a chain (an nn.Sequential of its layers, in order) works with every strategy; others are not for
pipelines.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from drivetrain.base.errors import InputError
from drivetrain.training import plugins, trees
from drivetrain.training.options import build_options
from drivetrain.training.reader import Columns
from drivetrain.training.trees import Tree

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


@dataclass(frozen=True)
class Batch:
    """Samples as the model takes them: `inputs` and `targets`, each a tensor of shape [samples, ...] or a tree of such
    tensors (drivetrain.training.trees). The model is called with `inputs` as its one argument."""

    inputs: Tree
    targets: Tree

    def to(self, device: torch.device, dtype: torch.dtype) -> Batch:
        """The batch of torch's tensors on `device`, floating-point ones in `dtype`."""

        ahead = device.type != "cpu"  # a copy out of pinned memory need not be waited for

        def moved(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.is_floating_point() else tensor.dtype
            if tensor.dtype == wanted and tensor.device == device:
                return tensor  # a call of `to` that does nothing takes ten times as long
            return tensor.to(device, wanted, non_blocking=ahead)

        inputs, targets = trees.mapped(moved, self.inputs), trees.mapped(moved, self.targets)
        return self if inputs is self.inputs and targets is self.targets else Batch(inputs, targets)


@runtime_checkable
class Recipe(Protocol):
    """The protocol of a recipe."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that `batch` reads, besides the label."""
        ...

    @property
    def num_classes(self) -> int | None:
        """How many classes the label has (whole numbers from 0), or None where it is not a class."""
        ...

    def model(self) -> nn.Module:
        """A fresh model; its random start is drawn from torch's generator, which the caller has seeded."""
        ...

    def batch(self, columns: Columns, label: str) -> Batch:
        """Rows (a mapping of column name to array of shape [samples, ...]) as tensors.

        `label` is the name of the column that is to be predicted. It is empty where the data has none (raw text), and
        where predictions are wanted: there may then be a column "" of zeros (int64 [samples]), so that a recipe that
        makes targets of `columns[label]` makes some, which nobody looks at.
        """
        ...

    def losses(self, outputs: Tree, targets: Tree) -> Tensor:
        """One loss a sample, shape [samples]. `outputs` are what the model gave: a tensor or a tree of them."""
        ...

    def metrics(self, outputs: Tree, targets: Tree) -> dict[str, Tensor]:
        """For each metric one value a sample, shape [samples]; a metric is their mean over the data.

        Which way it is better is known of names of metrics/ (accuracy, mae, ...), and of those in `higher_is_better`.
        """
        ...

    def optimizer(
        self, model: nn.Module, *, learning_rate: float, weight_decay: float
    ) -> torch.optim.Optimizer | Sequence[torch.optim.Optimizer]:
        """The optimizer of `model.named_parameters()`; or several, each with parameters of its own (and a schedule of
        its own: `HasSchedules`). With Keras several are pairs: an optimizer, and the variables that it trains.

        That may be a part of what `model()` gives (a pipeline's stage, even one without parameters), under the same
        names; parameters may be slices. Every part must give the same groups of parameters in the same order. The rate
        of a group is its highest: the loop multiplies it by the schedule's factor.
        """
        ...


@runtime_checkable
class HasDirections(Protocol):
    """A recipe that says which way its own metrics are better: `higher_is_better = {"error_rate": False}`."""

    @property
    def higher_is_better(self) -> Mapping[str, bool]:
        """Name of a metric of `metrics()` -> whether more of it is better.

        One that is neither here nor in metrics/ is shown and logged. It decides nothing: no early stopping, no best
        model, no comparison, no floor.
        """
        ...


@runtime_checkable
class HasSchedules(Protocol):
    """A recipe with a schedule of the learning rate for each of its optimizers: `schedules = ("", "constant")`."""

    @property
    def schedules(self) -> Sequence[str]:
        """One for each that `optimizer()` returns, in that order: cosine, linear, constant, sgdr, or "" for the
        training's own. Warm-up, length and cycles are the training's."""
        ...


@runtime_checkable
class HasTruth(Protocol):
    """A recipe whose targets are a tree; the metrics compare predictions with one tensor of it."""

    def truth(self, targets: Tree) -> Tensor:
        """That tensor, as the task has it (drivetrain.training.outputs): a class a sample, a value, a token a place."""
        ...


@runtime_checkable
class HasAugment(Protocol):
    """A recipe that changes samples at random, while training only."""

    def augment(self, batch: Batch, seeds: NDArray[np.uint64]) -> Batch:
        """The batch changed; the one given stays as it is.

        Args:
            seeds: one a sample, shape [samples], made from (seed, epoch, sample). Nothing else may be drawn from
                (drivetrain.training.input_pipeline.augmentation): a sample is then changed alike on whichever rank it
                is.
        """
        ...


@runtime_checkable
class HasExample(Protocol):
    """A recipe whose `columns` have rows that are not single numbers, and that can be measured all the same."""

    def example(self, batch_size: int) -> Batch:
        """A batch with the shapes and types of a real one; its values do not matter."""
        ...


@runtime_checkable
class HasTensorPlan(Protocol):
    """A recipe that says how tensor parallelism splits its model."""

    def tensor_plan(self) -> dict[str, str]:
        """Pattern of names of layers (as in fnmatch) -> what becomes of them:

        colwise         the output features are split over the ranks; what follows works on its own part of them
        colwise_gather  the output features are split, and then put together again on every rank
        rowwise         the input features are split, as a colwise layer leaves them, and the outputs added up (an
                        embedding: its rows, the vocabulary)
        sequence        the layer works on each position by itself: its input may be split along the sequence
                        (LayerNorm and RMSNorm need no name, but beside a colwise layer)
        replicate       every rank has all of it, as of a layer that the plan does not name
        """
        ...


@runtime_checkable
class HasContextPlan(Protocol):
    """A recipe whose model works on each position by itself, but in scaled_dot_product_attention."""

    def context_plan(self) -> dict[str, int]:
        """Pattern of names of buffers with an entry for each position -> the dimension of the positions.

        Of inputs, outputs and targets it is dimension 1.
        """
        ...


@runtime_checkable
class HasLossParts(Protocol):
    """A recipe whose losses can be summed up from parts of the sequences, so that no rank needs all outputs."""

    def loss_parts(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the losses at some positions of each sample, and their weight; both of shape [samples].

        The sums of all parts of a sample over their weights are its loss, as `losses()` gives it: a mean over the
        tokens that count gives the sum of their losses and how many they are. A part may weigh nothing.

        Args:
            outputs, targets: [samples, positions, ...] of a part of the positions, not always neighbours.
        """
        ...


@runtime_checkable
class HasLossWeights(Protocol):
    """A recipe whose samples do not weigh alike: in a language model, as many as they have tokens that count."""

    def loss_weights(self, targets: Tree) -> Tensor:
        """How much each sample's loss weighs, from 0; shape [samples], float or whole numbers.

        A step then minimizes, and an evaluation gives, the sum of weights times `losses()` over the sum of weights: of
        the whole global batch, or of all data, however it was dealt. Where `losses()` is the mean over the tokens that
        count, and the weight is their number, that is the mean over all tokens. The loss of a sample that weighs 0 must
        be finite all the same.

        Args:
            targets: as `batch` gives them, [samples, ...] or a tree of such tensors.
        """
        ...


@runtime_checkable
class HasFolder(Protocol):
    """A recipe whose model is built from a folder of files: a pretrained model with its tokenizer."""

    def files(self) -> Sequence[Path]:
        """The files of the folder that decide the model that training starts from; hosts must agree on them."""
        ...

    def started_from(self, folder: Path) -> Recipe:
        """The recipe whose model starts from `folder`: the training's input `weights`.

        Raises:
            InputError: no such model there.
        """
        ...

    def in_model_folder(self, folder: Path) -> Recipe:
        """The recipe of a model folder that `save_beside` has completed: weights are loaded into its model."""
        ...

    def is_kept(self, name: str) -> bool:
        """Return True if a tensor of the model is saved; all others stay as the folder has them."""
        ...

    def handed_on(self, tensors: Mapping[str, Any]) -> Mapping[str, Any]:
        """The model folder's weights, made of the kept tensors (on rank 0, whole)."""
        ...

    def save_beside(self, folder: Path, tensors: Mapping[str, Any]) -> None:
        """Write the other files of a model folder (on rank 0); `tensors` are the kept ones."""
        ...


def check_tokens(tokens: NDArray[np.int64], vocabulary: int, recipe: str) -> None:
    """Raises:
    InputError: a token that an embedding of `vocabulary` rows does not have (torch says no more than "out of range").
    """
    if tokens.size and not 0 <= (low := tokens.min()) <= (high := tokens.max()) < vocabulary:
        raise InputError(
            f"recipe {recipe!r} has vocabulary={vocabulary}, and the data has tokens from {low} to {high}. Raise the "
            "recipe's vocabulary, or let the reader make fewer tokens."
        )


def load_recipe(name: str, options: dict[str, Any]) -> Recipe:
    """The recipe `name` with its options.

    Raises:
        InputError: no such recipe or option (with the closest match), or a file that is not a recipe.
    """
    module = plugins.load("recipes", name, kind="recipe", own_modules=True)
    found = getattr(module, "Recipe", None)
    if not isinstance(found, type) or not dataclasses.is_dataclass(found):
        raise InputError(f"recipe {name!r} ({module.__file__}) has no dataclass named Recipe.")
    recipe = build_options(found, options, f"recipe {name!r}")
    if not isinstance(recipe, Recipe):
        missing = [name for name in vars(Recipe) if not name.startswith("_") and not hasattr(recipe, name)]
        raise InputError(
            f"recipe {name!r} ({module.__file__}) lacks {', '.join(sorted(missing))}. See recipes/digits_cnn.py."
        )
    if isinstance(recipe, HasDirections):
        given: object = recipe.higher_is_better
        if not isinstance(given, Mapping) or not all(
            isinstance(metric, str) and isinstance(value, bool) for metric, value in given.items()
        ):
            raise InputError(
                f"recipe {name!r} ({module.__file__}): higher_is_better is {given!r:.80}. Allowed: names of its "
                'metrics with True or False, such as {"error_rate": False}.'
            )
    return recipe


def direction(recipe: Recipe, metric: str) -> bool | None:
    """True if more of `loss` or of one of the recipe's own metrics is better; None if nothing says so."""
    if metric == "loss":
        return False
    if isinstance(recipe, HasDirections) and metric in recipe.higher_is_better:
        return recipe.higher_is_better[metric]
    if metric not in plugins.names("metrics"):
        return None
    return plugins.load("metrics", metric, kind="metric").Metric.higher_is_better


def unlabelled_batch(recipe: Recipe, columns: Columns) -> Batch:
    """Rows without a label, to be predicted; the targets mean nothing.

    Raises:
        InputError: the recipe makes no batch of them.
    """
    missing = [name for name in recipe.columns if name not in columns]
    if missing:
        raise InputError(f"the rows lack {', '.join(missing[:5])}; {type(recipe).__module__} takes them.")
    num_rows = len(columns[recipe.columns[0]])
    given: dict[str, NDArray[Any]] = {**columns, "": np.zeros(num_rows, dtype=np.int64)}
    try:
        batch = recipe.batch(given, "")
    except InputError:
        raise
    except Exception as error:  # the recipe's own code, which was written for rows with a label
        raise InputError(
            f"{type(recipe).__module__}: batch() of the recipe makes no batch of rows without a label "
            f"({type(error).__name__}: {error}). With an empty `label` it has to return any targets, one a row."
        ) from error
    if not isinstance(batch, Batch) or trees.num_samples(batch.inputs) != num_rows:
        raise wrong_answer(recipe, "batch", getattr(batch, "inputs", batch), f"a Batch of {num_rows} rows")
    return batch


def wrong_answer(recipe: Recipe, method: str, answer: object, wanted: str) -> InputError:
    """The error for a method that returns what the contract does not have."""
    shape: Any = getattr(answer, "shape", None)
    given = f"a {type(answer).__name__}" if shape is None else f"shape {list(shape)}"
    return InputError(f"{type(recipe).__module__}: {method}() of the recipe returned {given}; it must return {wanted}.")


class _AnyRows:
    """In place of a recipe, where no recipe reads the data."""

    num_classes = None

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)


def any_rows(columns: Sequence[str] = ()) -> Recipe:
    """In place of a recipe: these columns as they are, of a model that is none of a recipe."""
    return cast("Recipe", _AnyRows(columns))
