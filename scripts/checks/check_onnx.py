#!/usr/bin/env python3
"""Exports models and compares the files with the program itself.

For every recipe with random weights, or for the given checkpoints and recipes: onnx's checker passes, there
are no infinities, and onnxruntime's logits and boxes of 8 images of noise equal those of `saccade export
--sample`, to 1e-4 each (for two-stage models as sets of queries, with 20 queries in recipes; for R-CNNs as
sets of detections, with 20 regions for cascades). With --openvino a second runtime reads the file too. With
--annotations and --images, the file of a detector with built-in pre- and post-processing must detect in
onnxruntime what `saccade eval --precision f32` does: the APs agree to 1e-3. Needs onnx, onnxruntime and
numpy, which scripts/setup.sh --checks puts into .cache/onnx (and openvino; for the APs Pillow).

Usage: scripts/checks/check_onnx.py [--saccade build/saccade] [--height H --width W] [--batch N|dynamic]
       [--openvino] [--keep DIR] [--annotations A.json --images DIR] [MODEL...]
"""

import argparse
import json
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4
MASK_TOLERANCE = 1e-3  # for logits summed over hundreds of channels, and masks of regions (see mask_differences)
AP_TOLERANCE = 1e-3
# Recipes whose queries are tokens, by falling score. Among 900 random scores some differ by less than
# rounding errors, so that their order, and with it that of the queries, would be random. Among the first few
# none do.
CHOOSE_TOKENS = ("bccd.", "dino", "rt_detr", "two_stage", "dfine", "rf_detr", "lw_detr")
QUERIES = 20
# If two tokens at the end of the list are so close that either may be the last query, all queries differ;
# with another number of queries the end is elsewhere. A real fault of the file shows then, too.
OTHER_QUERIES = 15
# Stages that move regions amplify rounding errors, and among 1000 regions some overlaps are as close to the
# suppression threshold (in cascade_mask_rcnn_dat_t 0.499996 here and 0.500004 there): a different detection
# stays. Among the first few none are.
MOVE_REGIONS = ("cascade",)


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    body = data[8 + size :]
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        out[name] = np.frombuffer(body[begin:end], "<f4").reshape(entry["shape"])
    return out


def finite(model):
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            values = np.frombuffer(tensor.raw_data, "<f4")
            assert np.isfinite(values).all(), f"{tensor.name} holds infinities"


def run_onnxruntime(path, images, batch):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    parts = [session.run(names, {"images": images[i : i + batch]}) for i in range(0, len(images), batch)]
    return {name: np.concatenate([p[i] for p in parts]) for i, name in enumerate(names)}


def run_openvino(path, images, batch):
    import openvino

    model = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = []
    for i in range(0, len(images), batch):
        made = model({"images": images[i : i + batch]})
        results.append({name: made[output] for output in model.outputs for name in output.names})
    return {name: np.concatenate([r[name] for r in results]) for name in results[0]}


def detect(path, annotations, images):
    """The file's detections as COCO's result list, with its own pre- and post-processing."""
    from PIL import Image

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    about = session.get_modelmeta().custom_metadata_map
    size = int(about["width"]), int(about["height"])
    ids = json.loads(about["category_ids"])
    found = []
    for image in json.loads(pathlib.Path(annotations).read_text())["images"]:
        picture = Image.open(pathlib.Path(images) / image["file_name"]).convert("RGB")
        feed = {
            "images": np.asarray(picture.resize(size, Image.BILINEAR))[None],
            "orig_target_sizes": np.array([picture.size], np.int64),
        }
        columns = [x[0].tolist() for x in session.run(["labels", "boxes", "scores"], feed)]
        for label, box, score in zip(*columns, strict=True):
            x1, y1, x2, y2 = box
            bbox = [x1, y1, x2 - x1, y2 - y1]
            found.append({"image_id": image["id"], "category_id": ids[label], "bbox": bbox, "score": score})
    return found


def check_ap(model, arguments, folder):
    out, ours, theirs, detections = (folder / name for name in ("ap.onnx", "ours.json", "theirs.json", "detections.json"))

    def saccade(*command):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([arguments.saccade, *map(str, command)], check=True, **quiet)

    data = ["--annotations", arguments.annotations]
    saccade("export", model, out, "--input", "bytes", "--postprocess")
    saccade("eval", "--checkpoint", model, *data, "--images", arguments.images, "--json", ours, "--precision", "f32")
    detections.write_text(json.dumps(detect(out, arguments.annotations, arguments.images)))
    saccade("score", *data, "--detections", detections, "--json", theirs)
    here, there = (json.loads(path.read_text()) for path in (ours, theirs))
    numbers = [key for key in here if key.startswith("A") and not isinstance(here[key], list)]
    worst = max(abs(here[key] - there[key]) for key in numbers)
    ok = abs(here["AP"] - there["AP"]) <= AP_TOLERANCE
    text = f"AP {here['AP']:.5f}, of the file {there['AP']:.5f}; all metrics to {worst:.1e}"
    print(f"{'ok  ' if ok else 'FAIL'} {model}: {text}", flush=True)
    return ok


def suppression(model):
    """The largest IoU of two detections of a class and the lowest score, if the file suppresses duplicates;
    else None."""
    values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "NonMaxSuppression":
            return tuple(float(values[name]) for name in node.input[3:5])
    return None


def without_doubles(logits, boxes, nms, least_score, count):
    """The logits, -inf for those not kept, for which the file has scores of 0."""
    kept = np.full_like(logits, -np.inf)
    low, high = boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2
    area = boxes[:, 2] * boxes[:, 3]
    for k in range(logits.shape[1]):
        chosen = []
        for i in np.argsort(-logits[:, k], kind="stable"):
            if 1 / (1 + np.exp(-logits[i, k])) <= least_score or len(chosen) == count:
                break
            common = np.maximum(np.minimum(high[i], high[chosen]) - np.maximum(low[i], low[chosen]), 0).prod(-1)
            if not (common / (area[i] + area[chosen] - common) > nms).any():
                chosen.append(i)
                kept[i, k] = logits[i, k]
    return kept


def postprocessed(logits, boxes, softmax, count):
    """The expected results for one image's raw outputs: scores, labels and boxes (x1, y1, x2, y2) of the unit
    square."""
    if softmax:
        exponents = np.exp(logits - logits.max(-1, keepdims=True))
        scores = exponents / exponents.sum(-1, keepdims=True)
        if boxes is None:
            order = np.argsort(-scores, kind="stable")[:5]
            return scores[order], order, None
        scores, labels = scores[:, :-1].max(-1), scores[:, :-1].argmax(-1)
        query = np.argsort(-scores, kind="stable")[:count]
        scores, labels = scores[query], labels[query]
    else:
        flat = logits.reshape(-1)
        order = np.argsort(-flat, kind="stable")[:count]
        scores, query, labels = 1 / (1 + np.exp(-flat[order])), order // logits.shape[1], order % logits.shape[1]
    centre, half = boxes[query, :2], boxes[query, 2:] / 2
    return scores, labels, np.concatenate([centre - half, centre + half], -1)


def check_postprocess(model, expected, images, arguments, folder):
    """The largest difference of scores and of boxes relative to the image. Nearly equal scores may be in any
    order."""
    out = folder / "postprocess.onnx"
    command = [arguments.saccade, "export", str(model), str(out), "--batch", "dynamic", "--postprocess", "--raw-outputs"]
    for flag, value in (("--height", arguments.height), ("--width", arguments.width)):
        command += [flag, value] if value else []
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    proto = onnx.load(str(out))
    onnx.checker.check_model(proto, full_check=True)
    doubles = suppression(proto)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(out), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    detector = "boxes" in expected
    count = 2
    feed = {"images": images[:count]}
    sizes = np.array([[200, 100], [640, 480]], np.int64)
    if detector:
        feed["orig_target_sizes"] = sizes
    made = dict(zip(names, session.run(names, feed), strict=True))
    metadata = session.get_modelmeta().custom_metadata_map
    if metadata["task"] == "segmentation":
        return check_label_maps(made)
    softmax = metadata["scores"] == "softmax"
    worst = 0
    for n in range(count):
        boxes = made["raw_boxes"][n] if detector else None
        logits, most = made["logits"][n], made["scores"].shape[1]
        if doubles:
            logits = without_doubles(logits, boxes, *doubles, most)
        scores, labels, corners = postprocessed(logits, boxes, softmax, most)
        worst = max(worst, np.abs(scores - made["scores"][n]).max())
        clear = np.abs(np.diff(scores, prepend=2, append=-1))
        same = np.minimum(clear[:-1], clear[1:]) > 1e-6  # no neighbour that might take its place
        assert (labels == made["labels"][n])[same].all(), "other labels"
        if detector:
            scale = np.tile(sizes[n], 2)
            worst = max(worst, np.abs(corners - made["boxes"][n] / scale)[same].max(initial=0))
    return float(worst)


def resized(maps, size, axis):
    """Bilinear along an axis, cells as areas: positions beyond the outermost centres have their values."""
    cells = maps.shape[axis]
    place = np.clip((np.arange(size) + 0.5) * cells / size - 0.5, 0, cells - 1)
    low = np.minimum(place.astype(int), max(cells - 2, 0))
    part = (place - low).reshape([-1 if i == axis else 1 for i in range(maps.ndim)])
    return np.take(maps, low, axis) * (1 - part) + np.take(maps, np.minimum(low + 1, cells - 1), axis) * part


def check_label_maps(made):
    """The largest lead of another class over the one that the file chose for a pixel, by its raw logits."""
    labels = made["labels"]
    logits = resized(resized(made["logits"].astype(np.float64), labels.shape[1], 1), labels.shape[2], 2)
    return float((logits.max(-1) - np.take_along_axis(logits, labels[..., None], -1)[..., 0]).max())


def as_sets(made, expected):
    """made with each image's queries in the order of expected's, by nearness; unchanged if one is nearest to
    two."""
    rows = {name: np.empty_like(values) for name, values in made.items()}
    count = made["logits"].shape[1]
    for n in range(len(made["logits"])):
        flat = {name: (expected[name][n].reshape(count, -1), made[name][n].reshape(count, -1)) for name in expected}
        distances = sum(np.abs(theirs[:, None] - ours[None]).max(-1) for theirs, ours in flat.values())
        order = distances.argmin(1)
        if len(set(order)) < len(order):
            order = np.arange(len(order))
        for name, values in made.items():
            rows[name][n] = values[n][order]
    return rows


def mask_differences(made, expected, boxes, expected_boxes):
    """Masks [..., S, S] of regions: how far they differ beyond the effect of a region's place. A region moved
    by a part of its size, as by rounding errors, moves its mask by as many cells, each time by the steepest
    step between two of them."""
    steps = [np.abs(np.diff(expected, axis=axis)).max((-2, -1)) for axis in (-2, -1)]
    size = np.maximum(np.abs(expected_boxes[..., 2:] - expected_boxes[..., :2]), 1e-9)
    moved = np.abs(boxes - expected_boxes).reshape(*boxes.shape[:-1], 2, 2).max(-2) / size * expected.shape[-1]
    allowed = moved[..., 1] * steps[0] + moved[..., 0] * steps[1]
    return np.maximum(np.abs(made - expected).max((-2, -1)) - allowed, 0)


def as_detections(made, expected):
    """made with each image's detections in the order of the matching ones of expected, one to one, by label,
    score, box and mask: nearly equal scores may be in any order. At the end of the list, either of two may be
    the one that remains: such a pair counts as equal, as do unused rows, whose scores are 0. All others stay
    different. Also returns how many pairs were at the end."""
    rows, ends = {name: values.copy() for name, values in made.items()}, 0
    for n, scores in enumerate(expected["scores"]):
        count = len(scores)
        distances = np.where(made["labels"][n] != expected["labels"][n][:, None], np.inf, 0)
        for name in expected.keys() - {"labels"}:
            ours, theirs = expected[name][n], made[name][n]
            for i, row in enumerate(ours):
                if name == "masks":
                    boxes = (made["boxes"][n], expected["boxes"][n][i : i + 1])
                    far = mask_differences(theirs, row[None], *boxes) / MASK_TOLERANCE
                else:
                    far = np.abs(theirs - row).reshape(count, -1).max(-1) / TOLERANCE
                distances[i] = np.maximum(distances[i], far)
        distances[(scores[:, None] == 0) & (made["scores"][n] == 0)] = 0
        order = np.full(count, -1)
        for i in range(count):
            free = np.where(np.isin(np.arange(count), order), np.inf, distances[i])
            if free.min() <= 1:
                order[i] = free.argmin()
        alone = np.flatnonzero(order < 0)
        order[alone] = np.setdiff1d(np.arange(count), order)
        theirs = made["scores"][n][order]
        rounding = 2 * np.abs(made["scores"][n] - scores).max() + 1e-7  # of scores in their order
        last = min(scores[-1], made["scores"][n][-1]) + min(rounding, TOLERANCE)
        is_end = np.maximum(scores, theirs)[alone] <= last
        equal = np.concatenate([alone[is_end], np.flatnonzero((scores == 0) & (theirs == 0))])
        ends += int(is_end.sum())
        for name in made:
            rows[name][n] = made[name][n][order]
            rows[name][n][equal] = expected[name][n][equal]
    return rows, ends


def check(model, arguments, folder, queries=QUERIES):
    out, sample = folder / "model.onnx", folder / "sample.safetensors"
    command = [arguments.saccade, "export", str(model), str(out), "--sample", str(sample)]
    command += ["--batch", arguments.batch]
    for flag, value in (("--height", arguments.height), ("--width", arguments.width)):
        command += [flag, value] if value else []
    recipe = pathlib.Path(model).name if str(model).endswith(".textproto") else ""
    if any(part in recipe for part in CHOOSE_TOKENS):
        command += ["--set", f"model.transformer.queries={queries}"]
    if any(part in recipe for part in MOVE_REGIONS):
        command += ["--set", f"model.rcnn.proposals={QUERIES}"]
    begin = time.time()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    exported = time.time() - begin
    proto = onnx.load(str(out))
    onnx.checker.check_model(proto, full_check=True)
    finite(proto)
    expected = read_safetensors(sample)
    images = expected.pop("images").copy()
    batch = 4 if arguments.batch == "dynamic" else int(arguments.batch)
    runtimes = {"onnxruntime": run_onnxruntime}
    if arguments.openvino:
        runtimes["openvino"] = run_openvino
    # Queries are the best tokens: if two scores are equal except for rounding errors, either may come first.
    finished = "logits" not in expected and "scores" in expected  # by the model itself, like R-CNN detections
    two_stage = not finished and any(node.op_type == "TopK" for node in proto.graph.node)
    worst = {}
    for runtime, run in runtimes.items():
        made = run(out, images, batch)
        if two_stage:
            made = as_sets(made, expected)
        if finished:
            made, ends = as_detections(made, expected)
        for name, values in expected.items():
            difference = np.abs(made[name] - values)
            if finished and name == "masks":
                difference = mask_differences(made[name], values, made["boxes"], expected["boxes"])
            worst[f"{runtime} {name}"] = float(difference.max())
    if not finished:
        worst["post-processing"] = check_postprocess(model, expected, images, arguments, folder)
    ok = all(value <= (MASK_TOLERANCE if name.endswith(" masks") else TOLERANCE) for name, value in worst.items())
    text = ", ".join(f"{name} {value:.1e}" for name, value in worst.items())
    size = out.stat().st_size / 1e6
    if finished:
        text += f", {ends} of {expected['scores'].size} at the end of their list"
    costs = f"{len(proto.graph.node)} nodes, {size:.1f} MB, {exported:.0f} s"
    again = not ok and queries == QUERIES and any(part in recipe for part in CHOOSE_TOKENS)
    print(f"{'ok  ' if ok else 'tie?' if again else 'FAIL'} {model}: {text}; {costs}", flush=True)
    return check(model, arguments, folder, OTHER_QUERIES) if again else ok


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saccade", default=str(ROOT / "build/saccade"))
    parser.add_argument("--batch", default="1")
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--keep", help="keep the last files here")
    parser.add_argument("--height", help="of the images; default: the recipe's")
    parser.add_argument("--width")
    parser.add_argument("--annotations")
    parser.add_argument("--images")
    parser.add_argument("models", nargs="*")
    arguments = parser.parse_args()
    models = arguments.models or sorted((ROOT / "configs").glob("*.textproto"))
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for model in models:
            try:
                ok = check(model, arguments, folder)
                if arguments.annotations:
                    ok = check_ap(model, arguments, folder) and ok
                if not ok:
                    failed.append(str(model))
            except Exception as error:
                print(f"FAIL {model}: {type(error).__name__}: {str(error)[:300]}", flush=True)
                failed.append(str(model))
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    print(f"{len(models) - len(failed)} of {len(models)} models; the largest export took {peak:.1f} GB")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
