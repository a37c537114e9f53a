"""Estimators of tables, one file each; the name of the file is its name in the configuration."""
