"""Saccade: run and train detectors, classifiers and segmentation models.

    import saccade

    model = saccade.Model("best.safetensors")
    found = model("street.jpg", threshold=0.5)
    for name, score, (x1, y1, x2, y2) in zip(found.names, found.scores, found.xyxy):
        print(f"{name} {score:.2f} at {x1:.0f}, {y1:.0f}")

A thin wrapper around libsaccade (saccade.h, through ctypes) and the program `saccade`. docs/python.md has the full
documentation.
"""

from ._detections import Detections
from ._errors import Error, InputError
from ._library import set_threads
from ._model import Model
from ._training import Training, train
from ._version import __version__

__all__ = ["Detections", "Error", "InputError", "Model", "Training", "__version__", "set_threads", "train"]
