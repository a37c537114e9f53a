"""Automatic model tuning on this machine: many training jobs in one step, which look for the best hyperparameters.

https://docs.aws.amazon.com/sagemaker/latest/dg/automatic-model-tuning-how-it-works.html
"""
