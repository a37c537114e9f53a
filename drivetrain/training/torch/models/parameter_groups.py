"""Groups of parameters for an optimizer: what decays and what does not, what learns at a share of the rate.

A recipe's optimizer is made from whatever part of the model a rank holds, so every function here gives the same groups
on each part, also where one of them has no parameter there.
"""

from __future__ import annotations

from typing import Any

from torch import nn

Group = dict[str, Any]


def decay_matrices(model: nn.Module, weight_decay: float) -> list[Group]:
    """Two groups: matrices and kernels decay, biases and the scales of normalizations do not.

    What decays would pull a scale to 0 without making the function any smoother. (I. Loshchilov and F. Hutter,
    "Decoupled Weight Decay Regularization", 2019, decay all; leaving vectors out is the custom since T. He and others,
    "Bag of Tricks for Image Classification", 2019, section 3.1.)
    """
    return _by_dimension([parameter for parameter in model.parameters() if parameter.requires_grad], weight_decay)


def share_learning_rate(
    model: nn.Module, weight_decay: float, learning_rate: float, shares: dict[str, float]
) -> list[Group]:
    """The two groups of `decay_matrices`, for each share of the learning rate.

    Args:
        learning_rate: of parameters that no prefix names, unless the empty one does.
        shares: prefix of a parameter's name -> what part of the learning rate it gets; the longest prefix counts.
    """
    groups: list[Group] = []
    shares = {**shares, "": shares.get("", 1.0)}
    for prefix, share in shares.items():
        named = [
            parameter
            for name, parameter in model.named_parameters()
            if parameter.requires_grad and max(filter(name.startswith, shares), key=len) == prefix
        ]
        groups += [{**group, "lr": learning_rate * share} for group in _by_dimension(named, weight_decay)]
    return groups


def _by_dimension(parameters: list[nn.Parameter], weight_decay: float) -> list[Group]:
    return [
        {"params": [parameter for parameter in parameters if parameter.dim() > 1], "weight_decay": weight_decay},
        {"params": [parameter for parameter in parameters if parameter.dim() <= 1], "weight_decay": 0.0},
    ]
