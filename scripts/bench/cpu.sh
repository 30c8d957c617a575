#!/usr/bin/env bash
# Saccade against PyTorch and pycocotools on this machine's cores, all in one run (docs/performance.md has the
# numbers): the training steps of configs/bench_small.textproto and of DAT-T and Swin-T, RetinaNet and Mask
# R-CNN against torchvision, deformable attention, COCO scoring, start-up, the encoder's cost.
# Usage: scripts/bench/cpu.sh [--only step,classifier,pyramid,attention,score,start,encoder] [--rounds N]
#                             [--json OUT.json]
# Peers: PyTorch from PyPI in build/peers (about 5 GB with what its wheel asks for; PEERS=FOLDER takes another
# virtual environment, with torch, torchvision, timm, scipy and pycocotools) and Debian's python3-torch where
# apt is there. Leave the machine idle otherwise: on busy cores PyTorch's OpenMP threads lose far more than
# they should.
set -euo pipefail
cd "$(dirname "$0")/../.."

scripts/setup.sh
cmake --preset release -DSACCADE_BENCH=ON > /dev/null
cmake --build --preset release --target saccade msda_bench encoder_bench classifier_bench detector_bench

peers=${PEERS:-build/peers}
if [ ! -x "$peers/bin/python" ]; then
  python3 -m venv "$peers.part"
  "$peers.part/bin/pip" install -q torch torchvision timm numpy scipy pycocotools
  rm -rf "$peers"
  mv "$peers.part" "$peers"
fi
if command -v apt-get > /dev/null && ! /usr/bin/python3 -c 'import torch, scipy' 2> /dev/null; then
  sudo=()
  [ "$(id -u)" = 0 ] || sudo=(sudo)
  "${sudo[@]}" apt-get install -q -y --no-install-recommends python3-torch python3-scipy libopenblas0-openmp
fi
exec "$peers/bin/python" scripts/bench/cpu.py --peer "PyPI=$peers/bin/python" --peer "Debian=/usr/bin/python3" "$@"
