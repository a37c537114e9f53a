"""What runs on the training cluster: launcher, strategies, data cursor, checkpoints, recipes.

Nothing else of the package is imported here, and nothing of here is imported by the rest: it is reached by command,
`python -m drivetrain.training_scripts.launch ...`, so that compiling a pipeline never loads torch.
"""
