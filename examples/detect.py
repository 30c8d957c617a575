"""Finds objects in an image, with nothing but Python's own ctypes: detect.py CHECKPOINT THRESHOLD IMAGE [LIBRARY]"""

import ctypes
import sys


class Prediction(ctypes.Structure):
    _fields_ = [
        ("label", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        *[(name, ctypes.c_double) for name in ("score", "x1", "y1", "x2", "y2")],
    ]


checkpoint, threshold, image = sys.argv[1].encode(), float(sys.argv[2]), sys.argv[3].encode()
saccade = ctypes.CDLL(sys.argv[4] if len(sys.argv) > 4 else "libsaccade.so.0.2")
saccade.saccade_last_error.restype = ctypes.c_char_p
saccade.saccade_model_class_name.restype = ctypes.c_char_p
saccade.saccade_result_count.restype = ctypes.c_size_t


def check(status):
    if status != 0:
        sys.exit("error: " + saccade.saccade_last_error().decode())


model, result = ctypes.c_void_p(), ctypes.c_void_p()
check(saccade.saccade_model_load(checkpoint, b"cpu", ctypes.byref(model)))
check(saccade.saccade_predict_file(model, image, ctypes.c_double(threshold), ctypes.byref(result)))
for i in range(saccade.saccade_result_count(result, ctypes.c_size_t(0))):
    p = Prediction()
    check(saccade.saccade_result_get(result, ctypes.c_size_t(0), ctypes.c_size_t(i), ctypes.byref(p)))
    name = saccade.saccade_model_class_name(model, p.label).decode()
    print(f"{name} {p.score:.3f} [{p.x1:.1f} {p.y1:.1f} {p.x2:.1f} {p.y2:.1f}]")
saccade.saccade_result_free(result)
saccade.saccade_model_free(model)
