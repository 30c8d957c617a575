"""Saccade's denoising noise, a second implementation: Philox4x32-10 indexed by image, group, object and
sign."""
import numpy as np

MASK32, MASK64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF


def philox(key, high, low):
    """-> four 32 bit numbers"""
    x = [low & MASK32, low >> 32 & MASK32, high & MASK32, high >> 32 & MASK32]
    k = [key & MASK32, key >> 32 & MASK32]
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k[0], b & MASK32, (a >> 32) ^ x[3] ^ k[1], a & MASK32]
        k = [(k[0] + 0x9E3779B9) & MASK32, (k[1] + 0xBB67AE85) & MASK32]
    return x


def fnv1a(text):
    h = 0xCBF29CE484222325
    for c in text.encode():
        h = (h ^ c) * 0x100000001B3 & MASK64
    return h


def mix(a, b):
    z = (a + 0x9E3779B97F4A7C15 * (b + 1)) & MASK64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK64
    return z ^ z >> 31


def uniform(bits):
    return np.float32(bits >> 8) * np.float32(2.0 ** -24)


def make_denoising(targets, ids, classes, step_key, queries, label_noise, box_noise, padding_box):
    """targets: (labels, boxes) per image, ids: of the images.
    -> labels [N, D], boxes [N, D, 4], groups, pairs (image, query, object)"""
    most = max((len(labels) for labels, _ in targets), default=0)
    if most == 0:
        return np.zeros((len(targets), 0), np.int64), np.zeros((len(targets), 0, 4), np.float32), 0, []
    groups = max(1, queries // most)
    labels_out = np.full((len(targets), groups * 2 * most), classes, np.int64)
    boxes_out = np.full(labels_out.shape + (4,), padding_box, np.float32)
    key, pairs = mix(step_key, fnv1a("denoising")), []
    for n, (labels, boxes) in enumerate(targets):
        for g in range(groups):
            for negative in (0, 1):
                for i, label in enumerate(labels):
                    counter = g << 34 | i << 2 | negative << 1
                    edges, rest = philox(key, ids[n], counter), philox(key, ids[n], counter | 1)
                    query = g * 2 * most + negative * most + i
                    changed = uniform(rest[1]) < np.float32(label_noise / 2)
                    labels_out[n, query] = rest[2] * classes >> 32 if changed else label
                    box = np.asarray(boxes[i], np.float32)
                    half = box[[2, 3, 2, 3]] * np.float32(0.5)
                    corners = box[[0, 1, 0, 1]] + half * np.array([-1, -1, 1, 1], np.float32)
                    sign = np.array([1 if rest[0] >> k & 1 else -1 for k in range(4)], np.float32)
                    part = np.array([uniform(e) for e in edges], np.float32) + np.float32(negative)
                    corners = np.clip(corners + sign * part * half * np.float32(box_noise), 0, 1)
                    boxes_out[n, query, :2] = (corners[:2] + corners[2:]) / 2
                    boxes_out[n, query, 2:] = np.maximum(corners[2:] - corners[:2], 0)
                    if not negative:
                        pairs.append((n, query, i))
    return labels_out, boxes_out, groups, pairs
