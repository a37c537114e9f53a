"""The health of a training: what is recorded of its steps, the rules that watch it, and what is done when one fires.

    every step       clock.py times its phases; flight.py keeps the last steps in a file that a killed rank leaves
    some steps       the framework sums up tensors and layers on the device; cadence.py keeps the cost below a bound
    a record         vector.py adds the sums of all ranks in one message; record.py is what comes out, the same on all
    rules/           one file each, which sees one record after the other and says when something is wrong
    monitor.py       what the loop calls; recording.py is the file that `drivetrain health replay` reads

Every rank sees the same records, so all come to the same verdict at the same step. Nothing here changes a number of the
training.
"""
