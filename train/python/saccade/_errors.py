"""The exceptions. Their text is one line: that of the library or the program, without its "error: "."""


class Error(Exception):
    """An error that the input did not cause: the machine, the library, or a program that was ended."""


class InputError(Error, ValueError):
    """Invalid input: a file, an array, a number, a flag. The text names it and says what was expected."""
