"""python -m saccade: runs the program."""

import os
import sys

from ._errors import Error
from ._program import program

try:
    path = program()
    os.execv(path, ["saccade", *sys.argv[1:]])
except (Error, OSError) as error:
    sys.exit(f"error: {error}")
