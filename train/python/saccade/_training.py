"""Training, by the program: yields its metrics as it runs."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from pathlib import Path
from typing import Any, Deque, Dict, Iterator, Mapping, Sequence, Set, Union

from ._library import encoded_path
from ._program import flags_of, raise_failure, start_program

PathLike = Union[str, "os.PathLike[str]"]


def train(
    *,
    output: PathLike,
    data: Union[PathLike, Sequence[PathLike], None] = None,
    model: Union[str, None] = None,
    config: Union[PathLike, None] = None,
    set: Union[Mapping[str, Any], Sequence[str], None] = None,  # noqa: A002
    quiet: bool = True,
    **flags: Any,
) -> "Training":
    """Starts `saccade train`; iterating over the result gives the metrics of the run as they are written.

        for metrics in saccade.train(data="my_images", model="rt_detr_r18", output="runs/a", max_steps=1000):
            print(metrics["step"], metrics.get("loss"), metrics.get("AP"))

    Args:
        output: the folder of the run.
        data: a folder of images and annotations, or several.
        model: a recipe by its name (`saccade describe models` lists them).
        config: or a recipe's file.
        set: changes to the recipe, {"train.log_every": 10}.
        quiet: False lets the program print its lines too.
        flags: the program's other flags: max_steps=20 is --max-steps 20, resume=True is --resume.

    Raises:
        Error: the program was not found. Invalid arguments are reported by the iteration, with the program's
            message.
    """
    given = {"output": output, "data": data, "model": model, "config": config, "set": set, "quiet": quiet, **flags}
    return Training(Path(os.fsdecode(encoded_path(output, "output"))), flags_of(given), quiet)


class Training:
    """A started run of the program. An iterator over the lines of the run's metrics.jsonl, as dicts.

    metrics["type"] is "train" every train.log_every steps, with the means of those steps, or "eval" after an
    evaluation; metrics["step"] counts from 1; docs/files.md names the others and their units. Ctrl-C, the
    end of a `with` block and the loss of the last reference let the run finish its step and write
    checkpoints/last.safetensors, from which resume=True continues; a second Ctrl-C ends it at once. If
    the Python process is killed, the run continues.
    """

    def __init__(self, output: Path, words: Sequence[str], quiet: bool) -> None:
        self.output = output
        self._log = output / "metrics.jsonl"
        self._old: Set[bytes] = {line for line in self._bytes(0).splitlines(True)}  # a run that goes on rewrites some of them
        self._offset = 0
        self._lines: Deque[Dict[str, Any]] = deque()
        self._stopped = self._failed = False
        # In a group of its own, so that Ctrl-C reaches it only through this process, and only once.
        self._process = start_program(
            "train", words, stdout=subprocess.DEVNULL if quiet else None, stderr=subprocess.PIPE, start_new_session=True
        )
        self._errors: Deque[bytes] = deque(maxlen=100)
        self._reader = threading.Thread(target=_read_errors, args=(self._process, self._errors, quiet), daemon=True)
        self._reader.start()
        self._finalizer = weakref.finalize(self, _interrupt, self._process)

    @property
    def checkpoint(self) -> str:
        """The path of the best weights so far, or of the last ones, for Model. The file may not exist yet."""
        best = self.output / "checkpoints" / "best.safetensors"
        return str(best if best.exists() else best.with_name("last.safetensors"))

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        return self

    def __next__(self) -> Dict[str, Any]:
        try:
            while not self._lines:
                running = self.running  # asked first, so that its last lines are there
                self._read()
                if self._lines:
                    break
                if not running:
                    self._end()
                    raise StopIteration
                time.sleep(0.05)
        except KeyboardInterrupt:
            self.stop()
            raise
        return self._lines.popleft()

    def wait(self) -> None:
        """Waits for the end of the run. Raises InputError or Error, with the program's message, if the run
        fails."""
        try:
            while self.running:
                time.sleep(0.02)
        except KeyboardInterrupt:
            self.stop()
            raise
        self._read()  # the metrics can still be iterated over
        self._end(again=True)

    def stop(self) -> None:
        """Lets the run finish its step and write a checkpoint, and waits for it. Remaining metrics can still
        be read."""
        self._stopped = True
        _interrupt(self._process)
        try:
            while self.running:
                time.sleep(0.02)
        except KeyboardInterrupt:
            _interrupt(self._process)  # the second one ends it at once
            raise

    def __enter__(self) -> "Training":
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def _end(self, again: bool = False) -> None:
        self._reader.join()
        status = self._process.returncode
        if (self._failed and not again) or (self._stopped and status == 128 + signal.SIGINT):
            return
        self._failed = status != 0
        raise_failure("train", status, b"".join(self._errors))

    def _read(self) -> None:
        # Until the first line of this start, lines of an earlier one may be removed, so all is read again.
        text = self._bytes(self._offset)
        for line in text.splitlines(True):
            if not line.endswith(b"\n"):
                return
            if self._offset == 0 and line in self._old:
                continue
            if self._offset == 0:
                self._offset = text.index(line)
            self._offset += len(line)
            try:
                self._lines.append(json.loads(line))
            except ValueError:
                continue

    def _bytes(self, offset: int) -> bytes:
        try:
            with open(self._log, "rb") as file:
                file.seek(offset)
                return file.read()
        except OSError:  # not there yet
            return b""


def _read_errors(process: "subprocess.Popen[bytes]", errors: Deque[bytes], quiet: bool) -> None:
    assert process.stderr is not None
    with process.stderr as stream:
        for line in stream:
            errors.append(line)
            if not quiet:
                sys.stderr.write(line.decode("utf-8", "replace"))
    process.wait()


def _interrupt(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
