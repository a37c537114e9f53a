"""Drawn at random; most of the trainings are stopped after a few epochs (completion.SuccessiveHalving), and what that
saves goes to the best of them.

Li et al., "A System for Massively Parallel Hyperparameter Tuning", MLSys 2020 (arXiv:1810.05934), the variant that
stops and never resumes. Which rungs the service uses is not published.
"""

from __future__ import annotations

from drivetrain.targets.sagemaker.run.tuning.strategies import Search
from drivetrain.targets.sagemaker.run.tuning.strategies import random as random_search


def suggest(search: Search) -> dict[str, str]:
    return random_search.suggest(search)
