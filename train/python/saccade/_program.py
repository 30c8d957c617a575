"""The program `saccade`: how it is found, flags from keywords, its errors as exceptions."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from typing import Any, Dict, List, Sequence

from ._errors import Error, InputError
from ._library import FOLDER


def program() -> str:
    """The program of $SACCADE_PROGRAM, else that of the wheel, else the one on PATH."""
    bundled = FOLDER / "bin" / "saccade"
    path = os.environ.get("SACCADE_PROGRAM") or (str(bundled) if bundled.exists() else shutil.which("saccade"))
    if not path:
        raise Error("the program saccade was not found, neither next to this module nor on PATH")
    return path


def flags_of(flags: Dict[str, Any]) -> List[str]:
    """max_steps=20 as --max-steps=20, resume=True as --resume. Lists and dicts repeat a flag: set={"seed":
    7}. None omits it."""
    words: List[str] = []
    for keyword, value in flags.items():
        name = "--" + keyword.replace("_", "-")
        if isinstance(value, Mapping):
            words += [f"{name}={path}={word_of(one, keyword)}" for path, one in value.items()]
        elif isinstance(value, (list, tuple)):
            words += [f"{name}={word_of(one, keyword)}" for one in value]
        elif value is True:
            words.append(name)
        elif value is not None and value is not False:
            words.append(f"{name}={word_of(value, keyword)}")
    return words


def word_of(value: Any, keyword: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        word = os.fspath(value)
        if isinstance(word, bytes):
            word = os.fsdecode(word)
    elif hasattr(value, "__index__") or isinstance(value, float):
        word = str(value)
    else:
        raise InputError(f"{keyword}: {type(value).__name__}, expected text, a number, a path, a list or a dict of these")
    if "\0" in word:
        raise InputError(f"{keyword}: {word!r:.120}, expected text without zero bytes")
    return word


def start_program(command: str, words: Sequence[str], **options: Any) -> "subprocess.Popen[bytes]":
    path = program()
    try:
        return subprocess.Popen([path, command, *words], stdin=subprocess.DEVNULL, **options)
    except OSError as error:
        name = f"SACCADE_PROGRAM: {path}" if os.environ.get("SACCADE_PROGRAM") else path
        raise Error(f"{name}: {error.strerror}") from None


def run_program(command: str, arguments: Sequence[str], flags: Dict[str, Any]) -> None:
    words = flags_of(flags) + ["--", *arguments]
    with start_program(command, words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            errors = process.communicate()[1]
        except BaseException:
            process.terminate()
            raise
    raise_failure(command, process.returncode, errors)


def raise_failure(command: str, status: int, errors: bytes) -> None:
    """Interprets the program's exit status and output."""
    if status == 0:
        return
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.strip()]
    said = [line[len("error: ") :] for line in lines if line.startswith("error: ")]
    number = -status if status < 0 else status - 128
    if said:
        text = said[-1]
    elif number in list(signal.Signals):
        text = f"saccade {command} was ended by {signal.Signals(number).name}"
    else:
        text = lines[-1] if lines else f"saccade {command} ended with status {status}"
    raise InputError(text) if status == 2 else Error(text)
