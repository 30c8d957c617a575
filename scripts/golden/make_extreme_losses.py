"""Writes tests/golden/losses/extreme.safetensors: the set criterion on extreme batches.

    /tmp/venv/bin/python scripts/golden/make_extreme_losses.py

For each case and class loss (focal, softmax): logits [N, Q, K], boxes [N, Q, 4], I.labels and I.boxes of
image I, all exact in f32; `loss`, the weighted total of criterion.py in f64, and the gradients of logits and
boxes. If an edge of a box lies on another's, or a size is 0, PyTorch's choice between two slopes is
arbitrary: such cases have only the loss.
"""
import os

import numpy as np
import torch
from criterion import criterion
from safetensors_io import save

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "golden", "losses")


def uniform(g, shape, low, high):
    return (torch.rand(shape, generator=g) * (high - low) + low).float()


def case(g, objects, queries=4, classes=5):
    """objects: how many each image has. The last class is reserved for "no object" of the softmax loss."""
    images = len(objects)
    targets = [(torch.randint(0, max(1, classes - 1), (n,), generator=g), uniform(g, (n, 4), 0.2, 0.5)) for n in objects]
    return {"logits": uniform(g, (images, queries, classes), -3, 3), "boxes": uniform(g, (images, queries, 4), 0.2, 0.5),
            "targets": targets, "kinks": False}


def cases(g):
    made = {"plain": case(g, [2, 0, 3]), "all_empty": case(g, [0, 0]), "one_image": case(g, [2]),
            "one_query": case(g, [1, 0, 3], queries=1), "one_class": case(g, [2, 1], classes=1),
            "thousand_classes": case(g, [3, 1], queries=3, classes=1001), "more_objects_than_queries": case(g, [9, 1])}
    c = made["huge_logits"] = case(g, [2, 1])
    c["logits"] *= 4000
    c = made["logits_of_1e30_and_1e_30"] = case(g, [2, 2])
    c["logits"][0] *= 1e30
    c["logits"][1] *= 1e-30
    c = made["denormals"] = case(g, [2, 1])
    c["logits"][:, ::2] *= 1e-40
    c["boxes"][:, 1] *= 1e-40
    c = made["predictions_without_area"] = case(g, [2, 1])
    c["boxes"][:, :, 2:] = 0
    c["kinks"] = True
    c = made["objects_without_area"] = case(g, [2, 1])
    for _, boxes in c["targets"]:
        boxes[:, 2:] = 0
    c["kinks"] = True
    c = made["boxes_on_edges"] = case(g, [2, 1])
    c["boxes"][:, 0] = torch.tensor([0.5, 0.5, 1, 1])
    c["boxes"][:, 1] = torch.tensor([0, 1, 0, 1])
    c["targets"][0][1][0] = torch.tensor([0.5, 0.5, 1, 1])
    c["targets"][0][1][1] = torch.tensor([0.125, 0.5, 0.25, 1])
    c["kinks"] = True
    return made


def main():
    g = torch.Generator().manual_seed(20261122)
    tensors = {}
    for name, c in cases(g).items():
        for kind in ("focal", "softmax"):
            if kind == "softmax" and c["logits"].shape[-1] == 1:
                continue  # no object would be the only class
            logits, boxes = c["logits"].double().requires_grad_(), c["boxes"].double().requires_grad_()
            targets = [(labels, b.double()) for labels, b in c["targets"]]
            total, _, _ = criterion([(logits, boxes)], None, targets, kind == "softmax")
            total.backward()
            assert torch.isfinite(total), name
            key = f"{name}.{kind}."
            tensors[key + "loss"] = total.detach().numpy().reshape(1)
            if kind == "focal":
                tensors[f"{name}.logits"], tensors[f"{name}.boxes"] = c["logits"].numpy(), c["boxes"].numpy()
                for i, (labels, b) in enumerate(c["targets"]):
                    tensors[f"{name}.{i}.labels"], tensors[f"{name}.{i}.boxes"] = labels.numpy(), b.numpy()
            if not c["kinks"]:
                tensors[key + "logits"], tensors[key + "boxes"] = logits.grad.float().numpy(), boxes.grad.float().numpy()
    os.makedirs(FOLDER, exist_ok=True)
    save(os.path.join(FOLDER, "extreme.safetensors"), {k: np.asarray(v) for k, v in tensors.items()})


if __name__ == "__main__":
    main()
