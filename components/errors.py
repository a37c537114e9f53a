"""The one error a step raises for what its user can mend."""


class InputError(ValueError):
    """Bad input of a step: the message says what was given, what is allowed and what to do.

    The program then ends with exit code 2 and prints the message alone, without a traceback.
    """
