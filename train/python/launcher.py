#!python
"""The program `saccade`: runs that of the installed module, which is found but not loaded."""

import importlib.util
import os
import sys

spec = importlib.util.find_spec("saccade")
if spec is None or not spec.submodule_search_locations:
    sys.exit(f"error: {sys.executable} has no module saccade; install the wheel again")
program = os.path.join(spec.submodule_search_locations[0], "bin", "saccade")
try:
    os.execv(program, sys.argv)
except OSError as error:
    sys.exit(f"error: {program}: {error.strerror}; install the wheel again")
