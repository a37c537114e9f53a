"""The prices of SageMaker: a dated list that is shipped, its refreshment, and the estimate of a run's cost from it."""
