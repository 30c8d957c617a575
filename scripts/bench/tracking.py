#!/usr/bin/env python3
"""Counts identity switches, ours next to those of supervision's ByteTrack, on the same detections of
synthetic scenes.

    scripts/bench/tracking.py [--build build] [--seeds 10]

Needs a build with -DSACCADE_BENCH=ON, and in the Python that runs it supervision 0.25.1 (later versions have
no ByteTrack) and scipy. The easy scene has six objects that meet in pairs at constant speeds of 2 to 6 pixels
per frame, are missed in 5 % of the frames, and have scores of 0.3 while another one hides them. In the hard
one, twenty objects change direction and speed at random, boxes jitter by 5 % of their size, 15 % are missed,
hidden ones are missed or low, and false alarms appear. IDF1 counts the detections whose number is that of
their object under the best assignment of numbers to objects (Ristani et al. 2016).
"""
import argparse
import os
import random
import subprocess
import tempfile

import numpy
import scipy.optimize
import supervision

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH, HEIGHT, FRAMES = 1280, 720, 300


def overlap(a, b):
    """The intersection of two boxes x, y, w, h."""
    w = min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0])
    h = min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1])
    return max(w, 0) * max(h, 0)


def scene(seed, hard):
    """By frame: (x, y, w, h, score, object); the object is -1 for a false alarm."""
    rng = random.Random(seed)
    objects = []
    for k in range(20 if hard else 6):
        h = rng.uniform(60, 160)
        side = rng.choice((-1, 1)) if hard else 1 - k % 2 * 2  # easy: in each of three rows two that meet
        y = rng.uniform(100, HEIGHT - 160) if hard else 60 + k // 2 * 210 + rng.uniform(-20, 20)
        objects.append([WIDTH / 2 - side * rng.uniform(100, 600), y, h * rng.uniform(0.4, 0.6), h,
                        side * (rng.uniform(1, 5) if hard else rng.uniform(2, 6)),
                        rng.uniform(-1, 1) if hard else 0])
    frames = []
    for _ in range(FRAMES):
        found = []
        for o in objects:
            if hard:
                o[4] += rng.gauss(0, 0.35)
                o[5] += rng.gauss(0, 0.2)
                o[4], o[5] = max(-6, min(6, o[4])), max(-3, min(3, o[5]))
                if rng.random() < 0.01:
                    o[4] = -o[4]
            o[0] += o[4]
            o[1] += o[5]
            if hard:
                if not 0 < o[0] < WIDTH - o[2]:
                    o[4] = -o[4]
                if not 0 < o[1] < HEIGHT - o[3]:
                    o[5] = -o[5]
        for k, o in enumerate(objects):
            box = o[:4]
            hidden = max([overlap(box, other[:4]) / (box[2] * box[3]) for other in objects[k + 1:]], default=0)
            if rng.random() < (0.15 if hard else 0.05) or (hard and hidden > 0.7 and rng.random() < 0.6):
                continue
            score = 0.3 if hidden > 0.3 else 0.9
            if hard:
                score = min(0.99, max(0.12, rng.gauss(0.35 if hidden > 0.3 else 0.75, 0.12)))
            shake = 0.05 if hard else 0.01
            found.append((box[0] + rng.gauss(0, shake * box[2]), box[1] + rng.gauss(0, shake * box[3]),
                          box[2] * (1 + rng.gauss(0, shake)), box[3] * (1 + rng.gauss(0, shake)), score, k))
        if hard:
            for _ in range(rng.choice((0, 0, 1, 2))):
                found.append((rng.uniform(0, WIDTH - 80), rng.uniform(0, HEIGHT - 120), rng.uniform(30, 80),
                              rng.uniform(60, 120), rng.uniform(0.12, 0.7), -1))
        frames.append(found)
    return frames


def ours(frames, build):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        for number, found in enumerate(frames, 1):
            for x, y, w, h, score, _ in found:
                file.write(f"{number},-1,{x:.3f},{y:.3f},{w:.3f},{h:.3f},{score:.4f}\n")
        file.flush()
        text = subprocess.run([os.path.join(build, "tracking_bench"), file.name], check=True, capture_output=True,
                              text=True).stdout
    ids = [[] for _ in frames]
    for line in text.splitlines():
        words = line.split(",")
        ids[int(words[0]) - 1].append(int(words[1]))
    return ids


def reference(frames):
    tracker = supervision.ByteTrack(track_activation_threshold=0.5, lost_track_buffer=30, minimum_matching_threshold=0.8,
                                    frame_rate=30, minimum_consecutive_frames=1)
    ids = []
    for found in frames:
        rows = numpy.array([(x, y, x + w, y + h) for x, y, w, h, _, _ in found], dtype=float).reshape(-1, 4)
        result = tracker.update_with_detections(supervision.Detections(
            xyxy=rows, confidence=numpy.array([f[4] for f in found], dtype=float), class_id=numpy.zeros(len(found), dtype=int),
            data={"place": numpy.arange(len(found))}))
        numbers = [0] * len(found)
        for place, number in zip(result.data.get("place", []), result.tracker_id if len(result) else []):
            numbers[int(place)] = int(number)
        ids.append(numbers)
    return ids


def figures(frames, ids):
    """Switches, detections of objects with a number, IDF1."""
    last, switches, numbered = {}, 0, 0
    pairs = {}
    for found, numbers in zip(frames, ids):
        assert len(found) == len(numbers)
        for box, number in zip(found, numbers):
            if number <= 0 or box[5] < 0:
                continue
            numbered += 1
            switches += last.get(box[5], number) != number
            last[box[5]] = number
            pairs[box[5], number] = pairs.get((box[5], number), 0) + 1
    objects, numbers = sorted({p[0] for p in pairs}), sorted({p[1] for p in pairs})
    table = numpy.zeros((len(objects), len(numbers)))
    for (o, n), count in pairs.items():
        table[objects.index(o), numbers.index(n)] = count
    rows, columns = scipy.optimize.linear_sum_assignment(-table)
    truth = sum(1 for found in frames for box in found if box[5] >= 0)
    given = sum(1 for numbers_of in ids for n in numbers_of if n > 0)
    return switches, numbered, 2 * table[rows, columns].sum() / (truth + given)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    print(f"supervision {supervision.__version__}, {arguments.seeds} scenes of {FRAMES} frames each")
    for name, hard in (("easy", False), ("hard", True)):
        scenes = [scene(seed, hard) for seed in range(arguments.seeds)]
        for who, track in (("saccade", lambda f: ours(f, arguments.build)), ("supervision", reference)):
            results = [figures(frames, track(frames)) for frames in scenes]
            print(f"{name}: {who:12} {sum(r[0] for r in results):5} switches in {sum(r[1] for r in results)} numbered "
                  f"detections, IDF1 {sum(r[2] for r in results) / len(results):.4f}")


if __name__ == "__main__":
    main()
