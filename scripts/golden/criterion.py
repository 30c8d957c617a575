"""Matching and losses of Deformable DETR and DETR in plain PyTorch (see small_deformable_detr.py and
small_detr.py).

Targets: one (labels [T], boxes [T, 4]) for each image. `softmax` selects DETR's classification: the last
class is "no object", the matcher's cost is minus the probability, and the loss is a cross entropy whose mean
is weighted by class.
"""
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment

CLASS, L1, GIOU = 2.0, 5.0, 2.0  # weights of the losses, and of the matcher's costs
ALPHA, GAMMA = 0.25, 2.0
SOFTMAX_CLASS, NO_OBJECT = 1.0, 0.1  # with softmax: weight of the class loss and cost, and of the no-object class in it


def corners(boxes):
    centre, size = boxes[..., :2], boxes[..., 2:]
    return torch.cat((centre - size / 2, centre + size / 2), -1)


def giou(a, b):
    """a [..., 4], b [..., 4] corner boxes that broadcast -> generalised intersection over union."""
    overlap = (torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])).clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - overlap
    hull = (torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])).prod(-1)
    return overlap / union - (hull - union) / hull


@torch.no_grad()
def costs(logits, boxes, labels, target_boxes, softmax=False):
    """One image: logits [Q, C], boxes [Q, 4] -> [Q, T]"""
    if softmax:
        of_class = SOFTMAX_CLASS * -logits.softmax(-1)
    else:
        p = logits.sigmoid()
        positive = ALPHA * (1 - p) ** GAMMA * -(p + 1e-8).log()
        negative = (1 - ALPHA) * p ** GAMMA * -(1 - p + 1e-8).log()
        of_class = CLASS * (positive - negative)
    distance = (boxes[:, None] - target_boxes[None]).abs().sum(-1)
    overlap = giou(corners(boxes)[:, None], corners(target_boxes)[None])
    return of_class[:, labels] + L1 * distance - GIOU * overlap


def match(logits, boxes, targets, softmax=False):
    """-> for each image (query indices, target indices) of the cheapest assignment"""
    pairs = []
    for i, (labels, target_boxes) in enumerate(targets):
        q, t = linear_sum_assignment(costs(logits[i], boxes[i], labels, target_boxes, softmax).cpu().double().numpy())
        pairs.append((torch.as_tensor(q, dtype=torch.int64), torch.as_tensor(t, dtype=torch.int64)))
    return pairs


def focal_loss(logits, image, query, labels, objects):
    wanted = torch.zeros_like(logits)
    wanted[image, query, labels] = 1
    entropy = F.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
    p = logits.sigmoid()
    miss = wanted * (1 - p) + (1 - wanted) * p
    weight = ALPHA * wanted + (1 - ALPHA) * (1 - wanted)
    return (weight * miss ** GAMMA * entropy).sum() / objects


def cross_entropy(logits, image, query, labels):
    wanted = torch.full(logits.shape[:2], logits.shape[-1] - 1)
    wanted[image, query] = labels
    weight = torch.ones_like(logits[0, 0])
    weight[-1] = NO_OBJECT
    surprise = -logits.log_softmax(-1).gather(-1, wanted[..., None])[..., 0]
    return (weight[wanted] * surprise).sum() / weight[wanted].sum()


def layer_losses(logits, boxes, targets, objects, softmax=False):
    """-> {class, bbox, giou} without weights, and the pairs"""
    pairs = match(logits, boxes, targets, softmax)
    image = torch.cat([torch.full_like(q, i) for i, (q, _) in enumerate(pairs)])
    query = torch.cat([q for q, _ in pairs])
    labels = torch.cat([targets[i][0][t] for i, (_, t) in enumerate(pairs)])
    target_boxes = torch.cat([targets[i][1][t] for i, (_, t) in enumerate(pairs)]).to(boxes.dtype)
    found = boxes[image, query]
    return {
        "class": cross_entropy(logits, image, query, labels) if softmax else
                 focal_loss(logits, image, query, labels, objects),
        "bbox": (found - target_boxes).abs().sum() / objects,
        "giou": (1 - giou(corners(found), corners(target_boxes))).sum() / objects,
    }, pairs


def criterion(layers, encoder_output, targets, softmax=False):
    """-> the total loss, its parts by name (without weights; "_0", ... for the layers before the last, "_enc"
    for the encoder's proposals, whose only class is "an object"), and the pairs by layer"""
    objects = max(1, sum(len(labels) for labels, _ in targets))
    total, parts, pairs = 0, {}, {}
    predictions = [("" if i == len(layers) - 1 else f"_{i}", *layer, targets) for i, layer in enumerate(layers)]
    if encoder_output is not None:
        predictions.append(("_enc", *encoder_output, [(torch.zeros_like(labels), b) for labels, b in targets]))
    class_weight = SOFTMAX_CLASS if softmax else CLASS
    for suffix, logits, boxes, goals in predictions:
        losses, pairs["match" + suffix] = layer_losses(logits, boxes, goals, objects, softmax)
        total = total + class_weight * losses["class"] + L1 * losses["bbox"] + GIOU * losses["giou"]
        parts.update({name + suffix: value for name, value in losses.items()})
    return total, parts, pairs
