"""How tensor parallelism splits the layers of a model: the recipe's plan, or pairs of Linear layers, and whether it
fits.

A plan says by module name what becomes of each layer:

    colwise         a Linear whose outputs are split; what follows works on its part of the features. A Dropout in
                    between is named so, too
    rowwise         a Linear that takes such a part; the ranks' outputs are summed. An Embedding whose rows are split
    colwise_gather  a Linear whose outputs are split and then put together, such as the head
    sequence        a layer that works on each position alone: split where `sequence` is on. A LayerNorm or RMSNorm is
                    so by itself, but beside a layer split by columns
    replicate       the whole layer on every rank, as is every layer that has no name in the plan
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from drivetrain.base.errors import InputError
from drivetrain.training.errors import unknown_name
from drivetrain.training.recipe import HasTensorPlan, Recipe

STYLES = ("colwise", "rowwise", "colwise_gather", "sequence", "replicate")
SPLITTING = ("colwise", "rowwise", "colwise_gather")
LINEAR_STYLES, EMBEDDING_STYLES, DROPOUT_STYLES = SPLITTING, ("rowwise",), ("colwise",)
# What may stand between a Linear split by columns and one split by rows: it works on each feature alone.
ELEMENTWISE = (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.ELU, nn.Identity, nn.Dropout)
# They work on each position alone.
NORMS = (nn.LayerNorm, nn.RMSNorm)

Plan = dict[str, str]


def plan_for(recipe: Recipe, model: nn.Module, size: int, owner: str, *, sequence: bool = False) -> Plan:
    """The plan of each layer, by its full name: the recipe's `tensor_plan()`, or else pairs of Linear layers.

    Args:
        recipe: may have `tensor_plan() -> dict[pattern, style]`.
        model: whole, before anything is split.
        size: over how many ranks.
        owner: whose plan it is, for messages.
        sequence: whether layers between the split ones are split along the sequence.

    Raises:
        InputError: no plan, a plan that does not fit the model, or sizes that cannot be split.
    """
    has_plan = isinstance(recipe, HasTensorPlan)
    plan = resolve(recipe.tensor_plan(), model, owner) if has_plan else pairs_of_linears(model, size)
    if not any(style in SPLITTING for style in plan.values()):
        raise InputError(
            f"{owner}: the recipe has no method tensor_plan() -> dict, and its model no two Linear layers in a row, "
            f"with activations between and in one nn.Sequential, whose inner features {size} ranks can share. Give the "
            'recipe a plan, such as {"*.up": "colwise", "*.down": "rowwise"}, or use strategy \'fsdp\'.'
        )
    modules = dict(model.named_modules())
    for name, style in plan.items():
        _check(name, modules[name], style, size, owner)
    _check_heads(plan, modules, size, owner)
    _refuse_a_split_end(plan, model, owner)
    _name_dropouts(plan, modules, owner)
    _refuse_shared_parameters(plan, model, owner)
    if sequence:
        _name_norms(plan, modules)
        _refuse_layers_without_a_style(plan, model, owner)
    return plan


def resolve(given: Mapping[str, str], model: nn.Module, owner: str) -> Plan:
    """Patterns of names (`*` stands for anything, dots too) to names; the first pattern that fits counts.

    Raises:
        InputError: an unknown style, or a pattern that fits no layer.
    """
    names = [name for name, _ in model.named_modules() if name]
    plan: Plan = {}
    for pattern, style in given.items():
        if style not in STYLES:
            raise unknown_name(f"style of {pattern!r} in tensor_plan()", str(style), STYLES)
        fitting = [name for name in names if fnmatchcase(name, pattern)]
        if not fitting:
            raise unknown_name("layer of tensor_plan()", pattern, names)
        for name in fitting:
            plan.setdefault(name, style)
    return plan


def pairs_of_linears(model: nn.Module, size: int) -> Plan:
    """Two Linear layers of one nn.Sequential with nothing but activations between: by columns, then by rows."""
    plan: Plan = {}
    # (A layer that comes twice would leave its features split at one place and need them whole at another.)
    uses = Counter(layer for module in model.modules() for layer in module._modules.values())
    for prefix, module in model.named_modules():
        if type(module) is not nn.Sequential:
            continue
        first: tuple[str, nn.Linear] | None = None
        for name, layer in module._modules.items():
            full = f"{prefix}.{name}" if prefix else name
            if type(layer) is nn.Linear and uses[layer] == 1:
                if first and layer.in_features == first[1].out_features and layer.in_features % size == 0:
                    plan[first[0]], plan[full], first = "colwise", "rowwise", None
                else:
                    first = (full, layer)
            elif not isinstance(layer, ELEMENTWISE):
                first = None
    return plan


def takes_whole(layers: Sequence[str], plan: Plan) -> list[bool]:
    """For each layer of a chain whether what goes into it is whole; between a layer split by columns and the next one
    split by rows it is not."""
    found, is_split = [], False
    for name in layers:
        found.append(not is_split)
        is_split = {"colwise": True, "rowwise": False}.get(plan.get(name, ""), is_split)
    return found


def _check(name: str, module: nn.Module, style: str, size: int, owner: str) -> None:
    if style not in SPLITTING:
        return
    allowed: dict[type[Any], tuple[str, ...]] = {
        nn.Linear: LINEAR_STYLES,
        nn.Embedding: EMBEDDING_STYLES,
        nn.Dropout: DROPOUT_STYLES,
    }
    styles = next((styles for kind, styles in allowed.items() if isinstance(module, kind)), ())
    if style not in styles:
        raise InputError(
            f"{owner}: {style!r} for {name!r}, a {type(module).__name__}; allowed for it: "
            f"{', '.join((*styles, 'sequence', 'replicate'))}."
        )
    features = {
        "colwise": getattr(module, "out_features", 0),
        "rowwise": getattr(module, "in_features", 0),
        "colwise_gather": 0,
    }
    if features[style] % size:
        raise InputError(
            f"{owner}: {name!r} has {features[style]} features, which {size} ranks cannot share evenly. Choose a "
            "tensor degree that divides them."
        )


def _check_heads(plan: Plan, modules: Mapping[str, nn.Module], size: int, owner: str) -> None:
    """A module that splits features into heads says how long one is by its attribute `head_dim`."""
    for name, style in plan.items():
        head_dim = getattr(modules[name.rpartition(".")[0]], "head_dim", None)
        layer = modules[name]
        if style == "colwise" and isinstance(layer, nn.Linear) and isinstance(head_dim, int):
            heads = layer.out_features // head_dim
            if heads % size:
                raise InputError(
                    f"{owner}: {name!r} makes {heads} heads, which {size} ranks cannot share evenly. Choose a tensor "
                    "degree that divides them."
                )


def _refuse_a_split_end(plan: Plan, model: nn.Module, owner: str) -> None:
    """Outputs have to be whole: what is split by columns is put together by a layer split by rows, or gathered."""
    styles = plan.values()
    never = "colwise" in styles and "rowwise" not in styles
    if never or (isinstance(model, nn.Sequential) and not takes_whole([*model._modules, ""], plan)[-1]):
        last = [name for name, style in plan.items() if style == "colwise"][-1]
        raise InputError(
            f"{owner}: no layer split 'rowwise' follows {last!r}, which is split 'colwise': the model would give a "
            "part of its outputs. Let one follow, or split the last layer 'colwise_gather'."
        )


def _name_dropouts(plan: Plan, modules: Mapping[str, nn.Module], owner: str) -> None:
    """Add the dropouts on split features to the plan, where it can be seen which they are."""
    for name, module in modules.items():
        if not isinstance(module, _DropoutNd) or not module.p or name in plan:
            continue
        parent_name = name.rpartition(".")[0]
        prefix = f"{parent_name}." if parent_name else ""
        siblings = {child: plan.get(prefix + child) for child, _ in modules[parent_name].named_children()}
        if "colwise" not in siblings.values():
            continue
        if type(modules[parent_name]) is not nn.Sequential:
            raise InputError(
                f"{owner}: does {name!r} drop features that are split? Say so in tensor_plan(): {name!r}: 'colwise' "
                "where it stands between a layer split by columns and one split by rows, else 'replicate'."
            )
        before = list(siblings.values())[: list(siblings).index(name.removeprefix(prefix))]
        last = next((style for style in reversed(before) if style in SPLITTING), None)
        if last == "colwise":
            _check(name, module, "colwise", 1, owner)
            plan[name] = "colwise"


def _name_norms(plan: Plan, modules: Mapping[str, nn.Module]) -> None:
    """Add the normalizations over features to the plan, at any depth.

    Not those beside a layer split by columns: they may be given a part of the features.
    """
    beside = {name.rpartition(".")[0] for name, style in plan.items() if style == "colwise"}
    for name, module in modules.items():
        if isinstance(module, NORMS) and name.rpartition(".")[0] not in beside:
            plan.setdefault(name, "sequence")


def _refuse_shared_parameters(plan: Plan, model: nn.Module, owner: str) -> None:
    holders: dict[nn.Parameter, str] = {}
    for module_name, module in model.named_modules():
        for name, parameter in module.named_parameters(prefix=module_name, recurse=False):
            first = holders.setdefault(parameter, name)
            if first != name and plan.keys() & {module_name, first.rpartition(".")[0]}:
                raise InputError(
                    f"{owner}: {first!r} and {name!r} are one and the same parameter, which would be split twice. Do "
                    "not share it, or leave both layers out of the plan."
                )


def _refuse_layers_without_a_style(plan: Plan, model: nn.Module, owner: str) -> None:
    for name, module in model.named_modules():
        own = any(True for _ in module.parameters(recurse=False))
        if own and plan.get(name, "replicate") == "replicate":
            raise InputError(
                f"{owner}: sequence=True splits what lies between the layers, and {name!r} would see some positions "
                "only. Give it a style in tensor_plan() ('sequence' where it works on each position alone), or leave "
                "sequence off."
            )
    if not any(isinstance(module, nn.Embedding) for module in model.modules()):
        raise InputError(f"{owner}: sequence=True needs a model that begins with an nn.Embedding, split 'rowwise'.")
