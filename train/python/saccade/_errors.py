"""The exceptions. Their text is one line: that of the library or the program, without its "error: "."""


class Error(Exception):
    """Something went wrong that the caller's input is not to blame for: the machine, the library, a program that was ended."""


class InputError(Error, ValueError):
    """What the caller gave is wrong: a file, an array, a number, a flag. The text names it and says what was expected."""
