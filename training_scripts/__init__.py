"""The programs of the training cluster, and the strategies, recipes and readers that they find by name.

They are made of drivetrain.training. Nothing of here is imported by the rest of the package: it is reached by command,
`python -m drivetrain.training_scripts.launch ...`, so that compiling a pipeline never loads torch.
"""
