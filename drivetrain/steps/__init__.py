"""The contract of a step: how a typed function is declared, and how it becomes a program in a container."""
