"""Small files of torch.save in its formats, for tests/core/torch_file_test.cpp, and their contents.

Writes tests/golden/torch_files:
  zip.pth         zip container, tensors under "model", beside an optimizer, a scheduler, a Namespace and
                  other objects
  legacy.pth      the same as the pickle stream that was written before PyTorch 1.6
  protocol4.pth   zip container, pickle protocol 4, tensors under ema.module and, other values, model
  expected.safetensors   the tensors of "model"; f16 and i8 as the types that the reader gives

Usage: python scripts/golden/published/make_torch_files.py        needs torch
"""
import argparse
import collections
import fractions
import os
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from safetensors_io import save  # noqa: E402

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tests", "golden", "torch_files")


def tensors():
    g = torch.Generator().manual_seed(1)
    base = torch.randn(24, generator=g)
    out = collections.OrderedDict()
    out["plain"] = torch.randn(3, 4, generator=g)
    out["transposed"] = torch.randn(3, 5, generator=g).t()
    out["permuted"] = torch.randn(2, 3, 4, generator=g).permute(2, 0, 1)
    out["strided"] = torch.randn(6, 8, generator=g)[1::2, ::3]
    out["shared.a"] = base[2:10].view(2, 4)
    out["shared.b"] = base[8:24:2]
    out["alias"] = out["plain"]
    out["parameter"] = torch.nn.Parameter(torch.randn(4, generator=g))
    out["scalar"] = torch.tensor(2.5)
    out["empty"] = torch.zeros(0, 4)
    out["empty_inner"] = torch.zeros(3, 0, 2)
    out["half"] = torch.tensor([[1.5, -2.25], [65504.0, 6e-8]], dtype=torch.float16)
    out["bfloat"] = torch.randn(5, generator=g).to(torch.bfloat16)
    out["double"] = torch.randn(3, generator=g, dtype=torch.float64)
    out["long"] = torch.tensor([-(2 ** 40), 7])
    out["int"] = torch.tensor([[-5, 6]], dtype=torch.int32)
    out["char"] = torch.tensor([-128, 127], dtype=torch.int8)
    out["byte"] = torch.tensor([0, 255], dtype=torch.uint8)
    out["bool"] = torch.tensor([True, False, True])
    out["channels_last"] = torch.randn(2, 3, 2, 2, generator=g).to(memory_format=torch.channels_last)
    out["expanded"] = torch.arange(4.0).expand(1, 4)
    return out


def checkpoint(model):
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
    arguments = argparse.Namespace(dilation=True, pre_norm=False, nheads=8, lr=1e-4, position_embedding="sine",
                                   masks=None, device=torch.device("cpu"), output=pathlib.PurePosixPath("out"),
                                   big=2 ** 70)
    return {"model": model, "optimizer": optimizer.state_dict(), "lr_scheduler": scheduler.state_dict(), "epoch": 3,
            "args": arguments, "rng": torch.get_rng_state(), "numpy": np.float64(0.5), "set": {1, 2},
            "object": fractions.Fraction(1, 3), "default": collections.defaultdict(list, a=[1]),
            "dtype": torch.float32, "size": torch.Size([1, 2])}


def main():
    os.makedirs(FOLDER, exist_ok=True)
    model = tensors()
    content = checkpoint(model)
    torch.save(content, os.path.join(FOLDER, "zip.pth"))
    torch.save(content, os.path.join(FOLDER, "legacy.pth"), _use_new_zipfile_serialization=False)
    torch.save({"ema": {"module": {"w": torch.ones(2)}, "updates": 5}, "model": {"w": torch.zeros(2)}},
               os.path.join(FOLDER, "protocol4.pth"), pickle_protocol=4)
    expected = {}
    for name, t in model.items():
        t = t.detach()
        if t.dtype in (torch.float16, torch.bfloat16):
            t = t.float()
        if t.dtype == torch.int8:
            t = t.int()
        expected[name] = t.contiguous().numpy()
    save(os.path.join(FOLDER, "expected.safetensors"), expected, {"torch": torch.__version__})


if __name__ == "__main__":
    main()
