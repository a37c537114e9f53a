"""Read what a script saved with smdebug, the library of SageMaker Debugger, as records of a training.

smdebug itself is not needed: its packages fit few environments, and what it writes is simple.
"""
