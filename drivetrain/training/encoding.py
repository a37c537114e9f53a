"""Preparation of a table's columns for models of scikit-learn: a ColumnTransformer.

Categories come first, then numbers. A category that is missing, or that the training never saw, is 0 in all of its
one-hot columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from drivetrain.training.estimator import Features


def encoder(features: Features, *, one_hot: bool, scaled: bool) -> Any:
    """The ColumnTransformer, not fitted, of a matrix float64 [rows, features].

    Args:
        one_hot: a column for each value of a category; else the number of its value.
        scaled: medians in place of missing numbers, and all with mean 0 and deviation 1; else as they are.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    first = features.categories
    levels: Any = [np.arange(len(features.all[number].levels or ()), dtype=np.float64) for number in first]
    hot = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
    scaling = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    parts: list[Any] = [
        ("categories", hot if one_hot else "passthrough", first),
        ("numbers", scaling if scaled else "passthrough", [at for at in range(len(features.all)) if at not in first]),
    ]
    return ColumnTransformer([part for part in parts if part[2]])


def owners_of(columns: Any) -> list[int]:
    """The number of the feature that each prepared column is of.

    Args:
        columns: what `encoder` gives, fitted.
    """
    found: list[int] = []
    for _, made, numbers in columns.transformers_:
        sizes = map(len, made.categories_) if hasattr(made, "categories_") else [1] * len(numbers)
        found += [number for number, size in zip(numbers, sizes, strict=True) for _ in range(size)]
    return found
