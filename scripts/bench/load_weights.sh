#!/usr/bin/env bash
# Measures the seconds and memory to read all tensors of .pth files of 160 MB (both formats) and of one with
# an optimizer's state.
# Usage: scripts/bench/load_weights.sh PYTHON [FOLDER]      PYTHON needs torch; the files are made in FOLDER
set -euo pipefail
cd "$(dirname "$0")/../.."
python=${1:?usage: scripts/bench/load_weights.sh PYTHON [FOLDER]}
folder=${2:-$(mktemp -d)}
cmake --preset release -DSACCADE_BENCH=ON > /dev/null
cmake --build --preset release --target weights_bench > /dev/null
"$python" - "$folder" << 'END'
import sys, torch
# The same number of tensors and of values as Deformable DETR.
model = {f"layer{i}.weight": torch.randn(71428) for i in range(560)}
state = {"state": {i: {"step": 5, "exp_avg": v, "exp_avg_sq": v * v} for i, v in enumerate(model.values())}}
torch.save({"model": model}, sys.argv[1] + "/zip.pth")
torch.save({"model": model}, sys.argv[1] + "/legacy.pth", _use_new_zipfile_serialization=False)
torch.save({"model": model, "optimizer": state}, sys.argv[1] + "/zip_optimizer.pth")
END
for file in zip legacy zip_optimizer; do build/weights_bench "$folder/$file.pth"; done
