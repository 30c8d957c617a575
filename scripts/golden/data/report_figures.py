"""Metrics of `saccade report` from pycocotools and scikit-learn, for make_report.py and
scripts/checks/check_report.py."""
import numpy as np
from make_coco_eval import KEYS, evaluate
from pycocotools import mask
from sklearn.metrics import confusion_matrix, precision_recall_curve

def curve(ev, k, t, objects):
    """For category k at IoU threshold t: falling scores, and precision and recall of detections with at least
    that score."""
    return points(*joined_cells(ev, k, t), objects)


def points(scores, hits, objects):
    if not len(scores):
        return [], [], []
    if not hits.any():
        thresholds = np.unique(scores)[::-1]
        return thresholds.tolist(), [0.0] * len(thresholds), [0.0] * len(thresholds)
    precision, recall, thresholds = precision_recall_curve(hits, scores)
    recall = recall[:-1] * hits.sum() / objects if objects else np.zeros(len(thresholds))
    return thresholds[::-1].tolist(), precision[:-1][::-1].tolist(), recall[::-1].tolist()


def joined_cells(ev, k, t):
    """For category k at IoU threshold t: scores of the detections that count, and which of them are hits."""
    images, areas = len(ev.params.imgIds), len(ev.params.areaRng)
    cells = [e for e in ev.evalImgs[k * areas * images:k * areas * images + images] if e]  # area 0: all
    def joined(key):
        return np.concatenate([np.zeros(0)] + [np.asarray(e[key])[t] for e in cells])
    keep = joined("dtIgnore") == 0
    scores = np.concatenate([np.zeros(0)] + [np.asarray(e["dtScores"]) for e in cells])
    return scores[keep], (joined("dtMatches") > 0)[keep]


def best_of_all(ev, t, objects):
    """The best F1 of one threshold for all categories, and the largest of the thresholds that have it."""
    cells = [joined_cells(ev, k, t) for k in range(len(ev.params.catIds))]
    scores, p, r = points(*(np.concatenate(parts) for parts in zip(*cells, strict=True)), objects)
    f1 = np.round([best_f1([a], [b], objects) for a, b in zip(p, r)], 12)
    return {"threshold": scores[int(f1.argmax())], "f1": float(f1.max())}


def best_f1(precision, recall, objects):
    if not objects or not precision:
        return -1.0
    p, r = np.array(precision), np.array(recall)
    return float(np.max(np.where(p + r > 0, 2 * p * r / np.maximum(p + r, 1e-300), 0)))


def overlaps(boxes, annotations, crowd):
    if not boxes or not annotations:
        return np.zeros((len(boxes), len(annotations)))
    return np.asarray(mask.iou(boxes, [a["bbox"] for a in annotations], [crowd] * len(annotations)))


def confusions(ev, threshold, min_iou=0.5):
    """Pairs by falling overlap, then score; the labels of all pairs, and of those in no pair, go to
    scikit-learn."""
    gt, dt, cats = ev.cocoGt, ev.cocoDt, ev.params.catIds
    background, true, predicted = len(cats), [], []
    for image in ev.params.imgIds:
        annotations = gt.imgToAnns[image]
        objects = [a for a in annotations if not a.get("iscrowd", 0)]
        crowds = [a for a in annotations if a.get("iscrowd", 0)]
        found = [d for d in dt.imgToAnns[image] if d["score"] >= threshold and d["category_id"] in cats]
        boxes = [d["bbox"] for d in found]
        iou = overlaps(boxes, objects, 0)
        in_crowd = overlaps(boxes, crowds, 1)
        pairs = sorted(((d, g) for d in range(len(found)) for g in range(len(objects)) if iou[d, g] >= min_iou),
                       key=lambda p: (-iou[p], -found[p[0]]["score"], p[0], p[1]))
        object_of, taken = {}, set()
        for d, g in pairs:
            if d not in object_of and g not in taken:
                object_of[d] = g
                taken.add(g)
        for d, detection in enumerate(found):
            if d in object_of:
                true.append(cats.index(objects[object_of[d]]["category_id"]))
            elif in_crowd[d].max(initial=0) >= 0.5:
                continue
            else:
                true.append(background)
            predicted.append(cats.index(detection["category_id"]))
        for g, o in enumerate(objects):
            if g not in taken:
                true.append(cats.index(o["category_id"]))
                predicted.append(background)
    return confusion_matrix(true, predicted, labels=range(background + 1)).tolist()


def figures(gt_path, dt_path, threshold):
    ev = evaluate(gt_path, dt_path)
    precision = ev.eval["precision"]  # [T, R, K, A, M]
    classes = []
    for k, category in enumerate(ev.params.catIds):
        images = len(ev.params.imgIds)
        cells = [e for e in ev.evalImgs[k * 4 * images:k * 4 * images + images] if e]
        objects = int(sum(np.count_nonzero(np.asarray(e["gtIgnore"]) == 0) for e in cells))
        row = {"category_id": int(category), "objects": objects}
        for name, t in (("iou_50", 0), ("iou_75", 5)):
            scores, p, r = curve(ev, k, t, objects)
            at_recall = precision[t, :, k, 0, 2]
            row[name] = {"scores": scores, "precision": p, "recall": r,
                         "precision_at_recall": at_recall.tolist() if objects else [], "best_f1": best_f1(p, r, objects)}
        own = precision[:, :, k, 0, 2]
        row["AP"] = float(own[own > -1].mean()) if (own > -1).any() else -1.0
        classes.append(row)
    return {"coco": dict(zip(KEYS, map(float, ev.stats))), "threshold": threshold,
            "best": best_of_all(ev, 0, sum(c["objects"] for c in classes)),
            "confusion_matrix": confusions(ev, threshold), "classes": classes}
