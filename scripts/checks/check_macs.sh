#!/usr/bin/env bash
# Compares the MACs of pyramid detectors at 1280 x 800 with the published ones (tables 3 and 4 of the DAT
# paper, and those of Swin's detectors), which include the norms: they may differ by at most 3 %.
# Usage: scripts/checks/check_macs.sh BUILD
set -euo pipefail
build=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
out=$(mktemp --suffix=.json)
trap 'rm -f "$out" "$out.log"' EXIT
status=0
while read -r recipe published; do
  "$build/saccade" summary --config "configs/$recipe.textproto" --height 800 --width 1280 --json "$out" > "$out.log" 2>&1 || {
    cat "$out.log" >&2
    exit 1
  }
  macs=$(sed -E 's/.*"macs": ([0-9]+).*/\1/' "$out")
  awk -v name="$recipe" -v macs="$macs" -v published="$published" 'BEGIN {
    off = macs / 1e9 / published - 1
    printf "%-26s %7.1f G, published %d G: %+.1f %%\n", name, macs / 1e9, published, 100 * off
    exit off > 0.03 || off < -0.03 }' || { echo "error: check_macs.sh: $recipe differs by more than 3 %" >&2; status=1; }
done << 'TABLE'
retinanet_swin_t 248
retinanet_swin_s 339
retinanet_dat_t 253
retinanet_dat_s 359
retinanet_pvt_s 286
mask_rcnn_swin_t 267
mask_rcnn_swin_s 359
mask_rcnn_dat_t 272
mask_rcnn_dat_s 378
cascade_mask_rcnn_swin_t 745
cascade_mask_rcnn_swin_s 838
cascade_mask_rcnn_swin_b 982
cascade_mask_rcnn_dat_t 750
cascade_mask_rcnn_dat_s 857
TABLE
exit $status
