"""Which strategy fits a recipe on given machines: memory a GPU, bytes that travel, and the choice with its reason.

Pure arithmetic on three sources, none of which imports a framework: the facts of a recipe (facts.py, measured on the
meta device), the facts of the machines (instances.json) and the literals at the head of each strategy's file.
"""
