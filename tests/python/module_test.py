"""The Python module against a program and a library that are built: scripts/checks/check_wheel.sh runs it."""

import array
import ctypes
import gc
import json
import os
import pickle
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import saccade
from saccade import _library, _program

ROOT = Path(__file__).resolve().parents[2]
BACKBONE = "backbone { blocks: [1, 1, 1, 1] width: 8 frozen_batch_norm: false frozen_stages: 0 %s }"
SIZE = "augment { height: 64 width: 64 } val_height: 64 val_width: 64"
ENDLESS = {
    "config": "detector.textproto",
    "data": "shapes",
    "device": "cpu",
    "set": {"train.epochs": 10**6, "train.max_steps": 10**6},
}
DETECTOR = f"""
model {{
  {BACKBONE % "outputs: [4]"}
  transformer {{ hidden_dim: 16 heads: 2 encoder_layers: 1 decoder_layers: 1 ffn_dim: 16 queries: 5 levels: 1 dropout: 0 }}
}}
data {{ batch_size: 2 workers: 1 {SIZE} }}
train {{ max_steps: 6 log_every: 2 }}
"""
MASKS = f"""
model {{
  type: "mask_rcnn" {BACKBONE % ""}
  rcnn {{ channels: 16 head_dim: 16 mask_channels: 16 mask_layers: 1 anchor_scale: 4 score_threshold: 0 detections: 5 }}
}}
data {{ batch_size: 2 workers: 1 {SIZE} }}
train {{ max_steps: 1 }}
"""
SEGMENTER = f"""
model {{
  type: "semantic_fpn" {BACKBONE % "outputs: [1, 2, 3, 4]"}
  semantic_fpn {{ channels: 16 head_channels: 16 }}
}}
data {{
  train {{ annotations: "shapes/label_maps" images: "shapes/images" }}
  val {{ annotations: "shapes/label_maps" images: "shapes/images" }}
  batch_size: 2 workers: 1 augment {{ height: 48 width: 48 }} val_short_side: 64 val_long_side: 96
}}
train {{ max_steps: 4 }}
"""
CLASSIFIER = f"""
model {{ type: "classifier" {BACKBONE % "outputs: [4]"} }}
data {{ batch_size: 2 workers: 1 {SIZE} }}
train {{ max_steps: 1 }}
"""


def bmp(pixels: np.ndarray) -> bytes:
    """A file of these pixels, RGB."""
    height, width = pixels.shape[:2]
    rows = np.zeros((height, (width * 3 + 3) // 4 * 4), np.uint8)
    rows[:, : width * 3] = pixels[::-1, :, ::-1].reshape(height, -1)
    head = struct.pack("<2sIHHI", b"BM", 54 + rows.size, 0, 0, 54)
    return head + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, rows.size, 0, 0, 0, 0) + rows.tobytes()


def same(a: saccade.Detections, b: saccade.Detections) -> bool:
    """To the bit."""
    arrays = [(a.xyxy, b.xyxy), (a.scores, b.scores), (a.labels, b.labels)]
    arrays += [(x, y) for x, y in [(a.masks, b.masks), (a.label_map, b.label_map)] if x is not None or y is not None]
    return a.names == b.names and a.image_size == b.image_size and all(np.array_equal(x, y) for x, y in arrays)


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class ModuleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.back = os.getcwd()
        os.chdir(cls.folder.name)
        saccade.set_threads(1)
        os.environ["OMP_NUM_THREADS"] = "1"
        cls.program("data", "shapes", "--output", "shapes", "--images", "8", "--seed", "1", "--size", "64")
        for number, image in enumerate(sorted(Path("shapes/images").iterdir())):
            for split in ("train", "val"):
                folder = Path("folders", split, "ab"[number % 2])
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy(image, folder)
        recipes = {"detector": DETECTOR, "masks": MASKS, "segmenter": SEGMENTER, "classifier": CLASSIFIER}
        cls.checkpoints, cls.metrics = {}, {}
        for name, recipe in recipes.items():
            Path(name + ".textproto").write_text(recipe)
            data = {"segmenter": None, "classifier": "folders"}.get(name, "shapes")
            with saccade.train(config=name + ".textproto", data=data, output="run_" + name, device="cpu") as run:
                cls.metrics[name] = list(run)
            cls.checkpoints[name] = run.checkpoint
        cls.models = {name: saccade.Model(path, "cpu") for name, path in cls.checkpoints.items()}
        cls.model = cls.models["detector"]
        cls.pixels = np.random.default_rng(1).integers(0, 256, (50, 70, 3), np.uint8)
        Path("noise.bmp").write_bytes(bmp(cls.pixels))
        cls.want = cls.model("noise.bmp", 0)

    @classmethod
    def tearDownClass(cls) -> None:
        os.chdir(cls.back)
        cls.folder.cleanup()

    @staticmethod
    def program(*words: str) -> str:
        return subprocess.run([_program.program(), *words], check=True, capture_output=True, text=True).stdout

    def refused(self, text: str, call, *arguments, **keywords) -> None:
        """By an InputError of one line with this beginning, or, between slashes, this pattern."""
        with self.assertRaises(saccade.InputError) as caught:
            call(*arguments, **keywords)
        said = str(caught.exception)
        self.assertNotIn("\n", said)
        if text.startswith("/"):
            self.assertRegex(said, text.strip("/"))
        else:
            self.assertEqual(said[: len(text)], text)

    def test_versions_are_one(self) -> None:
        numbers = {saccade.__version__, self.program("--version").split()[1]}
        if (ROOT / "pyproject.toml").exists():
            numbers.add(re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M).group(1))
        self.assertEqual(len(numbers), 1, numbers)

    def test_models_say_what_they_are(self) -> None:
        said = {name: (m.task, m.predicts_masks, m.image_size, m.keeps_form) for name, m in self.models.items()}
        self.assertEqual(said["detector"], ("detection", False, (64, 64), False))
        self.assertEqual(said["masks"], ("detection", True, (64, 64), False))
        self.assertEqual(said["segmenter"], ("segmentation", True, (64, 96), True))
        self.assertEqual(said["classifier"], ("classification", False, (64, 64), False))
        self.assertEqual(self.models["classifier"].names, ["a", "b"])
        self.assertEqual(self.models["classifier"].category_ids, [])
        self.assertEqual(len(self.model.names), len(self.model.category_ids))
        self.assertEqual(self.model.device, "cpu")

    def test_numbers_are_those_of_the_program(self) -> None:
        images = sorted(map(str, Path("shapes/images").iterdir())) + ["noise.bmp"]
        for name in ("detector", "masks"):
            model = self.models[name]
            words = ["predict", "--checkpoint", self.checkpoints[name], "--device", "cpu", "--threshold", "0"]
            self.program(*words, "--output", "drawn_" + name, *images)
            listed = json.loads(Path("drawn_" + name, "detections.json").read_text())
            found = model(images, 0)
            self.assertEqual(len(listed), sum(map(len, found)))
            entries = iter(listed)
            for image, detections in zip(images, found):
                for i, (x1, y1, x2, y2) in enumerate(detections.xyxy):
                    entry = next(entries)
                    self.assertTrue(image.endswith(entry["file_name"]))
                    self.assertEqual(entry["bbox"], [x1, y1, x2 - x1, y2 - y1])
                    self.assertEqual(entry["score"], detections.scores[i])
                    self.assertEqual(entry["category"], detections.names[i])
                    self.assertEqual(entry["category_id"], model.category_ids[detections.labels[i]])
            self.assertTrue(all(same(one, model(image, 0)) for one, image in zip(found, images)))

    def test_images_of_all_kinds_are_the_same(self) -> None:
        pixels, data = self.pixels, Path("noise.bmp").read_bytes()
        wide = np.zeros((50, 100, 3), np.uint8)
        wide[:, 10:80] = pixels
        kinds = [
            pixels, data, bytearray(data), memoryview(data), Path("noise.bmp"), str(Path("noise.bmp").absolute()),
            np.asfortranarray(pixels), pixels[::-1][::-1], wide[:, 10:80], pixels[:, ::-1].copy()[:, ::-1],
            np.ascontiguousarray(pixels[::-1])[::-1], np.repeat(pixels, 2, 0)[::2], memoryview(pixels).toreadonly().obj,
        ]  # fmt: skip
        read_only = pixels.copy()
        read_only.flags.writeable = False
        for kind in [*kinds, read_only]:
            self.assertTrue(same(self.model(kind, 0), self.want), type(kind))
        self.assertTrue(same(self.model(pixels[:, :, ::-1], 0, order="bgr"), self.want))
        self.assertTrue(all(same(one, self.want) for one in self.model(tuple(kinds), 0)))
        self.assertTrue(all(same(one, self.want) for one in self.model(np.stack([pixels, pixels]), 0, batch_size=8)))
        grey = pixels[:, :, 0]
        of_grey = self.model(np.repeat(grey[:, :, None], 3, 2), 0)
        for kind in (grey, grey.copy(), grey[:, :, None], np.asfortranarray(grey)):
            self.assertTrue(same(self.model(kind, 0), of_grey))
        self.assertEqual(self.want.image_size, (50, 70))

    def test_pil_images(self) -> None:
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("Pillow is not installed")
        image = Image.fromarray(self.pixels)
        self.assertTrue(same(self.model(image, 0), self.want))
        self.assertTrue(same(self.model(image.convert("RGBA"), 0), self.want))
        self.assertTrue(same(self.model(image.convert("L"), 0), self.model(np.asarray(image.convert("L")), 0)))
        with Image.open("noise.bmp") as opened:
            self.assertTrue(same(self.model(opened, 0), self.want))
        self.refused("image: a PIL image of mode F, expected RGB or L", self.model, image.convert("F"))
        self.refused("image: 0 x 5 pixels", self.model, Image.new("RGB", (0, 5)))
        Path("cut.bmp").write_bytes(bmp(self.pixels)[:500])
        with Image.open("cut.bmp") as opened:
            self.refused("image: ", self.model, opened)

    def test_supervision(self) -> None:
        try:
            import supervision
        except ImportError:
            self.skipTest("supervision is not installed")
        for name in ("detector", "masks", "segmenter"):
            found = self.models[name]("noise.bmp", 0)
            of_others = found.to_supervision()
            self.assertEqual(len(of_others), len(found))
            self.assertEqual(list(of_others.data["class_name"]), found.names)
            self.assertTrue(np.array_equal(of_others.confidence, found.scores))
            drawn = supervision.BoxAnnotator().annotate(self.pixels.copy(), of_others)
            if found.masks is not None:
                drawn = supervision.MaskAnnotator().annotate(drawn, of_others)
            self.assertGreater(np.count_nonzero(drawn != self.pixels), 0)
            self.assertEqual(len(found[:0].to_supervision()), 0)
        self.assertEqual(len(self.models["classifier"]("noise.bmp", 0).to_supervision().class_id), 2)

    def test_detections(self) -> None:
        found = self.want
        count = len(found)
        self.assertEqual(count, 30)  # 5 queries, 6 classes
        self.assertEqual((found.xyxy.shape, found.xyxy.dtype), ((count, 4), np.float64))
        self.assertTrue((np.diff(found.scores) <= 0).all())
        self.assertEqual([self.model.names[i] for i in found.labels], found.names)
        self.assertIsNone(found.masks)
        middle = float(found.scores[10])
        self.assertTrue(same(self.model("noise.bmp", middle), found[found.scores >= middle]))
        self.assertTrue(same(found[2:4], found[[2, 3]]))
        self.assertEqual((len(found[3]), len(found[[]]), len(self.model("noise.bmp", 1.0))), (1, 0, 0))
        self.assertEqual(self.model("noise.bmp", 1.0).xyxy.shape, (0, 4))
        self.assertRegex(repr(found), r"^Detections\(30: \w+ 0\.\d{3}, .*, \.\.\.\)$")

    def test_masks(self) -> None:
        found = self.models["masks"]("noise.bmp", 0)
        self.assertGreater(len(found), 0)
        self.assertEqual((found.masks.shape, found.masks.dtype), ((len(found), 50, 70), np.bool_))
        self.assertEqual(found[1:].masks.shape[0], len(found) - 1)
        self.assertEqual(self.models["masks"]("noise.bmp", 1.0).masks.shape, (0, 50, 70))

    def test_label_maps(self) -> None:
        model = self.models["segmenter"]
        found = model(self.pixels, 0)
        labels = np.empty((50, 70), np.int32)
        pixels = _library.Pixels(self.pixels.ctypes.data, 70, 50, 0, 0, 0)
        segment = _library.library().saccade_segment
        segment.argtypes = [ctypes.c_void_p, ctypes.POINTER(_library.Pixels), ctypes.c_void_p]
        with model._handle.held() as pointer:
            self.assertEqual(segment(pointer, ctypes.byref(pixels), labels.ctypes.data), 0)
        self.assertTrue(np.array_equal(found.label_map, labels))
        self.assertEqual(sorted(found.labels), sorted(set(labels.flat)))
        self.assertTrue((found.masks.sum(0) == 1).all())
        none = model(self.pixels, 1.0)
        self.assertEqual((len(none), none.masks.shape), (0, (0, 50, 70)))
        self.assertTrue(np.array_equal(none.label_map, labels))

    def test_classes(self) -> None:
        found = self.models["classifier"](["noise.bmp", self.pixels], 0)
        self.assertAlmostEqual(found[0].class_scores.sum(), 1)
        self.assertEqual(found[0].class_scores[found[0].labels[0]], found[0].scores[0])
        self.assertTrue(same(*found))
        few = self.models["classifier"]("noise.bmp", 1.0)
        self.assertEqual((len(few), len(few.class_scores)), (0, 2))

    def test_what_is_no_image(self) -> None:
        refused, model = self.refused, self.model
        noise = self.pixels
        refused("image: None, expected a uint8 array", model, None)
        refused("image: int, expected", model, 3)
        refused("image: dict, expected", model, {})
        refused("image 1: list, expected", model, [noise, [noise]])
        refused("image 1: None, expected", model, [noise, None])
        refused("images: an empty list, expected at least one image", model, [])
        refused("images: an empty list", model, np.zeros((0, 5, 5, 3), np.uint8))
        refused("none.png: cannot read the file", model, "none.png")
        refused("image: '', expected the path", model, "")
        refused("image: 'a\\x00.png', expected the path", model, "a\0.png")
        refused("/^.*: (is a folder|cannot read)/", model, "/")
        refused("image: the file is empty", model, b"")
        refused("image 1: not an image in a supported format", model, [noise, b"no image"])
        refused("/^image: /", model, bmp(noise)[:500])
        for kind in (np.float32, np.float64, np.int8, np.uint16, np.int64, bool, object, "S1", "M8[s]"):
            refused("/^image: \\S+ pixels, expected uint8, 0 to 255$/", model, noise.astype(np.uint8).astype(kind))
        refused("image: float64 pixels", model, np.full((5, 5, 3), np.nan))
        refused("image: shape (5,), expected (height, width, 3)", model, np.zeros(5, np.uint8))
        refused("image: shape (), expected", model, np.uint8(5))
        refused("/alpha$/", model, np.zeros((5, 5, 4), np.uint8))
        refused("/moveaxis/", model, np.zeros((3, 50, 70), np.uint8))
        refused("image: shape (1, 2, 3, 4, 3)", model, np.zeros((1, 2, 3, 4, 3), np.uint8))
        refused("image: 5 x 0 pixels, expected at least 1 x 1", model, np.zeros((0, 5, 3), np.uint8))
        refused("image: 0 x 5 pixels, expected at least 1 x 1", model, np.zeros((5, 0), np.uint8))
        bright = np.ma.masked_greater(noise, 200)
        refused("image: a masked array, expected one without masked pixels", model, bright)
        refused("image 1: a masked array", model, np.ma.stack([np.ma.array(noise), bright]))
        self.assertTrue(same(model(np.ma.array(noise), 0), self.want))
        huge = np.broadcast_to(np.uint8(0), (1 << 20, 1 << 20, 3))
        refused("image: 1048576 x 1048576 pixels, expected", model, huge)
        for threshold in (-0.1, 1.1, float("nan"), "a", None, [0.5, 0.5]):
            refused("threshold: ", model, noise, threshold)
        for order in ("RGB", "", None, 3):
            refused("order: ", model, noise, order=order)
        for batch_size in (0, -1, 1.5, True, "2"):
            refused("batch_size: ", model, noise, batch_size=batch_size)
        self.assertTrue(same(model("noise.bmp", 0), self.want))  # it is as it was

    def test_arrays_of_others(self) -> None:
        class Tensor:
            def __init__(self, values):
                self.values = values

            def __array__(self, dtype=None, copy=None):
                if self.values is None:
                    raise TypeError("can't convert cuda:0 device type tensor to numpy.\nUse Tensor.cpu()")
                return self.values

        self.assertTrue(same(self.model(Tensor(self.pixels), 0), self.want))
        self.refused("image: can't convert cuda:0 device type tensor to numpy.", self.model, Tensor(None))
        self.refused("image: array, expected", self.model, array.array("B", [1, 2, 3]))

    def test_what_is_no_model(self) -> None:
        self.refused("none: no such file", saccade.Model, "none")
        self.refused("/^.: is a folder/", saccade.Model, "/")
        self.refused("noise.bmp: ", saccade.Model, "noise.bmp")
        for path in (None, 3, b"", "", "a\0b"):
            self.refused("checkpoint: ", saccade.Model, path)
        for device in ("tpu", "", "cuda:x"):
            self.refused("--device", saccade.Model, self.checkpoints["detector"], device)
        for device in (None, 3, "cpu\0"):
            self.refused("device: ", saccade.Model, self.checkpoints["detector"], device)
        for threads in (0, -1, 1.5, "2", True, 1 << 40):
            self.refused("threads: ", saccade.set_threads, threads)

    def test_closed_models(self) -> None:
        with saccade.Model(self.checkpoints["detector"], "cpu") as model:
            self.assertTrue(same(model("noise.bmp", 0), self.want))
        self.refused("model: is closed", model, "noise.bmp")
        model.close()
        model = saccade.Model(self.checkpoints["detector"], "cpu")
        handle = model._handle
        threads = [threading.Thread(target=lambda: [model("noise.bmp", 0) for _ in range(20)]) for _ in range(3)]
        hooks, threading.excepthook = threading.excepthook, lambda arguments: None  # those that come too late
        for thread in threads:
            thread.start()
        model.close()
        for thread in threads:
            thread.join()
        threading.excepthook = hooks
        self.assertEqual(handle.callers, 0)
        with self.assertRaises(saccade.InputError):
            saccade.Model("none")
        gc.collect()

    def test_many_threads_get_what_one_gets(self) -> None:
        images = [self.pixels[: 20 + i] for i in range(6)]
        want = [self.model(image, 0) for image in images]
        wrong = []

        def work() -> None:
            for _ in range(5):
                wrong.extend(not same(a, b) for a, b in zip(self.model(images, 0), want))
                try:
                    self.model("none.png")
                except saccade.InputError as error:
                    wrong.append(not str(error).startswith("none.png: "))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(wrong), any(wrong)), (4 * 5 * 7, False))

    def test_the_interpreter_is_free_meanwhile(self) -> None:
        image = np.zeros((2000, 2000, 3), np.uint8)
        steps, done = 0, threading.Event()
        thread = threading.Thread(target=lambda: (self.model([image] * 3, 0), done.set()))
        thread.start()
        while not done.is_set():
            steps += 1
            time.sleep(0.001)
        thread.join()
        self.assertGreater(steps, 5)

    def test_memory_is_flat(self) -> None:
        times = int(os.environ.get("SACCADE_CALLS", "500"))
        data = Path("noise.bmp").read_bytes()

        def run(count: int) -> None:
            for i in range(count):
                self.model(data if i % 2 else self.pixels, 0)
                if i % 10 == 0:
                    self.models["masks"](self.pixels, 0)
                try:
                    self.model(b"no image")
                except saccade.InputError:
                    pass

        run(100)
        gc.collect()
        before = resident()
        run(times)
        gc.collect()
        self.assertLess(resident() - before, 1 << 20)

    def test_models_are_loaded_anew_in_other_processes(self) -> None:
        self.assertTrue(same(pickle.loads(pickle.dumps(self.model))("noise.bmp", 0), self.want))
        pickled, here = pickle.dumps(saccade.Model(os.path.relpath(self.checkpoints["detector"]), "cpu")), os.getcwd()
        os.chdir("/")  # the path may have been relative to a folder of before
        try:
            again = pickle.loads(pickled)
        finally:
            os.chdir(here)
        self.assertTrue(same(again("noise.bmp", 0), self.want))
        child = os.fork()
        if child == 0:
            try:
                self.model("noise.bmp", 0)
            except saccade.InputError as error:
                os._exit(0 if str(error).startswith("model: loaded before this process was forked") else 1)
            os._exit(2)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_libraries_of_others(self) -> None:
        source = Path("other.c")
        for version, text in (("0.0.1", "libsaccade 0.0.1, expected"), (saccade.__version__, "is not libsaccade")):
            source.write_text(f'const char* saccade_version(void) {{ return "{version}"; }}')
            subprocess.run(["cc", "-shared", "-fPIC", source, "-o", f"other_{version}.so"], check=True)
            self.assertIn(text, self.error_of_library(f"{os.getcwd()}/other_{version}.so"))
        self.assertIn("SACCADE_LIBRARY: libm.so.6: is not libsaccade", self.error_of_library("libm.so.6"))
        self.assertIn("SACCADE_LIBRARY: none.so: cannot be loaded: none.so: cannot open", self.error_of_library("none.so"))

    @staticmethod
    def error_of_library(path: str) -> str:
        script = "import saccade\ntry: saccade.Model('x')\nexcept saccade.Error as error: print(type(error).__name__, error)"
        environment = {**os.environ, "SACCADE_LIBRARY": path}
        ran = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
        assert ran.stdout.startswith("Error ") and ran.stdout.count("\n") == 1 and not ran.stderr, ran
        return ran.stdout

    def test_training_yields_its_metrics(self) -> None:
        metrics = self.metrics["detector"]
        self.assertEqual([m["step"] for m in metrics if m["type"] == "train"], [2, 4, 6])
        self.assertEqual(metrics[-1]["type"], "eval")
        self.assertGreater(metrics[0]["loss"], 0)
        shutil.copytree("run_detector", "resumed")
        with Path("resumed", "metrics.jsonl").open("a") as log:  # lines that the run drops
            log.write('{"type": "train", "step": 8, "loss": 1}\n{"type": "tra')
        more = list(saccade.train(output="resumed", resume=True, set={"train.max_steps": 10}))
        self.assertEqual([(m["step"], m["start_step"]) for m in more if m["type"] == "train"], [(8, 6), (10, 6)])

    def test_training_raises_what_the_program_says(self) -> None:
        def train(**flags) -> None:
            saccade.train(**{"config": "detector.textproto", "data": "shapes", "output": "refused", **flags}).wait()

        self.refused("run_detector: already holds a run", train, output="run_detector")
        self.refused("none.textproto: cannot read the file", train, config="none.textproto")
        self.refused('--set train.max_stepsx: no field "max_stepsx"', train, set={"train.max_stepsx": 3})
        self.refused("/unknown flag --bogus/", train, bogus=True)
        self.refused("output: '', expected the path", train, output="")
        self.refused("data: object, expected text", train, data=object())
        self.refused("model: 'a\\x00', expected text without zero bytes", train, model="a\0")
        self.assertFalse(Path("refused").exists())

    def test_training_stops(self) -> None:
        run = saccade.train(output="stopped", **ENDLESS)
        next(run)
        self.assertTrue(run.running)
        run.stop()
        run.wait()
        self.assertFalse(run.running)
        written = Path("stopped/metrics.jsonl").read_text().splitlines()
        self.assertEqual(len(list(run)), len(written) - 1)  # wait() leaves them to be read
        self.assertTrue(Path("stopped/checkpoints/last.safetensors").exists())
        process = None
        for _ in (left := saccade.train(output="left", **ENDLESS)):
            process = left._process
            break
        del left
        self.assertEqual(process.wait(120), 128 + signal.SIGINT)
        with saccade.train(output="killed", **ENDLESS) as run:
            next(run)
            run._process.kill()
            for _ in range(2):
                with self.assertRaisesRegex(saccade.Error, "^saccade train was ended by SIGKILL$"):
                    run.wait()

    def test_ctrl_c_ends_a_run_after_its_step(self) -> None:
        # A shell that starts this in the background lets it ignore SIGINT.
        script = f"""
import signal
import saccade
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    for metrics in saccade.train(output="interrupted", **{ENDLESS}):
        print(metrics["step"], flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        self.assertTrue(child.communicate(timeout=120)[0].endswith("interrupted\n"))
        self.assertTrue(Path("interrupted/checkpoints/last.safetensors").exists())

    def test_export(self) -> None:
        try:
            written = self.model.export("model.onnx", height=64, width=64, batch="dynamic", postprocess=True)
        except saccade.InputError as error:
            self.skipTest(f"this build exports nothing: {error}")
        self.assertEqual(Path(written).read_bytes()[:1], b"\x08")
        self.refused("/--height/", self.model.export, "other.onnx", height=-3)
        self.refused("/unknown flag --nonsense/", self.model.export, "other.onnx", nonsense=True)
        self.assertFalse(Path("other.onnx").exists())

    def test_the_program_may_be_missing(self) -> None:
        kept = os.environ.get("SACCADE_PROGRAM")
        os.environ["SACCADE_PROGRAM"] = "/none/saccade"
        try:
            with self.assertRaisesRegex(saccade.Error, "^SACCADE_PROGRAM: /none/saccade: No such file"):
                saccade.train(output="nothing")
        finally:
            if kept is None:
                del os.environ["SACCADE_PROGRAM"]
            else:
                os.environ["SACCADE_PROGRAM"] = kept


if __name__ == "__main__":
    unittest.main()
