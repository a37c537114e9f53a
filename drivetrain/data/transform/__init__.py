"""A table's transformation, declared as data: verbs, expressions and the operations that are allowed in them."""
