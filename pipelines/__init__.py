"""Ready pipelines, one page each; a file here is found by its name (`drivetrain run retraining`)."""
