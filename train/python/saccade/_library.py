"""libsaccade by ctypes: how it is found, its structs and functions (saccade.h), and statuses as
exceptions."""

import ctypes
import functools
import os
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint8, c_void_p
from pathlib import Path

from ._errors import Error, InputError
from ._version import __version__

FOLDER = Path(__file__).resolve().parent
SONAME = "libsaccade.so." + ".".join(__version__.split(".")[:2])


class Pixels(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("width", c_int64),
        ("height", c_int64),
        ("stride", c_int64),
        ("order", c_int32),
        ("reserved", c_int32),
    ]


RGB, BGR, GREY = 0, 1, 2


class Encoded(ctypes.Structure):
    _fields_ = [("data", c_char_p), ("size", c_size_t), ("name", c_char_p)]


# The functions that are used here: their results and arguments.
FUNCTIONS = {
    "saccade_last_error": (c_char_p, []),
    "saccade_set_threads": (c_int32, [c_int32]),
    "saccade_model_load": (c_int32, [c_char_p, c_char_p, POINTER(c_void_p)]),
    "saccade_model_free": (None, [c_void_p]),
    "saccade_model_task": (c_char_p, [c_void_p]),
    "saccade_model_predicts_masks": (c_int32, [c_void_p]),
    "saccade_model_image_size": (c_int32, [c_void_p, POINTER(c_int64), POINTER(c_int64), POINTER(c_int32)]),
    "saccade_model_is_on_gpu": (c_int32, [c_void_p]),
    "saccade_model_class_count": (c_int32, [c_void_p]),
    "saccade_model_class_name": (c_char_p, [c_void_p, c_int32]),
    "saccade_model_category_id": (c_int64, [c_void_p, c_int32]),
    "saccade_predict": (c_int32, [c_void_p, POINTER(Pixels), c_size_t, c_double, POINTER(c_void_p)]),
    "saccade_result_count": (c_size_t, [c_void_p, c_size_t]),
    "saccade_result_copy": (c_int32, [c_void_p, c_size_t, c_void_p, c_size_t]),
    "saccade_result_mask": (c_int32, [c_void_p, c_size_t, c_size_t, POINTER(c_uint8), c_size_t]),
    "saccade_result_free": (None, [c_void_p]),
    "saccade_image_read": (c_int32, [c_char_p, POINTER(c_void_p)]),
    "saccade_image_decode": (c_int32, [POINTER(Encoded), POINTER(c_void_p)]),
    "saccade_image_pixels": (c_int32, [c_void_p, POINTER(Pixels)]),
    "saccade_image_free": (None, [c_void_p]),
}


def one_line(error: object) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The library of $SACCADE_LIBRARY, else that of the wheel, else the system's."""
    bundled = FOLDER / "lib" / "libsaccade.so"
    given = os.environ.get("SACCADE_LIBRARY")
    path = given or (str(bundled) if bundled.exists() else SONAME)
    name = f"SACCADE_LIBRARY: {path}" if given else path
    if path == str(bundled):
        check_processor()
    try:
        found = ctypes.CDLL(path)
    except OSError as error:
        raise Error(f"{name}: cannot be loaded: {one_line(error)}") from None
    try:
        found.saccade_version.restype = c_char_p
        version = found.saccade_version().decode()
        if version.split(".")[:2] != __version__.split(".")[:2]:
            raise Error(f"{name}: libsaccade {version}, expected {__version__}, the version of this module")
        for symbol, (result, arguments) in FUNCTIONS.items():
            function = getattr(found, symbol)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise Error(f"{name}: is not libsaccade {__version__}: {one_line(error)}") from None
    return found


def check_processor() -> None:
    """The wheel's library is for processors with AVX2; on others it would end the process."""
    needed = {"avx2", "fma", "bmi2", "f16c", "movbe"}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line for line in file if line.startswith("flags")), "")
    except OSError:
        return
    missing = needed - set(flags.split())
    if flags and missing:
        raise Error(f"this processor lacks {', '.join(sorted(missing))}, expected x86-64-v3 (AVX2)")


def check(status: int) -> None:
    """Raises the exception for a function's status, with the text of the calling thread's last error."""
    if status == 0:
        return
    text = library().saccade_last_error().decode("utf-8", "replace")
    raise InputError(text) if status == 2 else Error(text)


def encoded_path(path: "os.PathLike[str] | str", what: str) -> bytes:
    try:
        name = os.fsencode(path)
    except (TypeError, UnicodeError):
        raise InputError(f"{what}: {path!r:.120}, expected the path of a file") from None
    if not name or b"\0" in name:
        raise InputError(f"{what}: {path!r:.120}, expected the path of a file")
    return name


def set_threads(count: int) -> None:
    """Sets how many threads one call computes with; by default $OMP_NUM_THREADS, or the number of processors.

    Every Python thread that calls has its own helpers, so a server that calls from several threads sets 1.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count < 1 << 31:
        raise InputError(f"threads: {count!r:.120}, expected a whole number of at least 1")
    check(library().saccade_set_threads(count))
