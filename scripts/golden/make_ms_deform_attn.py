#!/usr/bin/env python3
"""Golden data of multi-scale deformable attention, from PyTorch's grid_sample in f64, rounded to f32: outputs
and all gradients for head sizes 30, 32, 64 and 71 with 2- and 4-number reference points; and grid_sample
itself with both align_corners. Writes tests/golden/ms_deform_attn/*.safetensors. Made with PyTorch 1.13.1
(Debian 12):

    /usr/bin/python3 scripts/golden/make_ms_deform_attn.py
"""
import pathlib
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from safetensors_io import save

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/ms_deform_attn"
LEVELS = [(6, 4), (3, 5), (1, 2)]
N, Q, M, P = 2, 5, 2, 3
SEED = 20


def attention(value, reference, offsets, logits):
    """value (N,S,M,D), reference (N,Q,L,2|4), offsets (N,Q,M,L,P,2), logits (N,Q,M,LP) -> (N,Q,M*D)."""
    d = value.shape[3]
    sizes = torch.tensor([[w, h] for h, w in LEVELS], dtype=value.dtype)
    ref = reference[:, :, None, :, None]
    if reference.shape[-1] == 2:
        loc = ref + offsets / sizes[None, None, None, :, None]
    else:
        loc = ref[..., :2] + offsets / P * ref[..., 2:] * 0.5
    columns = []
    for level, (h, w), part in zip(range(len(LEVELS)), LEVELS, value.split([h * w for h, w in LEVELS], dim=1)):
        image = part.permute(0, 2, 3, 1).reshape(N * M, d, h, w)
        grid = (loc[:, :, :, level] * 2 - 1).permute(0, 2, 1, 3, 4).reshape(N * M, Q, P, 2)
        columns.append(F.grid_sample(image, grid, mode="bilinear", padding_mode="zeros", align_corners=False))
        pixel = loc[:, :, :, level] * sizes[level] - 0.5
        assert (pixel - pixel.round()).abs().min() > 2e-5, "a sample on a cell border has no gradient: change SEED"
    samples = torch.stack(columns, dim=3).flatten(3)  # (NM, D, Q, LP)
    weights = torch.softmax(logits, -1).permute(0, 2, 1, 3).reshape(N * M, 1, Q, -1)
    return (samples * weights).sum(-1).view(N, M * d, Q).transpose(1, 2)


def single(x):
    return x.detach().float().contiguous().numpy()


def make_attention(d):
    torch.manual_seed(SEED)
    tokens, levels = sum(h * w for h, w in LEVELS), len(LEVELS)
    inputs = {
        "value": torch.randn(N, tokens, M, d),
        "points": torch.rand(N, Q, levels, 2),
        "boxes": torch.cat([torch.rand(N, Q, levels, 2), torch.rand(N, Q, levels, 2) * 0.5 + 0.1], -1),
        "offsets": torch.randn(N, Q, M, levels, P, 2) * 2,
        "logits": torch.randn(N, Q, M, levels * P),
        "dy": torch.randn(N, Q, M * d),
    }
    out = {name: single(x) for name, x in inputs.items()}
    for kind in "points", "boxes":
        leaves = {k: inputs[k].double().requires_grad_() for k in ("value", kind, "offsets", "logits")}
        y = attention(leaves["value"], leaves[kind], leaves["offsets"], leaves["logits"])
        y.backward(inputs["dy"].double())
        out[f"{kind}.y"] = single(y)
        for name, leaf in leaves.items():
            out[f"{kind}.d{'reference' if name == kind else name}"] = single(leaf.grad)
    return out


def make_grid_sample():
    torch.manual_seed(SEED)
    x, grid, dy = torch.randn(2, 5, 4, 3), torch.rand(2, 12, 2) * 2.6 - 1.3, torch.randn(2, 12, 3)
    out = {"x": single(x), "grid": single(grid), "dy": single(dy)}
    for align in False, True:
        a, g = x.double().requires_grad_(), grid.double().requires_grad_()
        y = F.grid_sample(a.permute(0, 3, 1, 2), g[:, :, None], mode="bilinear", padding_mode="zeros",
                          align_corners=align)[..., 0].permute(0, 2, 1)
        y.backward(dy.double())
        kind = "corners" if align else "edges"
        out.update({f"{kind}.y": single(y), f"{kind}.dx": single(a.grad), f"{kind}.dgrid": single(g.grad)})
    return out


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    about = {"made_by": "scripts/golden/make_ms_deform_attn.py", "torch": torch.__version__, "seed": SEED}
    files = {f"head_{d}": make_attention(d) for d in (30, 32, 64, 71)}
    files["grid_sample"] = make_grid_sample()
    for name, tensors in files.items():
        path = OUT / f"{name}.safetensors"
        save(path, tensors, about)
        print(f"{path.name}: {path.stat().st_size} bytes, torch {torch.__version__}, seed {SEED}")


if __name__ == "__main__":
    main()
