"""The comparisons of scripts/bench/cpu.sh: runs the programs in turn, round after round, and prints medians
and ratios."""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
SACCADE = os.path.join(ROOT, "build", "saccade")
SKIP = 5  # initial steps that do not count: first allocations, primitives, caches
# PyTorch at its best: the OpenMP build of OpenBLAS (Debian's torch links any), and a malloc that keeps freed
# memory.
TORCH_ENVIRONMENT = {
    "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/openblas-openmp",
    "MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "34359738368", "MALLOC_TOP_PAD_": "268435456",
}


def run(command, environment=None):
    """-> (standard output, seconds, peak resident MB) of a program that must succeed"""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, cwd=ROOT, env={**os.environ, **(environment or {})})
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        text = out.read()
        if process.returncode:
            raise SystemExit(f"error: {' '.join(command)} ended with {process.returncode}:\n{text[-2000:]}{err.read()[-2000:]}")
    return text, seconds, usage.ru_maxrss / 1024


def table(title, rows, baseline_of, unit="ms"):
    """rows: {name: [numbers]}; prints median and best of each, and how many times less than the best baseline
    median."""
    baseline = min(statistics.median(v) for k, v in rows.items() if baseline_of(k))
    print(f"\n{title}\n{'':34}{'median ' + unit:>12}{'best ' + unit:>12}{'times less':>12}")
    for name, values in rows.items():
        median = statistics.median(values)
        ratio = "" if baseline_of(name) else f"{baseline / median:.2f}"
        print(f"{name:34}{median:12.1f}{min(values):12.1f}{ratio:>12}", flush=True)
    return {name: {"median": statistics.median(v), "best": min(v)} for name, v in rows.items()}


def is_torch(name):
    return "torch" in name


# ---- the training step -------------------------------------------------------------------------------------

def saccade_step(data, steps, precision):
    folder = tempfile.mkdtemp()
    split = [f"--set=data.{s}.{k}={data}/{v}" for s in ("train", "val")
             for k, v in (("annotations", "annotations.json"), ("images", "images"))]
    try:
        _, _, memory = run([SACCADE, "train", "--config", "configs/bench_small.textproto", "--output", folder + "/run",
                            f"--max-steps={steps}", "--set=train.log_every=1", f"--set=precision={precision}"] + split)
        with open(folder + "/run/metrics.jsonl") as f:
            lines = [json.loads(line) for line in f]
    finally:
        shutil.rmtree(folder)
    return [line["step_ms"] for line in lines if line["type"] == "train"][SKIP:], memory


def torch_step(python, steps, extra):
    command = [python, "scripts/bench/torch_small_deformable_detr.py", f"--steps={steps}"] + extra
    text, _, memory = run(command, TORCH_ENVIRONMENT)
    return json.loads(text.strip().splitlines()[-1])["step_ms"][SKIP:], memory


def bench_step(peers, rounds):
    data = os.path.join(ROOT, "runs", "bench-data")
    if not os.path.exists(data + "/annotations.json"):
        run([SACCADE, "data", "shapes", "--output", data, "--images", "64", "--seed", "3"])
    programs = {}
    for name, python in peers.items():
        programs[f"torch {name}"] = lambda p=python: torch_step(p, 25, [])
        programs[f"torch {name}, channels last"] = lambda p=python: torch_step(p, 25, ["--channels-last"])
    programs["saccade f32"] = lambda: saccade_step(data, 40, "f32")
    programs["saccade bf16"] = lambda: saccade_step(data, 40, "bf16")
    times, memory = {k: [] for k in programs}, {k: [] for k in programs}
    for _ in range(rounds):
        for name, program in programs.items():
            ms, peak = program()
            times[name] += ms
            memory[name].append(peak)
    return {"ms": table("Training step, 4.2 M parameters, batch 4, 256 x 256", times, is_torch),
            "peak_mb": table("Peak resident memory of the whole process", memory, is_torch, "MB")}


# ---- classifiers: the training step at 224 pixels, batch 8 -------------------------------------------------

def classifier_step(command, steps, skip, environment=None):
    text, _, memory = run(command + ["--steps", str(steps)], environment)
    return json.loads(text.strip().splitlines()[-1])["step_ms"][skip:], memory


def bench_classifier(peers, rounds, steps=8, skip=2):
    results = {}
    for kind, title in (("dat", "DAT-T"), ("swin", "Swin-T")):
        programs = {}
        for name, python in peers.items():
            needed = "import torch, torchvision; torch.nn.functional.scaled_dot_product_attention"
            probe = subprocess.run([python, "-c", needed],
                                   capture_output=True, text=True)
            if probe.returncode:
                print(f"torch from {name}: left out of the classifiers ({probe.stderr.strip().splitlines()[-1]})")
                continue
            script = [python, "scripts/bench/torch_classifier.py", f"--type={kind}"]
            if kind == "swin" and subprocess.run([python, "-c", "import timm"], capture_output=True).returncode == 0:
                programs[f"torch {name}, timm's model, f32"] = (script + ["--timm"], TORCH_ENVIRONMENT)
            for label, extra in ((", f32", []), (", f32, channels last", ["--channels-last"]), (", bf16", ["--bf16"])):
                programs[f"torch {name}{label}"] = (script + extra, TORCH_ENVIRONMENT)
        programs["saccade f32"] = (["build/classifier_bench", "--type", kind], None)
        programs["saccade bf16"] = (["build/classifier_bench", "--type", kind, "--precision", "bf16"], None)
        times, memory = {k: [] for k in programs}, {k: [] for k in programs}
        for _ in range(rounds):
            for name, (command, environment) in programs.items():
                ms, peak = classifier_step(command, steps, skip, environment)
                times[name] += ms
                memory[name].append(peak)
        results[kind] = {"ms": table(f"Training step, {title}, batch 8, 224 x 224", times, is_torch),
                         "peak_mb": table("Peak resident memory of the whole process", memory, is_torch, "MB")}
    return results


# ---- detectors with anchors against torchvision ------------------------------------------------------------

PYRAMIDS = {  # settings with which both do the same work
    "retinanet": ("retinanet_r50", ["model.retinanet.conventions=torchvision", "model.retinanet.coarse_levels=pyramid",
                                    "model.retinanet.score_threshold=0.001"]),
    "mask_rcnn": ("mask_rcnn_r50", ["model.rcnn.conventions=torchvision", "model.rcnn.train_proposals=2000",
                                    "model.rcnn.score_threshold=0"]),
}
PYRAMID_SIZES = {320: 426, 800: 1066}


def pyramid_programs(peers, model, infer, height):
    recipe, sets = PYRAMIDS[model]
    size = ["--height", str(height), "--width", str(PYRAMID_SIZES[height]), "--batch", "1" if infer else "2"]
    size += ["--infer"] if infer else []
    short = height < 800
    programs = {}
    for name, python in peers.items():
        if subprocess.run([python, "-c", "import torchvision"], capture_output=True).returncode:
            print(f"torch from {name}: left out, without torchvision")
            continue
        script = [python, "scripts/bench/torchvision_detector.py", "--model", model, "--steps", "3" if short else "1"] + size
        programs[f"torch {name}, channels last"] = (script, TORCH_ENVIRONMENT)
    ours = ["build/detector_bench", "--config", f"configs/{recipe}.textproto", "--steps", "4" if short else "2"] + size
    for value in ["model.backbone.frozen_statistics=false", "model.backbone.frozen_batch_norm=true",
                  "optimizer.learning_rate=1e-12"] + sets:
        ours += ["--set", value]
    for precision in ("f32", "tf32") if short else ("f32",):
        programs[f"saccade {precision}"] = (ours + ["--precision", precision], None)
    return programs


def bench_pyramid(peers, rounds):
    results = {}
    for model in PYRAMIDS:
        for height in PYRAMID_SIZES:
            for infer in (False, True):
                programs = pyramid_programs(peers, model, infer, height)
                times, memory = {k: [] for k in programs}, {k: [] for k in programs}
                for _ in range(rounds):
                    for name, (command, environment) in programs.items():
                        text, _, peak = run(command, environment)
                        times[name].append(json.loads(text.strip().splitlines()[-1])["ms"])
                        work = ", inference" if infer else ""
                        print(f"{model}, {height}{work}, {name}: {times[name][-1]:.0f} ms, {peak:.0f} MB", flush=True)
                        memory[name].append(peak)
                work = "inference, one image" if infer else "training step of 2"
                title = f"{model}, ResNet-50, {work}, {height} x {PYRAMID_SIZES[height]}"
                results[title] = {"ms": table(title, times, is_torch),
                                  "peak_mb": table("Peak resident memory of the whole process", memory, is_torch, "MB")}
    return results


# ---- deformable attention (its own script prints the lines) ------------------------------------------------

def bench_attention(peers, rounds):
    for name, python in peers.items():
        print(f"\nDeformable attention beside torch from {name}")
        text, _, _ = run(["scripts/bench/msda.sh"], {"PYTHON": python, "ROUNDS": str(rounds)})
        print(text, end="", flush=True)


# ---- COCO scoring ------------------------------------------------------------------------------------------

PYCOCOTOOLS = """
import sys, time
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
start = time.perf_counter()
truth = COCO(sys.argv[1])
evaluation = COCOeval(truth, truth.loadRes(sys.argv[2]), "bbox")
evaluation.evaluate(); evaluation.accumulate(); evaluation.summarize()
print("seconds", time.perf_counter() - start)
"""


def write_detection_problem(folder, images=5000, detections=100, categories=80):
    """Annotations and detections in the numbers of COCO val2017: about 7 objects per image, some crowds."""
    r = random.Random(0)
    truth, found = [], []
    for image in range(1, images + 1):
        objects = []
        for _ in range(r.randrange(0, 15)):
            w, h = r.uniform(8, 300), r.uniform(8, 300)
            box = [r.uniform(0, 640 - w), r.uniform(0, 480 - h), w, h]
            objects.append((r.randrange(1, categories + 1), box))
            truth.append({"id": len(truth) + 1, "image_id": image, "category_id": objects[-1][0], "bbox": box,
                          "area": w * h * r.uniform(0.4, 1), "iscrowd": int(r.random() < 0.01)})
        for k in range(detections):
            if k < 2 * len(objects):
                category, (x, y, w, h) = objects[k % len(objects)]
                box = [x + r.gauss(0, w / 10), y + r.gauss(0, h / 10), w * r.uniform(0.8, 1.2), h * r.uniform(0.8, 1.2)]
            else:
                category, box = r.randrange(1, categories + 1), [r.uniform(0, 500), r.uniform(0, 400), r.uniform(8, 140),
                                                                 r.uniform(8, 80)]
            found.append({"image_id": image, "category_id": category, "bbox": [round(v, 2) for v in box],
                          "score": round(r.random(), 5)})
    with open(folder + "/annotations.json", "w") as f:
        json.dump({"images": [{"id": i, "file_name": f"{i}.jpg", "width": 640, "height": 480} for i in range(1, images + 1)],
                   "annotations": truth, "categories": [{"id": i, "name": f"c{i}"} for i in range(1, categories + 1)]}, f)
    with open(folder + "/detections.json", "w") as f:
        json.dump(found, f)


def bench_score(peers, rounds):
    with tempfile.TemporaryDirectory() as folder:
        write_detection_problem(folder)
        files = [folder + "/annotations.json", folder + "/detections.json"]
        ours, theirs, figures = [], [], []
        for i in range(rounds):
            text, seconds, _ = run([SACCADE, "score", "--annotations", files[0], "--detections", files[1]])
            ours.append(seconds * 1e3)
            figures.append([line.split("=")[-1].strip() for line in text.splitlines() if "Average" in line])
            if i < 2:  # a minute each
                text, _, _ = run([sys.executable, "-c", PYCOCOTOOLS] + files)
                theirs.append(float(text.split()[-1]) * 1e3)
                figures.append([line.split("=")[-1].strip() for line in text.splitlines() if "Average" in line])
    if any(f != figures[0] for f in figures):
        raise SystemExit(f"error: the figures differ: {figures}")
    return table("COCO score, 5,000 images with 100 detections each (ours: the whole process; pycocotools: without imports)",
                 {"pycocotools": theirs, "saccade score": ours}, lambda name: name == "pycocotools")


# ---- start-up and the encoder ------------------------------------------------------------------------------

def bench_start(peers, rounds):
    rows = {"saccade --help": [run([SACCADE, "--help"])[1] * 1e3 for _ in range(10 * rounds)]}
    rows.update({f"import torch, {name}": [run([python, "-c", "import torch"], TORCH_ENVIRONMENT)[1] * 1e3
                                           for _ in range(rounds)] for name, python in peers.items()})
    return table("Start-up", rows, is_torch)


def bench_encoder(peers, rounds):
    print("\nOne encoder layer, forward and backward, over four image sizes")
    text, _, _ = run(["build/encoder_bench", str(3 * rounds)])
    print(text, end="", flush=True)


SECTIONS = {"step": bench_step, "classifier": bench_classifier, "pyramid": bench_pyramid, "attention": bench_attention,
            "score": bench_score, "start": bench_start, "encoder": bench_encoder}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peer", action="append", default=[], help="NAME=PYTHON, a Python with torch")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    threads = str(len(os.sched_getaffinity(0)))
    os.environ.setdefault("OMP_NUM_THREADS", threads)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", threads)
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    peers = {}
    for name, python in (p.split("=", 1) for p in args.peer):
        probe = subprocess.run([python, "-c", "import torch, scipy; print(torch.__version__)"], capture_output=True, text=True)
        if probe.returncode == 0:
            peers[name] = python
            print(f"torch from {name}: {probe.stdout.strip()}")
        else:
            print(f"torch from {name}: left out ({(probe.stderr.strip() or 'no torch').splitlines()[-1]})")
    print(f"{os.environ['OMP_NUM_THREADS']} threads, load {os.getloadavg()[0]:.2f} at the beginning")
    results = {name: SECTIONS[name](peers, args.rounds) for name in args.only.split(",")}
    if args.json:
        with open(args.json, "w") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
