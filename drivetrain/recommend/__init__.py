"""Choose the strategy that fits a recipe on given machines, by memory and communication, with the reason.

Pure arithmetic on three sources that need no framework: the facts of a recipe (facts.py, measured on the
meta device), the facts of the machines (instances.json) and the literals at the head of each strategy's file.
"""
