"""A trained model, ready to run."""

import ctypes
import os
import threading
from contextlib import contextmanager
from typing import Any, Iterator, List, Tuple, Union, overload

import numpy as np

from ._detections import Detections
from ._errors import InputError
from ._images import Image, Picture, list_of, order_of
from ._library import Pixels, check, encoded_path, library
from ._program import run_program

# saccade_prediction
PREDICTION = np.dtype([("label", "i4"), ("reserved", "i4"), ("score", "f8"), ("xyxy", "f8", (4,))])


class Handle:
    """The library's model. Callers hold it; after close() it is freed when the last caller has left."""

    def __init__(self, checkpoint: bytes, device: bytes) -> None:
        self.pointer = ctypes.c_void_p()
        self.lock = threading.Lock()
        self.callers = 1  # itself, until it is closed
        self.closed = False
        self.process = os.getpid()
        check(library().saccade_model_load(checkpoint, device, ctypes.byref(self.pointer)))

    @contextmanager
    def held(self) -> Iterator[ctypes.c_void_p]:
        if os.getpid() != self.process:  # its threads are missing here, so a call would wait forever
            raise InputError("model: loaded before this process was forked, expected one loaded by this process")
        with self.lock:
            if self.closed:
                raise InputError("model: is closed, expected an open one")
            self.callers += 1
        try:
            yield self.pointer
        finally:
            self.leave()

    def close(self) -> None:
        with self.lock:
            if self.closed:
                return
            self.closed = True
        self.leave()

    def leave(self) -> None:
        with self.lock:
            self.callers -= 1
            free = self.callers == 0
        if free and os.getpid() == self.process:
            library().saccade_model_free(self.pointer)


class Model:
    """A checkpoint that `saccade train` or `saccade convert` wrote, loaded for inference.

    Any number of threads may call the same model, and each gets what it would get alone; the interpreter's
    lock is not held while it computes. A model is freed by close(), at the end of `with Model(...) as
    model:`, or when nothing refers to it. A process that was forked cannot use its parent's models; a spawned
    process loads them again.

    Args:
        checkpoint: path of a .safetensors file.
        device: "auto" (a GPU that can be used, else the CPU), "cpu", "cuda", or "cuda:1".

    Raises:
        InputError: the file is missing, damaged or not a checkpoint; the device is unknown or cannot be used.
        Error: the library cannot be loaded, or there is not enough memory.
    """

    def __init__(self, checkpoint: Union[str, "os.PathLike[str]"], device: str = "auto") -> None:
        path = encoded_path(checkpoint, "checkpoint")
        if not isinstance(device, str) or "\0" in device:
            raise InputError(f'device: {device!r:.120}, expected "auto", "cpu", "cuda" or "cuda:1"')
        self._handle = Handle(path, device.encode("utf-8", "replace"))
        self._checkpoint = os.fsdecode(path)
        self._absolute = os.path.abspath(self._checkpoint)  # for processes in other folders
        self._asked_device = device
        lib, pointer = library(), self._handle.pointer
        self._task: str = lib.saccade_model_task(pointer).decode()
        self._predicts_masks = bool(lib.saccade_model_predicts_masks(pointer))
        self._device = "cuda" if lib.saccade_model_is_on_gpu(pointer) else "cpu"
        labels = range(lib.saccade_model_class_count(pointer))
        self._names = [lib.saccade_model_class_name(pointer, i).decode("utf-8", "replace") for i in labels]
        ids = [lib.saccade_model_category_id(pointer, i) for i in labels]
        self._category_ids = [] if self._task == "classification" else ids
        height, width, keeps_form = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_int32()
        check(lib.saccade_model_image_size(pointer, ctypes.byref(height), ctypes.byref(width), ctypes.byref(keeps_form)))
        self._image_size = (height.value, width.value)
        self._keeps_form = bool(keeps_form.value)

    @property
    def checkpoint(self) -> str:
        """The path that it was loaded from."""
        return self._checkpoint

    @property
    def task(self) -> str:
        """"detection", "classification" or "segmentation" (label maps)."""
        return self._task

    @property
    def device(self) -> str:
        """"cpu" or "cuda"."""
        return self._device

    @property
    def names(self) -> List[str]:
        """The classes, by label."""
        return list(self._names)

    @property
    def category_ids(self) -> List[int]:
        """The classes' ids in the training annotations or label maps, by label; a classifier has none."""
        return list(self._category_ids)

    @property
    def predicts_masks(self) -> bool:
        """Whether Detections have masks: for detectors with masks and segmentation models."""
        return self._predicts_masks

    @property
    def image_size(self) -> Tuple[int, int]:
        """The (height, width) in pixels that images are resized to. With keeps_form: the short side, the
        largest long side."""
        return self._image_size

    @property
    def keeps_form(self) -> bool:
        """Whether images keep their aspect ratio instead of being stretched or cropped to image_size."""
        return self._keeps_form

    @overload
    def __call__(
        self, images: Union[List[Image], Tuple[Image, ...]], threshold: float = ..., *, order: str = ..., batch_size: int = ...
    ) -> List[Detections]: ...

    @overload
    def __call__(self, images: Image, threshold: float = ..., *, order: str = ..., batch_size: int = ...) -> Detections: ...

    def __call__(self, images: Any, threshold: float = 0.5, *, order: str = "rgb", batch_size: int = 1) -> Any:
        """Runs the model on an image, or on several.

        Args:
            images: an image or a list of images. An image is a uint8 array (height, width, 3) or, grey,
                (height, width) with values from 0 to 255; a PIL image; the path of a JPEG, PNG, BMP, WebP,
                GIF or TIFF file, or the bytes of one. An array (N, height, width, 3) is a list. Files and
                bytes are rotated as EXIF says, arrays and PIL images are not.
            threshold: 0 to 1, the lowest score that is returned.
            order: of the channels of arrays: "rgb", or "bgr" as OpenCV has them.
            batch_size: how many images form a batch. 1 is what `saccade predict` does; if images keep their
                aspect ratio, those of one batch are padded to the same size, and scores may differ a little.
                On a GPU, larger batches are faster.

        Returns:
            Detections; for a list, a list of them, one for each image.

        Raises:
            InputError: an input is not a valid image; the text names its path or its position in the list.
        """
        try:
            least = float(threshold)
        except (TypeError, ValueError):
            least = -1
        if not 0 <= least <= 1:
            raise InputError(f"threshold: {threshold!r:.120}, expected 0 to 1")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise InputError(f"batch_size: {batch_size!r:.120}, expected a whole number of at least 1")
        channels = order_of(order)
        given, is_list = list_of(images)
        found: List[Detections] = []
        with self._handle.held() as pointer:
            for first in range(0, len(given), batch_size):
                pictures: List[Picture] = []
                try:
                    for place, image in enumerate(given[first : first + batch_size], first):
                        pictures.append(Picture(image, channels, f"image {place}" if is_list else "image"))
                    found += self._predict(pointer, pictures, least)
                finally:
                    for picture in pictures:
                        picture.close()
        return found if is_list else found[0]

    def _predict(self, pointer: ctypes.c_void_p, pictures: List[Picture], threshold: float) -> List[Detections]:
        result = ctypes.c_void_p()
        pixels = (Pixels * len(pictures))(*[picture.pixels for picture in pictures])
        # A detector's results below the threshold are not needed; other models need all classes.
        least = threshold if self._task == "detection" else 0.0
        check(library().saccade_predict(pointer, pixels, len(pictures), least, ctypes.byref(result)))
        try:
            return [self._detections(result, i, picture.size, threshold) for i, picture in enumerate(pictures)]
        finally:
            library().saccade_result_free(result)

    def _detections(self, result: ctypes.c_void_p, place: int, size: Tuple[int, int], threshold: float) -> Detections:
        lib = library()
        count = lib.saccade_result_count(result, place)
        raw = np.empty(count, PREDICTION)
        check(lib.saccade_result_copy(result, place, raw.ctypes.data, count))
        labels = raw["label"].astype(np.int64)
        class_scores = label_map = masks = None
        if self._task == "classification":
            class_scores = np.zeros(len(self._names))
            class_scores[labels] = raw["score"]
        elif self._task == "segmentation":
            label_map = np.zeros(size, np.int32)
            for i in range(count):
                label_map[self._mask(result, place, i, size)] = labels[i]
        elif self._predicts_masks:
            masks = np.empty((count, *size), bool)
            for i in range(count):
                masks[i] = self._mask(result, place, i, size)
        names = [self._names[i] for i in labels]
        found = Detections(raw["xyxy"].copy(), raw["score"].copy(), labels, names, size, masks, class_scores, label_map)
        return found if self._task == "detection" else found[found.scores >= threshold]

    @staticmethod
    def _mask(result: ctypes.c_void_p, place: int, index: int, size: Tuple[int, int]) -> np.ndarray:
        mask = np.empty(size, np.uint8)
        pixels = mask.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        check(library().saccade_result_mask(result, place, index, pixels, mask.size))
        return np.not_equal(mask, 0)

    def export(
        self,
        output: Union[str, "os.PathLike[str]"],
        *,
        height: Union[int, None] = None,
        width: Union[int, None] = None,
        batch: Union[int, str, None] = None,
        **flags: Any,
    ) -> str:
        """Writes an ONNX file with `saccade export`. Its other flags are keyword arguments:
        postprocess=True, input="bytes".

        Args:
            output: the file to write, *.onnx.
            height, width: of the images in pixels; by default the recipe's.
            batch: images at a time, or "dynamic"; by default 1.

        Returns:
            The path of the file.

        Raises:
            InputError, Error: with the program's error message.
        """
        path = os.fsdecode(encoded_path(output, "output"))
        run_program("export", [self._absolute, path], {"height": height, "width": width, "batch": batch, **flags})
        return path

    def close(self) -> None:
        """Frees the model when all running calls have ended. Later calls are refused."""
        self._handle.close()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle is not None:
            handle.close()

    def __reduce__(self) -> Any:  # another process loads it anew
        return Model, (self._absolute, self._asked_device)

    def __repr__(self) -> str:
        return f"Model({self._checkpoint!r}, {self._task}, {len(self._names)} classes, {self._device})"
