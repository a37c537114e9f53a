"""Commands about trainings: their checkpoints, their health, their processes."""
