"""What each target can express, by the targets' own checks: the tables of docs/targets.md.

features.py     a feature, and the smallest pipeline that has it
example_*.py    the features, by group
__main__.py     the tables: python -m tests.target_features [FILE.md]
"""
