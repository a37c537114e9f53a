"""Suggest hyperparameters for which earlier trainings promise an improvement: Optuna's tree-structured Parzen
estimator.

Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011. The service uses a Gaussian process: the
idea is the same, the trainings chosen are not.
"""

from __future__ import annotations

import importlib.util
import warnings
from typing import TYPE_CHECKING, Any

from drivetrain.targets.sagemaker.run.tuning.space import Categorical, Continuous, Integer, Range
from drivetrain.targets.sagemaker.run.tuning.strategies import Search

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution


def missing() -> str | None:
    if importlib.util.find_spec("optuna") is not None:
        return None
    return "Bayesian search needs Optuna. Install it: pip install 'drivetrain[tuning]'; or take Strategy Random."


def suggest(search: Search) -> dict[str, str]:
    import optuna

    ranges = {one.name: one for one in search.definition.ranges}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        # Of Optuna 4, for constant_liar: without it, trainings at the same time would all be the same one.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        # So many are drawn at random before there is something to learn from: Optuna's 10, or a third.
        num_random = max(2, min(10, search.total // 3))
        sampler = optuna.samplers.TPESampler(seed=search.own_seed, n_startup_trials=num_random, constant_liar=True)
    study = optuna.create_study(
        sampler=sampler, direction="maximize" if search.definition.objective.maximize else "minimize"
    )
    distributions = {name: _distribution(one) for name, one in ranges.items()}
    known = [tried.objective for tried in search.earlier if tried.objective is not None]
    for tried in search.earlier:
        value = tried.objective
        if tried.failed:
            if not known:
                continue
            # As bad as the worst: without it, the search would go on trying what cannot be trained.
            value = min(known) if search.definition.objective.maximize else max(known)
        study.add_trial(
            optuna.trial.create_trial(
                params={name: _inner(ranges[name], text) for name, text in tried.parameters.items()},
                distributions=distributions,
                value=value,
                state=optuna.trial.TrialState.RUNNING if value is None else optuna.trial.TrialState.COMPLETE,
            )
        )
    found = study.ask(fixed_distributions=distributions).params
    return {name: _outer(one, found[name]) for name, one in ranges.items()}


def _distribution(one: Range) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(one, Categorical):
        return CategoricalDistribution(one.values)
    if isinstance(one, Integer):
        return IntDistribution(one.low, one.high, log=one.scaling == "Logarithmic")
    return FloatDistribution(0.0, 1.0)  # the place on its scale


def _inner(one: Range, text: str) -> Any:
    if isinstance(one, Continuous):
        return one.unit(text)
    return int(text) if isinstance(one, Integer) else text


def _outer(one: Range, value: Any) -> str:
    return one.at(value) if isinstance(one, Continuous) else str(value)
