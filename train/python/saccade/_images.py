"""Converts images from callers to the form of the library."""

import ctypes
import os
import sys
from typing import Any, List, Tuple, Union

import numpy as np

from ._errors import InputError
from ._library import BGR, GREY, RGB, Encoded, Pixels, check, encoded_path, library, one_line

#: One image: an array, a PIL image, the path of a file, or the bytes of one.
Image = Union[np.ndarray, "os.PathLike[str]", str, bytes, bytearray, memoryview, Any]

MOST_PIXELS = 178_956_970  # kMaxImagePixels
EXPECTED = "a uint8 array (height, width, 3) or (height, width), a PIL image, a path, or the bytes of an image file"
# Modes that PIL converts to RGB without a loss that the library's own reader would not have: alpha is
# dropped.
PIL_MODES = ("1", "P", "PA", "LA", "RGBA", "RGBX", "CMYK", "YCbCr")


class Picture:
    """Pixels of one image that do not move while this object lives. Freed by close()."""

    def __init__(self, image: Image, order: int, name: str) -> None:
        self.owner: Any = None  # what the pixels belong to
        self.decoded = ctypes.c_void_p()
        self.pixels = Pixels()
        if isinstance(image, (bytes, bytearray, memoryview)):
            data = bytes(image)
            encoded = Encoded(data, len(data), name.encode())
            check(library().saccade_image_decode(ctypes.byref(encoded), ctypes.byref(self.decoded)))
        elif isinstance(image, (str, os.PathLike)):
            path = encoded_path(image, name)
            check(library().saccade_image_read(path, ctypes.byref(self.decoded)))
        else:
            self.take_array(array_of(image, name), order, name)
            return
        check(library().saccade_image_pixels(self.decoded, ctypes.byref(self.pixels)))

    def take_array(self, array: np.ndarray, order: int, name: str) -> None:
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[:, :, 0]
        if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] != 3):
            hint = ""
            if array.ndim == 3 and array.shape[2] == 4:
                hint = "; image[:, :, :3] drops alpha"
            elif array.ndim == 3 and array.shape[0] in (1, 3):
                hint = "; numpy.moveaxis(image, 0, -1) puts the channels last"
            raise InputError(f"{name}: shape {array.shape}, expected (height, width, 3) or (height, width){hint}")
        if array.dtype != np.uint8:
            raise InputError(f"{name}: {array.dtype} pixels, expected uint8, 0 to 255")
        if 0 in array.shape:
            raise InputError(f"{name}: {array.shape[1]} x {array.shape[0]} pixels, expected at least 1 x 1")
        if np.ma.is_masked(array):  # values under a mask are undefined
            raise InputError(f"{name}: a masked array, expected one without masked pixels; image.filled(0) makes them black")
        side = 1 if array.ndim == 2 else 3
        rows = array.strides[0] >= array.shape[1] * side and array.strides[1:] == ((1,) if side == 1 else (3, 1))
        if not rows:
            if array.shape[0] * array.shape[1] > MOST_PIXELS:  # the library says the same of what is not copied
                raise InputError(f"{name}: {array.shape[1]} x {array.shape[0]} pixels, expected at most {MOST_PIXELS} in all")
            array = np.ascontiguousarray(array)
        self.owner = array
        self.pixels = Pixels(
            data=array.ctypes.data,
            width=array.shape[1],
            height=array.shape[0],
            stride=array.strides[0] if rows else 0,
            order=GREY if side == 1 else order,
        )

    @property
    def size(self) -> Tuple[int, int]:
        return int(self.pixels.height), int(self.pixels.width)

    def close(self) -> None:
        decoded, self.decoded, self.owner = self.decoded, ctypes.c_void_p(), None
        library().saccade_image_free(decoded)


def array_of(image: Any, name: str) -> np.ndarray:
    if isinstance(image, np.ndarray):
        return image
    pil = sys.modules.get("PIL.Image")
    if pil is not None and isinstance(image, pil.Image):
        if image.mode not in ("RGB", "L") + PIL_MODES:
            raise InputError(f"{name}: a PIL image of mode {image.mode}, expected RGB or L: convert it, or give its path")
        try:
            return np.asarray(image if image.mode in ("RGB", "L") else image.convert("RGB"))
        except (OSError, ValueError, SyntaxError) as error:  # its file is read only now
            raise InputError(f"{name}: {one_line(error)}") from None
    if not hasattr(image, "__array__"):
        raise InputError(f"{name}: {'None' if image is None else type(image).__name__}, expected {EXPECTED}")
    try:
        return np.asarray(image)
    except Exception as error:  # a tensor on a GPU, or one with gradients
        raise InputError(f"{name}: {one_line(error)}") from None


def order_of(order: str) -> int:
    if order not in ("rgb", "bgr"):
        raise InputError(f'order: {order!r:.120}, expected "rgb" or "bgr"')
    return BGR if order == "bgr" else RGB


def list_of(images: Any) -> Tuple[List[Any], bool]:
    """The images of a call, and whether they were a list."""
    if isinstance(images, np.ndarray) and images.ndim == 4:
        images = list(images)
    if not isinstance(images, (list, tuple)):
        return [images], False
    if not images:
        raise InputError(f"images: an empty list, expected at least one image: {EXPECTED}")
    return list(images), True
